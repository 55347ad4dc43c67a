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
        description="only these types, with commas between them",
    ),
]
InboxId = Annotated[
    str, msgspec.Meta(max_length=100, pattern=r"^[!-~]+$", description="only of this inbox")
]
AttemptId = Annotated[
    str,
    msgspec.Meta(
        min_length=1,
        max_length=255,
        pattern=r"^[^\x00-\x1f\x7f-\x9f]*$",
        description="only of this attempt",
    ),
]
StartAt = Annotated[
    Literal["oldest", "now"],
    msgspec.Meta(description="where to begin without a cursor: at the oldest event, or after all"),
]


class EventQuery(ListQuery, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Which events are wanted; oldest first."""

    types: EventTypes | UnsetType = UNSET
    inbox: InboxId | UnsetType = UNSET
    attempt: AttemptId | UnsetType = UNSET
    begin: StartAt = "oldest"


class Event(msgspec.Struct, frozen=True, kw_only=True):
    """Something that happened; typed fields only, never a sender's text."""

    id: str
    #: its place in the tenant's stream, which has no gaps
    number: int
    type: str
    at: Timestamp
    inbox_id: str | None
    attempt_id: str | None
    #: what it is about: a message, an inbox, a delivery
    subject_id: str
    data: dict[str, Any]
    #: of its inbox
    metadata: dict[str, str]
    #: keep it once the event is dealt with, and go on after it with the same filters
    cursor: str


class EventPage(ListPage, frozen=True, kw_only=True):
    """Some events, oldest first.

    Unlike other lists, this one has no last page: ``next_cursor`` is always there, and asking
    again with it shows what is new. A page may be empty and yet not be the last.
    """

    data: list[Event]
