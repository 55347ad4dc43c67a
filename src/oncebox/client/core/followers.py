"""Follow events as they happen, by SSE, else page by page; no I/O.

A stream is tried first. Where it is not available, or a proxy buffers it, pages are fetched by
cursor until the stream is tried again. Both continue from the same cursor.
"""

import random
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from math import inf
from typing import Any, NamedTuple

import msgspec

from oncebox.client.core.calls import (
    Call,
    CloseStep,
    OpenedStream,
    OpenStep,
    PauseStep,
    Plan,
    ReadStep,
    TimeoutStep,
    backoff,
    decode_answer,
    get_call,
    is_transient,
    perform,
    to_request,
)
from oncebox.client.errors import AnswerUnreadable, ServiceUnreachable
from oncebox.core import clock
from oncebox.errors import OnceboxError
from oncebox.schemas.events import Event, EventPage, EventQuery

#: bytes of one SSE block; a longer one is not from this service
_MAX_EVENT_SIZE = 16 * 1024 * 1024


class SseEvent(NamedTuple):
    """One SSE block: the cursor after it, and its data if it has any."""

    id: str | None
    data: bytes
    #: milliseconds to wait before reconnecting
    retry: int | None


class SseInvalid(Exception):
    """The bytes are not an SSE stream."""


class SseParser:
    """Collects bytes and returns complete blocks; any line ending is accepted."""

    def __init__(self) -> None:
        self._rest = b""
        self._lines: list[bytes] = []
        self._size = 0

    def feed(self, chunk: bytes) -> list[SseEvent]:
        """Return the blocks that are complete now."""
        blocks = []
        text = self._rest + chunk
        # A carriage return at the end may be the first half of CRLF.
        held = b"\r" if text.endswith(b"\r") else b""
        lines = text[: len(text) - len(held)].replace(b"\r\n", b"\n").replace(b"\r", b"\n")
        *whole, last = lines.split(b"\n")
        self._rest = last + held
        for line in whole:
            if line:
                self._lines.append(line)
                self._size += len(line)
            elif self._lines:
                blocks.append(_parse_sse_event(self._lines))
                self._lines, self._size = [], 0
        if self._size + len(self._rest) > _MAX_EVENT_SIZE:
            raise SseInvalid
        return blocks


def _parse_sse_event(lines: list[bytes]) -> SseEvent:
    id_: str | None = None
    retry: int | None = None
    data: list[bytes] = []
    for line in lines:
        name, _, value = line.partition(b":")
        value = value.removeprefix(b" ")
        if name == b"id" and b"\0" not in value:
            id_ = value.decode("utf-8", "replace")
        elif name == b"data":
            data.append(value)
        elif name == b"retry" and value.isdigit() and len(value) < 10:  # noqa: PLR2004 - a day
            retry = int(value)
    return SseEvent(id_, b"\n".join(data), retry)


#: seconds of silence after which a stream is dropped; the service sends something every fifteen
_SILENCE_TIMEOUT = 45.0
#: seconds until the first block; a stream that takes longer is buffered on the way
_FIRST_EVENT_TIMEOUT = 10.0
#: seconds until a stream that failed is tried again; doubled with every failure
_STREAM_RETRY, _MAX_STREAM_RETRY = 2.0, 60.0
_STREAM_TYPE = "text/event-stream"


