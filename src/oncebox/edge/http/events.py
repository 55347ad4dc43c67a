"""``/v1/events``: what happened, in order, by pages or as a stream."""

import asyncio
import random
from collections.abc import AsyncIterator

import msgspec
from msgspec import UNSET

from oncebox import clock
from oncebox.edge.http.call import Call
from oncebox.edge.http.cursors import Cursors
from oncebox.edge.http.route import AGENT, OPERATOR, Route
from oncebox.edge.http.streaming import Streamed, block
from oncebox.errors import CursorForeign, NotFound
from oncebox.ledger.events import stream
from oncebox.ledger.events.broadcast import Follower
from oncebox.model.event import Event, Selection
from oncebox.refusals import ServerBusy
from oncebox.wire import events as wire

_LIST = "/v1/events"
_SCOPES = frozenset({OPERATOR, AGENT})
_LAST_EVENT_ID = b"last-event-id"
_HEARTBEAT = b": still here\n\n"
#: events in one block of writing
_AT_ONCE = 100
#: milliseconds that a cut-off client waits; not all of them the same, or all come back at once
_RETRY = (1_000, 3_000)


class _Filters(msgspec.Struct, frozen=True):
    """What a cursor is bound to: the same wishes, however they are spelled."""

    types: list[str]
    inbox: str | None
    attempt: str | None


class _Places:
    """Makes and reads the cursors of one question."""

    def __init__(self, call: Call) -> None:
        query: wire.EventQuery = call.query
        self._cursors = Cursors(call.rooms.master_key)
        self._tenant = call.tenant
        types = set(query.types.split(",")) if query.types else set()
        self._filters = _Filters(sorted(types), query.inbox or None, query.attempt or None)
        self.wanted = Selection(
            tenant=call.tenant,
            types=frozenset(types),
            inbox_id=self._filters.inbox,
            attempt_id=self._filters.attempt,
            owner=None if call.key.may(OPERATOR) else call.key.id,
        )

        self._telemetry = call.rooms.telemetry
        filters = (*self._filters.types, f"inbox {query.inbox}", f"attempt {query.attempt}")
        self._reader = (call.tenant, call.key.id, *filters)

    def shown_upto(self, number: int) -> None:
        """Note how far events were shown."""
        self._telemetry.places.shown("events", self._reader, number)

    def cursor(self, number: int) -> str:
        """Return the cursor for what comes after a number."""
        return self._cursors.make(str(number), self._tenant, _LIST, self._filters)

    def number(self, cursor: str) -> int:
        """Return the number a cursor stands for.

        Raises: CursorInvalid, when it is none; CursorForeign, when it is for something else.
        """
        try:
            found = int(self._cursors.read(cursor, self._tenant, _LIST, self._filters))
        except NotFound as error:
            message = (
                "this cursor was not given out for these events; use it with the filters and the "
                "tenant it was made for, or begin without one"
            )
            raise CursorForeign(message) from error
        self._telemetry.places.come("events", self._reader, found)
        return found

    def shown(self, event: Event) -> wire.Event:
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


async def list_(call: Call) -> wire.EventPage:
    """Return events after a cursor, oldest first."""
    query: wire.EventQuery = call.query
    places = _Places(call)
    after = await _place(call, places)
    part = await call.rooms.counter.read(stream.read, places.wanted, after, query.limit)
    if part.events:
        places.shown_upto(part.events[-1].number)
    return wire.EventPage(
        data=[places.shown(each) for each in part.events],
        next_cursor=places.cursor(part.upto),
        has_more=part.has_more,
    )


async def follow(call: Call) -> Streamed:
    """Return the same events as a stream that goes on."""
    places = _Places(call)
    resumed = call.headers.get(_LAST_EVENT_ID, b"").decode("latin-1")
    after = await _place(call, places, resumed)
    # Whatever is wrong with the place is said now, while there is still a status to say it with.
    part = await call.rooms.counter.read(stream.read, places.wanted, after, 1)
    if after is None:
        after = part.events[0].number - 1 if part.events else part.upto
    broadcast = call.rooms.broadcast
    if broadcast.followers >= call.rooms.settings.events.streams:
        message = "as many streams as this service allows are open; ask for pages meanwhile"
        raise ServerBusy(message)
    return Streamed(_blocks(call, places, await broadcast.follow(places.wanted, after)))


async def _place(call: Call, places: _Places, resumed: str = "") -> int | None:
    """Return the number to begin after; None is before the oldest event there is."""
    query: wire.EventQuery = call.query
    if resumed:
        return places.number(resumed)
    if query.cursor is not UNSET:  # also an empty one: it was lost, and is no wish for all again
        return places.number(query.cursor)
    if query.begin == "oldest":
        return None
    return (await call.rooms.counter.read(stream.ends, call.tenant)).last


async def _blocks(call: Call, places: _Places, follower: Follower) -> AsyncIterator[bytes]:
    """Yield what is new, and a sign of life where there is nothing, until either side ends it."""
    every = call.rooms.settings.events.heartbeat
    ending = [asyncio.ensure_future(each) for each in (call.left(), call.stopping.wait())]
    for each in ending:
        each.add_done_callback(lambda _: follower.wake())
    check_at = clock.steady() + every
    try:
        yield block(places.cursor(follower.position), retry=random.randint(*_RETRY))  # noqa: S311 - no secret
        while not any(each.done() for each in ending):
            events = await follower.next(_AT_ONCE)
            if events:
                places.shown_upto(events[-1].number)
                yield b"".join(_told(places, each) for each in events)
            else:
                await follower.wait(every)
            if clock.steady() >= check_at:
                await call.check()  # a key may end while it is in use
                check_at = clock.steady() + every
                yield block(places.cursor(follower.position)) + _HEARTBEAT
    finally:
        follower.leave()
        for each in ending:
            each.cancel()


def _told(places: _Places, event: Event) -> bytes:
    shown = places.shown(event)
    return block(shown.cursor, event=event.type, data=msgspec.json.encode(shown))


ROUTES = (
    Route(
        method="GET",
        path=_LIST,
        name="listEvents",
        summary="Show what happened, oldest first; as a stream with Accept: text/event-stream.",
        scopes=_SCOPES,
        query=wire.EventQuery,
        answer=wire.EventPage,
        handler=list_,
        streamer=follow,
    ),
)
