"""ASGI middleware: request ids, size and rate limits, and the fast path for small webhooks.

Only what is beyond doubt goes this way. Everything else goes by ASGI, and is told there why
it is refused; so this way never says no, it only says ``not by me``.

What a client must do in time is watched one floor below, in ``connection.py``: a slow head is
never seen here.
"""

import re
from collections.abc import Awaitable, Callable, MutableMapping
from itertools import chain, count
from typing import Any, Protocol

from oncebox import errors
from oncebox.core import clock, ids
from oncebox.core.metrics import Telemetry
from oncebox.errors import OnceboxError
from oncebox.errors import http as http_errors
from oncebox.server.http import problems
from oncebox.server.rate_limits import TokenBuckets, TrustedProxies, limit_key
from oncebox.settings import HttpSettings

#: what every webhook is answered that is on disk
ACCEPTED = b'{"status":"accepted"}'
ACCEPTED_HEADERS = [(b"content-type", b"application/json"), (b"content-length", b"21")]
_ACCEPTED_HEAD = b"".join(b"%s: %s\r\n" % header for header in ACCEPTED_HEADERS)

Headers = list[tuple[bytes, bytes]]
#: hears, once, that a request is on disk, or why it is not
OnStored = Callable[[OnceboxError | None], None]
#: writes an answer without its first lines, or a whole one that ends the connection
WriteResponse = Callable[[bytes, bool], None]


class FastPath(Protocol):
    """Who may take a request the short way; says whether it did."""

    def __call__(
        self, path: str, headers: Headers, body: bytes, address: str, told: OnStored, /
    ) -> bool:
        """Take a request, or leave it untouched."""


class _NullEvent:
    """Stands for the task that would wait for more of the body."""

    def set(self) -> None:
        """Wake nobody."""


class FastPathCycle:
    """A request on the express; for uvicorn, a conversation that goes on."""

    message_event = _NullEvent()
    response_started = False

    def __init__(self, *, keep_alive: bool) -> None:
        """Begin."""
        self.keep_alive = keep_alive
        self.response_complete = False
        self.disconnected = False


def accepted_response(name: bytes) -> bytes:
    """Return the answer to a request of this name, but for its first lines."""
    return b"%sx-request-id: %s\r\n\r\n%s" % (_ACCEPTED_HEAD, name, ACCEPTED)


Scope = MutableMapping[str, Any]
Message = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]
App = Callable[[Scope, Receive, Send], Awaitable[None]]

#: the header that names a request, in both directions
REQUEST_ID = b"x-request-id"
#: in the scope if the whole request has come and is small, by whoever read it
SMALL_REQUEST = "oncebox.small"
#: where the guard leaves its visit
CONTEXT = "oncebox.visit"

#: webhooks arrive below this path
WEBHOOK_PATH = "/in/"
#: where whole mails come with their attachments, by bodies of a size of their own
MAIL_PATHS = frozenset({"/v1/sends", "/v1/sends/batch", "/emails", "/emails/batch"})
_OK = 200

_LENGTH = b"content-length"
_CHUNKED = b"transfer-encoding"
_HOST = b"host"
#: headers that may come once
_SINGLE_HEADERS = frozenset({_LENGTH, _CHUNKED, _HOST})
_VALID_ID = re.compile(rb"[A-Za-z0-9][A-Za-z0-9._-]{0,63}")
#: digits of a length that are read; with more of them it is too large anyway
_MAX_LENGTH_DIGITS = 20
#: bodies up to this size are not counted towards the memory of all
_UNCOUNTED_BODY = 64 * 1024
_CLOSE = (b"connection", b"close")
_DISCONNECT: Message = {"type": "http.disconnect"}


