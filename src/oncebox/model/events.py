"""Events: types, the records of the event stream, and subscribers' filters."""

from enum import StrEnum
from typing import Any

import msgspec

EventData = dict[str, Any]


class EventType(StrEnum):
    """Types of events."""

    #: a message is in its inbox
    MESSAGE_RECEIVED = "message.received"
    #: a code or a link can be claimed
    ARTIFACT_AVAILABLE = "artifact.available"
    #: several codes or links are meant equally, and none is chosen
    ARTIFACT_CONFLICT = "artifact.conflict"
    #: an inbox ended without a matching message
    INBOX_MISSED = "inbox.missed"
    #: a delivery became a dead letter
    DELIVERY_DEAD = "delivery.dead"
    #: a delivery waits for an operator
    DELIVERY_HELD = "delivery.held"
    #: an action of an attempt waits for an operator
    ACTION_HELD = "action.held"
    #: a mailbox on another server is not read until an operator fixes it
    MAILBOX_PAUSED = "mailbox.paused"
    #: an endpoint fails again and again: nothing is delivered to it for a while
    ENDPOINT_FAILING = "endpoint.failing"
    #: an endpoint wants nothing any more: it answered 410
    ENDPOINT_PAUSED = "endpoint.paused"
    #: an attempt may request its mail once more
    RESEND_GRANTED = "resend.granted"
    #: a mail was sent: the receiving side accepted it
    SEND_SENT = "send.sent"
    #: a mail was not sent, and is not retried
    SEND_FAILED = "send.failed"
    #: the outcome of a send is unknown; it waits for evidence or an operator
    SEND_UNKNOWN = "send.unknown"
    #: a mail was not sent because a recipient is on the suppression list
    SEND_SUPPRESSED = "send.suppressed"
    #: a send was cancelled in time
    SEND_CANCELLED = "send.cancelled"
    #: a mail was not sent in time
    SEND_EXPIRED = "send.expired"
    #: a mail was stored by the `log` transport, which sends nothing
    SEND_LOGGED = "send.logged"
    #: the provider reported the delivery of a mail
    SEND_DELIVERY = "send.delivery"
    #: a mail was sent while the ledger could not be written, as `fail_open` allows
    SEND_FAIL_OPEN = "send.fail_open"


class NewEvent(msgspec.Struct, frozen=True, kw_only=True):
    """An event as it is recorded, in the commit that makes it true."""

    id: str
    tenant: str
    type: str
    inbox_id: str | None = None
    attempt_id: str | None = None
    #: what it is about: a message, an inbox, a delivery
    subject_id: str
    at: int
    #: typed fields only, no text of senders
    data: EventData = {}


class Event(NewEvent, frozen=True, kw_only=True):
    """An event as it is read, with its number in the tenant's stream."""

    #: without gaps; a reader that has seen one never sees a smaller one appear
    number: int
    #: of its inbox, as it was when the event was read
    metadata: dict[str, str] = {}
    #: the key that created its inbox
    owner: str | None = None


class EventFilter(msgspec.Struct, frozen=True, kw_only=True):
    """Which events of a tenant a subscriber wants and may see."""

    tenant: str
    #: empty: all types
    types: frozenset[str] = frozenset()
    inbox_id: str | None = None
    attempt_id: str | None = None
    #: only of inboxes that this key created; None: all
    owner: str | None = None

    @property
    def is_unfiltered(self) -> bool:
        """Whether it selects every event."""
        return not self.types and {self.inbox_id, self.attempt_id, self.owner} == {None}

    def matches(self, event: Event) -> bool:
        """Say whether it selects an event of this tenant."""
        return (
            (not self.types or event.type in self.types)
            and self.inbox_id in {None, event.inbox_id}
            and self.attempt_id in {None, event.attempt_id}
            and self.owner in {None, event.owner}
        )


class EventBatch(msgspec.Struct, frozen=True, kw_only=True):
    """A part of a stream that was read."""

    events: tuple[Event, ...]
    #: the number up to which it is complete
    up_to: int
    #: the last number of the stream
    last: int

    @property
    def has_more(self) -> bool:
        """Whether there may be more to read at once."""
        return self.up_to < self.last
