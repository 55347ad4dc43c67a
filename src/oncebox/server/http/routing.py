"""Routes of the API: route tables, the call a handler receives, and the responses it may return.

Routing, the OpenAPI document, the reference page and the permission tests all read the route
tables. A module fills its table by decorating its handlers; see ``Routes``.
See docs/decisions/0016-use-a-route-table-for-the-http-api.md.
"""

import asyncio
import inspect
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Mapping
from contextlib import aclosing
from dataclasses import dataclass
from typing import Any, NamedTuple, TypeVar

import msgspec

from oncebox.components import Components
from oncebox.core import ids
from oncebox.errors import OnceboxError
from oncebox.ledger.admin.api_keys import Requester
from oncebox.ledger.admin.audit import AuditEntry
from oncebox.ledger.inboxes.longpoll import Waiter
from oncebox.ledger.transactions import Ledger, Transaction
from oncebox.model.admin.access import ApiKey
from oncebox.model.deliveries.delivery import Headers
from oncebox.server.http.request_context import Send


class HandlerResponse(NamedTuple):
    """A response with a status and headers of its own."""

    value: Any
    status: int
    headers: Headers = ()


class Download(NamedTuple):
    """Bytes to save under a name that the service chose, never the sender."""

    body: bytes
    name: str

    @property
    def headers(self) -> tuple[tuple[str, str], ...]:
        """Headers that keep a browser from displaying, running or sniffing the content."""
        return (
            ("content-disposition", f'attachment; filename="{self.name}"'),
            ("content-security-policy", "sandbox; default-src 'none'"),
        )


EVENT_STREAM = "text/event-stream"
#: also for proxies: they must neither buffer nor change the stream
_STREAM_HEADERS = [
    (b"content-type", b"text/event-stream; charset=utf-8"),
    (b"cache-control", b"no-store, no-transform"),
    (b"x-accel-buffering", b"no"),
    (b"x-content-type-options", b"nosniff"),
]


@dataclass(frozen=True, slots=True)
class EventStream:
    """A response of server-sent events."""

    blocks: AsyncIterator[bytes]


def accepts_event_stream(accept: bytes) -> bool:
    """Say whether a client asks for a stream by name; ``*/*`` gets a page."""
    kinds = (kind.partition(b";")[0].strip().lower() for kind in accept.split(b","))
    return EVENT_STREAM.encode() in kinds


def sse_block(id_: str, *, event: str = "", data: bytes = b"", retry: int | None = None) -> bytes:
    """Return one block of a stream; without data it only advances the reader's cursor."""
    lines = [b"id: %s" % id_.encode()]
    if retry is not None:
        lines.append(b"retry: %d" % retry)
    if data:
        lines += [b"event: %s" % event.encode(), b"data: %s" % data]
    return b"\n".join((*lines, b"", b""))


async def send_stream(answer: EventStream, send: Send) -> None:
    """Send a stream block by block; an error ends it, and the client gets it on reconnecting."""
    await send({"type": "http.response.start", "status": 200, "headers": list(_STREAM_HEADERS)})
    try:
        async with aclosing(answer.blocks) as blocks:  # type: ignore[type-var]
            async for each in blocks:
                await send({"type": "http.response.body", "body": each, "more_body": True})
    except OnceboxError:
        pass
    finally:
        await send({"type": "http.response.body", "body": b""})


@dataclass(frozen=True, slots=True)
class ApiCall:
    """One call of the API, as its handler sees it."""

    components: Components
    ledger: Ledger
    route: "Route"
    key: ApiKey
    #: the key's tenant; no other data is visible
    tenant: str
    #: an operator sees everything of the tenant, an agent what its key created
    requester: Requester
    #: parameters of the path
    path: Mapping[str, str]
    query: Any
    body: Any
    #: returns when the client has disconnected
    client_gone: Callable[[], Awaitable[None]]
    #: set when the service stops; long polls end then
    stopping: asyncio.Event
    #: by name; the last of repeated ones
    headers: Mapping[bytes, bytes]
    #: id of the request, for the log
    request_id: str
    #: checks again that the key is valid, for long calls
    recheck_key: Callable[[], Awaitable[Any]]
    #: the Idempotency-Key, if the route takes one
    idempotency_key: str | None = None

    def audit_entry(self, why: str = "") -> AuditEntry:
        """Return the audit entry of a change by this call."""
        return AuditEntry(
            id=ids.new("aud"),
            tenant=self.tenant,
            at=self.ledger.clock(),
            who=f"key:{self.key.id}",
            why=why,
        )

    def join_longpoll(self, inboxes: Iterable[str], seconds: float) -> Waiter:
        """Return a waiter for inboxes; it ends if the client disconnects or the service stops.

        Raises: TooManyRequests.
        """
        ends = (self.client_gone, self.stopping.wait)
        return self.components.longpoll.join(self.tenant, inboxes, self.key.id, seconds, ends=ends)


