"""HTTP connections: requests one after the other, their responses, and clients that are too slow.

A connection parses one request at a time; bytes behind it wait, within limits, until it has been
answered. Requests below ``/in/`` go to the webhook handler directly, all others to the ASGI
application. Wherever the next move is the client's, the connection is in the queue of
``HttpConnections``, which closes those that take too long.
"""

import asyncio
import re
from contextlib import suppress
from enum import IntEnum, auto
from http import HTTPStatus
from typing import Any

from oncebox.core import clock
from oncebox.errors import BodyTooLarge, OnceboxError
from oncebox.errors import http as http_errors
from oncebox.server.http import problems
from oncebox.server.http.proxies import ProxyHeaderError, read_proxy_header
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
from oncebox.server.http.request_parsing import (
    ChunkedBody,
    LengthBody,
    RequestHead,
    body_reader,
    find_head,
    parse_head,
)
from oncebox.server.http.server_state import ServerState
from oncebox.server.rate_limits import limit_key

#: served even when everything else is busy
PROBE_PATHS = frozenset({"/healthz", "/readyz", "/metrics"})

_STATUS_LINES = {
    each.value: b"HTTP/1.1 %d %s\r\n" % (each.value, each.phrase.encode()) for each in HTTPStatus
}
_NO_BODY = LengthBody(0)
_CONTINUE = b"HTTP/1.1 100 Continue\r\n\r\n"
_LENGTH = b"content-length"
_BODILESS = frozenset({204, 304})
_VALID_ID = re.compile(rb"[A-Za-z0-9][A-Za-z0-9._-]{0,63}")
_CR = 0x0D
_EMPTY_LINES = re.compile(rb"(?:\r\n)+")
#: bytes of a body that wait for the application before we stop reading
_HIGH_WATER = 64 * 1024
#: bodies up to this size are not counted towards the memory of all
_UNCOUNTED_BODY = 64 * 1024
#: seconds a client has to read the last response
_CLOSE_WITHIN = 2.0


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
        self, connection: "HttpConnection", head: RequestHead, address: str, scheme: str
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
        self._connection.write(b"".join(out))
        if is_last:
            self.done = True
            self._unreceived.clear()  # nobody will receive it
            self._wake()  # an application that still waits for the body
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


class Stage(IntEnum):
    """Whose move it is, and which."""

    #: nothing of the next request has arrived
    IDLE = auto()
    #: a part of a head has arrived
    HEAD = auto()
    #: the head has arrived, the body is incomplete
    BODY = auto()
    #: the whole request has arrived; the move is ours
    WORK = auto()
    #: answered before the body was complete; the rest is discarded
    DISCARD = auto()
    #: the client reads more slowly than we write
    WRITE = auto()
    #: the last response has been written
    CLOSING = auto()


_END_REASONS = {
    Stage.IDLE: "idle",
    Stage.HEAD: "slow_headers",
    Stage.BODY: "slow_body",
    Stage.DISCARD: "rest_of_body",
    Stage.WRITE: "does_not_read",
}


