"""Deliveries: states, transitions, lane order, policy decisions and settlements."""

from collections.abc import Callable, Sequence
from enum import StrEnum
from typing import Any

import msgspec


class CommitHook(msgspec.Struct, frozen=True):
    """A function that runs in the transaction that completes a try, if its fence is current."""

    #: takes a transaction, the arguments of all hooks with this function, and the time; returns
    #: a result for each
    function: Callable[[Any, Sequence[Any], int], Sequence[Any]]
    argument: Any
    #: called with the result after the commit, unless the reply to the commit was lost
    after_commit: Callable[[Any], None] | None = None


class LaneRules(msgspec.Struct, frozen=True, kw_only=True):
    """Rules of a source for its lanes; all times in milliseconds."""

    #: what becomes of a number below the highest that is done: ``skip`` or ``run``
    stale: str = "run"
    #: how long a missing number is waited for
    gap_wait: int = 0
    #: types that wait until another type of the same lane is done
    after: dict[str, str] = {}
    #: how long they wait
    after_wait: int = 0


class LaneOrder(msgspec.Struct, frozen=True, kw_only=True):
    """The order of one delivery in its lane, where it differs from that of arrival."""

    #: its number; a lane with numbers runs from the lowest up
    sequence: int | None = None
    #: it is not run once a higher number is done
    skip_stale: bool = False
    #: until when it waits for the numbers before its own
    gap_until: int = 0
    #: the type that it lets go first
    after: str | None = None
    #: until when it waits for that
    after_until: int = 0


def lane_order(rules: LaneRules, type_: str, sequence: int | None, arrived: int) -> LaneOrder:
    """Return the order of an arrival by these rules; waits count from its arrival."""
    return LaneOrder(
        sequence=sequence,
        skip_stale=rules.stale == "skip",
        gap_until=arrived + rules.gap_wait,
        after=rules.after.get(type_),
        after_until=arrived + rules.after_wait,
    )


class Allow(msgspec.Struct, frozen=True):
    """Let it run."""


class Hold(msgspec.Struct, frozen=True):
    """Hold it for an operator."""

    reason: str


class Drop(msgspec.Struct, frozen=True):
    """Complete it without running the handler."""

    reason: str


PolicyDecision = Allow | Hold | Drop


Headers = tuple[tuple[str, str], ...]


class DeliveryState(StrEnum):
    """The state of a delivery."""

    #: on disk, waiting for a worker
    RECEIVED = "received"
    #: leased to a worker
    PROCESSING = "processing"
    #: handled, ignored, dropped or stale; nothing more will happen
    DONE = "done"
    #: a try failed; it waits for the next
    FAILED = "failed"
    #: given up; an operator or a redelivery may revive it
    DEAD = "dead"
    #: held for an operator, with the reason
    HELD = "held"


#: every change of state that exists, with what causes it; tests and docs come from this table
TRANSITIONS: dict[tuple[DeliveryState, DeliveryState], str] = {
    (DeliveryState.RECEIVED, DeliveryState.PROCESSING): "claimed by a worker",
    (DeliveryState.RECEIVED, DeliveryState.HELD): "held by a person",
    (DeliveryState.RECEIVED, DeliveryState.DONE): "stale: a later one of its lane is done",
    (DeliveryState.FAILED, DeliveryState.PROCESSING): "claimed by a worker",
    (DeliveryState.FAILED, DeliveryState.HELD): "held by a person",
    (DeliveryState.PROCESSING, DeliveryState.PROCESSING): "reclaimed after its lease expired",
    (DeliveryState.PROCESSING, DeliveryState.DONE): "handled, ignored or dropped",
    (DeliveryState.PROCESSING, DeliveryState.FAILED): "the try failed and may be repeated",
    (DeliveryState.PROCESSING, DeliveryState.DEAD): "gave up: permanent, or tries or time used up",
    (DeliveryState.PROCESSING, DeliveryState.HELD): "held by a policy or for an unknown effect",
    (DeliveryState.PROCESSING, DeliveryState.RECEIVED): "given back by a stopping worker",
    (DeliveryState.HELD, DeliveryState.RECEIVED): "released by a person",
    (DeliveryState.HELD, DeliveryState.DONE): "dropped by a person",
    (DeliveryState.DEAD, DeliveryState.RECEIVED): "re-armed by a redelivery, replayed by a person",
    (DeliveryState.DEAD, DeliveryState.DONE): "re-armed by a redelivery, and stale at once",
    (DeliveryState.DONE, DeliveryState.RECEIVED): "replayed by a person",
}


class DeliveryOutcome(StrEnum):
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
    """A delivery to be stored."""

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
    order: LaneOrder | None = None
    received_at: int
    redelivery: str = "rearm"
    #: the request it is an element of; None where it has one of its own
    payload_id: str | None = None
    start: int = 0
    length: int | None = None
    #: the key is not signed, so a known body under a new one is a replay
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
    #: mail that is large, and waits apart from all others
    heavy: bool = False

    @property
    def size(self) -> int:
        """How many bytes of the request are its own."""
        return len(self.body) if self.length is None else self.length


class ArrivalKind(StrEnum):
    """The kind of an arrival."""

    NEW = "new"
    DUPLICATE = "duplicate"
    #: a known key with another body
    CONFLICT = "conflict"
    #: a known body under a new unsigned key
    SUSPICIOUS_REPLAY = "suspicious_replay"


class Accepted(msgspec.Struct, frozen=True):
    """The ledger's answer to an arrival, given only after the commit."""

    id: str
    arrival: ArrivalKind
    #: the state the delivery was in when this arrival was seen
    state: DeliveryState
    #: the class of a duplicate
    duplicate_class: str | None = msgspec.field(default=None, name="sighting")


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
    """How a worker ends a try; recorded only while the fence is current."""

    delivery: Delivery
    state: DeliveryState
    outcome: DeliveryOutcome
    error: str | None = None
    due_at: int | None = None
    not_before: int | None = None
    hold_reason: str | None = None
    #: from now on it waits with the mail that is large or slow to parse
    heavy: bool = False
    #: where it failed: frames only, without what anybody wrote
    traceback: str | None = None
    #: only where the try ends well, with nothing more to say
    commit_hook: CommitHook | None = None

    def __post_init__(self) -> None:
        if self.commit_hook is not None and (
            self.state is not DeliveryState.DONE or self.error is not None
        ):
            raise ValueError("a commit hook needs a try that is done, without an error")


def encode_headers(headers: Headers) -> bytes:
    """Return headers in the form they are stored in."""
    return msgspec.json.encode(headers)
