"""Times and sizes as they are shown and typed."""

import re
from datetime import UTC, datetime

import click

#: milliseconds from which a unit is used, and its size; rounded down
_OUTPUT_UNITS = (
    (2 * 86_400_000, 86_400_000, "d"),
    (2 * 3_600_000, 3_600_000, "h"),
    (2 * 60_000, 60_000, "min"),
    (1_000, 1_000, "s"),
)


def iso_time(milliseconds: int) -> str:
    """Return a time as ``2026-01-31T12:00:00.000Z``."""
    seconds, rest = divmod(milliseconds, 1000)
    return f"{datetime.fromtimestamp(seconds, UTC):%Y-%m-%dT%H:%M:%S}.{rest:03d}Z"


def file_timestamp(milliseconds: int) -> str:
    """Return a time for a file name: ``20260131T120000.000Z``."""
    return iso_time(milliseconds).replace("-", "").replace(":", "")


def duration(milliseconds: int) -> str:
    """Return a duration such as ``41 s`` or ``3 h``."""
    for least, size, name in _OUTPUT_UNITS:
        if milliseconds >= least:
            return f"{milliseconds // size} {name}"
    return f"{milliseconds} ms"


def ago(then: int, now: int) -> str:
    """Return ``41 s ago`` or ``in 12 s``."""
    return f"in {duration(then - now)}" if then > now else f"{duration(now - then)} ago"


_INPUT_UNITS = {"": 1, "s": 1, "min": 60, "h": 3_600, "d": 86_400}
_DURATION = re.compile(r"(\d{1,10}(?:\.\d{1,3})?) ?(s|min|h|d|)")


def parse_duration(typed: str | float) -> float:
    """Return the seconds of a duration; for click, the type of an option."""
    found = _DURATION.fullmatch(str(typed))
    if found is None:
        raise click.BadParameter("write a number and a unit, such as 30s, 5min, 12h or 90d")
    return float(found[1]) * _INPUT_UNITS[found[2]]


_SIZE_UNITS = {"": 1, "KiB": 1024, "MiB": 1024**2, "GiB": 1024**3, "TiB": 1024**4}
_SIZE = re.compile(r"(\d{1,15}) ?(KiB|MiB|GiB|TiB|)")


def parse_size(typed: str) -> int | None:
    """Return the bytes of a size, None for ``default``; for click, the type of an argument."""
    if typed == "default":
        return None
    found = _SIZE.fullmatch(typed)
    if found is None:
        raise click.BadParameter("write a number of bytes, or such as 500MiB or 20GiB, or default")
    return int(found[1]) * _SIZE_UNITS[found[2]]
