"""A source as people write it: a table of names and values, with times in seconds.

The same table stands in ``oncebox.toml``, in the database and in what commands print.
"""

import math
from collections.abc import Mapping, Sequence
from typing import Any

import msgspec

from oncebox.model.source import Source, SourceSecret
from oncebox.model.source_checks import Refusal

#: what the table does not hold: whose source it is, and what is kept apart
_APART = frozenset({"tenant", "name", "public_id", "secrets"})
_TIMES = frozenset({"gap_wait", "after_wait", "budget", "first_wait", "longest_wait"})
_DEFAULTS = {
    field.name: field.default_factory()
    if field.default_factory is not msgspec.NODEFAULT
    else field.default
    for field in msgspec.structs.fields(Source)
}

#: every name a table may hold
FIELDS = tuple(name for name in Source.__struct_fields__ if name not in _APART)


def parse(
    table: Mapping[str, Any],
    *,
    tenant: str,
    name: str,
    public_id: str,
    secrets: Sequence[SourceSecret] = (),
) -> Source:
    """Read a table; numbers may be written as text, as in the environment.

    Raises: ConfigInvalid, naming the field and the remedy.
    """
    refuse = Refusal(name)
    for field in table:
        if field not in FIELDS:
            raise refuse(str(field)[:100], f"there is no such field; write {', '.join(FIELDS)}")
    if "scheme" not in table:
        raise refuse("scheme", "it is missing; write a scheme's name, such as stripe")
    values = {
        field: _milliseconds(refuse, field, value) if field in _TIMES else value
        for field, value in table.items()
    }
    apart = {"tenant": tenant, "name": name, "public_id": public_id, "secrets": tuple(secrets)}
    try:
        return msgspec.convert(values | apart, Source, strict=False)
    except msgspec.ValidationError as error:
        said, _, place = str(error).partition(" - at ")
        raise refuse(
            place.strip("`").removeprefix("$."), f"{said[:1].lower()}{said[1:]}"
        ) from error


def render(source: Source) -> dict[str, Any]:
    """Return the table of a source: its scheme and whatever is not as it is by default."""
    table = {}
    for field in FIELDS:
        value = getattr(source, field)
        if value != _DEFAULTS[field]:
            table[field] = value / 1000 if field in _TIMES and value is not None else value
    return table


def _milliseconds(refuse: Refusal, field: str, value: object) -> int | None:
    if value is None:
        return None
    try:
        seconds = msgspec.convert(value, float, strict=False)
    except msgspec.ValidationError as error:
        raise refuse(field, "write a number of seconds") from error
    if not math.isfinite(seconds):
        raise refuse(field, "write a number of seconds")
    return round(seconds * 1000)
