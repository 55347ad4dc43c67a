"""A tool: what a model may ask for, in which words, and what it is told; knows no protocol."""

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Annotated, Any, TypeAlias

import msgspec

from oncebox.mcp.hand import Hand
from oncebox.wire.pull import LONGEST_WAIT

#: no control characters
_LINE = r"^[^\x00-\x1f\x7f-\x9f\u2028\u2029]*$"

Id: TypeAlias = Annotated[str, msgspec.Meta(min_length=1, max_length=100, pattern=r"^[!-~]+$")]
Line: TypeAlias = Annotated[str, msgspec.Meta(min_length=1, max_length=200, pattern=_LINE)]
#: longer than the service's own default: a model thinks before it speaks
LEASE = 300.0
Lease: TypeAlias = Annotated[
    float, msgspec.Meta(ge=1, le=900, description="Seconds for which it is yours.")
]
Within: TypeAlias = Annotated[
    float, msgspec.Meta(gt=0, le=LONGEST_WAIT, description="Seconds to wait, at most 55.")
]
Fence: TypeAlias = Annotated[int, msgspec.Meta(ge=1, le=2**53)]
Moment: TypeAlias = Annotated[int, msgspec.Meta(description="Milliseconds since 1970.")]
Next: TypeAlias = Annotated[str, msgspec.Meta(description="What to do now, and what not.")]


class Arguments(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What a model says when it calls a tool."""


class Answer(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What a model is told; nothing in it is a sender's own text."""

    next: Next

    def __repr__(self) -> str:
        """Show no field: some are secrets, and this must not end up in a log."""
        return f"{type(self).__name__}(…)"


@dataclass(frozen=True, slots=True, kw_only=True)
class Tool:
    """One tool. The four hints are for whoever asks the user; they allow nothing."""

    name: str
    title: str
    description: str
    arguments: type[Arguments]
    answer: type[Answer]
    run: Callable[[Hand, Any], Awaitable[Answer]]
    #: it changes nothing
    read_only: bool
    #: it may undo or overwrite what is there
    destructive: bool
    #: the same call again changes nothing more
    idempotent: bool
    #: it deals with the world outside
    open_world: bool

    def input_schema(self) -> dict[str, Any]:
        """Return what may be said."""
        return _schema(self.arguments)

    def output_schema(self) -> dict[str, Any]:
        """Return what is told."""
        schema = _schema(self.answer)
        fields = schema["properties"]
        return {**schema, "properties": {name: _present(fields[name]) for name in fields}}


def _present(field: dict[str, Any]) -> dict[str, Any]:
    """Return the schema of a field as it is when it is there: what is null is left out."""
    kinds = [each for each in field.get("anyOf", ()) if each != {"type": "null"}]
    if len(kinds) != 1:
        return field
    rest = {name: value for name, value in field.items() if name not in {"anyOf", "default"}}
    return {**kinds[0], **rest}


def _schema(kind: type[msgspec.Struct]) -> dict[str, Any]:
    """Return the JSON schema of a value, an object at its root as the protocol wants it."""
    _, components = msgspec.json.schema_components([kind], ref_template="#/$defs/{name}")
    root = components.pop(kind.__name__)
    # Both are words for whoever reads the code.
    root.pop("title", None)
    root.pop("description", None)
    slim: dict[str, Any] = _slim({**root, "$defs": components} if components else root)
    return slim


def _slim(schema: Any) -> Any:
    """Leave patterns out: every model would read them, few clients know them, and we judge."""
    if isinstance(schema, list):
        return [_slim(each) for each in schema]
    if not isinstance(schema, dict):
        return schema
    return {
        name: _slim(value)
        for name, value in schema.items()
        if not (name == "pattern" and isinstance(value, str))
    }
