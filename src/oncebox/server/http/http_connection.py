"""HTTP connections on uvicorn: client timeouts, connection limits, fast-path dispatch.

A connection is always at one stage. Wherever the next move is the client's, it is in the
``Watch``, which looks at all of them once a second and ends those that take too long.
"""

import asyncio
from collections import Counter
from collections.abc import Callable, Iterator
from enum import IntEnum, auto
from functools import partial
from itertools import chain
from typing import Any, Protocol

from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol, RequestResponseCycle

from oncebox.core import clock, ids
from oncebox.core.metrics import Telemetry
from oncebox.errors import OnceboxError
from oncebox.errors import http as http_errors
from oncebox.server.http import problems
from oncebox.server.http.request_limits import (
    SMALL_REQUEST,
    WEBHOOK_PATH,
    FastPathCycle,
    Headers,
    WriteResponse,
)
from oncebox.server.rate_limits import limit_key
from oncebox.settings import HttpSettings

_CONTENT_LENGTH = b"content-length"
_TRANSFER_ENCODING = b"transfer-encoding"
#: bytes of a header besides its name and value
_FIELD_OVERHEAD = 4
#: bytes that a chunk of the largest size needs around it; beyond them it has extensions
_CHUNK_OVERHEAD = 20


class FramingError(Exception):
    """Where a request ends cannot be trusted; stops the parser."""


class Framing:
    """Counts one request after the other."""

    def __init__(self, most: int) -> None:
        """Begin before a head; ``most`` bytes may come besides a body."""
        self._most = most
        #: whether the head is whole; headers that come now are of a trailer
        self.has_head = False
        self._body = 0
        self._chunks = 0
        #: bytes of whole headers in the trailer
        self._trailer = 0
        #: bytes read since the head that neither are body nor are needed around chunks
        self._others = 0

    def begin(self) -> None:
        """Count from the end of a head."""
        self.has_head = True
        self._body = self._chunks = self._trailer = self._others = 0

    def end(self, headers: Headers) -> None:
        """Await the next head.

        Raises: Unframed; of the body has not come what these headers announced.
        """
        if not self._is_whole(headers):
            raise FramingError
        self.has_head = False

    def add_read(self, size: int) -> None:
        """Count bytes before they are parsed; small chunks have saved nothing up for them."""
        self._others = max(0, self._others) + size

    def add_body(self, size: int) -> None:
        """Count bytes of the body."""
        self._body += size
        self._others -= size

    def add_chunk(self) -> None:
        """Count a chunk; the last one, which is empty, is one too."""
        self._chunks += 1
        self._others -= _CHUNK_OVERHEAD

    def add_field(self, name: bytes, value: bytes) -> None:
        """Count a header in a trailer.

        Raises: Unframed; there are too many of them.
        """
        self._trailer += len(name) + len(value) + _FIELD_OVERHEAD
        if self.has_large_trailer:
            raise FramingError

    @property
    def has_large_trailer(self) -> bool:
        """Whether there were too many headers in a trailer."""
        return self._trailer > self._most

    def is_large(self) -> bool:
        """Say, after a read, whether too much has come besides a body, whole headers or not.

        The parser keeps a header until it is whole, and would keep one without an end.
        """
        return self.has_head and self._others > self._most

    def _is_whole(self, headers: Headers) -> bool:
        for name, value in headers:
            if name == _CONTENT_LENGTH:
                return self._body == int(value)
            if name == _TRANSFER_ENCODING:
                return self._chunks > 0
        return not self._body


#: seconds between two looks, at most
_CHECK_EVERY = 1.0
#: seconds for which a connection is left in peace: its first request may be on the way
_GRACE = 0.5
#: how many times the limit may be open until the grace of the newest has passed
OVERFLOW = 2


class WaitingConnection(Protocol):
    """A connection, as the watch sees it."""

    #: since when it keeps us waiting
    waiting_since: float

    @property
    def address(self) -> str:
        """The address at the other end."""

    def check_timeout(self, now: float) -> None:
        """End the connection if its client has kept us waiting for too long."""

    def evict(self) -> None:
        """Make room for another connection."""