#: stand for ``worker:SOURCE`` and ``accept:SOURCE`` of any source; the handler checks which ones
WORKER, ACCEPT = "worker", "accept"
ADMIN, OPERATOR, AGENT, METRICS = "admin", "operator", "agent", "metrics"
ADMINS = frozenset({ADMIN})
OPERATORS = frozenset({OPERATOR})
AGENTS = frozenset({AGENT, OPERATOR})
WORKERS = frozenset({WORKER})
SUBMITTERS = frozenset({ACCEPT, OPERATOR})
#: any valid key
ANY_KEY = frozenset({ADMIN, OPERATOR, AGENT, WORKER, ACCEPT, METRICS})
#: no key is needed
OPEN: frozenset[str] = frozenset()

RouteHandler = Callable[[ApiCall], Awaitable[Any]]
Streamer = Callable[[ApiCall], Awaitable[EventStream]]
#: creates an object in a transaction and returns the response
Creator = Callable[[ApiCall, Transaction], msgspec.Struct]
HandlerT = TypeVar("HandlerT", bound=RouteHandler)
CreatorT = TypeVar("CreatorT", bound=Creator)


@dataclass(frozen=True, slots=True, kw_only=True)
class Route:
    """One operation of the API."""

    method: str
    path: str
    #: stable; clients are generated by it
    name: str
    summary: str
    #: scopes that permit the call, beside admin; without any, no key is needed
    scopes: frozenset[str]
    query: type[msgspec.Struct] | None = None
    body: type[Any] | None = None
    answer: type[msgspec.Struct] | None = None
    status: int = 200
    #: media type of the response, if it is not JSON of the type above
    media: str = "application/json"
    handler: RouteHandler | None = None
    #: beside the handler, for clients that ask for a stream
    streamer: Streamer | None = None
    #: instead of a handler, for creations: requires an Idempotency-Key
    creator: Creator | None = None
    #: called before and after a creation, outside its transaction; the first may refuse it
    before: RouteHandler | None = None
    after: RouteHandler | None = None
    #: takes an optional Idempotency-Key
    keyed: bool = False
    #: further statuses of the same answer
    statuses: tuple[int, ...] = ()
    #: only for keys of the installation's own tenant
    home: bool = False
    #: the setting of ``http`` that opens it to all; to callers on this machine it is open anyway
    opened_by: str = ""

    @property
    def is_open(self) -> bool:
        """Whether it needs no key."""
        return not self.scopes

    @property
    def creates(self) -> bool:
        """Whether it needs an Idempotency-Key."""
        return self.creator is not None


class Routes(list[Route]):
    """Route table of a module, filled by decorating its handlers.

    The first line of a handler's docstring is the summary of its route, the struct it returns
    the schema of the answer.
    """

    def __call__(  # noqa: PLR0913 - the columns of the table
        self,
        method: str,
        path: str,
        name: str,
        *,
        scopes: frozenset[str],
        query: type[msgspec.Struct] | None = None,
        body: type[Any] | None = None,
        answer: type[msgspec.Struct] | None = None,
        statuses: tuple[int, ...] = (),
        media: str = "application/json",
        streamer: Streamer | None = None,
        keyed: bool = False,
        home: bool = False,
        opened_by: str = "",
    ) -> Callable[[HandlerT], HandlerT]:
        """Add a route; a handler that returns nothing answers 204."""

        def add(handler: HandlerT) -> HandlerT:
            status, *further = statuses or (204 if _returned(handler) is None else 200,)
            self.append(
                Route(
                    method=method,
                    path=path,
                    name=name,
                    summary=_summary(handler),
                    scopes=scopes,
                    query=query,
                    body=body,
                    answer=answer or _returned_struct(handler),
                    status=status,
                    statuses=tuple(further),
                    media=media,
                    handler=handler,
                    streamer=streamer,
                    keyed=keyed,
                    home=home,
                    opened_by=opened_by,
                )
            )
            return handler

        return add

    def create(  # noqa: PLR0913 - the columns of the table
        self,
        path: str,
        name: str,
        *,
        scopes: frozenset[str],
        body: type[msgspec.Struct],
        before: RouteHandler | None = None,
        after: RouteHandler | None = None,
        home: bool = False,
    ) -> Callable[[CreatorT], CreatorT]:
        """Add a route whose Idempotency-Key makes a repeat get the first response."""

        def add(creator: CreatorT) -> CreatorT:
            self.append(
                Route(
                    method="POST",
                    path=path,
                    name=name,
                    summary=_summary(creator),
                    scopes=scopes,
                    body=body,
                    answer=_returned_struct(creator),
                    status=201,
                    creator=creator,
                    before=before,
                    after=after,
                    home=home,
                )
            )
            return creator

        return add


def _summary(handler: object) -> str:
    return (inspect.getdoc(handler) or "").partition("\n")[0]


def _returned(handler: object) -> Any:
    return inspect.get_annotations(handler)["return"]  # type: ignore[arg-type]


def _returned_struct(handler: object) -> type[msgspec.Struct] | None:
    kind = _returned(handler)
    return kind if isinstance(kind, type) and issubclass(kind, msgspec.Struct) else None
