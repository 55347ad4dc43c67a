"""The guard: request ids, limits and constant refusals, around every route alike.

What a client must do in time is watched one floor below, in ``connection.py``: a slow head is
never seen here.
"""

import re
from collections.abc import Awaitable, Callable, MutableMapping
from itertools import chain, count
from typing import Any

from oncebox import clock, errors, ids, refusals
from oncebox.config import HttpSettings
from oncebox.edge import express, problem
from oncebox.edge.address import Addresses, network
from oncebox.edge.buckets import Buckets
from oncebox.edge.express import Taker, Write
from oncebox.errors import OnceboxError
from oncebox.telemetry import Telemetry

Scope = MutableMapping[str, Any]
Message = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]
App = Callable[[Scope, Receive, Send], Awaitable[None]]

#: the header that names a request, in both directions
REQUEST_ID = b"x-request-id"
#: in the scope if the whole request has come and is small, by whoever read it
SMALL = "oncebox.small"
#: where the guard leaves its visit
VISIT = "oncebox.visit"

#: webhooks arrive below this path
HOOKS = "/in/"
#: where whole mails come with their attachments, by bodies of a size of their own
MAILS = frozenset({"/v1/sends", "/v1/sends/batch", "/emails", "/emails/batch"})
_OK = 200

_LENGTH = b"content-length"
_CHUNKED = b"transfer-encoding"
_HOST = b"host"
#: headers that may come once
_ONCE = frozenset({_LENGTH, _CHUNKED, _HOST})
_SANE_ID = re.compile(rb"[A-Za-z0-9][A-Za-z0-9._-]{0,63}")
#: digits of a length that are read; with more of them it is too large anyway
_LONGEST_LENGTH = 20
#: bodies up to this size are not counted towards the memory of all
_SMALL = 64 * 1024
_CLOSE = (b"connection", b"close")
_GONE: Message = {"type": "http.disconnect"}


class Visit:
    """One request under way."""

    #: what is asked for, by its name in the metrics
    route = "none"
    #: the status that was answered; 0 until then
    status = 0
    #: whether the guard has answered in the application's place
    answered = False
    #: whether the body is large, or its size unknown; then its bytes are counted
    is_large = False
    #: bytes of a large body that have come
    held = 0
    #: bytes that the body may have
    limit = 0
    #: the headers by name; of those that come several times, the last
    headers: dict[bytes, bytes]

    def __init__(self, pass_on: Send, client: tuple[str, int] | None, name: bytes) -> None:
        """Begin; ``pass_on`` leads to the client."""
        self.pass_on = pass_on
        #: the request's id, as it stands in the header
        self.name = name
        self.began = clock.steady()
        self._client = client

    @property
    def address(self) -> str:
        """Who asks; behind a trusted proxy, who asked the proxy."""
        return self._client[0] if self._client else ""

    @property
    def request_id(self) -> str:
        """The request's id."""
        return self.name.decode()

    def send(self, message: Message) -> Awaitable[None]:
        """Pass an answer on under the request's id; nothing follows the guard's own answer."""
        if self.answered:
            return _drop(message)
        if message["type"] == "http.response.start":
            self.status = message["status"]
            message["headers"] = [*message.get("headers", ()), (REQUEST_ID, self.name)]
        return self.pass_on(message)

    async def refuse(
        self,
        error: OnceboxError | type[OnceboxError],
        retry_after: float | None = None,
        *,
        is_last: bool = False,
    ) -> None:
        """Answer with a problem; whatever else is answered is dropped.

        The last answer closes the connection.
        """
        told = problem.describe(error, self.request_id)
        headers, body = problem.response(told, retry_after)
        headers = [*headers, _CLOSE] if is_last else headers
        await self.send({"type": "http.response.start", "status": told.status, "headers": headers})
        await self.send({"type": "http.response.body", "body": body})
        self.answered = True

    def cut(self) -> None:
        """Cut the connection instead of an answer; only tests want that."""
        self.answered = True
        conversation: Any = getattr(self.pass_on, "__self__", None)
        conversation.transport.abort()


