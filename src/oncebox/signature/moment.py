"""Timestamps as senders write them, in milliseconds since 1970."""

import re
from collections.abc import Callable
from datetime import UTC, datetime, timedelta, timezone

from oncebox.errors import SignatureInvalid

#: eleven digits of seconds reach the year 5138; thirteen would be milliseconds in disguise
_SECONDS = re.compile(r"[0-9]{1,11}")
_MILLISECONDS = re.compile(r"[0-9]{1,14}")
_ISO = re.compile(
    r"([0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9]{2}:[0-9]{2}:[0-9]{2})(?:\.([0-9]{1,9}))?"
    r"(?:Z|([+-])([0-9]{2}):([0-9]{2}))"
)
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


def read(text: str, unit: str) -> int:
    """Return the moment that a timestamp names.

    Raises: SignatureInvalid, unless it is spelled as the unit asks.
    """
    return UNITS[unit](text)


def _seconds(text: str) -> int:
    if not _SECONDS.fullmatch(text):
        raise SignatureInvalid("malformed_timestamp")
    return int(text) * 1000


def _milliseconds(text: str) -> int:
    if not _MILLISECONDS.fullmatch(text):
        raise SignatureInvalid("malformed_timestamp")
    return int(text)


def _iso(text: str) -> int:
    found = _ISO.fullmatch(text)
    if found is None:
        raise SignatureInvalid("malformed_timestamp")
    when, fraction, sign, hours, minutes = found.groups()
    offset = timedelta(hours=int(hours or 0), minutes=int(minutes or 0))
    try:
        zone = timezone(-offset if sign == "-" else offset)
        moment = datetime.fromisoformat(when).replace(tzinfo=zone)
        whole = moment - _EPOCH
    except (ValueError, OverflowError) as error:  # month 13, offset 99:00, year 1 in the far east
        raise SignatureInvalid("malformed_timestamp") from error
    return whole // timedelta(milliseconds=1) + int(f"{fraction or '0':0<9}"[:3])


#: how each unit is read: seconds, milliseconds, or a date and time
UNITS: dict[str, Callable[[str], int]] = {"s": _seconds, "ms": _milliseconds, "iso": _iso}
