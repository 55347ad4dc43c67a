"""One HTTP request and its response: body, limits, ASGI, response framing."""

import asyncio
import re
from collections.abc import Iterable
from functools import lru_cache
from http import HTTPStatus
from typing import Protocol

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
    takes_mail,
)
from oncebox.server.http.request_parsing import RequestHead
from oncebox.server.http.server_state import ServerState

#: served even when everything else is busy
PROBE_PATHS = frozenset({"/healthz", "/readyz", "/metrics"})

_STATUS_LINES = {
    each.value: b"HTTP/1.1 %d %s\r\n" % (each.value, each.phrase.encode()) for each in HTTPStatus
}
_CONTINUE = b"HTTP/1.1 100 Continue\r\n\r\n"
_BODILESS = frozenset({204, 304})
#: instead of the bytes still to be sent of a body whose length is not known
_CHUNKED = -1
_UNTIL_CLOSE = -2
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
    #: bytes of the body that the application has not received yet; None before the first
    _unreceived: bytearray | None = None
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
    #: the header lines of a response whose first part of the body is still to come
    _response_lines: bytes | None = None
    #: bytes of the response body still to be sent
    _left = _CHUNKED

    def __init__(
        self, connection: ExchangeConnection, head: RequestHead, address: str, scheme: str
    ) -> None:
        state = connection.state
        id_header = head.by_name.get(REQUEST_ID)
        if id_header is None or not _VALID_ID.fullmatch(id_header):
            id_header = state.ids.new()
        super().__init__(id_header, head, address, scheme)
        self._connection = connection
        self._state = state
        is_mail = head.path in MAIL_PATHS
        self._body_limit = state.settings.mail_body if is_mail else state.settings.body
        self.keep_alive = head.keep_alive

    # the request

    def begin(self) -> None:
        """Check the limits; start the application, or wait for a webhook's body."""
        state, head = self._state, self.head
        state.in_flight += 1
        is_intake = head.path.startswith(WEBHOOK_PATH)
        if is_intake:
            self.route = WEBHOOK_PATH
        error = state.admit(self, reserved=is_intake or head.path in PROBE_PATHS)
        if error is None and self._is_too_large(head.length or 0):
            error = BodyTooLarge()
        if error is not None:
            self.refuse(error)
        elif not is_intake or state.webhooks is None:
            self._unreceived = bytearray()
            self._changed = asyncio.Event()
            self._task = asyncio.get_running_loop().create_task(self._run_app())
        elif head.length != 0 and b"expect" in head.by_name:
            self.send_continue()

    def _is_too_large(self, size: int) -> bool:
        """Say whether a body is over its limit; where mail arrives, that of mail counts."""
        if size <= self._body_limit:
            return False
        state, path = self._state, self.head.path
        if path.startswith(WEBHOOK_PATH) and takes_mail(state.webhooks, path):
            self._body_limit = state.settings.mail_body
        return size > self._body_limit

    def receive_body(self, part: bytes, *, is_last: bool) -> None:
        """Take a part of the body.

        Raises: RequestMalformed, if the body has another length than announced.
        """
        self.body_size = size = self.body_size + len(part)
        self.is_complete = is_last
        if is_last and size != self.head.length and self.head.length is not None:
            raise http_errors.RequestMalformed
        if self.done or (
            (size > _UNCOUNTED_BODY or size > self._body_limit) and not self._count_body()
        ):
            return
        if is_last and self._unreceived is None:
            self._handle_webhook(part)
            return
        if self._unreceived is None:
            self._unreceived = bytearray()
        self._unreceived += part
        if self._task is not None:
            self._wake()
            if not is_last and len(self._unreceived) > _HIGH_WATER:
                self._connection.pause_reading()
        elif is_last:
            self._handle_webhook(bytes(self._unreceived))

    def _handle_webhook(self, body: bytes) -> None:
        state = self._state
        assert state.webhooks is not None  # noqa: S101 - it has no application
        try:
            state.webhooks(self, body)
        except Exception:
            state.telemetry.log.exception("request_failed", request=self.request_id)
            self._fail()

    def _count_body(self) -> bool:
        """Count a large body; return whether it is within the limits."""
        state = self._state
        state.body_bytes += self.body_size - self._counted_bytes
        self._counted_bytes = self.body_size
        if self._is_too_large(self.body_size):
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
        state = self._state
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
        body = bytes(self._unreceived or b"")
        self._unreceived = bytearray()
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
            self._start_response(message["status"], list(message.get("headers", ())))
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
            is_empty = self.head.method == "HEAD" or status in _BODILESS
            lines = _known_header_lines(tuple(headers), None if is_empty else len(body))
            if is_empty:
                body = b""
            self.status = status
            self._finish(self._response_head(lines) + body)
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

    def _start_response(self, status: int, headers: Headers) -> None:
        lines = _header_lines(headers, None)
        self.status = status
        length = next((value for name, value in headers if name == b"content-length"), None)
        self._left = _CHUNKED if length is None else int(length)
        self._response_lines = lines

    def _send_body(self, body: bytes, *, is_last: bool) -> None:
        is_empty = self.head.method == "HEAD" or self.status in _BODILESS
        lines, self._response_lines = self._response_lines, None
        framed = b""
        if lines is not None:
            if self._left == _CHUNKED and not is_empty:
                lines += self._frame(len(body), is_last=is_last)
            framed = self._response_head(lines)
        if not is_empty:
            framed += self._framed(body, is_last=is_last)
        if is_last:
            self._finish(framed)
        else:
            self._connection.write(framed)

    def _response_head(self, lines: bytes) -> bytes:
        """Return the head of a response with these header lines."""
        state = self._state
        # A client that waits for 100 Continue may or may not send the body now.
        if state.stopping or (not self.is_complete and self.expects_continue):
            self.keep_alive = False
        if not self.keep_alive:
            lines += b"connection: close\r\n"
        elif self.head.version == "1.0":
            lines += b"connection: keep-alive\r\n"
        return b"%b%bx-request-id: %b\r\n%b\r\n" % (
            _STATUS_LINES[self.status], state.date_line, self.id_header, lines,
        )  # fmt: skip

    def _finish(self, last: bytes) -> None:
        """Send the last part of a response."""
        self.done = True
        self._unreceived = None  # nobody will receive it
        self._wake()  # an application that still waits for the body
        self._connection.write(last)
        self._connection.response_done(self)

    def _frame(self, size: int, *, is_last: bool) -> bytes:
        """Return the header line that tells where a response of unknown length ends."""
        if is_last:
            self._left = size
            return b"content-length: %d\r\n" % size
        if self.head.version == "1.1":
            return b"transfer-encoding: chunked\r\n"
        self._left, self.keep_alive = _UNTIL_CLOSE, False
        return b""

    def _framed(self, body: bytes, *, is_last: bool) -> bytes:
        """Return a part of the response body as it is sent."""
        if self._left == _CHUNKED:
            chunk = b"%x\r\n%b\r\n" % (len(body), body) if body else b""
            return chunk + b"0\r\n\r\n" if is_last else chunk
        if self._left >= 0:
            self._left -= len(body)
            if self._left < 0 or (is_last and self._left):
                self._connection.abort()
                raise ValueError("a response has another length than its content-length")
        return body

    def _fail(self) -> None:
        if self.status:
            self._connection.abort()  # the client must not take it for complete
        else:
            self.refuse(http_errors.InternalError)

    def _end(self) -> None:
        """Count the request, once."""
        if not self._has_ended:
            self._has_ended = True
            state = self._state
            state.in_flight -= 1
            state.body_bytes -= self._counted_bytes
            state.telemetry.http.count(self.route, self.status, clock.steady() - self.began)
            if self.code or self._task is not None:
                state.request_log.ended(self)


def _header_lines(headers: Iterable[tuple[bytes, bytes]], size: int | None) -> bytes:
    """Return headers as they are sent, with the length of the body, if it is given.

    Raises: ValueError, if a header has a line break, or the body another length.
    """
    lines = [b"%b: %b\r\n" % (name, value) for name, value in headers]
    if any(line.count(b"\n") > 1 or line.count(b"\r") > 1 for line in lines):
        raise ValueError("a response header contains a line break")
    length = b"content-length: %d\r\n" % (size or 0)
    if size is not None and length not in lines:
        if any(line.startswith(b"content-length:") for line in lines):
            raise ValueError("a response has another length than its content-length")
        lines.append(length)
    return b"".join(lines)


#: the same for the few responses of webhooks and errors; those of applications are not kept
_known_header_lines = lru_cache(256)(_header_lines)
