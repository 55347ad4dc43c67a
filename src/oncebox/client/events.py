"""Events: what happened, as a list or as it happens."""

from collections.abc import AsyncIterator, Iterator, Sequence
from typing import Any, Literal, overload

from oncebox.client.call import Call, paged, path
from oncebox.client.following import Following, wanted
from oncebox.client.room import Later, Listing, Now, Room, Verb, When
from oncebox.wire import events as wire

_ALL = path("events")


def list_(
    *,
    types: Sequence[str] | str | None = None,
    inbox: str | None = None,
    attempt: str | None = None,
    cursor: str | None = None,
) -> Call[wire.EventPage]:
    """Go through the events that are there, oldest first, from a cursor on."""
    return page(types=types, inbox=inbox, attempt=attempt, cursor=cursor)


def page(
    *,
    types: Sequence[str] | str | None = None,
    inbox: str | None = None,
    attempt: str | None = None,
    begin: Literal["oldest", "now"] | None = None,
    limit: int | None = None,
    cursor: str | None = None,
) -> Call[wire.EventPage]:
    """Return some events, oldest first; its ``next_cursor`` leads to what is new later."""
    fields = wanted(types, inbox=inbox, attempt=attempt, begin=begin, limit=limit, cursor=cursor)
    return paged(wire.EventPage, _ALL, wire.EventQuery, **fields)


class Events(Room[When]):
    """``client.events``."""

    list = Listing(list_)
    page = Verb(page)

    @overload
    def follow(
        self: "Events[Now]",
        *,
        cursor: str | None = None,
        types: Sequence[str] | str | None = None,
        inbox: str | None = None,
        attempt: str | None = None,
        begin: Literal["oldest", "now"] | None = None,
        within: float | None = None,
    ) -> Iterator[wire.Event]: ...
    @overload
    def follow(
        self: "Events[Later]",
        *,
        cursor: str | None = None,
        types: Sequence[str] | str | None = None,
        inbox: str | None = None,
        attempt: str | None = None,
        begin: Literal["oldest", "now"] | None = None,
        within: float | None = None,
    ) -> AsyncIterator[wire.Event]: ...
    def follow(
        self,
        *,
        cursor: str | None = None,
        types: Sequence[str] | str | None = None,
        inbox: str | None = None,
        attempt: str | None = None,
        begin: Literal["oldest", "now"] | None = None,
        within: float | None = None,
    ) -> Any:
        """Yield every event after a cursor, once and in order, as it happens.

        Keep the ``cursor`` of an event when it is dealt with, and begin with it, and the same
        filters, after a restart. Without one it begins with the oldest event there is, or
        ``begin="now"``. Ends after ``within`` seconds; else never, and a service that is away
        for a while is waited for.

        Raises: CursorTooOld, when events after the cursor are no longer kept.
        """
        fields = wanted(types, inbox=inbox, attempt=attempt, begin=begin, cursor=cursor)
        return self._carrier.follow(Following(query=wire.EventQuery(**fields), within=within))
