"""``/v1/events``: the event log, in pages or as server-sent events."""

import asyncio
import random
from collections.abc import AsyncIterator

import msgspec
from msgspec import UNSET

from oncebox.core import clock
from oncebox.errors import CursorMismatch, NotFound
from oncebox.errors.http import ServerBusy
from oncebox.ledger.events import event_log
from oncebox.ledger.events.broadcast import EventFollower
from oncebox.model.events import Event, EventFilter
from oncebox.schemas import events as wire
from oncebox.server.http.cursors import Cursors
from oncebox.server.http.routing import (
    AGENTS,
    ApiCall,
    EventStream,
    Routes,
    sse_block,
)

routes = Routes()
_LIST = "/v1/events"
_EVENT_FIELDS = [name for name in wire.Event.__struct_fields__ if name != "cursor"]
_LAST_EVENT_ID = b"last-event-id"
_HEARTBEAT = b": still here\n\n"
#: events per write
_MAX_PER_WRITE = 100
#: milliseconds until a client reconnects; random, so that not all reconnect at once
_RETRY = (1_000, 3_000)


class _CursorFilters(msgspec.Struct, frozen=True):
    """The normalised filters a cursor is bound to."""

    types: list[str]
    inbox: str | None
    attempt: str | None


class _EventCursors:
    """Makes and reads the cursors of one query."""

    def __init__(self, call: ApiCall) -> None:
        query: wire.EventQuery = call.query
        self._cursors = Cursors(call.components.master_key)
        self._tenant = call.tenant
        types = set(query.types.split(",")) if query.types else set()
        self._filters = _CursorFilters(sorted(types), query.inbox or None, query.attempt or None)
        self.selection = EventFilter(
            tenant=call.tenant,
            types=frozenset(types),
            inbox_id=self._filters.inbox,
            attempt_id=self._filters.attempt,
            owner=call.requester.owner,
        )

        self._telemetry = call.components.telemetry
        filters = (*self._filters.types, f"inbox {query.inbox}", f"attempt {query.attempt}")
        self._reader = (call.tenant, call.key.id, *filters)

    def note_position(self, number: int) -> None:
        """Note how far events were shown."""
        self._telemetry.cursors.advanced("events", self._reader, number)

    def cursor(self, number: int) -> str:
        """Return the cursor after an event number."""
        return self._cursors.make(str(number), self._tenant, _LIST, self._filters)

    def number(self, cursor: str) -> int:
        """Return the event number of a cursor.

        Raises: CursorInvalid, if it is none; CursorMismatch, if it is one of another query.
        """
        try:
            found = int(self._cursors.read(cursor, self._tenant, _LIST, self._filters))
        except NotFound as error:
            raise CursorMismatch(
                "this cursor belongs to other filters or another tenant; use it with those it was "
                "made for, or begin without one"
            ) from error
        self._telemetry.cursors.resumed("events", self._reader, found)
        return found

    def event_schema(self, event: Event) -> wire.Event:
        """Return an event with its cursor."""
        values = {name: getattr(event, name) for name in _EVENT_FIELDS}
        return wire.Event(**values, cursor=self.cursor(event.number))


async def stream_events(call: ApiCall) -> EventStream:
    """Stream the same events, and those that follow."""
    cursors = _EventCursors(call)
    resumed = call.headers.get(_LAST_EVENT_ID, b"").decode("latin-1")
    after = await _start_number(call, cursors, resumed)
    # Errors of the cursor must be raised here, before the response has begun.
    part = await call.ledger.read(event_log.read, cursors.selection, after, 1)
    if after is None:
        after = part.events[0].number - 1 if part.events else part.up_to
    broadcast, limits = call.components.broadcast, call.components.settings.events
    if broadcast.followers >= limits.streams:
        raise ServerBusy("as many streams as this service allows are open; ask for pages meanwhile")
    follower = await broadcast.follow(
        cursors.selection, after, key=call.key.id, per_key=limits.streams_per_key
    )
    return EventStream(_blocks(call, cursors, follower))


@routes(
    "GET",
    _LIST,
    "listEvents",
    scopes=AGENTS,
    query=wire.EventQuery,
    streamer=stream_events,
)
async def list_events(call: ApiCall) -> wire.EventPage:
    """List events, oldest first; as a stream with Accept: text/event-stream."""
    query: wire.EventQuery = call.query
    cursors = _EventCursors(call)
    after = await _start_number(call, cursors)
    part = await call.ledger.read(event_log.read, cursors.selection, after, query.limit)
    if part.events:
        cursors.note_position(part.events[-1].number)
    return wire.EventPage(
        data=[cursors.event_schema(each) for each in part.events],
        next_cursor=cursors.cursor(part.up_to),
        has_more=part.has_more,
    )


async def _start_number(call: ApiCall, cursors: _EventCursors, resumed: str = "") -> int | None:
    """Return the number to begin after; None is before the oldest event there is."""
    query: wire.EventQuery = call.query
    if resumed:
        return cursors.number(resumed)
    if query.cursor is not UNSET:  # also if empty: a lost cursor must not mean all events
        return cursors.number(query.cursor)
    if query.begin == "oldest":
        return None
    return (await call.ledger.read(event_log.bounds, call.tenant)).last


async def _blocks(
    call: ApiCall, cursors: _EventCursors, follower: EventFollower
) -> AsyncIterator[bytes]:
    """Yield what is new, and a sign of life where there is nothing, until either side ends it."""
    every = call.components.settings.events.heartbeat
    ending = [asyncio.ensure_future(each) for each in (call.client_gone(), call.stopping.wait())]
    for each in ending:
        each.add_done_callback(lambda _: follower.wake())
    check_at = clock.steady() + every
    try:
        yield sse_block(cursors.cursor(follower.position), retry=random.randint(*_RETRY))  # noqa: S311 - no secret
        while not any(each.done() for each in ending):
            events = await follower.next(_MAX_PER_WRITE)
            if events:
                cursors.note_position(events[-1].number)
                yield b"".join(_event_block(cursors, each) for each in events)
            else:
                await follower.wait(every)
            if clock.steady() >= check_at:
                await call.recheck_key()  # a key may end while it is in use
                check_at = clock.steady() + every
                yield sse_block(cursors.cursor(follower.position)) + _HEARTBEAT
    finally:
        follower.leave()
        for each in ending:
            each.cancel()


def _event_block(cursors: _EventCursors, event: Event) -> bytes:
    shown = cursors.event_schema(event)
    return sse_block(shown.cursor, event=event.type, data=msgspec.json.encode(shown))
