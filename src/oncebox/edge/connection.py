"""Connections: uvicorn's HTTP protocol, with a limit on how long each client keeps us waiting.

A connection is always at one stage. Wherever the next move is the client's, it is in the
``Watch``, which looks at all of them once a second and ends those that take too long.
"""

import asyncio
from collections.abc import Callable
from enum import IntEnum, auto
from functools import partial
from typing import Any

from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol, RequestResponseCycle

from oncebox import clock, ids, refusals
from oncebox.edge import problem
from oncebox.edge.express import Headers, Passing, Write
from oncebox.edge.framing import Framing, Unframed
from oncebox.edge.guard import HOOKS, SMALL
from oncebox.edge.watch import Watch
from oncebox.errors import OnceboxError

#: seconds a client has to read our last word
_LINGER = 2.0


_OK = b"HTTP/1.1 200 OK\r\n"
_EXPRESS = HOOKS.encode()

#: path, headers, body, client, and who writes the answer; says whether it took the request
Express = Callable[[str, Headers, bytes, tuple[str, int] | None, Write], bool]


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
    REST = auto()
    #: we write more than the client reads
    WRITE = auto()
    #: we have said our last word
    LAST = auto()


class Connection(HttpToolsProtocol):
    """One client's connection."""

    def __init__(self, watch: Watch, express: Express | None, **given: Any) -> None:
        """Take what uvicorn gives to every connection, and the watch over all of them."""
        super().__init__(**given)
        self._watch = watch
        self._express = express
        #: the body of a request that may go by the express; None for any other
        self._parcel: bytes | None = None
        self._framing = Framing(watch.settings.headers)
        #: an earlier request is answered, and then it ends
        self._is_last = False
        self._settings = watch.settings
        #: where the watch keeps it while the next move is the client's
        self._place = watch.strangers
        self.stage = Stage.IDLE
        #: since when it keeps us waiting, and until when it may
        self.waits_since = 0.0
        self._until = 0.0
        #: bytes of an incomplete head
        self._head_bytes = 0
        #: bytes of the last read, and of all reads before it that may belong to this request
        self._read_bytes = 0
        self._came_before = 0
        #: a request that comes in one read of this size is within all limits
        self._small = min(self._settings.headers, self._settings.body)
        #: bytes since the last look, and what may be missing from the expected rate
        self._fresh_bytes = 0
        self._credit = 0.0
        self._looked_at = 0.0
        self._patience = self._settings.body_rate * self._settings.request_within / 3

    @property
    def address(self) -> str:
        """The address at the other end."""
        return self.client[0] if self.client else ""

    # what uvicorn calls

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Begin to wait for a first request, or turn the client away."""
        super().connection_made(transport)
        self._wait(Stage.IDLE, self._settings.headers_within)
        refused = self._watch.admit(self)
        if refused is not None:
            self.refuse(refused, "refused")

    def connection_lost(self, exc: Exception | None) -> None:
        """Forget the connection."""
        self._watch.forget(self)
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        """Feed the parser, then see how far the request has come."""
        before = self.stage
        if before is Stage.LAST or self._is_last:
            return  # not heard any more; kept open so that our last word arrives
        size = self._read_bytes = len(data)
        self._framing.add_read(size)
        HttpToolsProtocol.data_received(self, data)
        if self._parcel is not None:
            self._go_the_usual_way()  # it has not come in one piece
        if self.stage is not Stage.WORK:
            self._await_more(before, size)
        elif before is not Stage.WORK:
            self._place.pop(self, None)
        else:
            self._hold_back(size)

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
            raise Unframed
        self.stage = Stage.BODY
        self._framing.begin()
        if self._is_free and _looks_plain(self.url, self.parser):
            self._parcel = b""
        else:
            HttpToolsProtocol.on_headers_complete(self)

    def on_body(self, body: bytes) -> None:
        """Take a part of the body."""
        self._framing.add_body(len(body))
        if self._parcel is not None:
            self._parcel += body
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
        is_small = self._came_before + self._read_bytes <= self._small
        if self._parcel is not None:
            if is_small and self._goes_by_express(self._parcel):
                self._begin_work()
                return
            self._go_the_usual_way()
        self._begin_work()
        if self.cycle.response_complete:
            self.stage = Stage.IDLE
        if is_small:
            self.scope[SMALL] = True  # type: ignore[literal-required]
        HttpToolsProtocol.on_message_complete(self)

    def _begin_work(self) -> None:
        self.stage = Stage.WORK
        self._parcel = None
        self._head_bytes = 0
        self._came_before = self._read_bytes  # the next request may have begun in this very read

    def on_response_complete(self) -> None:
        """Begin with the next request, or wait for it; the watch stands in for uvicorn's timer."""
        self.server_state.total_requests += 1
        if self._place is not self._watch.known:
            self._place.pop(self, None)
            self._place = self._watch.known
        if self.transport.is_closing():
            self._wait(Stage.LAST, self._settings.headers_within)
            return
        self.flow.resume_reading()
        if self.pipeline:
            self._start_asgi_task(*self.pipeline.pop())
        elif self._is_last:
            self._end()
        elif self.stage is not Stage.BODY:
            self._wait(Stage.IDLE, self._settings.idle)
        elif self.expect_100_continue:
            self.transport.close()  # whether the body will follow is anybody's guess
        else:
            self._wait(Stage.REST, self._settings.headers_within)

    def pause_writing(self) -> None:
        """Wait for the client to read."""
        super().pause_writing()
        if self.stage is Stage.WORK:
            self._wait(Stage.WRITE, self._settings.headers_within)

    def resume_writing(self) -> None:
        """Go on writing."""
        super().resume_writing()
        if self.stage is Stage.WRITE:
            self.stage = Stage.WORK
            self._place.pop(self, None)

    def send_400_response(self, msg: str) -> None:  # noqa: ARG002 - uvicorn's own words
        """Refuse what is not HTTP; if it follows a proper request, that one is answered first."""
        self._parcel = None
        if self.stage is Stage.WORK:
            self.cycle.keep_alive = False
            self.flow.pause_reading()
        elif self._framing.has_large_trailer:
            self.refuse(refusals.HeadersTooLarge, "large_headers")
        else:
            self.refuse(refusals.RequestMalformed, "malformed")

    # the express

    @property
    def _is_free(self) -> bool:
        """Whether nothing that came before waits for its answer."""
        cycle: RequestResponseCycle | None = self.cycle
        return cycle is None or cycle.response_complete

    def _goes_by_express(self, body: bytes) -> bool:
        """Hand a whole request to the express; say whether it was taken."""
        passing = Passing(keep_alive=self.parser.should_keep_alive())
        write = partial(self._write_answer, passing)
        if self._express is None or not self._express(
            self.url.decode("ascii"), self.headers, body, self.client, write
        ):
            return False
        self.cycle = passing  # type: ignore[assignment]
        return True

    def _go_the_usual_way(self) -> None:
        """Begin a conversation after all, with the head and what has come of the body."""
        body, self._parcel = self._parcel, None
        HttpToolsProtocol.on_headers_complete(self)
        if body:
            HttpToolsProtocol.on_body(self, body)

    def _write_answer(self, passing: Passing, answer: bytes, is_last: bool) -> None:  # noqa: FBT001
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

    def look(self, now: float) -> None:
        """End the connection if the client has kept us waiting for too long."""
        if self.transport.is_closing():
            if now >= self._until:
                self.transport.abort()
        elif self.stage is Stage.BODY and self.flow.read_paused:
            self._expect_body()  # it is us who do not read on; its time begins when we do
        elif now >= self._until or (self.stage is Stage.BODY and not self._keeps_pace(now)):
            self._run_out()

    def give_way(self) -> None:
        """Make room for another connection."""
        self._watch.count("gave_way")
        self.transport.abort()

    def refuse(self, kind: type[OnceboxError], why: str) -> None:
        """Say why, and hear nothing more; the client has a moment to read it."""
        self._watch.count(why)
        if self.pipeline:
            self._refuse_in_turn()
            return
        cycle: RequestResponseCycle | None = self.cycle
        is_unanswered = cycle is None or cycle.response_complete or not cycle.response_started
        if is_unanswered and self.stage is not Stage.REST:
            self.transport.write(problem.raw(kind, ids.new("req")))
        if cycle is not None:
            cycle.disconnected = True
            cycle.message_event.set()
        self._end()

    def _refuse_in_turn(self) -> None:
        """Answer what came before, and then end: no answer may overtake another."""
        self.pipeline.popleft()
        self._is_last = True
        self.stage = Stage.WORK
        self._place.pop(self, None)
        self.flow.pause_reading()

    def _end(self) -> None:
        if self.transport.can_write_eof():
            self.transport.write_eof()
        self._wait(Stage.LAST, _LINGER)

    # how far a request has come

    def _await_more(self, before: Stage, size: int) -> None:
        """Note that a part of a request has come."""
        self._fresh_bytes += size
        self._came_before += size
        if self.stage is not Stage.LAST and self._framing.is_large():
            self.refuse(refusals.HeadersTooLarge, "large_headers")
        elif self.stage is Stage.BODY:
            if before is not Stage.BODY:
                self._expect_body()
        elif self.stage is Stage.IDLE and before is Stage.REST:
            self._wait(Stage.IDLE, self._settings.idle)
        elif self.stage in {Stage.IDLE, Stage.HEAD}:
            self._await_head(size)

    def _await_head(self, size: int) -> None:
        if self.stage is Stage.IDLE:
            self._wait(Stage.HEAD, self._settings.headers_within)
        self._head_bytes += size
        if self._head_bytes > self._settings.headers:
            self.refuse(refusals.HeadersTooLarge, "large_headers")

    def _expect_body(self) -> None:
        self._wait(Stage.BODY, self._settings.request_within)
        self._looked_at = clock.steady()
        self._fresh_bytes = 0
        self._credit = self._patience

    def _keeps_pace(self, now: float) -> bool:
        """Say whether the body still comes at the rate it must, seen over a few seconds."""
        credit = min(self._patience, self._credit + self._fresh_bytes)
        self._credit = credit - (now - self._looked_at) * self._settings.body_rate
        self._looked_at, self._fresh_bytes = now, 0
        return self._credit >= 0

    def _hold_back(self, size: int) -> None:
        """Read no further ahead than one head while we work on a request."""
        self._head_bytes += size
        self._came_before += size
        if self._head_bytes > self._settings.headers:
            self.flow.pause_reading()

    def _run_out(self) -> None:
        """End the connection, with a word where a part of a request has come."""
        if self.stage in {Stage.HEAD, Stage.BODY}:
            self.refuse(refusals.TooSlow, _WHY[self.stage])
            return
        if self.stage in _WHY:
            self._watch.count(_WHY[self.stage])
        if self.stage is Stage.WRITE:
            self.transport.abort()
            return
        self.transport.close()
        self._wait(Stage.LAST, _LINGER)

    def _wait(self, stage: Stage, within: float) -> None:
        """Be at a stage where the next move is the client's, for so long."""
        self._place.pop(self, None)
        self._place[self] = None
        self.stage = stage
        self.waits_since = now = clock.steady()
        self._until = now + within


def _looks_plain(url: bytes, parser: Any) -> bool:
    """Say whether a request may go by the express, as far as its first line tells."""
    is_hook = url.startswith(_EXPRESS) and not (b"?" in url or b"%" in url)
    return is_hook and parser.get_method() == b"POST" and parser.get_http_version() == "1.1"


_WHY = {
    Stage.IDLE: "idle",
    Stage.HEAD: "slow_headers",
    Stage.BODY: "slow_body",
    Stage.REST: "rest_of_body",
    Stage.WRITE: "does_not_read",
}