class HttpConnection(asyncio.Protocol):
    """One client's connection."""

    def __init__(self, state: ServerState) -> None:
        self.state = state
        self._settings = state.settings
        self._connections = state.connections
        self._queue = state.connections.unproven
        #: address of the other end; a PROXY protocol header replaces it
        self._peer = ""
        self.port = 0
        #: what the limit per address counts as one; nothing for trusted proxies
        self.network = ""
        self._needs_proxy_header = False
        self.stage = Stage.IDLE
        #: since when the client keeps us waiting, and until when it may
        self.waiting_since = 0.0
        self._until = 0.0
        #: bytes received that are not parsed yet, and how many of them were searched for a head
        self._unparsed = b""
        self._searched = 0
        self._exchange: HttpExchange | None = None
        self._body: LengthBody | ChunkedBody = _NO_BODY
        self._is_parsing = False
        self._has_eof = False
        self._read_paused = False
        self._drained: asyncio.Future[None] | None = None
        #: bytes since the last check, and by how many the body may still fall behind
        self._fresh_bytes = 0
        self._credit = 0.0
        self._checked_at = 0.0
        #: bytes written that were not sent when the client was last seen to read
        self._unsent = 0
        self._transport: asyncio.Transport

    # asyncio.Protocol

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Wait for a first request, or turn the client away."""
        assert isinstance(transport, asyncio.Transport) or hasattr(transport, "write")  # noqa: S101
        self._transport = transport  # type: ignore[assignment]
        peer = transport.get_extra_info("peername")
        if isinstance(peer, tuple):
            self._peer, self.port = peer[:2]
        proxies = self.state.proxies
        is_proxy = proxies is not None and proxies.is_trusted(self._peer)
        self.network = "" if is_proxy else limit_key(self._peer)
        self._needs_proxy_header = is_proxy and self._settings.proxy_protocol
        self._wait_for_client(Stage.IDLE, self._settings.headers_within)
        error = self._connections.admit(self)
        if error is not None:
            self._refuse_connection(error, "refused")

    def connection_lost(self, exc: Exception | None) -> None:  # noqa: ARG002 - asyncio's signature
        """Forget the connection."""
        self.stage = Stage.CLOSING
        self._unparsed = b""
        self.resume_writing()
        self._connections.remove(self)
        if self._exchange is not None:
            self._exchange.lose()
            self._exchange = None

    def data_received(self, data: bytes) -> None:
        """Parse as much as can be worked on."""
        if self.stage is Stage.CLOSING:
            return  # the connection only stays open so that the last response arrives
        self._fresh_bytes += len(data)
        if self._unparsed:
            data, self._unparsed = self._unparsed + data, b""
        self._parse(data)

    def eof_received(self) -> bool:
        """Answer complete requests of a client that closed its side, then close."""
        self._has_eof = True
        exchange = self._exchange
        if exchange is None:
            return bool(self._unparsed) and self.stage is Stage.IDLE  # it is parsed in a moment
        if not exchange.is_complete:
            return False
        exchange.close_client()
        return True

    def pause_writing(self) -> None:
        """Wait for the client to read."""
        self._drained = asyncio.get_running_loop().create_future()
        if self.stage is Stage.WORK:
            self._begin_work()

    def resume_writing(self) -> None:
        """Go on writing, or go on to the next request."""
        if self._drained is not None and not self._drained.done():
            self._drained.set_result(None)
        self._drained = None
        if self.stage is Stage.WRITE:
            self._begin_work()
        if self.stage is not Stage.CLOSING:
            self._finish_if_done()

    # parsing

    def _parse(self, data: bytes) -> None:
        self._is_parsing = True
        try:
            while data and self.stage is not Stage.CLOSING:
                exchange = self._exchange
                if exchange is None:
                    data = self._parse_head(data)
                elif not self._body.done:
                    part, data = self._body.take(data)
                    exchange.receive_body(part, is_last=self._body.done)
                    self._finish_if_done()
                else:
                    self._hold(data)
                    break
        except (http_errors.RequestMalformed, http_errors.HeadersTooLarge) as error:
            self._refuse_framing(error)
        finally:
            self._is_parsing = False
        self._await_more()

    def _parse_head(self, data: bytes) -> bytes:
        """Begin a request; return what follows its head, or nothing if it is incomplete."""
        if self._needs_proxy_header:
            return self._parse_proxy_header(data)
        if data[0] == _CR and (empty := _EMPTY_LINES.match(data)):
            data = data[empty.end() :]  # some clients send them between requests
            self._searched = 0
        is_begun = data and data != b"\r"
        size = find_head(data, self._searched, self.state.head_limits) if is_begun else 0
        if not size:
            self._unparsed, self._searched = data, len(data)
            return b""
        self._searched = 0
        head = parse_head(data[:size], self.state.head_limits)
        self._body = body_reader(head, self.state.head_limits)
        address, scheme = self._peer, "http"
        if self.state.proxies is not None:
            address, scheme = self.state.proxies.client(self._peer, head)
        exchange = self._exchange = HttpExchange(self, head, address, scheme)
        exchange.client_gone = self._has_eof
        exchange.begin()
        if self._body.done:
            exchange.receive_body(b"", is_last=True)
        self._finish_if_done()
        return data[size:]

    def _parse_proxy_header(self, data: bytes) -> bytes:
        try:
            found = read_proxy_header(data)
        except ProxyHeaderError as error:
            raise http_errors.RequestMalformed from error
        if found is None:
            self._unparsed = data
            return b""
        self._needs_proxy_header = False
        self._peer = found.address or self._peer
        return data[found.size :]

    def _hold(self, data: bytes) -> None:
        """Keep bytes of the next request until this one is answered; read no further ahead."""
        self._unparsed = data
        if len(data) > self._settings.headers:
            self.pause_reading()

    def _await_more(self) -> None:
        """Enter the stage that what has been parsed leads to."""
        if self.stage is Stage.CLOSING:
            return
        exchange = self._exchange
        if self._has_eof and (exchange is None or not exchange.is_complete):
            self._transport.close()  # the rest of a request will never arrive
        elif exchange is None:
            if self._unparsed and self.stage is not Stage.HEAD:
                self._wait_for_client(Stage.HEAD, self._settings.headers_within)
        else:
            self._await_end(exchange)

    def _await_end(self, exchange: HttpExchange) -> None:
        """Enter the stage of a request whose head has arrived."""
        if exchange.is_complete:
            if self.stage not in {Stage.WORK, Stage.WRITE}:
                self._begin_work()
        elif exchange.done:
            if self.stage is not Stage.DISCARD:
                self._wait_for_client(Stage.DISCARD, self._settings.headers_within)
        elif self.stage is not Stage.BODY:
            self._await_body()

    def _await_body(self) -> None:
        self._wait_for_client(Stage.BODY, self._settings.request_within)
        self._checked_at = self.waiting_since
        self._fresh_bytes = 0
        self._credit = self.state.rate_credit

    def _begin_work(self) -> None:
        """Work on the request, unless the client has to read first."""
        if self._drained is not None:
            self._wait_for_client(Stage.WRITE, self._settings.headers_within)
            self._unsent = self._transport.get_write_buffer_size()
        else:
            self.stage = Stage.WORK
            self._queue.pop(self, None)

    def pause_reading(self) -> None:
        """Read no more until ``resume_reading``."""
        if not self._read_paused and not self._transport.is_closing():
            self._read_paused = True
            self._transport.pause_reading()

    def resume_reading(self) -> None:
        """Read again."""
        if self._read_paused and not self._transport.is_closing():
            self._read_paused = False
            self._transport.resume_reading()

    # writing

    def write(self, data: bytes) -> None:
        """Write, unless the connection is closing."""
        if not self._transport.is_closing():
            self._transport.write(data)

    async def drain(self) -> None:
        """Return when the client has read enough of what was written."""
        if self._drained is not None:
            await self._drained

    def response_done(self, exchange: HttpExchange) -> None:
        """Go on after a complete response."""
        if self._queue is not self._connections.proven:
            is_waiting = self in self._queue
            self._queue.pop(self, None)
            self._queue = self._connections.proven
            if is_waiting:
                self._queue[self] = None
        if not self._is_parsing and exchange is self._exchange:
            self._finish_if_done()
            if self._exchange is not None:
                self._await_more()

    def _finish_if_done(self) -> None:
        """Await the next request once the response is sent and the body has arrived."""
        exchange = self._exchange
        if exchange is None or not exchange.done:
            return
        if exchange.keep_alive and not self._body.done:
            self.resume_reading()  # and discard the rest of the body
        elif self._drained is not None:
            pass  # nothing more is prepared for a client that does not read
        elif not exchange.keep_alive:
            self._exchange = None
            self._close_gracefully()
        else:
            self._exchange = None
            self._wait_for_client(Stage.IDLE, self._settings.idle)
            if not self._is_parsing:
                self.resume_reading()
                if self._unparsed or self._has_eof:
                    asyncio.get_running_loop().call_soon(self._parse_unparsed)

    def _parse_unparsed(self) -> None:
        if self._exchange is None and self.stage is not Stage.CLOSING:
            data, self._unparsed = self._unparsed, b""
            self._parse(data)

    # ending

    def abort(self) -> None:
        """Cut the connection."""
        self.stage = Stage.CLOSING
        self._transport.abort()

    def evict(self) -> None:
        """Make room for another connection."""
        self._connections.count_end("gave_way")
        self.abort()

    def stop(self) -> None:
        """Close the connection, after the response if there is a request."""
        exchange = self._exchange
        if exchange is None:
            self._transport.close()
            self.stage = Stage.CLOSING
        else:
            exchange.keep_alive = False

    def check_timeout(self, now: float) -> None:
        """Close the connection if the client has kept us waiting for too long."""
        if self._transport.is_closing() or self.stage is Stage.CLOSING:
            if now >= self._until and not self._still_reads(now):
                self._transport.abort()
        elif self.stage is Stage.BODY and self._read_paused:
            self._await_body()  # it is us who do not read; its time begins when we do
        elif self.stage is Stage.WRITE:
            if now >= self._until and not self._still_reads(now):
                self._time_out()
        elif now >= self._until or (self.stage is Stage.BODY and not self._keeps_rate(now)):
            self._time_out()

    def _still_reads(self, now: float) -> bool:
        """Return whether the client read at the required rate; if so, it has more time."""
        unsent = self._transport.get_write_buffer_size()
        needed = self._settings.body_rate * (now - self.waiting_since)
        still_reads = self._unsent - unsent >= max(1, needed)
        if still_reads:
            self._wait_for_client(self.stage, self._settings.headers_within)
            self._unsent = unsent
        return still_reads

    def _keeps_rate(self, now: float) -> bool:
        """Return whether a body arrives at the required rate, seen over a few seconds."""
        credit = min(self.state.rate_credit, self._credit + self._fresh_bytes)
        self._credit = credit - (now - self._checked_at) * self._settings.body_rate
        self._checked_at, self._fresh_bytes = now, 0
        return self._credit >= 0

    def _time_out(self) -> None:
        reason = _END_REASONS[self.stage]
        if self.stage in {Stage.HEAD, Stage.BODY}:
            self._refuse_connection(http_errors.RequestTimeout, reason)
            return
        self._connections.count_end(reason)
        if self.stage is Stage.WRITE:
            self.abort()
        else:
            self._transport.close()
            self._await_close()

    def _refuse_framing(self, error: OnceboxError) -> None:
        is_large = isinstance(error, http_errors.HeadersTooLarge)
        self._refuse_connection(type(error), "large_headers" if is_large else "malformed")

    def _refuse_connection(self, kind: type[OnceboxError], reason: str) -> None:
        """Respond with a problem if nothing was answered yet, and close."""
        self._connections.count_end(reason)
        exchange = self._exchange
        if exchange is None:
            self.write(problems.raw_response(kind, self.state.ids.new().decode()))
        elif exchange.done:
            self._exchange = None  # it is answered; only the rest of its body was wrong
        elif exchange.status:
            self.abort()  # the response cannot be completed
            return
        else:
            exchange.keep_alive = False
            exchange.refuse(kind)
            exchange.close_client()
            self._exchange = None
        if self.stage is not Stage.CLOSING:
            self._close_gracefully()

    def _close_gracefully(self) -> None:
        """Close our side; the client has a moment to read what was written."""
        self._unparsed = b""
        if self._transport.can_write_eof() and not self._transport.is_closing():
            with suppress(OSError):  # the client is gone
                self._transport.write_eof()
        self.resume_reading()  # unread bytes would make the system drop the response
        self._await_close()

    def _await_close(self) -> None:
        self._wait_for_client(Stage.CLOSING, _CLOSE_WITHIN)
        self._unsent = self._transport.get_write_buffer_size()

    def _wait_for_client(self, stage: Stage, within: float) -> None:
        """Enter a stage in which the next move is the client's, for so many seconds."""
        self._queue.pop(self, None)
        self._queue[self] = None
        self.stage = stage
        self.waiting_since = now = clock.steady()
        self._until = now + within
