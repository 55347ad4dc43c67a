"""Events: query, event and page."""

from typing import Annotated, Any, Literal

import msgspec
from msgspec import UNSET, UnsetType

from oncebox.schemas.fields import ListPage, ListQuery, Timestamp

EventTypes = Annotated[
    str,
    msgspec.Meta(
        max_length=500,
        pattern=r"^[a-z_]+(\.[a-z_]+)+(,[a-z_]+(\.[a-z_]+)+)*$",
        description="only these types, comma-separated",
    ),
]
InboxId = Annotated[
    str, msgspec.Meta(max_length=100, pattern=r"^[!-~]+$", description="only events of this inbox")
]
AttemptId = Annotated[
    str,
    msgspec.Meta(
        min_length=1,
        max_length=255,
        pattern=r"^[^\x00-\x1f\x7f-\x9f]*$",
        description="only events of this attempt",
    ),
]
StartAt = Annotated[
    Literal["oldest", "now"],
    msgspec.Meta(description="where to start without a cursor: oldest event, or new events only"),
]


class EventQuery(ListQuery, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Filters for a list of events, oldest first."""

    types: EventTypes | UnsetType = UNSET
    inbox: InboxId | UnsetType = UNSET
    attempt: AttemptId | UnsetType = UNSET
    begin: StartAt = "oldest"


class Event(msgspec.Struct, frozen=True, kw_only=True):
    """An event; contains typed fields only, no text chosen by a sender."""

    id: str
    #: its position in the tenant's stream, which has no gaps
    number: int
    type: str
    at: Timestamp
    inbox_id: str | None
    attempt_id: str | None
    #: the message, inbox or delivery it is about
    subject_id: str
    data: dict[str, Any]
    #: the metadata of its inbox
    metadata: dict[str, str]
    #: store it once the event is processed; continue after it with the same filters
    cursor: str


class EventPage(ListPage, frozen=True, kw_only=True):
    """A page of events, oldest first.

    Unlike other lists, this one has no last page: ``next_cursor`` is always set, and a later
    request with it returns new events. An empty page need not be the last one.
    """

    data: list[Event]
