"""Durations as people type them: ``30``, ``90s``, ``5min``, ``12h`` or ``90d``."""

import re

import click

_UNITS = {"": 1, "s": 1, "min": 60, "h": 3_600, "d": 86_400}
_TYPED = re.compile(r"(\d{1,10}(?:\.\d{1,3})?) ?(s|min|h|d|)")


def seconds(typed: str | float) -> float:
    """Return the seconds of a duration; for click, the type of an option."""
    found = _TYPED.fullmatch(str(typed))
    if found is None:
        message = "write a number and a unit, such as 30s, 5min, 12h or 90d"
        raise click.BadParameter(message)
    return float(found[1]) * _UNITS[found[2]]
