"""One HTTP request and its response: body, limits, ASGI, response framing."""

import asyncio
import re
from http import HTTPStatus
from typing import Any, Protocol

from oncebox.core import clock
from oncebox.errors import BodyTooLarge
from oncebox.errors import http as http_errors
from oncebox.server.http.request_context import (
    CONTEXT,
    MAIL_PATHS,
    REQUEST_ID,
    WEBHOOK_PATH,
    Headers,
    Message,
    RequestContext,
    Scope,
)
from oncebox.server.http.request_parsing import RequestHead
from oncebox.server.http.server_state import ServerState

#: served even when everything else is busy
PROBE_PATHS = frozenset({"/healthz", "/readyz", "/metrics"})

_STATUS_LINES = {
    each.value: b"HTTP/1.1 %d %s\r\n" % (each.value, each.phrase.encode()) for each in HTTPStatus
}
_CONTINUE = b"HTTP/1.1 100 Continue\r\n\r\n"
_LENGTH = b"content-length"
_BODILESS = frozenset({204, 304})
_VALID_ID = re.compile(rb"[A-Za-z0-9][A-Za-z0-9._-]{0,63}")
#: bytes of a body that wait for the application before we stop reading
_HIGH_WATER = 64 * 1024
#: bodies up to this size are not counted towards the memory of all
_UNCOUNTED_BODY = 64 * 1024


class ExchangeConnection(Protocol):
    """The connection of an exchange."""

    state: ServerState
    #: port of the client
    port: int

    def write(self, data: bytes) -> None:
        """Write, unless the connection is closing."""

    async def drain(self) -> None:
        """Return when the client has read enough of what was written."""

    def pause_reading(self) -> None:
        """Read no more until ``resume_reading``."""

    def resume_reading(self) -> None:
        """Read again."""

    def response_done(self, exchange: "HttpExchange") -> None:
        """Go on after a complete response."""

    def abort(self) -> None:
        """Cut the connection."""