@dataclass(slots=True, kw_only=True)
class EventFollower:
    """Follows the events that match a query."""

    query: EventQuery
    #: seconds after which following ends; None: never
    within: float | None = None
    now: Callable[[], float] = clock.steady
    jitter: Callable[[], float] = random.random
    _until: float = field(init=False)
    _events: deque[Event] = field(default_factory=deque)
    #: the open stream
    _stream: Any = None
    _reader: SseParser = field(default_factory=SseParser)
    #: whether the stream has sent a block
    _stream_alive: bool = False
    #: seconds to wait before reconnecting
    _retry: float = 1.0
    #: failed streams in a row, and when to try the next one
    _failures: int = 0
    _retry_stream_at: float = 0.0
    #: empty pages and errors in a row
    _waits: int = 0

    def __post_init__(self) -> None:
        self._until = inf if self.within is None else self.now() + self.within

    def next(self) -> Plan[Event | None]:
        """Wait for the next event; None when the time is over."""
        while not self._events:
            if self.now() >= self._until:
                return None
            try:
                if self._stream is not None or self.now() >= self._retry_stream_at:
                    yield from self._read_stream()
                else:
                    yield from self._read_page()
            except OnceboxError as error:
                if not is_transient(error):
                    raise
                yield from self._rest(error.retry_after or 0)
        return self._events.popleft()

    def close(self) -> Plan[None]:
        """Close the stream."""
        stream, self._stream = self._stream, None
        if stream is not None:
            yield CloseStep(stream)

    def _read_stream(self) -> Plan[None]:
        """Read the next chunk of the stream."""
        try:
            if self._stream is None:
                yield from self._open()
            within = _SILENCE_TIMEOUT if self._stream_alive else _FIRST_EVENT_TIMEOUT
            chunk = yield ReadStep(self._stream, min(within, self._left()))
            self._take(chunk)
        except OnceboxError:
            if self.now() < self._until:  # else the time limit ended the read
                yield from self._drop_stream()
                raise
            return
        if not chunk:
            yield from self._drop_stream()
            yield PauseStep(min(self._left(), self._retry * self.jitter()))

    def _open(self) -> Plan[None]:
        """Open a stream at the current cursor."""
        allowed = yield TimeoutStep()
        request = to_request(self._call())
        headers = {**request.headers, "accept": _STREAM_TYPE}
        if self.query.cursor:
            headers["last-event-id"] = self.query.cursor
        opened: OpenedStream = yield OpenStep(
            request._replace(headers=headers), min(allowed, self._left())
        )
        if opened.stream is None:
            decode_answer(self._call(), opened.reply)  # raises the service's error
            raise ServiceUnreachable("the service answered a request for a stream with a page")
        self._stream, self._reader, self._stream_alive = opened.stream, SseParser(), False

    def _take(self, chunk: bytes) -> None:
        try:
            blocks = self._reader.feed(chunk)
        except SseInvalid as error:
            raise AnswerUnreadable("the stream is not one of Oncebox; check the address") from error
        for each in blocks:
            self._handle_sse_event(each)
        if blocks:
            self._stream_alive, self._failures, self._waits = True, 0, 0

    def _handle_sse_event(self, block: SseEvent) -> None:
        if block.data:
            try:
                self._events.append(msgspec.json.decode(block.data, type=Event))
            except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
                raise AnswerUnreadable(
                    "an event is not one of Oncebox; check the versions of both sides"
                ) from error
        if block.id:
            self._set_cursor(block.id)
        if block.retry is not None:
            self._retry = block.retry / 1000

    def _drop_stream(self) -> Plan[None]:
        """Close a stream that ended; one that sent nothing is tried again later."""
        if not self._stream_alive:
            self._failures += 1
            wait = min(_MAX_STREAM_RETRY, _STREAM_RETRY * 2.0 ** min(self._failures - 1, 10))
            self._retry_stream_at = self.now() + wait
        self._stream_alive = False
        yield from self.close()

    def _read_page(self) -> Plan[None]:
        """Read the next page; pause if it is empty."""
        page: EventPage = yield from perform(self._call())
        self._events.extend(page.data)
        if page.next_cursor is not None:
            self._set_cursor(page.next_cursor)
        if page.data or page.has_more:
            self._waits = 0
        else:
            yield from self._rest()

    def _rest(self, least: float = 0) -> Plan[None]:
        """Pause with backoff, at most until the end."""
        self._waits += 1
        yield PauseStep(max(0.0, min(self._left(), least + backoff(self._waits + 1, self.jitter))))

    def _call(self) -> Call[EventPage]:
        within = self._left() if self._until < inf else None
        call = get_call(EventPage, "events", query=self.query)
        return replace(call, no_retry=True, within=within)

    def _set_cursor(self, cursor: str) -> None:
        self.query = msgspec.structs.replace(self.query, cursor=cursor)

    def _left(self) -> float:
        return max(0.001, self._until - self.now())


def event_filters(types: Sequence[str] | str | None, **rest: Any) -> dict[str, Any]:
    """Return the fields of an event query; filters that are None are left out."""
    text = types if types is None or isinstance(types, str) else ",".join(types)
    return {name: value for name, value in {"types": text, **rest}.items() if value is not None}