class HttpConnections:
    """Knows all connections of one server."""

    def __init__(self, settings: HttpSettings, telemetry: Telemetry) -> None:
        """Begin with no connection."""
        self.settings = settings
        self._telemetry = telemetry
        self._open: set[WaitingConnection] = set()
        self._per_network: Counter[str] = Counter()
        #: whose move it is, the longest waiting first; those never answered anything apart;
        #: connections put themselves in and take themselves out
        self.unproven: dict[WaitingConnection, None] = {}
        self.proven: dict[WaitingConnection, None] = {}
        shortest = min(settings.headers_within, settings.idle, settings.request_within / 3)
        self._check_every = min(_CHECK_EVERY, shortest / 4)
        telemetry.connections.set_function(lambda: len(self._open))

    def admit(self, connection: WaitingConnection) -> type[OnceboxError] | None:
        """Count a new connection; return why it must go, if there is no room to be made."""
        home = limit_key(connection.address)
        self._open.add(connection)
        self._per_network[home] += 1
        most = self.settings.connections_per_address
        if most and self._per_network[home] > most:
            rivals = (each for each in self._waiting() if limit_key(each.address) == home)
            return (
                None
                if self._evict_longest_waiting(connection, rivals)
                else http_errors.TooManyRequests
            )
        if len(self._open) <= self.settings.connections or self._has_grace(connection):
            return None
        return (
            None
            if self._evict_longest_waiting(connection, self._waiting())
            else http_errors.ServerBusy
        )

    def _has_grace(self, newcomer: WaitingConnection | None = None) -> bool:
        """Say whether one more may be open for now, because who must go has only just come."""
        if len(self._open) > self.settings.connections * OVERFLOW:
            return False
        longest = next((each for each in self._waiting() if each is not newcomer), None)
        return longest is not None and clock.steady() - longest.waiting_since < _GRACE

    def remove(self, connection: WaitingConnection) -> None:
        """Take out a connection that is closed."""
        self._remove_waiting(connection)
        if connection in self._open:
            self._open.remove(connection)
            home = limit_key(connection.address)
            self._per_network[home] -= 1
            if not self._per_network[home]:
                del self._per_network[home]

    def count_end(self, why: str) -> None:
        """Count a connection that we end."""
        self._telemetry.connections_ended.labels(why).inc()

    async def run(self) -> None:
        """Look at those who keep us waiting, again and again, until cancelled."""
        while True:
            await asyncio.sleep(self._check_every)
            now = clock.steady()
            for connection in list(self._waiting()):
                self._check(connection, now)
            while len(self._open) > self.settings.connections and not self._has_grace():
                if not self._evict_longest_waiting(None, self._waiting()):
                    break

    def _check(self, connection: WaitingConnection, now: float) -> None:
        try:
            connection.check_timeout(now)
        except Exception:
            # One odd connection must not blind the watch to the others.
            self._telemetry.log.exception("watch_stumbled")
            self._remove_waiting(connection)

    def _remove_waiting(self, connection: WaitingConnection) -> None:
        self.unproven.pop(connection, None)
        self.proven.pop(connection, None)

    def _waiting(self) -> Iterator[WaitingConnection]:
        return chain(self.unproven, self.proven)

    def _evict_longest_waiting(
        self, newcomer: WaitingConnection | None, candidates: Iterator[WaitingConnection]
    ) -> bool:
        """End the connection that has kept us waiting longest; say whether there was one."""
        longest = next((each for each in candidates if each is not newcomer), None)
        if longest is None:
            return False
        self.remove(longest)
        longest.evict()
        return True


#: seconds a client has to read our last word
_LINGER = 2.0


_OK = b"HTTP/1.1 200 OK\r\n"
_WEBHOOK_PREFIX = WEBHOOK_PATH.encode()

#: path, headers, body, client, and who writes the answer; says whether it took the request
TryFastPath = Callable[[str, Headers, bytes, tuple[str, int] | None, WriteResponse], bool]


class Stage(IntEnum):
    """Whose move it is, and which."""

    #: nothing of the next request has come
    IDLE = auto()
    #: a part of the head has come
    HEAD = auto()
    #: the head has come, the body not yet
    BODY = auto()
    #: the whole request has come; the move is ours
    WORK = auto()
    #: it is answered before its body came; the rest is thrown away
    DISCARD = auto()
    #: we write more than the client reads
    WRITE = auto()
    #: we have said our last word
    CLOSING = auto()


