"""``/v1/attempts``: actions performed once, resends, and statistics of an attempt."""

from typing import Any

import msgspec

from oncebox.core import faults
from oncebox.errors.mail import ResendLimitReached
from oncebox.ledger.attempts import attempts
from oncebox.ledger.attempts.actions import ActionRef
from oncebox.ledger.notifications import EVENTS
from oncebox.ledger.transactions import Transaction
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
from oncebox.server.api.deliveries import encode_given
from oncebox.server.api.inboxes import shared_figures
from oncebox.server.http.routing import AGENTS, ApiCall, Routes

routes = Routes()
_ACTION = "/v1/attempts/{id}/actions/{name}"
#: statuses in which the caller holds the action
_HELD_BY_CALLER = {BeginStatus.BEGUN, BeginStatus.LOOK}
_OPEN = {ActionState.STARTED, ActionState.VERIFYING}
#: for a caller with an inbox in an attempt of another key
_NO_COUNTS = AttemptCounts(created_at=0, resends=0, allowed=0, actions={})


@routes("POST", _ACTION, "beginAction", scopes=AGENTS, body=wire.BeginAction)
async def begin_action(call: ApiCall) -> wire.BeginActionResult:
    """Begin an action that must happen once per attempt, or get its state."""
    asked: wire.BeginAction = call.body
    begun = await call.components.attempts.begin(
        _action_ref(call),
        Safety(asked.safe),
        lease=_lease(call, asked.lease),
        window=round(asked.window * 1000),
        request=asked.request_key,
    )
    action, held = begun.action, begun.status in _HELD_BY_CALLER
    return wire.BeginActionResult(
        attempt_id=action.attempt_id,
        name=action.name,
        state=begun.status.value,
        fence=action.fence if held else None,
        key=action_key(action.tenant, action.attempt_id, action.name),
        lease_until=_lease_until(action),
        result=_result(call, action),
        has_result=action.result is not None,
    )


@routes("POST", f"{_ACTION}/done", "doneAction", scopes=AGENTS, body=wire.DoneAction)
async def complete_action(call: ApiCall) -> wire.Action:
    """Record that an action happened, and store its result, even after its lease expired."""
    asked: wire.DoneAction = call.body
    action = await call.components.attempts.done(
        _action_ref(call), asked.fence, encode_given(asked.result), uses=asked.uses
    )
    return _action_schema(call, action)


@routes("POST", f"{_ACTION}/not-done", "notDoneAction", scopes=AGENTS, body=wire.NotDoneAction)
async def mark_action_not_done(call: ApiCall) -> wire.Action:
    """Record that an action did not happen, so that it may begin again."""
    action = await call.components.attempts.not_done(_action_ref(call), call.body.fence)
    return _action_schema(call, action)


@routes("POST", f"{_ACTION}/heartbeat", "heartbeatAction", scopes=AGENTS, body=wire.HeartbeatAction)
async def renew_action(call: ApiCall) -> wire.Action:
    """Renew the lease of an action."""
    asked: wire.HeartbeatAction = call.body
    lease = _lease(call, asked.lease)
    action = await call.components.attempts.heartbeat(_action_ref(call), asked.fence, lease)
    return _action_schema(call, action)


async def _notify_resend(call: ApiCall) -> None:
    faults.point("actions.resend")
    call.components.telemetry.resends.labels("granted").inc()
    call.ledger.notify(EVENTS)


@routes.create(
    "/v1/attempts/{id}/resend",
    "resendAttempt",
    scopes=AGENTS,
    body=wire.NewResend,
    after=_notify_resend,
)
def grant_resend(call: ApiCall, tx: Transaction) -> wire.ResendGrant:
    """Get permission to request the mail again, as often as the inboxes' policy allows."""
    mark = request_fingerprint(call.key.id, call.idempotency_key or "")
    try:
        granted = attempts.grant_resend(
            tx, call.requester, call.path["id"], mark, call.ledger.clock()
        )
    except ResendLimitReached:
        call.components.telemetry.resends.labels("refused").inc()
        raise
    return wire.ResendGrant(
        attempt_id=granted.attempt_id,
        number=granted.number,
        left=max(0, granted.allowed - granted.number),
        granted_at=granted.at,
    )


@routes("GET", "/v1/attempts/{id}/stats", "getAttemptStats", scopes=AGENTS)
async def attempt_stats(call: ApiCall) -> wire.AttemptStats:
    """Get the statistics of an attempt: its inboxes, actions and resends."""
    await call.components.inbox_counter.store()
    found, counted = await call.ledger.read(attempts.stats, call.requester, call.path["id"])
    counts = counted or _NO_COUNTS
    return wire.AttemptStats(
        attempt_id=found.attempt_id,
        inboxes=sum(found.states.values()),
        states={state.value: found.states.get(state, 0) for state in InboxState},
        missed=found.missed,
        resends=wire.ResendCounts(
            granted=counts.resends,
            allowed=counts.allowed,
            left=max(0, counts.allowed - counts.resends),
        ),
        actions={state.value: counts.actions.get(state, 0) for state in ActionState},
        **shared_figures(found, found.messages, found.counts),
    )


@routes("GET", "/v1/attempts/stats", "getBatchStats", scopes=AGENTS, query=wire.BatchQuery)
async def batch_stats(call: ApiCall) -> wire.BatchStats:
    """Get the statistics of a batch: all attempts whose ids begin with the same prefix."""
    await call.components.inbox_counter.store()
    asked: wire.BatchQuery = call.query
    found, counts = await call.ledger.read(attempts.batch_stats, call.requester, asked.prefix)
    figures = shared_figures(found, found.messages, found.counts)
    average, longest = found.average_wait, found.longest_wait
    figures["time_to_first_message"] = None if average is None else average / 1000
    return wire.BatchStats(
        prefix=asked.prefix,
        attempts=counts.attempts,
        inboxes=sum(found.states.values()),
        states={state.value: found.states.get(state, 0) for state in InboxState},
        reached=found.reached,
        missed=found.missed,
        longest_time_to_first_message=None if longest is None else longest / 1000,
        resends=counts.resends,
        actions={state.value: counts.actions.get(state, 0) for state in ActionState},
        **figures,
    )


def _action_ref(call: ApiCall) -> ActionRef:
    return ActionRef(call.requester, call.path["id"], call.path["name"])


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
        has_result=action.result is not None,
    )
