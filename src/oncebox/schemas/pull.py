"""Pull workers: claims, leases, completion and effects; durations in seconds."""

from typing import Annotated, Any, Literal

import msgspec

from oncebox.model.deliveries.delivery import DeliveryState
from oncebox.schemas.deliveries import Effect
from oncebox.schemas.fields import SourceName, Timestamp

#: the longest a claim may wait for work
LONGEST_WAIT = 55

Fence = Annotated[int, msgspec.Meta(ge=1, le=2**53, description="as the claim told it")]
Lease = Annotated[
    float, msgspec.Meta(ge=1, le=900, description="seconds without a heartbeat; 30 unless set")
]
ErrorText = Annotated[str, msgspec.Meta(max_length=2_000)]


class ClaimWork(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A wish for work."""

    #: the same key is answered with the same leases; take a new one for each claim
    request_key: Annotated[str, msgspec.Meta(min_length=8, max_length=200, pattern=r"^[!-~]+$")]
    #: all that the key may work on unless set
    sources: Annotated[list[SourceName], msgspec.Meta(min_length=1, max_length=100)] | None = None
    #: what this worker calls itself
    worker: Annotated[str, msgspec.Meta(min_length=1, max_length=100, pattern=r"^[!-~]+$")] = "pull"
    limit: Annotated[int, msgspec.Meta(ge=1, le=100)] = 1
    #: seconds to wait for work if there is none
    wait: Annotated[float, msgspec.Meta(ge=0, le=LONGEST_WAIT)] = 0
    lease: Lease | None = None


class ClaimedDelivery(msgspec.Struct, frozen=True, kw_only=True):
    """One try at one delivery."""

    id: str
    source: str
    key: str
    type: str
    #: send it along with everything said about this try
    fence: int
    tries: int
    #: it comes after its time: signed long ago, or out of its turn
    late: bool
    #: ``fresh``, ``late``, ``undated`` or nothing
    verdict: str
    lane: str | None
    sequence: int | None
    received_at: Timestamp
    #: when it is no longer tried
    give_up_at: Timestamp
    headers: list[tuple[str, str]]
    #: in base64
    body: bytes


class ClaimResponse(msgspec.Struct, frozen=True, kw_only=True):
    """What is yours to do now; nothing if there was nothing."""

    deliveries: list[ClaimedDelivery]
    #: seconds within which a heartbeat must come
    lease: float


class Heartbeat(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A sign of life."""

    fence: Fence
    lease: Lease | None = None


class LeaseRenewed(msgspec.Struct, frozen=True, kw_only=True):
    """The lease holds."""

    until: Timestamp


class CompleteTry(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """It is done."""

    fence: Fence


class FailTry(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """It did not work out."""

    fence: Fence
    error: ErrorText
    #: trying again will not help
    permanent: bool = False
    #: seconds to wait at least
    retry_after: Annotated[float, msgspec.Meta(ge=0, le=3_000_000)] | None = None


class TryEnded(msgspec.Struct, frozen=True, kw_only=True):
    """How the try ended."""

    state: DeliveryState
    #: when it is tried again
    due_at: Timestamp | None


class BeginEffect(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A side effect is about to happen."""

    fence: Fence
    #: what to do if it was started before and never heard of again
    safe: Literal["idempotent", "once", "verify"] = "once"
    #: seconds the call may take
    timeout: Annotated[float, msgspec.Meta(gt=0, le=600)] = 20
    #: seconds for which the other side remembers the key
    window: Annotated[float, msgspec.Meta(gt=0, le=31_536_000)] = 86_400


class BeginEffectResult(msgspec.Struct, frozen=True, kw_only=True):
    """What the journal says to that."""

    #: make the call now
    go: bool
    #: hand it to the other side; the same for every repeat
    key: str
    #: what was journalled before; its result, if it is done
    before: Effect | None
    #: nobody can know whether it happened: the delivery is held for a person
    held: bool
    #: names this start; send it along with how it ended
    started_at: Timestamp | None


class FinishEffect(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """How a side effect ended."""

    fence: Fence
    state: Literal["done", "not_done", "unknown"]
    #: what to give to repeats
    result: Any = None
    error: ErrorText | None = None
    #: which start did not happen, or is in doubt; the one of this fence unless set
    started_at: Timestamp | None = None
