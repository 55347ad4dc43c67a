"""`Tool`: name, argument and answer schemas, function; and the `ToolContext` it runs in."""

import asyncio
import hashlib
from collections.abc import Awaitable, Callable, Coroutine
from dataclasses import dataclass
from typing import Annotated, Any, TypeAlias, TypeVar

import msgspec

from oncebox.client.asynchronous import AsyncClient
from oncebox.core import clock
from oncebox.errors.http import ServerBusy
from oncebox.schemas.pull import LONGEST_WAIT

T = TypeVar("T")

#: tells how many seconds of how many have passed
ToolProgress = Callable[[float, float], Awaitable[None]]

#: seconds between two signs of life
_PROGRESS_INTERVAL = 5.0


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolContext:
    """What one call of a tool works with; every request is made with the caller's key."""

    client: AsyncClient
    #: what the caller's API key is known by here; not the key
    key_fingerprint: str
    report_progress: ToolProgress
    #: set when nobody should be kept waiting any longer
    stopping: asyncio.Event

    async def wait(self, work: Coroutine[Any, Any, T], within: float) -> T:
        """Return what comes of work that may take its time, telling how far it is.

        Raises: ServerBusy, when the service stops meanwhile; and whatever the work raises.
        """
        began, task = clock.steady(), asyncio.ensure_future(work)
        stopped = asyncio.ensure_future(self.stopping.wait())
        try:
            while not task.done():
                if stopped.done():
                    raise ServerBusy("the service is stopping")
                await self.report_progress(min(clock.steady() - began, within), within)
                await asyncio.wait(
                    {task, stopped}, timeout=_PROGRESS_INTERVAL, return_when=asyncio.FIRST_COMPLETED
                )
            return task.result()
        finally:
            task.cancel()
            stopped.cancel()


def fingerprint_api_key(key: str) -> str:
    """Return by what the caller of an API key is known again."""
    return hashlib.sha256(b"mcp\0" + key.encode()).hexdigest()[:32]


#: no control characters
_LINE_PATTERN = r"^[^\x00-\x1f\x7f-\x9f\u2028\u2029]*$"

Id: TypeAlias = Annotated[str, msgspec.Meta(min_length=1, max_length=100, pattern=r"^[!-~]+$")]
Line: TypeAlias = Annotated[str, msgspec.Meta(min_length=1, max_length=200, pattern=_LINE_PATTERN)]
#: longer than the service's own default: a model thinks before it speaks
DEFAULT_LEASE = 300.0
Lease: TypeAlias = Annotated[
    float, msgspec.Meta(ge=1, le=900, description="Seconds for which it is yours.")
]
WaitSeconds: TypeAlias = Annotated[
    float, msgspec.Meta(gt=0, le=LONGEST_WAIT, description="Seconds to wait, at most 55.")
]
Fence: TypeAlias = Annotated[int, msgspec.Meta(ge=1, le=2**53)]
UnixMillis: TypeAlias = Annotated[int, msgspec.Meta(description="Milliseconds since 1970.")]
Next: TypeAlias = Annotated[str, msgspec.Meta(description="What to do now, and what not.")]


class ToolArguments(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What a model says when it calls a tool."""


class ToolAnswer(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
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
    arguments: type[ToolArguments]
    answer: type[ToolAnswer]
    run: Callable[[ToolContext, Any], Awaitable[ToolAnswer]]
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
        return {**schema, "properties": {name: _without_null(fields[name]) for name in fields}}


def _without_null(field: dict[str, Any]) -> dict[str, Any]:
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
    slim: dict[str, Any] = _without_patterns({**root, "$defs": components} if components else root)
    return slim


def _without_patterns(schema: Any) -> Any:
    """Leave patterns out: every model would read them, few clients know them, and we judge."""
    if isinstance(schema, list):
        return [_without_patterns(each) for each in schema]
    if not isinstance(schema, dict):
        return schema
    return {
        name: _without_patterns(value)
        for name, value in schema.items()
        if not (name == "pattern" and isinstance(value, str))
    }
