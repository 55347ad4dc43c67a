"""Dates: the Date field as a moment in UTC. It is shown and compared, never believed."""

from datetime import UTC, datetime, timedelta
from email.utils import parsedate_to_datetime

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_LONGEST = 200


def read(text: str, warnings: set[str]) -> int | None:
    """Return the moment in milliseconds, or None if the text is no date."""
    if not text:
        return None
    try:
        if len(text) > _LONGEST:
            raise ValueError  # noqa: TRY301 - as unreadable as any other
        found = parsedate_to_datetime(text)
        moment = found if found.tzinfo else found.replace(tzinfo=UTC)
        return (moment - _EPOCH) // timedelta(milliseconds=1)
    except (ValueError, TypeError, OverflowError, IndexError):
        warnings.add("date_unreadable")
        return None