class HttpConnection(HttpToolsProtocol):
    """One client's connection."""

    def __init__(self, watch: HttpConnections, express: TryFastPath | None, **given: Any) -> None:
        """Take what uvicorn gives to every connection, and the watch over all of them."""
        super().__init__(**given)
        self._connections = watch
        self._fast_path = express
        #: the body of a request that may go by the express; None for any other
        self._fast_path_body: bytes | None = None
        self._framing = Framing(watch.settings.headers)
        #: an earlier request is answered, and then it ends
        self._is_last = False
        self._settings = watch.settings
        #: where the watch keeps it while the next move is the client's
        self._waiting_queue = watch.unproven
        self.stage = Stage.IDLE
        #: since when it keeps us waiting, and until when it may
        self.waiting_since = 0.0
        self._until = 0.0
        #: bytes of an incomplete head
        self._head_bytes = 0
        #: bytes of the last read, and of all reads before it that may belong to this request
        self._read_bytes = 0
        self._bytes_before = 0
        #: a request that comes in one read of this size is within all limits
        self._small_limit = min(self._settings.headers, self._settings.body)
        #: bytes since the last look, and what may be missing from the expected rate
        self._fresh_bytes = 0
        self._credit = 0.0
        self._checked_at = 0.0
        self._rate_credit = self._settings.body_rate * self._settings.request_within / 3

    @property
    def address(self) -> str:
        """The address at the other end."""
        return self.client[0] if self.client else ""

    # what uvicorn calls

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Begin to wait for a first request, or turn the client away."""
        super().connection_made(transport)
        self._wait_for_client(Stage.IDLE, self._settings.headers_within)
        refused = self._connections.admit(self)
        if refused is not None:
            self.refuse(refused, "refused")

    def connection_lost(self, exc: Exception | None) -> None:
        """Forget the connection."""
        self._connections.remove(self)
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        """Feed the parser, then see how far the request has come."""
        before = self.stage
        if before is Stage.CLOSING or self._is_last:
            return  # not heard any more; kept open so that our last word arrives
        size = self._read_bytes = len(data)
        self._framing.add_read(size)
        HttpToolsProtocol.data_received(self, data)
        if self._fast_path_body is not None:
            self._fall_back_to_asgi()  # it has not come in one piece
        if self.stage is not Stage.WORK:
            self._await_more(before, size)
        elif before is not Stage.WORK:
            self._waiting_queue.pop(self, None)
        else:
            self._limit_read_ahead(size)

    def on_header(self, name: bytes, value: bytes) -> None:
        """Take a header; one that comes behind the body is not the request's, and is dropped.

        Raises: Unframed.
        """
        if self._framing.has_head:
            self._framing.add_field(name, value)
        else:
            HttpToolsProtocol.on_header(self, name, value)

    def on_headers_complete(self) -> None:
        """Wait for the body from here on.

        Raises: Unframed; behind an upgrade the parser skips the body, to take it for a request.
        """
        if self.parser.should_upgrade():
            raise FramingError
        self.stage = Stage.BODY
        self._framing.begin()
        if self._is_idle and _may_take_fast_path(self.url, self.parser):
            self._fast_path_body = b""
        else:
            HttpToolsProtocol.on_headers_complete(self)

    def on_body(self, body: bytes) -> None:
        """Take a part of the body."""
        self._framing.add_body(len(body))
        if self._fast_path_body is not None:
            self._fast_path_body += body
        else:
            HttpToolsProtocol.on_body(self, body)

    def on_chunk_header(self) -> None:
        """Begin a chunk."""
        self._framing.add_chunk()

    def on_message_complete(self) -> None:
        """Go to work, unless the answer was given before all of it had come.

        Raises: Unframed; whatever the parser says, a part of a body is never a whole one.
        """
        self._framing.end(self.headers)
        is_small = self._bytes_before + self._read_bytes <= self._small_limit
        if self._fast_path_body is not None:
            if is_small and self._try_fast_path(self._fast_path_body):
                self._begin_work()
                return
            self._fall_back_to_asgi()
        self._begin_work()
        if self.cycle.response_complete:
            self.stage = Stage.IDLE
        if is_small:
            self.scope[SMALL_REQUEST] = True  # type: ignore[literal-required]
        HttpToolsProtocol.on_message_complete(self)

    def _begin_work(self) -> None:
        self.stage = Stage.WORK
        self._fast_path_body = None
        self._head_bytes = 0
        self._bytes_before = self._read_bytes  # the next request may have begun in this very read

    def on_response_complete(self) -> None:
        """Begin with the next request, or wait for it; the watch stands in for uvicorn's timer."""
        self.server_state.total_requests += 1
        if self._waiting_queue is not self._connections.proven:
            self._waiting_queue.pop(self, None)
            self._waiting_queue = self._connections.proven
        if self.transport.is_closing():
            self._wait_for_client(Stage.CLOSING, self._settings.headers_within)
            return
        self.flow.resume_reading()
        if self.pipeline:
            self._start_asgi_task(*self.pipeline.pop())
        elif self._is_last:
            self._end()
        elif self.stage is not Stage.BODY:
            self._wait_for_client(Stage.IDLE, self._settings.idle)
        elif self.expect_100_continue:
            self.transport.close()  # whether the body will follow is anybody's guess
        else:
            self._wait_for_client(Stage.DISCARD, self._settings.headers_within)

    def pause_writing(self) -> None:
        """Wait for the client to read."""
        super().pause_writing()
        if self.stage is Stage.WORK:
            self._wait_for_client(Stage.WRITE, self._settings.headers_within)

    def resume_writing(self) -> None:
        """Go on writing."""
        super().resume_writing()
        if self.stage is Stage.WRITE:
            self.stage = Stage.WORK
            self._waiting_queue.pop(self, None)

    def send_400_response(self, msg: str) -> None:  # noqa: ARG002 - uvicorn's own words
        """Refuse what is not HTTP; if it follows a proper request, that one is answered first."""
        self._fast_path_body = None
        if self.stage is Stage.WORK:
            self.cycle.keep_alive = False
            self.flow.pause_reading()
        elif self._framing.has_large_trailer:
            self.refuse(http_errors.HeadersTooLarge, "large_headers")
        else:
            self.refuse(http_errors.RequestMalformed, "malformed")

    # the express

    @property
    def _is_idle(self) -> bool:
        """Whether nothing that came before waits for its answer."""
        cycle: RequestResponseCycle | None = self.cycle
        return cycle is None or cycle.response_complete

    def _try_fast_path(self, body: bytes) -> bool:
        """Hand a whole request to the express; say whether it was taken."""
        passing = FastPathCycle(keep_alive=self.parser.should_keep_alive())
        write = partial(self._write_response, passing)
        if self._fast_path is None or not self._fast_path(
            self.url.decode("ascii"), self.headers, body, self.client, write
        ):
            return False
        self.cycle = passing  # type: ignore[assignment]
        return True

    def _fall_back_to_asgi(self) -> None:
        """Begin a conversation after all, with the head and what has come of the body."""
        body, self._fast_path_body = self._fast_path_body, None
        HttpToolsProtocol.on_headers_complete(self)
        if body:
            HttpToolsProtocol.on_body(self, body)

    def _write_response(self, passing: FastPathCycle, answer: bytes, is_last: bool) -> None:  # noqa: FBT001
        """Answer a request that went by the express, unless its client is gone."""
        passing.response_complete = True
        if passing.disconnected or self.transport.is_closing():
            return
        if is_last:
            self.transport.write(answer)
        else:
            lines = [b"%s: %s\r\n" % each for each in self.server_state.default_headers]
            end = b"" if passing.keep_alive else b"connection: close\r\n"
            self.transport.write(b"".join((_OK, *lines, end, answer)))
        if is_last or not passing.keep_alive:
            self.transport.close()
        self.on_response_complete()

    # what the watch calls

    def check_timeout(self, now: float) -> None:
        """End the connection if the client has kept us waiting for too long."""
        if self.transport.is_closing():
            if now >= self._until:
                self.transport.abort()
        elif self.stage is Stage.BODY and self.flow.read_paused:
            self._expect_body()  # it is us who do not read on; its time begins when we do
        elif now >= self._until or (self.stage is Stage.BODY and not self._meets_rate(now)):
            self._time_out()

    def evict(self) -> None:
        """Make room for another connection."""
        self._connections.count_end("gave_way")
        self.transport.abort()

    def refuse(self, kind: type[OnceboxError], why: str) -> None:
        """Say why, and hear nothing more; the client has a moment to read it."""
        self._connections.count_end(why)
        if self.pipeline:
            self._refuse_in_turn()
            return
        cycle: RequestResponseCycle | None = self.cycle
        is_unanswered = cycle is None or cycle.response_complete or not cycle.response_started
        if is_unanswered and self.stage is not Stage.DISCARD:
            self.transport.write(problems.raw_response(kind, ids.new("req")))
        if cycle is not None:
            cycle.disconnected = True
            cycle.message_event.set()
        self._end()

    def _refuse_in_turn(self) -> None:
        """Answer what came before, and then end: no answer may overtake another."""
        self.pipeline.popleft()
        self._is_last = True
        self.stage = Stage.WORK
        self._waiting_queue.pop(self, None)
        self.flow.pause_reading()

    def _end(self) -> None:
        if self.transport.can_write_eof():
            self.transport.write_eof()
        self._wait_for_client(Stage.CLOSING, _LINGER)

    # how far a request has come

    def _await_more(self, before: Stage, size: int) -> None:
        """Note that a part of a request has come."""
        self._fresh_bytes += size
        self._bytes_before += size
        if self.stage is not Stage.CLOSING and self._framing.is_large():
            self.refuse(http_errors.HeadersTooLarge, "large_headers")
        elif self.stage is Stage.BODY:
            if before is not Stage.BODY:
                self._expect_body()
        elif self.stage is Stage.IDLE and before is Stage.DISCARD:
            self._wait_for_client(Stage.IDLE, self._settings.idle)
        elif self.stage in {Stage.IDLE, Stage.HEAD}:
            self._await_head(size)

    def _await_head(self, size: int) -> None:
        if self.stage is Stage.IDLE:
            self._wait_for_client(Stage.HEAD, self._settings.headers_within)
        self._head_bytes += size
        if self._head_bytes > self._settings.headers:
            self.refuse(http_errors.HeadersTooLarge, "large_headers")

    def _expect_body(self) -> None:
        self._wait_for_client(Stage.BODY, self._settings.request_within)
        self._checked_at = clock.steady()
        self._fresh_bytes = 0
        self._credit = self._rate_credit

    def _meets_rate(self, now: float) -> bool:
        """Say whether the body still comes at the rate it must, seen over a few seconds."""
        credit = min(self._rate_credit, self._credit + self._fresh_bytes)
        self._credit = credit - (now - self._checked_at) * self._settings.body_rate
        self._checked_at, self._fresh_bytes = now, 0
        return self._credit >= 0

    def _limit_read_ahead(self, size: int) -> None:
        """Read no further ahead than one head while we work on a request."""
        self._head_bytes += size
        self._bytes_before += size
        if self._head_bytes > self._settings.headers:
            self.flow.pause_reading()

    def _time_out(self) -> None:
        """End the connection, with a word where a part of a request has come."""
        if self.stage in {Stage.HEAD, Stage.BODY}:
            self.refuse(http_errors.RequestTimeout, _END_REASONS[self.stage])
            return
        if self.stage in _END_REASONS:
            self._connections.count_end(_END_REASONS[self.stage])
        if self.stage is Stage.WRITE:
            self.transport.abort()
            return
        self.transport.close()
        self._wait_for_client(Stage.CLOSING, _LINGER)

    def _wait_for_client(self, stage: Stage, within: float) -> None:
        """Be at a stage where the next move is the client's, for so long."""
        self._waiting_queue.pop(self, None)
        self._waiting_queue[self] = None
        self.stage = stage
        self.waiting_since = now = clock.steady()
        self._until = now + within


def _may_take_fast_path(url: bytes, parser: Any) -> bool:
    """Say whether a request may go by the express, as far as its first line tells."""
    is_hook = url.startswith(_WEBHOOK_PREFIX) and not (b"?" in url or b"%" in url)
    return is_hook and parser.get_method() == b"POST" and parser.get_http_version() == "1.1"


_END_REASONS = {
    Stage.IDLE: "idle",
    Stage.HEAD: "slow_headers",
    Stage.BODY: "slow_body",
    Stage.DISCARD: "rest_of_body",
    Stage.WRITE: "does_not_read",
}
