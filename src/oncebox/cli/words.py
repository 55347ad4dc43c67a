"""Times and durations as people say them."""

from datetime import UTC, datetime

#: from how many milliseconds on a unit is used, and its size; rounded down
_UNITS = (
    (2 * 86_400_000, 86_400_000, "d"),
    (2 * 3_600_000, 3_600_000, "h"),
    (2 * 60_000, 60_000, "min"),
    (1_000, 1_000, "s"),
)


def moment(milliseconds: int) -> str:
    """Return a time as ``2026-01-31T12:00:00.000Z``."""
    seconds, rest = divmod(milliseconds, 1000)
    return f"{datetime.fromtimestamp(seconds, UTC):%Y-%m-%dT%H:%M:%S}.{rest:03d}Z"


def stamp(milliseconds: int) -> str:
    """Return a time as it may stand in the name of a file: ``20260131T120000.000Z``."""
    return moment(milliseconds).replace("-", "").replace(":", "")


def duration(milliseconds: int) -> str:
    """Return a duration such as ``41 s`` or ``3 h``."""
    for least, size, name in _UNITS:
        if milliseconds >= least:
            return f"{milliseconds // size} {name}"
    return f"{milliseconds} ms"


def ago(then: int, now: int) -> str:
    """Return ``41 s ago`` or ``in 12 s``."""
    return f"in {duration(then - now)}" if then > now else f"{duration(now - then)} ago"