class RequestContext:
    """One request under way."""

    #: what is asked for, by its name in the metrics
    route = "none"
    #: the status that was answered; 0 until then
    status = 0
    #: whether the guard has answered in the application's place
    is_answered = False
    #: whether the body is large, or its size unknown; then its bytes are counted
    is_large = False
    #: bytes of a large body that have come
    body_bytes = 0
    #: bytes that the body may have
    body_limit = 0
    #: the headers by name; of those that come several times, the last
    headers: dict[bytes, bytes]

    def __init__(self, pass_on: Send, client: tuple[str, int] | None, name: bytes) -> None:
        """Begin; ``pass_on`` leads to the client."""
        self.send_to_client = pass_on
        #: the request's id, as it stands in the header
        self.id_header = name
        self.began = clock.steady()
        #: the client's address; behind a trusted proxy, the one the proxy reports
        self.address = client[0] if client else ""

    @property
    def request_id(self) -> str:
        """The request's id."""
        return self.id_header.decode()

    def send(self, message: Message) -> Awaitable[None]:
        """Pass an answer on under the request's id; nothing follows the guard's own answer."""
        if self.is_answered:
            return _discard(message)
        if message["type"] == "http.response.start":
            self.status = message["status"]
            message["headers"] = [*message.get("headers", ()), (REQUEST_ID, self.id_header)]
        return self.send_to_client(message)

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
        told = problems.describe(error, self.request_id)
        headers, body = problems.response(told, retry_after)
        headers = [*headers, _CLOSE] if is_last else headers
        await self.send({"type": "http.response.start", "status": told.status, "headers": headers})
        await self.send({"type": "http.response.body", "body": body})
        self.is_answered = True

    def abort(self) -> None:
        """Cut the connection instead of an answer; only tests want that."""
        self.is_answered = True
        conversation: Any = getattr(self.send_to_client, "__self__", None)
        conversation.transport.abort()


def request_context(scope: Scope) -> RequestContext:
    """Return what the guard knows of a request."""
    found: RequestContext = scope[CONTEXT]
    return found


