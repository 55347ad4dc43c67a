"""Deliveries and quarantine: listing, inspection, replay and hold, for operators."""

from typing import Annotated, Any, Literal

import msgspec
from msgspec import UNSET, UnsetType

from oncebox.model.deliveries.delivery import DeliveryState
from oncebox.schemas.fields import ListPage, ListQuery, Reason, SourceName, Timestamp


class DeliveryQuery(ListQuery, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Which deliveries are wanted; newest first."""

    state: DeliveryState | UnsetType = UNSET
    source: SourceName | UnsetType = UNSET


class InspectQuery(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """How much is wanted of a delivery."""

    #: also the headers and the body as they arrived
    payload: bool = False


class Delivery(msgspec.Struct, frozen=True, kw_only=True):
    """One accepted arrival and where it stands."""

    id: str
    source: str
    #: the sender's own id for it, or a hash of its body
    key: str
    #: not empty where another body came under a known key
    variant: str
    type: str
    #: the way it came in
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
    #: bytes of its body
    size: int


class DeliveryPage(ListPage, frozen=True, kw_only=True):
    """Some deliveries, newest first."""

    data: list[Delivery]


class DeliveryTry(msgspec.Struct, frozen=True, kw_only=True):
    """One claim that did not end its delivery well."""

    fence: int
    worker: str | None
    claimed_at: Timestamp | None
    ended_at: Timestamp
    outcome: str
    error: str | None


class Effect(msgspec.Struct, frozen=True, kw_only=True):
    """One journalled side effect."""

    name: str
    state: Literal["started", "done", "not_done", "unknown"]
    #: what is done when it was started and never heard of again
    safe: Literal["idempotent", "once", "verify"]
    fence: int
    first_started_at: Timestamp
    started_at: Timestamp
    #: from then on the call can no longer be under way
    surely_over_at: Timestamp
    ended_at: Timestamp | None
    #: what the call returned
    result: Any
    error: str | None


class DuplicateCount(msgspec.Struct, frozen=True, kw_only=True):
    """How often a delivery was seen again in one class."""

    sighting: str
    count: int
    first_at: Timestamp
    last_at: Timestamp
    road: str


class AuditRecord(msgspec.Struct, frozen=True, kw_only=True):
    """What a person did."""

    at: Timestamp
    who: str
    action: str
    why: str
    detail: str


class Payload(msgspec.Struct, frozen=True, kw_only=True):
    """What arrived, exactly."""

    headers: list[tuple[str, str]]
    #: in base64
    body: bytes


class DeliveryInspection(msgspec.Struct, frozen=True, kw_only=True):
    """Everything known of one delivery."""

    delivery: Delivery
    tries: list[DeliveryTry]
    effects: list[Effect]
    sightings: list[DuplicateCount]
    audit: list[AuditRecord]
    #: what may or must happen next
    next_action: str
    payload: Payload | None = None


EffectResolution = Literal["done", "not_done"]
EffectResolutions = Annotated[
    dict[str, EffectResolution],
    msgspec.Meta(max_length=100, description="your word on each effect in doubt"),
]


class ReplayDelivery(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """How a delivery is to run again."""

    why: Reason
    effects: EffectResolutions = {}
    #: say what would happen, and change nothing
    dry_run: bool = False


class HoldDelivery(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Why a delivery must not run now."""

    why: Reason


class ReplayResult(msgspec.Struct, frozen=True, kw_only=True):
    """How a delivery stands after a person's word."""

    delivery: Delivery
    #: nothing was changed
    dry_run: bool
    #: effects that will not run again; their stored results are used
    done: list[str]
    #: effects that are not known to have happened
    may_run: list[str]


class QuarantineQuery(ListQuery, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Which rejected requests are wanted; newest first."""

    source: SourceName | UnsetType = UNSET


class RejectedRequest(msgspec.Struct, frozen=True, kw_only=True):
    """A request that was not believed."""

    id: str
    source: str
    #: why the signature was not believed
    reason: str
    #: what it most likely was
    sighting: str
    received_at: Timestamp
    method: str
    #: without its query
    url: str
    size: int


class RejectedRequestPage(ListPage, frozen=True, kw_only=True):
    """Some rejected requests, newest first."""

    data: list[RejectedRequest]


class RejectedRequestDetail(RejectedRequest, frozen=True, kw_only=True):
    """A rejected request with what it carried; values that may be secrets are left out."""

    headers: list[tuple[str, str]]
    #: in base64
    body: bytes


class AdmittedDelivery(msgspec.Struct, frozen=True, kw_only=True):
    """One delivery that a request turned out to hold."""

    id: str
    arrival: str
    state: DeliveryState


class AdmitResult(msgspec.Struct, frozen=True, kw_only=True):
    """What a request turned out to hold after all."""

    deliveries: list[AdmittedDelivery]
