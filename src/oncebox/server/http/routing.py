"""Route table types: routes, the call a handler sees, and the responses it may return.

The connection has no time limit while it is our move, and a client that does not read is cut
off below, by the watch.

Routing, the description of the API, its page in the docs and the test of who may do what all
come from the same rows.
"""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Mapping
from contextlib import aclosing
from dataclasses import dataclass
from typing import Any, NamedTuple

import msgspec

from oncebox.components import Components
from oncebox.core import ids
from oncebox.errors import OnceboxError
from oncebox.ledger.admin.audit import AuditEntry
from oncebox.ledger.inboxes.longpoll import Waiter
from oncebox.model.admin.access import ApiKey
from oncebox.model.deliveries.delivery import Headers
from oncebox.server.http.request_limits import Send


class HandlerResponse(NamedTuple):
    """What a handler tells, and how."""

    value: Any
    status: int
    headers: Headers = ()


class Download(NamedTuple):
    """Bytes to be saved; the name is ours, never the sender's."""

    body: bytes
    name: str

    @property
    def headers(self) -> tuple[tuple[str, str], ...]:
        """What keeps a browser from showing, running or guessing what it is."""
        return (
            ("content-disposition", f'attachment; filename="{self.name}"'),
            ("content-security-policy", "sandbox; default-src 'none'"),
        )


EVENT_STREAM = "text/event-stream"
#: also for proxies: what is kept back or changed on the way is of no use
_STREAM_HEADERS = [
    (b"content-type", b"text/event-stream; charset=utf-8"),
    (b"cache-control", b"no-store, no-transform"),
    (b"x-accel-buffering", b"no"),
    (b"x-content-type-options", b"nosniff"),
]


@dataclass(frozen=True, slots=True)
class EventStream:
    """An answer in blocks, which ends when they do."""

    blocks: AsyncIterator[bytes]


def accepts_event_stream(accept: bytes) -> bool:
    """Say whether a client asks for a stream by name; whoever takes anything gets a page."""
    kinds = (kind.partition(b";")[0].strip().lower() for kind in accept.split(b","))
    return EVENT_STREAM.encode() in kinds


def sse_block(id_: str, *, event: str = "", data: bytes = b"", retry: int | None = None) -> bytes:
    """Return one block of a stream; one without data only moves the reader's place on."""
    lines = [b"id: %s" % id_.encode()]
    if retry is not None:
        lines.append(b"retry: %d" % retry)
    if data:
        lines += [b"event: %s" % event.encode(), b"data: %s" % data]
    return b"\n".join((*lines, b"", b""))


async def send_stream(answer: EventStream, send: Send) -> None:
    """Send an answer block by block.

    What fails on the way ends it, and the client comes back to hear of it.
    """
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
    """What one handler of the API sees."""

    components: Components
    key: ApiKey
    #: the key's tenant; no other data is visible
    tenant: str
    #: the parts of the path that stand for something
    path: Mapping[str, str]
    query: Any
    body: Any
    #: returns when the client has gone
    client_gone: Callable[[], Awaitable[None]]
    #: set when the service stops, so that nobody is kept waiting
    stopping: asyncio.Event
    #: by name; of those that come several times, the last
    headers: Mapping[bytes, bytes]
    #: makes sure that the key is still good, for calls that take long
    recheck_key: Callable[[], Awaitable[Any]]
    #: the Idempotency-Key that was sent, where the route takes one
    idempotency_key: str | None = None

    @property
    def now(self) -> int:
        """The time by the ledger's clock."""
        return self.components.ledger.clock()

    def audit_entry(self, why: str = "") -> AuditEntry:
        """Return who does something now, and why."""
        return AuditEntry(
            id=ids.new("aud"),
            tenant=self.tenant,
            at=self.now,
            who=f"key:{self.key.id}",
            why=why,
        )

    def join_longpoll(self, inboxes: Iterable[str], seconds: float) -> Waiter:
        """Return a waiter for inboxes; it also ends when the client is gone or the service stops.

        Raises: TooManyRequests.
        """
        ends = (self.client_gone, self.stopping.wait)
        return self.components.longpoll.join(self.tenant, inboxes, self.key.id, seconds, ends=ends)


#: stands for ``worker:SOURCE`` of any source; which ones, the handler looks at
WORKER = "worker"
ADMIN, OPERATOR, AGENT = "admin", "operator", "agent"
#: whoever has a key at all
ANYONE = frozenset({ADMIN, OPERATOR, AGENT, WORKER})

#: no key is needed
OPEN: frozenset[str] = frozenset()

#: answers a call
RouteHandler = Callable[[ApiCall], Awaitable[Any]]
#: answers a call with a stream
Streamer = Callable[[ApiCall], Awaitable[EventStream]]
#: a function of a transaction, which creates something and returns what to tell of it
CreateFunction = Callable[[Any], msgspec.Struct]
#: returns what a call would create
Creator = Callable[[ApiCall], CreateFunction]


@dataclass(frozen=True, slots=True, kw_only=True)
class Route:
    """One thing that can be asked of the API."""

    method: str
    path: str
    #: stable; clients are generated by it
    name: str
    summary: str
    #: scopes that may, an admin always; without any, no key is needed
    scopes: frozenset[str]
    query: type[msgspec.Struct] | None = None
    body: type[Any] | None = None
    answer: type[msgspec.Struct] | None = None
    status: int = 200
    #: what the answer is where it is not JSON of the type above
    media: str = "application/json"
    handler: RouteHandler | None = None
    #: beside the handler, for clients that ask for a stream
    streamer: Streamer | None = None
    #: instead of a handler, for what must not happen twice: it needs an Idempotency-Key
    creator: Creator | None = None
    #: called after a creation, outside its transaction
    after: RouteHandler | None = None
    #: takes an Idempotency-Key, which may be left out
    keyed: bool = False
    #: further statuses of the same answer
    statuses: tuple[int, ...] = ()
    #: only for keys of the installation's own tenant
    home: bool = False

    @property
    def is_open(self) -> bool:
        """Whether it needs no key."""
        return not self.scopes

    @property
    def creates(self) -> bool:
        """Whether it needs an Idempotency-Key."""
        return self.creator is not None
