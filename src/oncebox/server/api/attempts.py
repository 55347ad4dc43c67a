"""``/v1/attempts``: actions performed once, resends, and statistics of an attempt."""

from typing import Any

import msgspec

from oncebox.core import faults
from oncebox.errors.mail import ResendLimitReached
from oncebox.ledger.attempts import attempts
from oncebox.ledger.attempts.actions import ActionRef
from oncebox.ledger.notifications import EVENTS
from oncebox.model.attempts import (
    Action,
    ActionState,
    AttemptCounts,
    BeginStatus,
    action_key,
    request_fingerprint,
)
from oncebox.model.deliveries.effects import Safety
from oncebox.model.inboxes.inbox import InboxState
from oncebox.schemas import attempts as wire
from oncebox.server.api.inboxes import requester, shared_figures
from oncebox.server.http import api_endpoint
from oncebox.server.http.routing import AGENT, OPERATOR, ApiCall, CreateFunction, Route

_ONE = "/v1/attempts/{id}"
_ACTION = f"{_ONE}/actions/{{name}}"
_SCOPES = frozenset({AGENT, OPERATOR})
#: what is the caller's to do
_OWNED_BY_CALLER = {BeginStatus.BEGUN, BeginStatus.LOOK}
_OPEN = {ActionState.STARTED, ActionState.VERIFYING}
#: for who has an inbox in somebody else's attempt
_NO_FIGURES = AttemptCounts(created_at=0, resends=0, allowed=0, actions={})


async def begin_action(call: ApiCall) -> wire.BeginActionResult:
    """Begin an action, or say how it stands."""
    asked: wire.BeginAction = call.body
    begun = await call.components.attempts.begin(
        _action_task(call),
        Safety(asked.safe),
        lease=_lease(call, asked.lease),
        window=round(asked.window * 1000),
        request=asked.request_key,
    )
    action, mine = begun.action, begun.status in _OWNED_BY_CALLER
    return wire.BeginActionResult(
        attempt_id=action.attempt_id,
        name=action.name,
        state=begun.status.value,
        fence=action.fence if mine else None,
        key=action_key(action.tenant, action.attempt_id, action.name),
        lease_until=_lease_until(action),
        result=_result(call, action),
    )


async def complete_action(call: ApiCall) -> wire.Action:
    """Record that an action happened."""
    asked: wire.DoneAction = call.body
    result = msgspec.json.encode(asked.result)
    return _action_schema(
        call, await call.components.attempts.done(_action_task(call), asked.fence, result)
    )


async def mark_action_not_done(call: ApiCall) -> wire.Action:
    """Record that an action did not happen."""
    return _action_schema(
        call, await call.components.attempts.not_done(_action_task(call), call.body.fence)
    )


async def renew_action(call: ApiCall) -> wire.Action:
    """Keep an action for longer."""
    asked: wire.HeartbeatAction = call.body
    lease = _lease(call, asked.lease)
    return _action_schema(
        call, await call.components.attempts.heartbeat(_action_task(call), asked.fence, lease)
    )


def grant_resend(call: ApiCall) -> CreateFunction:
    """Grant one more mail."""
    who, attempt_id = requester(call), call.path["id"]
    mark = request_fingerprint(call.key.id, api_endpoint.idempotency_key([*call.headers.items()]))

    def verb(tx: Any) -> wire.ResendGrant:
        try:
            granted = attempts.grant_resend(tx, who, attempt_id, mark, call.now)
        except ResendLimitReached:
            call.components.telemetry.resends.labels("refused").inc()
            raise
        return wire.ResendGrant(
            attempt_id=granted.attempt_id,
            number=granted.number,
            left=max(0, granted.allowed - granted.number),
            granted_at=granted.at,
        )

    return verb


async def notify_resend(call: ApiCall) -> None:
    """Tell of it."""
    faults.point("actions.resend")
    call.components.telemetry.resends.labels("granted").inc()
    call.components.ledger.notify(EVENTS)


async def attempt_stats(call: ApiCall) -> wire.AttemptStats:
    """Return what came of an attempt."""
    found, acted = await call.components.ledger.read(
        attempts.stats, requester(call), call.path["id"]
    )
    figured = _NO_FIGURES if acted is None else acted
    return wire.AttemptStats(
        attempt_id=found.attempt_id,
        inboxes=sum(found.states.values()),
        states={state.value: found.states.get(state, 0) for state in InboxState},
        missed=found.missed,
        resends=wire.ResendCounts(
            granted=figured.resends,
            allowed=figured.allowed,
            left=max(0, figured.allowed - figured.resends),
        ),
        actions={state.value: figured.actions.get(state, 0) for state in ActionState},
        **shared_figures(found, found.messages),
    )


def _action_task(call: ApiCall) -> ActionRef:
    return ActionRef(requester(call), call.path["id"], call.path["name"])


def _lease(call: ApiCall, wanted: float | None) -> int:
    return round((wanted or call.components.settings.worker.lease) * 1000)


def _lease_until(action: Action) -> int | None:
    return action.lease_until if action.state in _OPEN else None


def _result(call: ApiCall, action: Action) -> Any:
    result = call.components.attempts.decrypt_result(action)
    return None if result is None else msgspec.Raw(result)


def _action_schema(call: ApiCall, action: Action) -> wire.Action:
    return wire.Action(
        attempt_id=action.attempt_id,
        name=action.name,
        state=action.state,
        safe=action.safe.value,
        lease_until=_lease_until(action),
        started_at=action.started_at,
        ended_at=action.ended_at,
        result=_result(call, action),
    )


ROUTES = (
    Route(
        method="POST",
        path=_ACTION,
        name="beginAction",
        summary="Begin something that must happen once for an attempt; learn whether it did.",
        scopes=_SCOPES,
        body=wire.BeginAction,
        answer=wire.BeginActionResult,
        handler=begin_action,
    ),
    Route(
        method="POST",
        path=f"{_ACTION}/done",
        name="doneAction",
        summary="Say that an action happened, and store its result; late is not too late.",
        scopes=_SCOPES,
        body=wire.DoneAction,
        answer=wire.Action,
        handler=complete_action,
    ),
    Route(
        method="POST",
        path=f"{_ACTION}/not-done",
        name="notDoneAction",
        summary="Say that an action did not happen, so that it may begin again.",
        scopes=_SCOPES,
        body=wire.NotDoneAction,
        answer=wire.Action,
        handler=mark_action_not_done,
    ),
    Route(
        method="POST",
        path=f"{_ACTION}/heartbeat",
        name="heartbeatAction",
        summary="Keep an action for longer.",
        scopes=_SCOPES,
        body=wire.HeartbeatAction,
        answer=wire.Action,
        handler=renew_action,
    ),
    Route(
        method="POST",
        path=f"{_ONE}/resend",
        name="resendAttempt",
        summary="Get leave to ask for the mail again, as often as the inboxes' policy allows.",
        scopes=_SCOPES,
        body=wire.NewResend,
        answer=wire.ResendGrant,
        status=201,
        creator=grant_resend,
        after=notify_resend,
    ),
    Route(
        method="GET",
        path=f"{_ONE}/stats",
        name="getAttemptStats",
        summary="Show what came of all inboxes of an attempt, and what it did.",
        scopes=_SCOPES,
        answer=wire.AttemptStats,
        handler=attempt_stats,
    ),
)
