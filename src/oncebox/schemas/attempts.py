"""API bodies of ``/v1/attempts``: once-only actions, permission for another mail, statistics."""

from typing import Annotated, Any, Literal

import msgspec

from oncebox.model.attempts import ActionState
from oncebox.schemas.fields import Timestamp
from oncebox.schemas.inboxes import AttemptInboxStats

Fence = Annotated[int, msgspec.Meta(ge=1, le=2**53, description="as the begin told it")]
Lease = Annotated[
    float, msgspec.Meta(ge=1, le=900, description="seconds without a heartbeat; 30 unless set")
]
SafetyChoice = Literal["idempotent", "once", "verify"]


class BeginAction(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A wish to do something once."""

    #: what becomes of it if it is begun and never heard of again
    safe: SafetyChoice = "once"
    lease: Lease | None = None
    #: seconds for which the other side remembers the key
    window: Annotated[float, msgspec.Meta(gt=0, le=31_536_000)] = 86_400
    #: the same key is told the same, so that a lost answer costs nothing; new for each begin
    request_key: (
        Annotated[str, msgspec.Meta(min_length=8, max_length=200, pattern=r"^[!-~]+$")] | None
    ) = None


class BeginActionResult(msgspec.Struct, frozen=True, kw_only=True):
    """What to do now."""

    attempt_id: str
    name: str
    #: ``begun``: do it; ``look``: it was begun before, look whether it happened and say so;
    #: ``done``: take the result; ``in_flight``: ask again later; ``held``: wait for a person
    state: Literal["begun", "look", "done", "in_flight", "held"]
    #: send it along with what you say about the action; none unless it is yours
    fence: int | None
    #: hand it to the other side; the same for every repeat
    key: str
    #: until when the action is yours, or somebody's
    lease_until: Timestamp | None
    #: what was stored, where it is done
    result: Any


class NotDoneAction(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """It did not happen."""

    fence: Fence


class DoneAction(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """It happened."""

    fence: Fence
    #: what to give to repeats
    result: Any = None


class HeartbeatAction(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """It is still being done."""

    fence: Fence
    lease: Lease | None = None


class Action(msgspec.Struct, frozen=True, kw_only=True):
    """How an action stands."""

    attempt_id: str
    name: str
    state: ActionState
    safe: SafetyChoice
    #: until when it is somebody's; none once it has ended
    lease_until: Timestamp | None
    started_at: Timestamp
    ended_at: Timestamp | None
    #: the first that was stored, where it is done
    result: Any


class NewResend(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A wish to ask for the mail once more."""


class ResendGrant(msgspec.Struct, frozen=True, kw_only=True):
    """Leave to ask for the mail once more."""

    attempt_id: str
    #: which one of the attempt it is
    number: int
    #: how many are left
    left: int
    granted_at: Timestamp


class ResendCounts(msgspec.Struct, frozen=True, kw_only=True):
    """How often the mail was asked for again."""

    granted: int
    #: by the strictest policy of the attempt's inboxes
    allowed: int
    left: int


class AttemptStats(AttemptInboxStats, frozen=True, kw_only=True):
    """What came of an attempt: of all its inboxes, and what was done."""

    resends: ResendCounts
    #: how many actions are in which state
    actions: dict[Literal["started", "verifying", "done", "not_done", "unknown"], int]
