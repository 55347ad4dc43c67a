"""Pull workers: claims, leases, completion and effects; durations in seconds."""

from typing import Annotated, Any, Literal

import msgspec

from oncebox.model.deliveries.delivery import DeliveryState
from oncebox.schemas.deliveries import Effect
from oncebox.schemas.fields import SourceName, Timestamp

#: the longest time a claim may wait for work
LONGEST_WAIT = 55

Fence = Annotated[int, msgspec.Meta(ge=1, le=2**53, description="the fence returned by the claim")]
Lease = Annotated[
    float,
    msgspec.Meta(
        ge=1, le=900, description="seconds until the lease expires without a heartbeat; default 30"
    ),
]
ErrorText = Annotated[str, msgspec.Meta(max_length=2_000)]


class ClaimWork(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A request to claim deliveries."""

    #: a repeat with the same key gets the same leases; use a new key for each claim
    request_key: Annotated[str, msgspec.Meta(min_length=8, max_length=200, pattern=r"^[!-~]+$")]
    #: default: every source that the API key may work on
    sources: Annotated[list[SourceName], msgspec.Meta(min_length=1, max_length=100)] | None = None
    #: the worker's name
    worker: Annotated[str, msgspec.Meta(min_length=1, max_length=100, pattern=r"^[!-~]+$")] = "pull"
    limit: Annotated[int, msgspec.Meta(ge=1, le=100)] = 1
    #: seconds to wait if nothing is due
    wait: Annotated[float, msgspec.Meta(ge=0, le=LONGEST_WAIT)] = 0
    lease: Lease | None = None


class ClaimedDelivery(msgspec.Struct, frozen=True, kw_only=True):
    """A claimed delivery: one try."""

    id: str
    source: str
    key: str
    type: str
    #: required in every later request about this try
    fence: int
    tries: int
    #: it is late: signed too long ago, or out of order
    late: bool
    #: ``fresh``, ``late``, ``undated`` or empty
    verdict: str
    lane: str | None
    sequence: int | None
    received_at: Timestamp
    #: after this time it is not tried again
    give_up_at: Timestamp
    headers: list[tuple[str, str]]
    #: base64
    body: bytes


class ClaimResponse(msgspec.Struct, frozen=True, kw_only=True):
    """The claimed deliveries; empty if nothing was due."""

    deliveries: list[ClaimedDelivery]
    #: seconds within which a heartbeat is required
    lease: float


class Heartbeat(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A renewal of the lease."""

    fence: Fence
    lease: Lease | None = None


class LeaseRenewed(msgspec.Struct, frozen=True, kw_only=True):
    """The renewed lease."""

    until: Timestamp


class CompleteTry(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A report that the delivery was processed."""

    fence: Fence


class FailTry(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A report that the try failed."""

    fence: Fence
    error: ErrorText
    #: a retry would not help
    permanent: bool = False
    #: minimum seconds before the next try
    retry_after: Annotated[float, msgspec.Meta(ge=0, le=3_000_000)] | None = None


class TryEnded(msgspec.Struct, frozen=True, kw_only=True):
    """How the try ended."""

    state: DeliveryState
    #: when the next try is due
    due_at: Timestamp | None


class BeginEffect(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A request to begin a side effect."""

    fence: Fence
    #: what to do if it was started before and its outcome was never reported
    safe: Literal["idempotent", "once", "verify"] = "once"
    #: time limit of the call in seconds
    timeout: Annotated[float, msgspec.Meta(gt=0, le=600)] = 20
    #: seconds for which the other service remembers the key
    window: Annotated[float, msgspec.Meta(gt=0, le=31_536_000)] = 86_400


class BeginEffectResult(msgspec.Struct, frozen=True, kw_only=True):
    """What the caller must do, according to the journal."""

    #: whether to make the call now
    go: bool
    #: idempotency key for the other service; the same for every repeat
    key: str
    #: the earlier journal entry, with its result if it is done
    before: Effect | None
    #: the outcome is unknown, and the delivery is held for an operator
    held: bool
    #: identifies this start; required when its outcome is reported
    started_at: Timestamp | None


class FinishEffect(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The outcome of a side effect."""

    fence: Fence
    state: Literal["done", "not_done", "unknown"]
    #: returned to repeats; omit it if it cannot be stored
    result: Any | msgspec.UnsetType = msgspec.UNSET
    error: ErrorText | None = None
    #: the start that did not happen or whose outcome is unknown; default: the one of this fence
    started_at: Timestamp | None = None
