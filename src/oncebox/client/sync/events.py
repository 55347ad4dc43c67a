# Generated from oncebox/client/asynchronous/events.py by `make sync-client`; do not edit.
"""`client.events`: list events, or follow them as they happen."""

from collections.abc import Iterator, Sequence
from typing import Literal

from oncebox.client.core.calls import page_call
from oncebox.client.core.followers import EventFollower, event_filters
from oncebox.client.sync.runner import Resource
from oncebox.schemas.events import Event, EventPage, EventQuery


class Events(Resource):
    """``client.events``."""

    def list(
        self,
        *,
        types: Sequence[str] | str | None = None,
        inbox: str | None = None,
        attempt: str | None = None,
        cursor: str | None = None,
    ) -> Iterator[Event]:
        """Iterate over the events that exist now, oldest first, after a cursor."""
        filters = event_filters(types, inbox=inbox, attempt=attempt, cursor=cursor)
        return self._runner.iterate(page_call(EventPage, EventQuery, "events", **filters))

    def page(
        self,
        *,
        types: Sequence[str] | str | None = None,
        inbox: str | None = None,
        attempt: str | None = None,
        begin: Literal["oldest", "now"] | None = None,
        limit: int | None = None,
        cursor: str | None = None,
    ) -> EventPage:
        """Return one page of events, oldest first; its ``next_cursor`` leads to later events."""
        filters = event_filters(
            types, inbox=inbox, attempt=attempt, begin=begin, limit=limit, cursor=cursor
        )
        return self._run(page_call(EventPage, EventQuery, "events", **filters))

    def follow(
        self,
        *,
        cursor: str | None = None,
        types: Sequence[str] | str | None = None,
        inbox: str | None = None,
        attempt: str | None = None,
        begin: Literal["oldest", "now"] | None = None,
        within: float | None = None,
    ) -> Iterator[Event]:
        """Yield every event after a cursor, once and in order, as it happens.

        Store the ``cursor`` of an event when it is handled, and begin with it, and the same
        filters, after a restart. Without a cursor it begins with the oldest event, or
        ``begin="now"``. Ends after ``within`` seconds; else never, also while the service is
        unavailable.

        Raises: CursorTooOld, when events after the cursor are no longer kept.
        """
        filters = event_filters(types, inbox=inbox, attempt=attempt, begin=begin, cursor=cursor)
        follower = EventFollower(query=EventQuery(**filters), within=within)
        try:
            while (event := self._run(follower.next())) is not None:
                yield event
        finally:
            self._run(follower.close())