class HttpExchange(RequestContext):
    """One request and its response."""

    #: bytes of the body that have arrived, and those counted towards the memory of all bodies
    body_size = 0
    _counted_bytes = 0
    #: whether the whole body has arrived
    is_complete = False
    #: whether the application has received the end of the body
    _is_body_read = False
    #: whether the client closed its side; it may still read a response
    client_gone = False
    #: whether the response is complete, or cannot be sent any more
    done = False
    #: whether the request is no longer counted as in flight
    _has_ended = False
    _sent_continue = False
    #: the application at work, and what tells it that there is something to receive
    _task: asyncio.Task[None] | None = None
    _changed: asyncio.Event | None = None
    #: the head of a response whose first part of the body is still to come
    _response_head: list[bytes] | None = None
    #: bytes of the response body still to be sent; -1: chunked, -2: until the connection ends
    _left = -1

    def __init__(
        self, connection: ExchangeConnection, head: RequestHead, address: str, scheme: str
    ) -> None:
        state = connection.state
        given = head.by_name.get(REQUEST_ID, b"")
        id_header = given if _VALID_ID.fullmatch(given) else state.ids.new()
        super().__init__(id_header, head, address, scheme)
        self._connection = connection
        is_mail = head.path in MAIL_PATHS
        self._body_limit = state.settings.mail_body if is_mail else state.settings.body
        self.keep_alive = head.keep_alive
        #: bytes of the body that the application has not received yet
        self._unreceived = bytearray()

    # the request

    def begin(self) -> None:
        """Check the limits; start the application, or wait for a webhook's body."""
        state, head = self._connection.state, self.head
        state.in_flight += 1
        is_intake = head.path.startswith(WEBHOOK_PATH)
        if is_intake:
            self.route = WEBHOOK_PATH
        error = state.admit(self, reserved=is_intake or head.path in PROBE_PATHS)
        if error is None and (head.length or 0) > self._body_limit:
            error = BodyTooLarge()
        if error is not None:
            self.refuse(error)
        elif not is_intake or state.webhooks is None:
            self._changed = asyncio.Event()
            self._task = asyncio.get_running_loop().create_task(self._run_app())
        elif head.length != 0:
            self.send_continue()

    def receive_body(self, part: bytes, *, is_last: bool) -> None:
        """Take a part of the body.

        Raises: RequestMalformed, if the body has another length than announced.
        """
        self.body_size += len(part)
        self.is_complete = is_last
        if is_last and self.head.length not in {None, self.body_size}:
            raise http_errors.RequestMalformed
        if self.done:
            return
        limit = min(_UNCOUNTED_BODY, self._body_limit)
        if self.body_size > limit and not self._count_body():
            return
        if self._task is not None:
            self._unreceived += part
            self._wake()
            if not is_last and len(self._unreceived) > _HIGH_WATER:
                self._connection.pause_reading()
        elif not is_last:
            self._unreceived += part
        elif self._unreceived:
            self._handle_webhook(bytes(self._unreceived + part))
        else:
            self._handle_webhook(part)

    def _handle_webhook(self, body: bytes) -> None:
        state = self._connection.state
        assert state.webhooks is not None  # noqa: S101 - it has no application
        try:
            state.webhooks(self, body)
        except Exception:
            state.telemetry.log.exception("request_failed", request=self.request_id)
            self._fail()

    def _count_body(self) -> bool:
        """Count a large body; return whether it is within the limits."""
        state = self._connection.state
        state.body_bytes += self.body_size - self._counted_bytes
        self._counted_bytes = self.body_size
        if self.body_size > self._body_limit:
            self.refuse(BodyTooLarge())
        elif state.body_bytes > state.settings.bodies:
            self.refuse(http_errors.ServerBusy())
        return not self.done

    def send_continue(self) -> None:
        """Ask a client that waits for it to send the body."""
        if not (self.is_complete or self.status) and self.expects_continue:
            self._sent_continue = True
            self._connection.write(_CONTINUE)

    @property
    def expects_continue(self) -> bool:
        """Whether the client may be waiting before it sends the body."""
        return (
            self.headers.get(b"expect", b"").lower() == b"100-continue"
            and self.head.version == "1.1"
            and not self._sent_continue
        )

    def close_client(self) -> None:
        """Note that the client closed its side: nothing more will be received."""
        self.client_gone = True
        self._wake()

    # ASGI

    async def _run_app(self) -> None:
        state = self._connection.state
        try:
            await state.app(self._scope(), self.receive, self.send)
            if not self.done and not self.client_gone:
                state.telemetry.log.error("response_incomplete", request=self.request_id)
                self._fail()
        except Exception:
            # The client learns only that it happened.
            state.telemetry.log.exception("request_failed", request=self.request_id)
            self._fail()
        finally:
            self._end()
            if not self.done:
                self._connection.abort()

    def _scope(self) -> Scope:
        head = self.head
        return {
            "type": "http",
            "asgi": {"version": "3.0", "spec_version": "2.3"},  # in 2.4, send would raise
            "http_version": head.version,
            "method": head.method,
            "scheme": self.scheme,
            "path": head.path,
            "raw_path": head.raw_path,
            "query_string": head.query,
            "root_path": "",
            "headers": head.fields,
            "client": (self.address, self._connection.port),
            "server": None,
            CONTEXT: self,
        }

    async def receive(self) -> Message:
        """Return a part of the body, then wait for the client to leave."""
        self.send_continue()
        while not (self._has_news or self.client_gone or self.done):
            await self._wait()
        if self.done or not self._has_news:
            return {"type": "http.disconnect"}
        body = bytes(self._unreceived)
        self._unreceived.clear()
        self._is_body_read = self.is_complete
        self._connection.resume_reading()
        return {"type": "http.request", "body": body, "more_body": not self.is_complete}

    @property
    def _has_news(self) -> bool:
        """Whether there is a part of the body, or its end, that was not received yet."""
        return bool(self._unreceived) or (self.is_complete and not self._is_body_read)

    async def send(self, message: Message) -> None:
        """Send a part of the response; after its end, or without a client, nothing."""
        if self.done:
            return
        if bool(self.status) is (message["type"] == "http.response.start"):
            raise RuntimeError("a response starts once, and before its body")
        if not self.status:
            self._start_response(message["status"], message.get("headers", ()))
            return
        self._send_body(message.get("body", b""), is_last=not message.get("more_body", False))
        if not self.done:
            await self._connection.drain()

    async def _wait(self) -> None:
        assert self._changed is not None  # noqa: S101 - only applications wait
        self._changed.clear()
        await self._changed.wait()

    def _wake(self) -> None:
        if self._changed is not None:
            self._changed.set()

    # the response

    def respond(self, status: int, headers: Headers, body: bytes) -> None:
        """Send a whole response; without a client, or after another response, nothing."""
        if not self.done:
            self._start_response(status, headers)
            self._send_body(body, is_last=True)
        if self._task is None:
            self.status = self.status or status
            self._end()

    def abort(self) -> None:
        """Cut the connection instead of responding; only tests want that."""
        self._connection.abort()

    def lose(self) -> None:
        """Note that the connection is gone."""
        self.client_gone = self.done = True
        self._wake()
        if self._task is None and not self.is_complete:
            self._end()  # nobody works on it

    def _start_response(self, status: int, headers: Any) -> None:
        self.status = status
        lines = [_STATUS_LINES[status], self._connection.state.date_line]
        for name, value in headers:
            if b"\n" in value or b"\r" in value or b"\n" in name or b"\r" in name:
                raise ValueError("a response header contains a line break")
            if name == _LENGTH:
                self._left = int(value)
            lines.append(b"%s: %s\r\n" % (name, value))
        lines.append(b"%s: %s\r\n" % (REQUEST_ID, self.id_header))
        self._response_head = lines

    def _send_body(self, body: bytes, *, is_last: bool) -> None:
        lines = self._response_head
        is_empty = self.head.method == "HEAD" or self.status in _BODILESS
        if lines is not None:
            self._response_head = None
            lines.append(self._framing(len(body), is_last=is_last, is_empty=is_empty))
            lines.append(b"\r\n")
        out = lines or []
        if not is_empty:
            out += self._framed(body, is_last=is_last)
        if is_last:
            self.done = True
            self._unreceived.clear()  # nobody will receive it
            self._wake()  # an application that still waits for the body
        self._connection.write(b"".join(out))
        if is_last:
            self._connection.response_done(self)

    def _framing(self, size: int, *, is_last: bool, is_empty: bool) -> bytes:
        """Return the header lines that tell where the response ends."""
        lines = b""
        if self._left < 0 and not is_empty:
            if is_last:
                self._left = size
                lines = b"content-length: %d\r\n" % size
            elif self.head.version == "1.1":
                lines = b"transfer-encoding: chunked\r\n"
            else:
                self._left, self.keep_alive = -2, False
        # A client that waits for 100 Continue may or may not send the body now.
        if self._connection.state.stopping or (not self.is_complete and self.expects_continue):
            self.keep_alive = False
        if not self.keep_alive:
            return lines + b"connection: close\r\n"
        return lines if self.head.version == "1.1" else lines + b"connection: keep-alive\r\n"

    def _framed(self, body: bytes, *, is_last: bool) -> list[bytes]:
        """Return a part of the response body as it is sent."""
        if self._left == -1:
            parts = [b"%x\r\n" % len(body), body, b"\r\n"] if body else []
            return [*parts, b"0\r\n\r\n"] if is_last else parts
        if self._left >= 0:
            self._left -= len(body)
            if self._left < 0 or (is_last and self._left):
                self._connection.abort()
                raise ValueError("a response has another length than its content-length")
        return [body]

    def _fail(self) -> None:
        if self.status:
            self._connection.abort()  # the client must not take it for complete
        else:
            self.refuse(http_errors.InternalError)

    def _end(self) -> None:
        """Count the request, once."""
        if not self._has_ended:
            self._has_ended = True
            state = self._connection.state
            state.in_flight -= 1
            state.body_bytes -= self._counted_bytes
            state.telemetry.http.count(self.route, self.status, clock.steady() - self.began)
