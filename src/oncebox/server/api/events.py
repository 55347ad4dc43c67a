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
from oncebox.server.http.routing import AGENT, OPERATOR, ApiCall, EventStream, Route, sse_block

_LIST = "/v1/events"
_SCOPES = frozenset({OPERATOR, AGENT})
_LAST_EVENT_ID = b"last-event-id"
_HEARTBEAT = b": still here\n\n"
#: events in one block of writing
_MAX_PER_WRITE = 100
#: milliseconds that a cut-off client waits; not all of them the same, or all come back at once
_RETRY = (1_000, 3_000)


class _CursorFilters(msgspec.Struct, frozen=True):
    """What a cursor is bound to: the same wishes, however they are spelled."""

    types: list[str]
    inbox: str | None
    attempt: str | None


class _EventCursors:
    """Makes and reads the cursors of one question."""

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
            owner=None if call.key.may(OPERATOR) else call.key.id,
        )

        self._telemetry = call.components.telemetry
        filters = (*self._filters.types, f"inbox {query.inbox}", f"attempt {query.attempt}")
        self._reader = (call.tenant, call.key.id, *filters)

    def note_position(self, number: int) -> None:
        """Note how far events were shown."""
        self._telemetry.cursors.advanced("events", self._reader, number)

    def cursor(self, number: int) -> str:
        """Return the cursor for what comes after a number."""
        return self._cursors.make(str(number), self._tenant, _LIST, self._filters)

    def number(self, cursor: str) -> int:
        """Return the number a cursor stands for.

        Raises: CursorInvalid, when it is none; CursorMismatch, when it is for something else.
        """
        try:
            found = int(self._cursors.read(cursor, self._tenant, _LIST, self._filters))
        except NotFound as error:
            raise CursorMismatch(
                "this cursor was not given out for these events; use it with the filters and the "
                "tenant it was made for, or begin without one"
            ) from error
        self._telemetry.cursors.resumed("events", self._reader, found)
        return found

    def event_schema(self, event: Event) -> wire.Event:
        """Return an event as the outside sees it."""
        return wire.Event(
            id=event.id,
            number=event.number,
            type=event.type,
            at=event.at,
            inbox_id=event.inbox_id,
            attempt_id=event.attempt_id,
            subject_id=event.subject_id,
            data=event.data,
            metadata=event.metadata,
            cursor=self.cursor(event.number),
        )


async def list_events(call: ApiCall) -> wire.EventPage:
    """Return events after a cursor, oldest first."""
    query: wire.EventQuery = call.query
    places = _EventCursors(call)
    after = await _start_number(call, places)
    part = await call.components.ledger.read(event_log.read, places.selection, after, query.limit)
    if part.events:
        places.note_position(part.events[-1].number)
    return wire.EventPage(
        data=[places.event_schema(each) for each in part.events],
        next_cursor=places.cursor(part.up_to),
        has_more=part.has_more,
    )


async def stream_events(call: ApiCall) -> EventStream:
    """Return the same events as a stream that goes on."""
    places = _EventCursors(call)
    resumed = call.headers.get(_LAST_EVENT_ID, b"").decode("latin-1")
    after = await _start_number(call, places, resumed)
    # Whatever is wrong with the place is said now, while there is still a status to say it with.
    part = await call.components.ledger.read(event_log.read, places.selection, after, 1)
    if after is None:
        after = part.events[0].number - 1 if part.events else part.up_to
    broadcast = call.components.broadcast
    if broadcast.followers >= call.components.settings.events.streams:
        raise ServerBusy("as many streams as this service allows are open; ask for pages meanwhile")
    return EventStream(_blocks(call, places, await broadcast.follow(places.selection, after)))


async def _start_number(call: ApiCall, places: _EventCursors, resumed: str = "") -> int | None:
    """Return the number to begin after; None is before the oldest event there is."""
    query: wire.EventQuery = call.query
    if resumed:
        return places.number(resumed)
    if query.cursor is not UNSET:  # also an empty one: it was lost, and is no wish for all again
        return places.number(query.cursor)
    if query.begin == "oldest":
        return None
    return (await call.components.ledger.read(event_log.bounds, call.tenant)).last


async def _blocks(
    call: ApiCall, places: _EventCursors, follower: EventFollower
) -> AsyncIterator[bytes]:
    """Yield what is new, and a sign of life where there is nothing, until either side ends it."""
    every = call.components.settings.events.heartbeat
    ending = [asyncio.ensure_future(each) for each in (call.client_gone(), call.stopping.wait())]
    for each in ending:
        each.add_done_callback(lambda _: follower.wake())
    check_at = clock.steady() + every
    try:
        yield sse_block(places.cursor(follower.position), retry=random.randint(*_RETRY))  # noqa: S311 - no secret
        while not any(each.done() for each in ending):
            events = await follower.next(_MAX_PER_WRITE)
            if events:
                places.note_position(events[-1].number)
                yield b"".join(_event_block(places, each) for each in events)
            else:
                await follower.wait(every)
            if clock.steady() >= check_at:
                await call.recheck_key()  # a key may end while it is in use
                check_at = clock.steady() + every
                yield sse_block(places.cursor(follower.position)) + _HEARTBEAT
    finally:
        follower.leave()
        for each in ending:
            each.cancel()


def _event_block(places: _EventCursors, event: Event) -> bytes:
    shown = places.event_schema(event)
    return sse_block(shown.cursor, event=event.type, data=msgspec.json.encode(shown))


ROUTES = (
    Route(
        method="GET",
        path=_LIST,
        name="listEvents",
        summary="Show what happened, oldest first; as a stream with Accept: text/event-stream.",
        scopes=_SCOPES,
        query=wire.EventQuery,
        answer=wire.EventPage,
        handler=list_events,
        streamer=stream_events,
    ),
)
