"""Deliveries and quarantine: submission; listing, inspection, replay and hold for operators."""

from typing import Annotated, Any, Literal

import msgspec
from msgspec import UNSET, UnsetType

from oncebox.model.deliveries.delivery import ArrivalKind, DeliveryState
from oncebox.schemas.fields import ListPage, ListQuery, Reason, SourceName, Timestamp


class DeliveryQuery(ListQuery, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Filters for a list of deliveries, newest first."""

    state: DeliveryState | UnsetType = UNSET
    source: SourceName | UnsetType = UNSET


class InspectQuery(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Options for inspecting a delivery."""

    #: include the headers and the body as received
    payload: bool = False


class Delivery(msgspec.Struct, frozen=True, kw_only=True):
    """An accepted delivery and its state."""

    id: str
    source: str
    #: the sender's id for it, or a hash of its body
    key: str
    #: not empty if a different body arrived under a known key
    variant: str
    type: str
    #: the channel through which it arrived
    road: str
    state: DeliveryState
    lane: str | None
    lane_position: int | None
    late: bool
    due_at: Timestamp | None
    received_at: Timestamp
    accepted_at: Timestamp
    tries: int
    fence: int
    worker: str | None
    claimed_at: Timestamp | None
    give_up_at: Timestamp | None
    not_before: Timestamp | None
    rearms: int
    policy: str | None
    hold_reason: str | None
    held_at: Timestamp | None
    outcome: str | None
    last_error: str | None
    ended_at: Timestamp | None
    #: size of the body in bytes
    size: int


class DeliveryPage(ListPage, frozen=True, kw_only=True):
    """A page of deliveries, newest first."""

    data: list[Delivery]


#: events of one batch
MAX_BATCH = 100


class SubmitDelivery(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """An event to store once."""

    source: str
    #: the same key is the same event; default: the hash of the body
    key: str | None = None
    type: str = ""
    #: the body in base64
    body: bytes | UnsetType = UNSET
    #: the body as text, instead
    text: str | UnsetType = UNSET
    headers: list[tuple[str, str]] = []
    #: events with the same one run one at a time, in order; default: as the source's order_by says
    order_key: str | None = None


class SubmitDeliveries(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Several events, each stored once."""

    deliveries: Annotated[list[SubmitDelivery], msgspec.Meta(min_length=1, max_length=MAX_BATCH)]


class AcceptedDelivery(msgspec.Struct, frozen=True, kw_only=True):
    """The answer to an event, given when it is on disk."""

    id: str
    #: ``conflict``: the key is known with another body; stored, and held for an operator
    arrival: ArrivalKind
    #: of the delivery when this event was seen
    state: DeliveryState
    #: the class of a duplicate
    sighting: str | None = None


class ItemError(msgspec.Struct, frozen=True, kw_only=True):
    """Why one event of a batch was not stored."""

    code: str
    detail: str
    #: whether submitting the same event again is safe and may help
    retry_safe: bool


class BatchItem(msgspec.Struct, frozen=True, kw_only=True):
    """The answer to one event of a batch: that of a stored one, or its error."""

    id: str | None = None
    arrival: ArrivalKind | None = None
    state: DeliveryState | None = None
    sighting: str | None = None
    error: ItemError | None = None


class AcceptedDeliveries(msgspec.Struct, frozen=True, kw_only=True):
    """The answers to a batch, in its order."""

    data: list[BatchItem]


class DeliveryTry(msgspec.Struct, frozen=True, kw_only=True):
    """A try that did not complete its delivery."""

    fence: int
    worker: str | None
    claimed_at: Timestamp | None
    ended_at: Timestamp
    outcome: str
    error: str | None


class Effect(msgspec.Struct, frozen=True, kw_only=True):
    """A journalled side effect."""

    name: str
    state: Literal["started", "done", "not_done", "unknown"]
    #: what to do if it was started and its outcome was never reported
    safe: Literal["idempotent", "once", "verify"]
    fence: int
    first_started_at: Timestamp
    started_at: Timestamp
    #: from this time on the call cannot still be running
    surely_over_at: Timestamp
    ended_at: Timestamp | None
    #: what the call returned
    result: Any
    #: whether a result is stored; without one, repeats must do without
    has_result: bool
    error: str | None


class DuplicateCount(msgspec.Struct, frozen=True, kw_only=True):
    """Number of duplicates of a delivery in one class."""

    sighting: str
    count: int
    first_at: Timestamp
    last_at: Timestamp
    road: str


class AuditRecord(msgspec.Struct, frozen=True, kw_only=True):
    """An operator's action."""

    at: Timestamp
    who: str
    action: str
    why: str
    detail: str


class Payload(msgspec.Struct, frozen=True, kw_only=True):
    """Headers and body, exactly as received."""

    headers: list[tuple[str, str]]
    #: base64
    body: bytes


class DeliveryInspection(msgspec.Struct, frozen=True, kw_only=True):
    """A delivery with its tries, effects, duplicates and audit records."""

    delivery: Delivery
    tries: list[DeliveryTry]
    effects: list[Effect]
    sightings: list[DuplicateCount]
    audit: list[AuditRecord]
    #: what happens next, or what an operator can do
    next_action: str
    payload: Payload | None = None


EffectResolution = Literal["done", "not_done"]
EffectResults = Annotated[
    dict[str, Any],
    msgspec.Meta(max_length=100, description="what effects that are done have returned"),
]
EffectResolutions = Annotated[
    dict[str, EffectResolution],
    msgspec.Meta(max_length=100, description="your decision on each effect of unknown outcome"),
]


class ReplayDelivery(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A request to replay, release or drop a delivery."""

    why: Reason
    effects: EffectResolutions = {}
    #: by the names of the effects; without one, a repeat gets no result
    results: EffectResults = {}
    #: report what would happen without changing anything
    dry_run: bool = False


class HoldDelivery(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A request to hold a delivery."""

    why: Reason


class ReplayResult(msgspec.Struct, frozen=True, kw_only=True):
    """The delivery after an operator's decision."""

    delivery: Delivery
    #: whether this was a dry run, which changes nothing
    dry_run: bool
    #: effects that will not run again; their stored results are used
    done: list[str]
    #: effects that are not known to have happened
    may_run: list[str]


class QuarantineQuery(ListQuery, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Filters for a list of rejected requests, newest first."""

    source: SourceName | UnsetType = UNSET


class RejectedRequest(msgspec.Struct, frozen=True, kw_only=True):
    """A webhook request that failed verification."""

    id: str
    source: str
    #: why verification failed
    reason: str
    #: the most likely explanation
    sighting: str
    received_at: Timestamp
    method: str
    #: without the query string
    url: str
    size: int


class RejectedRequestPage(ListPage, frozen=True, kw_only=True):
    """A page of rejected requests, newest first."""

    data: list[RejectedRequest]


class RejectedRequestDetail(RejectedRequest, frozen=True, kw_only=True):
    """A rejected request with headers and body; values that may be secrets are removed."""

    headers: list[tuple[str, str]]
    #: base64
    body: bytes


class AdmittedDelivery(msgspec.Struct, frozen=True, kw_only=True):
    """A delivery created from a rejected request."""

    id: str
    arrival: str
    state: DeliveryState


class AdmitResult(msgspec.Struct, frozen=True, kw_only=True):
    """The deliveries created from a rejected request."""

    deliveries: list[AdmittedDelivery]
