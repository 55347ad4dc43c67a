"""Events: types, the records of the event stream, and subscribers' filters."""

from enum import StrEnum
from typing import Any

import msgspec

EventData = dict[str, Any]


class EventType(StrEnum):
    """What there is to tell."""

    #: a message is in its inbox
    MESSAGE_RECEIVED = "message.received"
    #: a code or a link can be claimed
    ARTIFACT_AVAILABLE = "artifact.available"
    #: several codes or links are meant equally, and none is chosen
    ARTIFACT_CONFLICT = "artifact.conflict"
    #: an inbox reached its end and nothing that it waited for had come
    INBOX_MISSED = "inbox.missed"
    #: a delivery was given up
    DELIVERY_DEAD = "delivery.dead"
    #: a delivery waits for a person
    DELIVERY_HELD = "delivery.held"
    #: an action of an attempt waits for a person
    ACTION_HELD = "action.held"
    #: an attempt may ask for its mail once more
    RESEND_GRANTED = "resend.granted"
    #: proven: the other side took a mail
    SEND_SENT = "send.sent"
    #: a mail was certainly not sent, and nobody tries again
    SEND_FAILED = "send.failed"
    #: nobody can know whether a mail was sent; it waits for evidence or a person
    SEND_UNKNOWN = "send.unknown"
    #: a mail was not sent because a recipient is on the suppression list
    SEND_SUPPRESSED = "send.suppressed"
    #: a mail was called off in time
    SEND_CANCELLED = "send.cancelled"
    #: a mail was not sent in time
    SEND_EXPIRED = "send.expired"
    #: a mail was stored by the `log` transport, which sends nothing
    SEND_LOGGED = "send.logged"
    #: more is known of what became of a mail that was sent
    SEND_DELIVERY = "send.delivery"
    #: a mail was sent while the ledger could not be written, as `fail_open` allows
    SEND_FAIL_OPEN = "send.fail_open"


class NewEvent(msgspec.Struct, frozen=True, kw_only=True):
    """An event as it is recorded, in the very commit that makes it true."""

    id: str
    tenant: str
    type: str
    inbox_id: str | None = None
    attempt_id: str | None = None
    #: what it is about: a message, an inbox, a delivery
    subject_id: str
    at: int
    #: typed fields only, never a sender's text
    data: EventData = {}


class Event(NewEvent, frozen=True, kw_only=True):
    """An event as it is read, with its place in the tenant's stream."""

    #: without gaps; whoever has seen one never sees a smaller one appear
    number: int
    #: of its inbox, as it was when the event was read
    metadata: dict[str, str] = {}
    #: the key that made its inbox
    owner: str | None = None


class EventFilter(msgspec.Struct, frozen=True, kw_only=True):
    """Which events of a tenant somebody wants to hear, and may."""

    tenant: str
    #: all of them if there are none
    types: frozenset[str] = frozenset()
    inbox_id: str | None = None
    attempt_id: str | None = None
    #: only of inboxes that this key made; of everything if there is none
    owner: str | None = None

    @property
    def is_unfiltered(self) -> bool:
        """Whether it leaves nothing out."""
        return not self.types and {self.inbox_id, self.attempt_id, self.owner} == {None}

    def matches(self, event: Event) -> bool:
        """Say whether an event of this tenant is one of those."""
        return (
            (not self.types or event.type in self.types)
            and self.inbox_id in {None, event.inbox_id}
            and self.attempt_id in {None, event.attempt_id}
            and self.owner in {None, event.owner}
        )


class EventBatch(msgspec.Struct, frozen=True, kw_only=True):
    """A part of a stream that was read."""

    events: tuple[Event, ...]
    #: the number up to which everything wanted is in it
    up_to: int
    #: the last number there is
    last: int

    @property
    def has_more(self) -> bool:
        """Whether there may be more to read at once."""
        return self.up_to < self.last
