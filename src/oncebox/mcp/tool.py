"""`Tool`, its `ToolContext`, base classes of arguments and results, field types of all tools."""

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

#: reports how many seconds of how many have passed
ToolProgress = Callable[[float, float], Awaitable[None]]

#: seconds between two progress reports
_PROGRESS_INTERVAL = 5.0


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolContext:
    """The context of one tool call; every request is made with the caller's key."""

    client: AsyncClient
    #: identifies the caller's API key; not the key
    key_fingerprint: str
    report_progress: ToolProgress
    #: set when the service stops and every wait must end
    stopping: asyncio.Event

    async def wait(self, work: Coroutine[Any, Any, T], within: float) -> T:
        """Return the result of work that may take a while, and report progress meanwhile."""
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
    """Return an identifier of an API key that does not reveal it."""
    return hashlib.sha256(b"mcp\0" + key.encode()).hexdigest()[:32]


#: no control characters
_LINE_PATTERN = r"^[^\x00-\x1f\x7f-\x9f\u2028\u2029]*$"

Id: TypeAlias = Annotated[str, msgspec.Meta(min_length=1, max_length=100, pattern=r"^[!-~]+$")]
Line: TypeAlias = Annotated[str, msgspec.Meta(min_length=1, max_length=200, pattern=_LINE_PATTERN)]
#: seconds; longer than the service's default, since a model takes time to think
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
    """The arguments of a tool call."""


class ToolAnswer(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The answer of a tool; it contains no text that a sender wrote."""

    next: Next

    def __repr__(self) -> str:
        # Shows no field: some are secrets, which must not reach a log.
        return f"{type(self).__name__}(…)"


@dataclass(frozen=True, slots=True, kw_only=True)
class Tool:
    """One tool. The four hints are for clients that ask the user; they grant nothing."""

    name: str
    title: str
    description: str
    arguments: type[ToolArguments]
    answer: type[ToolAnswer]
    run: Callable[[ToolContext, Any], Awaitable[ToolAnswer]]
    #: it changes nothing
    read_only: bool = False
    #: it may undo or overwrite something
    destructive: bool = False
    #: the same call again changes nothing more
    idempotent: bool = True
    #: it reaches other systems
    open_world: bool = False

    def input_schema(self) -> dict[str, Any]:
        """Return the JSON schema of the arguments."""
        return _schema(self.arguments)

    def output_schema(self) -> dict[str, Any]:
        """Return the JSON schema of the answer."""
        schema = _schema(self.answer)
        fields = schema["properties"]
        return {**schema, "properties": {name: _without_null(fields[name]) for name in fields}}


def _without_null(field: dict[str, Any]) -> dict[str, Any]:
    """Return the schema of a field without null: an answer leaves such fields out."""
    kinds = [each for each in field.get("anyOf", ()) if each != {"type": "null"}]
    if len(kinds) != 1:
        return field
    rest = {name: value for name, value in field.items() if name not in {"anyOf", "default"}}
    return {**kinds[0], **rest}


def _schema(kind: type[msgspec.Struct]) -> dict[str, Any]:
    """Return the JSON schema of a struct, with an object at its root as MCP requires."""
    _, components = msgspec.json.schema_components([kind], ref_template="#/$defs/{name}")
    root = components.pop(kind.__name__)
    # The class name and the docstring are for developers.
    root.pop("title", None)
    root.pop("description", None)
    slim: dict[str, Any] = _without_patterns({**root, "$defs": components} if components else root)
    return slim


def _without_patterns(schema: Any) -> Any:
    """Omit patterns: they cost tokens, few clients use them, and the service checks them."""
    if isinstance(schema, list):
        return [_without_patterns(each) for each in schema]
    if not isinstance(schema, dict):
        return schema
    return {
        name: _without_patterns(value)
        for name, value in schema.items()
        if not (name == "pattern" and isinstance(value, str))
    }
