"""HTTP connections: requests one after the other, and clients that are too slow.

A connection parses one request at a time; bytes behind it wait, within limits, until it has been
answered. Requests below ``/in/`` go to the webhook handler directly, all others to the ASGI
application. Wherever the next move is the client's, the connection is in the queue of
``HttpConnections``, which closes those that take too long.
"""

import asyncio
import re
from contextlib import suppress
from enum import IntEnum, auto

from oncebox.core import clock
from oncebox.errors import OnceboxError
from oncebox.errors import http as http_errors
from oncebox.model.client_address import limit_key
from oncebox.server.http import problems
from oncebox.server.http.http_exchange import HttpExchange
from oncebox.server.http.proxies import ProxyHeaderError, read_proxy_header
from oncebox.server.http.request_parsing import (
    ChunkedBody,
    LengthBody,
    body_reader,
    find_head,
    parse_head,
)
from oncebox.server.http.server_state import ServerState

_NO_BODY = LengthBody(0)
_CR = 0x0D
_EMPTY_LINES = re.compile(rb"(?:\r\n)+")
#: seconds a client has to read the last response
_CLOSE_WITHIN = 2.0


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


#: the answer to requests that are not served any more
_STOPPING = http_errors.ServerBusy("the service is stopping")
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
        state = self.state
        is_begun = data and data != b"\r"
        size = find_head(data, self._searched, state.head_limits) if is_begun else 0
        if not size:
            self._unparsed, self._searched = data, len(data)
            return b""
        self._searched = 0
        head = parse_head(data[:size], state.head_limits)
        address, scheme = self._peer, "http"
        if state.proxies is not None:
            address, scheme = state.proxies.client(address, head)
        exchange = self._exchange = HttpExchange(self, head, address, scheme)
        if self._has_eof:
            exchange.client_gone = True
        data = data[size:]
        return data[self._begin_exchange(exchange, data) :]

    def _begin_exchange(self, exchange: HttpExchange, data: bytes) -> int:
        """Begin a request; return the size of its body if all of it has arrived with the head."""
        head = exchange.head
        length = head.length
        if length is None or len(data) < length:
            length = 0
            self._body = body_reader(head, self.state.head_limits)
            exchange.begin()
        else:
            self._body = _NO_BODY
            exchange.begin()
            exchange.receive_body(data[:length], is_last=True)
        self._finish_if_done()
        return length

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
        stage = self.stage
        if exchange.is_complete:
            if stage is not Stage.WORK and stage is not Stage.WRITE:
                self._begin_work()
        elif exchange.done:
            if stage is not Stage.DISCARD:
                self._wait_for_client(Stage.DISCARD, self._settings.headers_within)
        elif stage is not Stage.BODY:
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
        if exchange is not None:
            exchange.keep_alive = False
        elif self.stage is Stage.HEAD:
            self._refuse_connection(_STOPPING, "refused")
        else:
            self._transport.close()
            self.stage = Stage.CLOSING

    def end(self) -> None:
        """Refuse a request that was not answered in time, or cut a response that is incomplete."""
        exchange = self._exchange
        if exchange is None or exchange.status:
            self.abort()
        else:
            self._refuse_connection(_STOPPING, "refused")

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

    def _refuse_connection(self, kind: OnceboxError | type[OnceboxError], reason: str) -> None:
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