def visit(scope: Scope) -> Visit:
    """Return what the guard knows of a request."""
    found: Visit = scope[VISIT]
    return found


class Guard:
    """An ASGI application around another."""

    def __init__(
        self,
        app: App,
        settings: HttpSettings,
        telemetry: Telemetry,
        taker: Taker | None = None,
    ) -> None:
        """Let through what keeps the limits."""
        self._app = app
        self._settings = settings
        self._telemetry = telemetry
        self._addresses = Addresses(settings.proxies) if settings.proxies else None
        self._buckets = Buckets(settings.rate, burst=settings.rate) if settings.rate else None
        #: bytes of large bodies that are held now
        self._held = 0
        self._in_flight = 0
        #: requests are named after this process and numbered
        self._name = ids.new("req").encode()
        self._numbers = count(1)
        self._count = telemetry.http.count
        #: takes what is beyond doubt the short way, if anybody does
        self._taker = taker
        telemetry.http_in_flight.set_function(lambda: self._in_flight)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve one request."""
        if scope["type"] != "http":
            await self._serve_other(scope, receive, send)
            return
        if self._addresses is not None:
            self._addresses.look_behind(scope)
        name = b"%s-%x" % (self._name, next(self._numbers))
        now = scope[VISIT] = Visit(send, scope.get("client"), name)
        self._in_flight += 1
        try:
            refused = self._read_head(scope, now)
            if refused is not None:
                await now.refuse(refused)
            elif self._buckets is None or await self._is_in_time(now, self._buckets):
                await self._app(scope, self._watched(scope, receive, now), now.send)
        except Exception:
            # The last place that hears of it; the client learns only that it happened.
            self._telemetry.log.exception("request_failed", request=now.request_id)
            if not now.status:
                await now.refuse(refusals.Unforeseen)
        finally:
            # The client holds on to the scope, and that to the visit: a circle, which would
            # cost the garbage collector more than all of the guard.
            now.pass_on = _drop
            self._in_flight -= 1
            self._held -= now.held
            self._count(now.route, now.status, clock.steady() - now.began)

    def express(
        self,
        path: str,
        headers: list[tuple[bytes, bytes]],
        body: bytes,
        client: tuple[str, int] | None,
        write: Write,
    ) -> bool:
        """Take a request that has come whole and small, the short way; say whether it was taken.

        It has no query, and its body no more bytes than its head promised.
        """
        if self._taker is None or self._addresses is not None or self._buckets is not None:
            return False
        found = dict(headers)
        is_plain = len(found) == len(headers) <= self._settings.header_count and _HOST in found
        if not is_plain or _LENGTH not in found or _CHUNKED in found:
            return False
        name = found.get(REQUEST_ID)
        if name is None or not _SANE_ID.fullmatch(name):
            name = b"%s-%x" % (self._name, next(self._numbers))
        began = clock.steady()

        def told(error: OnceboxError | None) -> None:
            self._in_flight -= 1
            status = _OK if error is None else problem.status(type(error))
            self._count(HOOKS, status, clock.steady() - began)
            if error is None:
                write(express.accepted(name), False)  # noqa: FBT003 - it is not the last
            else:
                write(problem.raw(error, name.decode()), True)  # noqa: FBT003 - it is

        if not self._taker(path, headers, body, client[0] if client else "", told):
            return False
        self._in_flight += 1
        return True

    async def _serve_other(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Let the server tell when it starts and stops; there are no web sockets here."""
        if scope["type"] == "lifespan":
            await self._app(scope, receive, send)
        else:
            await send({"type": "websocket.close", "code": 1008})

    def _read_head(self, scope: Scope, now: Visit) -> type[OnceboxError] | None:
        """Read what the headers promise; return why the request is refused, if it is."""
        headers = scope["headers"]
        found = now.headers = dict(headers)
        if REQUEST_ID in found and _SANE_ID.fullmatch(found[REQUEST_ID]):
            now.name = found[REQUEST_ID]
        is_plain = len(found) == len(headers) <= self._settings.header_count and _HOST in found
        if is_plain and SMALL in scope and _CHUNKED not in found:
            return None  # nearly every request
        return self._read_closely(scope, now)

    def _read_closely(self, scope: Scope, now: Visit) -> type[OnceboxError] | None:
        headers, found = scope["headers"], now.headers
        is_mail = scope["path"] in MAILS
        now.limit = self._settings.mail_body if is_mail else self._settings.body
        too_many = len(headers) > self._settings.header_count
        if too_many or (SMALL not in scope and _size(scope) > self._settings.headers):
            return refusals.HeadersTooLarge
        if _HOST not in found and scope["http_version"] == "1.1":
            return refusals.RequestMalformed
        if len(found) < len(headers) and _is_ambiguous(headers):
            return refusals.RequestMalformed
        if _CHUNKED in found:
            now.is_large = True
            # Where its end can be found in two ways, a proxy before us may have found another.
            is_plain = _LENGTH not in found and found[_CHUNKED].lower() == b"chunked"
            return None if is_plain else refusals.RequestMalformed
        return self._read_length(found[_LENGTH], now) if _LENGTH in found else None

    def _read_length(self, length: bytes, now: Visit) -> type[OnceboxError] | None:
        if not length.isdigit():
            return refusals.RequestMalformed
        size = int(length[:_LONGEST_LENGTH])
        now.is_large = size > _SMALL
        return errors.BodyTooLarge if size > now.limit else None

    async def _is_in_time(self, now: Visit, buckets: Buckets) -> bool:
        """Keep one address from asking too often."""
        wait = buckets.take(network(now.address), now.began)
        if wait:
            await now.refuse(refusals.TooManyRequests, retry_after=wait)
        return not wait

    def _watched(self, scope: Scope, receive: Receive, now: Visit) -> Receive:
        """Return what the application receives a body by: whole, and within the limits."""
        if SMALL not in scope and _LENGTH in now.headers:
            receive = _counted(receive, now)
        return self._bounded(receive, now) if now.is_large else receive

    def _bounded(self, receive: Receive, now: Visit) -> Receive:
        """Return what the application receives a large body by: only within the limits."""

        async def bounded() -> Message:
            if now.answered:
                return _GONE
            message = await receive()
            size = len(message.get("body", b""))
            now.held += size
            self._held += size
            refused = self._too_large(now)
            if refused is None:
                return message
            await now.refuse(refused)
            return _GONE

        return bounded

    def _too_large(self, now: Visit) -> type[OnceboxError] | None:
        if now.held > now.limit:
            return errors.BodyTooLarge
        return refusals.ServerBusy if self._held > self._settings.bodies else None


def _counted(receive: Receive, now: Visit) -> Receive:
    """Return what a body of a known length is received by: a part of it is never all of it.

    Our own connections see to that themselves; this is for other servers.
    """
    missing = int(now.headers[_LENGTH])

    async def counted() -> Message:
        nonlocal missing
        message = await receive()
        missing -= len(message.get("body", b""))
        is_end = message["type"] == "http.request" and not message.get("more_body")
        if not is_end or not missing:
            return message
        await now.refuse(refusals.RequestMalformed, is_last=True)
        return _GONE

    return counted


def _size(scope: Scope) -> int:
    """Return the bytes of the path and all headers."""
    headers = b"".join(chain.from_iterable(scope["headers"]))
    return len(headers) + len(scope["path"]) + len(scope["query_string"])


def _is_ambiguous(headers: list[tuple[bytes, bytes]]) -> bool:
    """Say whether a header comes twice that two readers may take differently."""
    names = [name for name, _ in headers if name in _ONCE]
    return len(names) > len(set(names))


async def _drop(_message: Message) -> None:
    """Send nothing."""