class Limits:
    """An ASGI application around another."""

    def __init__(
        self,
        app: App,
        settings: HttpSettings,
        telemetry: Telemetry,
        taker: FastPath | None = None,
    ) -> None:
        """Let through what keeps the limits."""
        self._app = app
        self._settings = settings
        self._telemetry = telemetry
        self._proxies = TrustedProxies(settings.proxies) if settings.proxies else None
        self._buckets = TokenBuckets(settings.rate, burst=settings.rate) if settings.rate else None
        #: bytes of large bodies that are held now
        self._body_bytes = 0
        self._in_flight = 0
        #: requests are named after this process and numbered
        self._id_prefix = ids.new("req").encode()
        self._request_numbers = count(1)
        self._count = telemetry.http.count
        #: takes what is beyond doubt the short way, if anybody does
        self._fast_path = taker
        telemetry.http_in_flight.set_function(lambda: self._in_flight)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve one request."""
        if scope["type"] != "http":
            await self._serve_other(scope, receive, send)
            return
        if self._proxies is not None:
            self._proxies.apply_forwarded(scope)
        name = b"%s-%x" % (self._id_prefix, next(self._request_numbers))
        now = scope[CONTEXT] = RequestContext(send, scope.get("client"), name)
        self._in_flight += 1
        try:
            refused = self._check_head(scope, now)
            if refused is not None:
                await now.refuse(refused)
            elif self._buckets is None or await self._within_rate(now, self._buckets):
                await self._app(scope, self._watched(scope, receive, now), now.send)
        except Exception:
            # The last place that hears of it; the client learns only that it happened.
            self._telemetry.log.exception("request_failed", request=now.request_id)
            if not now.status:
                await now.refuse(http_errors.InternalError)
        finally:
            # The client holds on to the scope, and that to the visit: a circle, which would
            # cost the garbage collector more than all of the guard.
            now.send_to_client = _discard
            self._in_flight -= 1
            self._body_bytes -= now.body_bytes
            self._count(now.route, now.status, clock.steady() - now.began)

    def fast_path(
        self,
        path: str,
        headers: list[tuple[bytes, bytes]],
        body: bytes,
        client: tuple[str, int] | None,
        write: WriteResponse,
    ) -> bool:
        """Take a request that has come whole and small, the short way; say whether it was taken.

        It has no query, and its body no more bytes than its head promised.
        """
        if self._fast_path is None or self._proxies is not None or self._buckets is not None:
            return False
        found = dict(headers)
        is_plain = len(found) == len(headers) <= self._settings.header_count and _HOST in found
        if not is_plain or _LENGTH not in found or _CHUNKED in found:
            return False
        name = found.get(REQUEST_ID)
        if name is None or not _VALID_ID.fullmatch(name):
            name = b"%s-%x" % (self._id_prefix, next(self._request_numbers))
        began = clock.steady()

        def told(error: OnceboxError | None) -> None:
            self._in_flight -= 1
            status = _OK if error is None else problems.status(type(error))
            self._count(WEBHOOK_PATH, status, clock.steady() - began)
            if error is None:
                write(accepted_response(name), False)  # noqa: FBT003 - it is not the last
            else:
                write(problems.raw_response(error, name.decode()), True)  # noqa: FBT003 - it is

        if not self._fast_path(path, headers, body, client[0] if client else "", told):
            return False
        self._in_flight += 1
        return True

    async def _serve_other(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Let the server tell when it starts and stops; there are no web sockets here."""
        if scope["type"] == "lifespan":
            await self._app(scope, receive, send)
        else:
            await send({"type": "websocket.close", "code": 1008})

    def _check_head(self, scope: Scope, now: RequestContext) -> type[OnceboxError] | None:
        """Read what the headers promise; return why the request is refused, if it is."""
        headers = scope["headers"]
        found = now.headers = dict(headers)
        if REQUEST_ID in found and _VALID_ID.fullmatch(found[REQUEST_ID]):
            now.id_header = found[REQUEST_ID]
        is_plain = len(found) == len(headers) <= self._settings.header_count and _HOST in found
        if is_plain and SMALL_REQUEST in scope and _CHUNKED not in found:
            return None  # nearly every request
        return self._check_head_fully(scope, now)

    def _check_head_fully(self, scope: Scope, now: RequestContext) -> type[OnceboxError] | None:
        headers, found = scope["headers"], now.headers
        is_mail = scope["path"] in MAIL_PATHS
        now.body_limit = self._settings.mail_body if is_mail else self._settings.body
        too_many = len(headers) > self._settings.header_count
        if too_many or (SMALL_REQUEST not in scope and _head_size(scope) > self._settings.headers):
            return http_errors.HeadersTooLarge
        if _HOST not in found and scope["http_version"] == "1.1":
            return http_errors.RequestMalformed
        if len(found) < len(headers) and _is_ambiguous(headers):
            return http_errors.RequestMalformed
        if _CHUNKED in found:
            now.is_large = True
            # Where its end can be found in two ways, a proxy before us may have found another.
            is_plain = _LENGTH not in found and found[_CHUNKED].lower() == b"chunked"
            return None if is_plain else http_errors.RequestMalformed
        return self._check_length(found[_LENGTH], now) if _LENGTH in found else None

    def _check_length(self, length: bytes, now: RequestContext) -> type[OnceboxError] | None:
        if not length.isdigit():
            return http_errors.RequestMalformed
        size = int(length[:_MAX_LENGTH_DIGITS])
        now.is_large = size > _UNCOUNTED_BODY
        return errors.BodyTooLarge if size > now.body_limit else None

    async def _within_rate(self, now: RequestContext, buckets: TokenBuckets) -> bool:
        """Keep one address from asking too often."""
        wait = buckets.take(limit_key(now.address), now.began)
        if wait:
            await now.refuse(http_errors.TooManyRequests, retry_after=wait)
        return not wait

    def _watched(self, scope: Scope, receive: Receive, now: RequestContext) -> Receive:
        """Return what the application receives a body by: whole, and within the limits."""
        if SMALL_REQUEST not in scope and _LENGTH in now.headers:
            receive = _counted(receive, now)
        return self._limited_receive(receive, now) if now.is_large else receive

    def _limited_receive(self, receive: Receive, now: RequestContext) -> Receive:
        """Return what the application receives a large body by: only within the limits."""

        async def bounded() -> Message:
            if now.is_answered:
                return _DISCONNECT
            message = await receive()
            size = len(message.get("body", b""))
            now.body_bytes += size
            self._body_bytes += size
            refused = self._body_error(now)
            if refused is None:
                return message
            await now.refuse(refused)
            return _DISCONNECT

        return bounded

    def _body_error(self, now: RequestContext) -> type[OnceboxError] | None:
        if now.body_bytes > now.body_limit:
            return errors.BodyTooLarge
        return http_errors.ServerBusy if self._body_bytes > self._settings.bodies else None


def _counted(receive: Receive, now: RequestContext) -> Receive:
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
        await now.refuse(http_errors.RequestMalformed, is_last=True)
        return _DISCONNECT

    return counted


def _head_size(scope: Scope) -> int:
    """Return the bytes of the path and all headers."""
    headers = b"".join(chain.from_iterable(scope["headers"]))
    return len(headers) + len(scope["path"]) + len(scope["query_string"])


def _is_ambiguous(headers: list[tuple[bytes, bytes]]) -> bool:
    """Say whether a header comes twice that two readers may take differently."""
    names = [name for name, _ in headers if name in _SINGLE_HEADERS]
    return len(names) > len(set(names))


async def _discard(_message: Message) -> None:
    """Send nothing."""
