"""The filters and tests of templates, each of which costs by what it is given."""

from collections.abc import Callable, Mapping, Sequence
from functools import wraps
from typing import Any

from jinja2.filters import FILTERS
from jinja2.runtime import Undefined
from jinja2.tests import TESTS

from oncebox.send_errors import TemplateTooCostly

#: no name that a template can write
COUNTED = "counted loop"

_FILTERS = (
    "abs", "capitalize", "count", "d", "default", "e", "escape", "first", "float", "int", "last",
    "length", "lower", "sort", "title", "trim", "truncate", "upper", "urlencode",
)  # fmt: skip
_TESTS = (
    "!=", "<", "<=", "==", ">", ">=", "boolean", "defined", "eq", "equalto", "even", "false",
    "float", "ge", "greaterthan", "gt", "in", "integer", "le", "lessthan", "lt", "mapping", "ne",
    "none", "number", "odd", "sequence", "string", "true", "undefined",
)  # fmt: skip
_CHARACTERS_IN_STEP = 16
_MOST_PLACES = 10


class Meter:
    """What may still be spent."""

    def __init__(self, left: int) -> None:
        self._left = left

    def spend(self, steps: int) -> None:
        """Take some of it.

        Raises: TemplateTooCostly.
        """
        self._left -= steps
        if self._left < 0:
            raise TemplateTooCostly("the template or its variables are too large for a mail")


def filters(meter: Meter) -> dict[str, Any]:
    """Return the filters, which spend of the meter."""
    found: dict[str, Callable[..., Any]] = {name: FILTERS[name] for name in _FILTERS}
    found |= {"fixed": _fixed, "items": _items}
    metered = {name: _metered(each, meter) for name, each in found.items()}

    def join(value: Any, between: str = "") -> str:
        """Return texts and numbers as one text; what stands between them counts as well."""
        if isinstance(value, Undefined):
            str(value)  # says which one is missing
        if not isinstance(value, list | tuple):
            raise TypeError
        texts = [_written(each) for each in value]
        meter.spend(1 + (sum(map(len, texts)) + len(between) * len(texts)) // _CHARACTERS_IN_STEP)
        return between.join(texts)

    def counted(value: Any, weight: int) -> Sequence[Any]:
        """Return what a loop goes through; all its rounds are spent before the first."""
        if isinstance(value, Undefined):
            str(value)  # says which one is missing
        if not isinstance(value, list | tuple | str | Mapping):
            raise TypeError
        meter.spend(weight * len(value))
        return list(value)

    return {**metered, "join": join, COUNTED: counted}


def tests() -> dict[str, Any]:
    """Return the tests."""
    return {name: TESTS[name] for name in _TESTS}


def _metered(work: Callable[..., Any], meter: Meter) -> Callable[..., Any]:
    @wraps(work)  # with the marks by which Jinja2 knows what else to pass
    def metered(*arguments: Any, **named: Any) -> Any:
        given = [each for each in (*arguments, *named.values()) if isinstance(each, str | list)]
        meter.spend(1 + sum(map(len, given)) // _CHARACTERS_IN_STEP)
        return work(*arguments, **named)

    return metered


def _fixed(value: Any, places: int = 2) -> str:
    """Return a number with so many places, as prices have them."""
    if isinstance(value, Undefined):
        str(value)  # says which one is missing
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise TypeError
    if not 0 <= places <= _MOST_PLACES:
        raise ValueError
    return f"{value:.{places}f}"


def _items(value: Any) -> list[tuple[str, Any]]:
    """Return names and values of an object."""
    if isinstance(value, Undefined):
        str(value)  # says which one is missing
    if not isinstance(value, Mapping):
        raise TypeError
    return list(value.items())


def _written(value: Any) -> str:
    if isinstance(value, bool) or not isinstance(value, str | int | float):
        raise TypeError
    return str(value)
