"""A delivery: one accepted arrival, its states, and the values that move it between them."""

from enum import StrEnum
from typing import Any

import msgspec

from oncebox.model.deed import Deed
from oncebox.model.ordering import Order

Headers = tuple[tuple[str, str], ...]


class State(StrEnum):
    """Where a delivery stands."""

    #: on disk, waiting for a worker
    RECEIVED = "received"
    #: leased to a worker
    PROCESSING = "processing"
    #: handled, ignored, dropped or stale; nothing more will happen
    DONE = "done"
    #: a try failed; it waits for the next
    FAILED = "failed"
    #: given up; a person or a redelivery may bring it back
    DEAD = "dead"
    #: waits for a person, a predecessor or a policy; says why
    HELD = "held"


#: every change of state that exists, with what causes it; tests and docs come from this table
TRANSITIONS: dict[tuple[State, State], str] = {
    (State.RECEIVED, State.PROCESSING): "claimed by a worker",
    (State.RECEIVED, State.HELD): "held by a person",
    (State.RECEIVED, State.DONE): "stale: a later one of its lane is done",
    (State.FAILED, State.PROCESSING): "claimed by a worker",
    (State.FAILED, State.HELD): "held by a person",
    (State.PROCESSING, State.PROCESSING): "its lease ran out and another worker claimed it",
    (State.PROCESSING, State.DONE): "handled, ignored or dropped",
    (State.PROCESSING, State.FAILED): "the try failed and may be repeated",
    (State.PROCESSING, State.DEAD): "gave up: permanent, or tries or time used up",
    (State.PROCESSING, State.HELD): "a policy or an effect in doubt asks for a person",
    (State.PROCESSING, State.RECEIVED): "given back by a stopping worker",
    (State.HELD, State.RECEIVED): "released by a person",
    (State.DEAD, State.RECEIVED): "re-armed by a redelivery, or replayed by a person",
    (State.DEAD, State.DONE): "re-armed by a redelivery, and stale at once",
    (State.DONE, State.RECEIVED): "replayed by a person",
}


class Outcome(StrEnum):
    """How a try or a delivery ended."""

    HANDLED = "handled"
    IGNORED = "ignored"
    DROPPED = "dropped"
    #: a later one of its lane was done before it
    STALE = "stale"
    FAILED = "failed"
    PERMANENT = "permanent"
    TRIES_USED_UP = "tries_used_up"
    TIME_USED_UP = "time_used_up"
    HELD = "held"
    GIVEN_BACK = "given_back"
    LOST = "lost"
    #: a worker that had lost its lease reports success; proof, but no change of state
    PROOF = "proof"


class NewDelivery(msgspec.Struct, frozen=True, kw_only=True):
    """What an edge hands to the ledger."""

    id: str
    tenant: str
    source: str
    key: str
    #: the whole request, of which an element of a batch is a part
    body: bytes
    headers: bytes
    fingerprint: bytes
    type: str = ""
    road: str = "api"
    lane: str | None = None
    #: what is particular about its place in the lane; None where lanes only go by arrival
    order: Order | None = None
    received_at: int
    redelivery: str = "rearm"
    #: the request it is an element of; None where it has one of its own
    payload_id: str | None = None
    start: int = 0
    length: int | None = None
    #: nobody signed the key, so a known body under a new one is a replay
    unsigned: bool = False
    #: what becomes of such a replay: ``hold``, ``run`` or ``drop``
    on_replay: str = "hold"
    #: what was found about its time: ``fresh``, ``late``, ``undated``, or nothing
    verdict: str = ""
    #: which of the source's secrets had signed it
    secret_id: str | None = None
    #: why it is held from the beginning
    hold_reason: str | None = None
    #: our own delivery that was forwarded and came back as this
    echo_of: str | None = None

    @property
    def size(self) -> int:
        """How many bytes of the request are its own."""
        return len(self.body) if self.length is None else self.length


class Arrival(StrEnum):
    """What an arrival turned out to be."""

    NEW = "new"
    DUPLICATE = "duplicate"
    #: a known key with another body
    CONFLICT = "conflict"
    #: a known body under a new key that nobody signed
    SUSPICIOUS_REPLAY = "suspicious_replay"


class Accepted(msgspec.Struct, frozen=True):
    """The ledger's answer to an arrival, given only after the commit."""

    id: str
    arrival: Arrival
    #: the state the delivery was in when this arrival was seen
    state: State
    #: what a repeat most likely was
    sighting: str | None = None


class Delivery(msgspec.Struct, frozen=True):
    """What a handler sees: one try at one accepted arrival."""

    id: str
    tenant: str
    source: str
    key: str
    variant: str
    type: str
    lane: str | None
    #: it comes after its time: signed long ago, or out of its turn
    late: bool
    policy: str | None
    fence: int
    tries: int
    received_at: int
    give_up_at: int
    raw_headers: bytes
    body: bytes
    #: what was found about its time when it arrived: ``fresh``, ``late``, ``undated``, or nothing
    verdict: str = ""
    #: its number within its lane, where the source has such
    sequence: int | None = None
    #: where its headers and its body are kept
    payload_id: str = ""

    @property
    def headers(self) -> Headers:
        """The headers as received, in order, repeats included."""
        return msgspec.json.decode(self.raw_headers, type=Headers)

    @property
    def json(self) -> Any:
        """The body, decoded as JSON."""
        return msgspec.json.decode(self.body)

    @property
    def text(self) -> str:
        """The body, decoded as UTF-8."""
        return self.body.decode()


class Settlement(msgspec.Struct, frozen=True, kw_only=True):
    """How a worker wants a try to end; the ledger agrees only while the fence is current."""

    delivery: Delivery
    state: State
    outcome: Outcome
    error: str | None = None
    due_at: int | None = None
    not_before: int | None = None
    hold_reason: str | None = None
    #: only where the try ends well, with nothing more to say
    deed: Deed | None = None

    def __post_init__(self) -> None:
        """Refuse a deed where nothing was done."""
        if self.deed is not None and (self.state is not State.DONE or self.error is not None):
            message = "a deed belongs to a try that ends well"
            raise ValueError(message)


def encode_headers(headers: Headers) -> bytes:
    """Return headers in the form they are stored in."""
    return msgspec.json.encode(headers)
