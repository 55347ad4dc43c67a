"""API bodies of ``/v1/attempts``: once-only actions, permission for another mail, statistics."""

from typing import Annotated, Any, Literal

import msgspec

from oncebox.model.attempts import ActionState
from oncebox.schemas.fields import Timestamp
from oncebox.schemas.inboxes import AttemptId, AttemptInboxStats, InboxesByState, MessageStats

Fence = Annotated[int, msgspec.Meta(ge=1, le=2**53, description="the fence returned by begin")]
Lease = Annotated[
    float,
    msgspec.Meta(
        ge=1, le=900, description="seconds until the lease expires without a heartbeat; default 30"
    ),
]
ArtifactId = Annotated[str, msgspec.Meta(min_length=1, max_length=100, pattern=r"^[!-~]+$")]
ActionsByState = dict[Literal["started", "verifying", "done", "not_done", "unknown"], int]
SafetyChoice = Literal["idempotent", "once", "verify"]


class BeginAction(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A request to begin an action that must happen once."""

    #: what to do if the action was begun and its outcome was never reported
    safe: SafetyChoice = "once"
    lease: Lease | None = None
    #: seconds for which the other service remembers the key
    window: Annotated[float, msgspec.Meta(gt=0, le=31_536_000)] = 86_400
    #: a repeat with the same key gets the same response; use a new key for each begin
    request_key: (
        Annotated[str, msgspec.Meta(min_length=8, max_length=200, pattern=r"^[!-~]+$")] | None
    ) = None


class BeginActionResult(msgspec.Struct, frozen=True, kw_only=True):
    """What the caller must do now."""

    attempt_id: str
    name: str
    #: ``begun``: perform it; ``look``: it was begun before, check whether it happened and report
    #: it; ``done``: use the result; ``in_flight``: retry later; ``held``: an operator decides
    state: Literal["begun", "look", "done", "in_flight", "held"]
    #: required in every later request about the action; null unless you hold the lease
    fence: int | None
    #: idempotency key for the other service; the same for every repeat
    key: str
    #: when the current lease expires, yours or another caller's
    lease_until: Timestamp | None
    #: the stored result of a finished action
    result: Any
    #: whether a result is stored; without one, repeats must do without
    has_result: bool


class NotDoneAction(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A report that the action did not happen."""

    fence: Fence


class DoneAction(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A report that the action happened."""

    fence: Fence
    #: returned to repeats; omit it if it cannot be stored
    result: Any | msgspec.UnsetType = msgspec.UNSET
    #: artifacts that the action used: other workers of the attempt do not get them again
    uses: Annotated[list[ArtifactId], msgspec.Meta(max_length=20)] = []


class HeartbeatAction(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A renewal of the action's lease."""

    fence: Fence
    lease: Lease | None = None


class Action(msgspec.Struct, frozen=True, kw_only=True):
    """An action and its state."""

    attempt_id: str
    name: str
    state: ActionState
    safe: SafetyChoice
    #: when the lease expires; null once the action has ended
    lease_until: Timestamp | None
    started_at: Timestamp
    ended_at: Timestamp | None
    #: the first stored result, if it is done
    result: Any
    has_result: bool


class NewResend(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A request for permission to have the mail sent again."""


class ResendGrant(msgspec.Struct, frozen=True, kw_only=True):
    """Permission to have the mail sent again."""

    attempt_id: str
    #: the number of this resend within the attempt
    number: int
    #: how many resends are left
    left: int
    granted_at: Timestamp


class ResendCounts(msgspec.Struct, frozen=True, kw_only=True):
    """How often the mail was requested again."""

    granted: int
    #: the limit of the strictest policy among the attempt's inboxes
    allowed: int
    left: int


class AttemptStats(AttemptInboxStats, frozen=True, kw_only=True):
    """Statistics of an attempt: its inboxes, resends and actions."""

    resends: ResendCounts
    #: number of actions by state
    actions: ActionsByState


class BatchQuery(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Which attempts are a batch."""

    #: what their ids begin with, such as ``run-7/``
    prefix: AttemptId


class BatchStats(MessageStats, frozen=True, kw_only=True):
    """Statistics of a batch: all attempts whose ids begin with the same prefix."""

    prefix: str
    attempts: int
    inboxes: int
    #: number of inboxes by state
    states: InboxesByState
    #: inboxes with a message
    reached: int
    #: inboxes that expired without a matching message
    missed: int
    #: seconds from the creation of an inbox to its first message, on average
    time_to_first_message: float | None
    #: the longest of these times
    longest_time_to_first_message: float | None
    #: how often mail was requested again
    resends: int
    #: number of actions by state
    actions: ActionsByState
