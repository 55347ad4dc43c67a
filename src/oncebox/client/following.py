"""Following: every event once and in order, whatever happens to the connections meanwhile.

A stream first. Where that cannot be had, or is kept back on the way, pages by cursor until the
next trial of a stream. Both go on from the same place.
"""

import random
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from math import inf
from typing import Any

import msgspec

from oncebox import clock
from oncebox.client import answers
from oncebox.client.call import Allowance, Call, Open, Opened, Pause, Plan, Read, Shut, ask
from oncebox.client.exchange import as_request, backoff, may_pass
from oncebox.client.failures import AnswerUnreadable, ServiceUnreachable
from oncebox.client.sse import Block, Reader, Unreadable
from oncebox.errors import OnceboxError
from oncebox.wire import events as wire

#: seconds of silence after which a stream is given up; the service says something every fifteen
_SILENCE = 45.0
#: seconds in which a stream must say its first word; what keeps it back longer will keep it back
_FIRST_WORD = 10.0
#: seconds until the next trial of a stream that could not be had; doubled with every failure
_NEXT_TRIAL, _LATEST_TRIAL = 2.0, 60.0
_STREAM = "text/event-stream"


@dataclass(slots=True, kw_only=True)
class Following:
    """What is followed, and how far it has come."""

    query: wire.EventQuery
    #: seconds after which it ends; never unless set
    within: float | None = None
    now: Callable[[], float] = clock.steady
    dice: Callable[[], float] = random.random
    _until: float = field(init=False)
    _events: deque[wire.Event] = field(default_factory=deque)
    #: the stream, while there is one
    _line: Any = None
    _reader: Reader = field(default_factory=Reader)
    #: whether the stream has said a word
    _heard: bool = False
    #: seconds that the service wants to be left alone after a cut
    _retry: float = 1.0
    #: streams in a row that could not be had, and when to try again
    _failures: int = 0
    _stream_at: float = 0.0
    #: empty pages and troubles in a row
    _waits: int = 0

    def __post_init__(self) -> None:
        """Begin to count the time."""
        self._until = inf if self.within is None else self.now() + self.within

    def next(self) -> Plan[wire.Event | None]:
        """Return the next event, however long that takes; None when the time is over.

        Raises: CursorTooOld, CursorForeign, and whatever else does not pass by itself.
        """
        while not self._events:
            if self.now() >= self._until:
                return None
            try:
                if self._line is not None or self.now() >= self._stream_at:
                    yield from self._read_stream()
                else:
                    yield from self._read_page()
            except OnceboxError as error:
                if not may_pass(error):
                    raise
                yield from self._rest(error.retry_after or 0)
        return self._events.popleft()

    def close(self) -> Plan[None]:
        """Let the stream go."""
        line, self._line = self._line, None
        if line is not None:
            yield Shut(line)

    # streams

    def _read_stream(self) -> Plan[None]:
        """Read what the stream says next."""
        try:
            if self._line is None:
                yield from self._open()
            within = _SILENCE if self._heard else _FIRST_WORD
            chunk = yield Read(self._line, min(within, self._left()))
            self._take(chunk)
        except OnceboxError:
            if self.now() < self._until:  # else it is only our own time that is over
                yield from self._lose()
                raise
            return
        if not chunk:
            yield from self._lose()
            yield Pause(min(self._left(), self._retry * self.dice()))

    def _open(self) -> Plan[None]:
        """Open a stream where we are."""
        allowed = yield Allowance()
        request = as_request(self._call())
        headers = {**request.headers, "accept": _STREAM}
        if self.query.cursor:
            headers["last-event-id"] = self.query.cursor
        opened: Opened = yield Open(request._replace(headers=headers), min(allowed, self._left()))
        if opened.line is None:
            answers.read(self._call(), opened.reply)  # raises what it tells of
            message = "the service answers with a page where a stream was asked for"
            raise ServiceUnreachable(message)
        self._line, self._reader, self._heard = opened.line, Reader(), False

    def _take(self, chunk: bytes) -> None:
        try:
            blocks = self._reader.feed(chunk)
        except Unreadable as error:
            message = "the stream is not one of Oncebox; check the address"
            raise AnswerUnreadable(message) from error
        for each in blocks:
            self._understand(each)
        if blocks:
            self._heard, self._failures, self._waits = True, 0, 0

    def _understand(self, block: Block) -> None:
        if block.data:
            try:
                self._events.append(msgspec.json.decode(block.data, type=wire.Event))
            except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
                message = "an event is not one of Oncebox; check the versions of both sides"
                raise AnswerUnreadable(message) from error
        if block.id:
            self._move_on(block.id)
        if block.retry is not None:
            self._retry = block.retry / 1000

    def _lose(self) -> Plan[None]:
        """Let a stream go that has ended; one that never said a word is not tried again soon."""
        if not self._heard:
            self._failures += 1
            wait = min(_LATEST_TRIAL, _NEXT_TRIAL * 2.0 ** min(self._failures - 1, 10))
            self._stream_at = self.now() + wait
        self._heard = False
        yield from self.close()

    # pages

    def _read_page(self) -> Plan[None]:
        """Read the next page; where it is empty, rest for a while."""
        page: wire.EventPage = yield from ask(self._call())
        self._events.extend(page.data)
        if page.next_cursor is not None:
            self._move_on(page.next_cursor)
        if page.data or page.has_more:
            self._waits = 0
        else:
            yield from self._rest()

    def _rest(self, least: float = 0) -> Plan[None]:
        """Wait, longer every time, but not past the end."""
        self._waits += 1
        yield Pause(max(0.0, min(self._left(), least + backoff(self._waits + 1, self.dice))))

    def _call(self) -> Call[wire.EventPage]:
        return Call(
            method="GET",
            path="/v1/events",
            answer=wire.EventPage,
            query=self.query,
            repeatable=True,
            alone=True,
            within=self._left() if self._until < inf else None,
        )

    def _move_on(self, cursor: str) -> None:
        self.query = msgspec.structs.replace(self.query, cursor=cursor)

    def _left(self) -> float:
        return max(0.001, self._until - self.now())


def wanted(types: Sequence[str] | str | None, **rest: Any) -> dict[str, Any]:
    """Return the fields of a question; what is not wanted is left to the service."""
    text = types if types is None or isinstance(types, str) else ",".join(types)
    return {name: value for name, value in {"types": text, **rest}.items() if value is not None}
