"""``/v1/attempts``: actions that happen once, resends, and what came of an attempt."""

from typing import Any

import msgspec

from oncebox import faults
from oncebox.edge.http import requests
from oncebox.edge.http.call import Call
from oncebox.edge.http.inboxes import asker, figures
from oncebox.edge.http.route import AGENT, OPERATOR, Creation, Route
from oncebox.ledger.attempts import attempts
from oncebox.ledger.attempts.desk import Task
from oncebox.ledger.events.outbox import EVENTS
from oncebox.mail_errors import ResendsUsedUp
from oncebox.model.action import (
    Action,
    ActionState,
    AttemptFigures,
    Standing,
    action_key,
    request_mark,
)
from oncebox.model.effect import Safe
from oncebox.model.inbox import InboxState
from oncebox.wire import attempts as wire

_ONE = "/v1/attempts/{id}"
_ACTION = f"{_ONE}/actions/{{name}}"
_SCOPES = frozenset({AGENT, OPERATOR})
#: what is the caller's to do
_MINE = {Standing.BEGUN, Standing.LOOK}
_OPEN = {ActionState.STARTED, ActionState.VERIFYING}
#: for who has an inbox in somebody else's attempt
_NOTHING = AttemptFigures(created_at=0, resends=0, allowed=0, actions={})


async def begin(call: Call) -> wire.BegunAction:
    """Begin an action, or say how it stands."""
    asked: wire.BeginAction = call.body
    begun = await call.rooms.attempts.begin(
        _task(call),
        Safe(asked.safe),
        lease=_lease(call, asked.lease),
        window=round(asked.window * 1000),
        request=asked.request_key,
    )
    action, mine = begun.action, begun.standing in _MINE
    return wire.BegunAction(
        attempt_id=action.attempt_id,
        name=action.name,
        state=begun.standing.value,
        fence=action.fence if mine else None,
        key=action_key(action.tenant, action.attempt_id, action.name),
        lease_until=_until(action),
        result=_result(call, action),
    )


async def done(call: Call) -> wire.Action:
    """Record that an action happened."""
    asked: wire.DoneAction = call.body
    result = msgspec.json.encode(asked.result)
    return _shown(call, await call.rooms.attempts.done(_task(call), asked.fence, result))


async def not_done(call: Call) -> wire.Action:
    """Record that an action did not happen."""
    return _shown(call, await call.rooms.attempts.not_done(_task(call), call.body.fence))


async def heartbeat(call: Call) -> wire.Action:
    """Keep an action for longer."""
    asked: wire.HeartbeatAction = call.body
    lease = _lease(call, asked.lease)
    return _shown(call, await call.rooms.attempts.heartbeat(_task(call), asked.fence, lease))


def resend(call: Call) -> Creation:
    """Grant one more mail."""
    who, attempt_id = asker(call), call.path["id"]
    mark = request_mark(call.key.id, requests.idempotency_key([*call.headers.items()]))

    def verb(tx: Any) -> wire.Resend:
        try:
            granted = attempts.resend(tx, who, attempt_id, mark, call.now)
        except ResendsUsedUp:
            call.rooms.telemetry.resends.labels("refused").inc()
            raise
        return wire.Resend(
            attempt_id=granted.attempt_id,
            number=granted.number,
            left=max(0, granted.allowed - granted.number),
            granted_at=granted.at,
        )

    return verb


async def resent(call: Call) -> None:
    """Tell of it."""
    faults.point("actions.resend")
    call.rooms.telemetry.resends.labels("granted").inc()
    call.rooms.counter.ring(EVENTS)


async def stats(call: Call) -> wire.AttemptStats:
    """Return what came of an attempt."""
    found, acted = await call.rooms.counter.read(attempts.stats, asker(call), call.path["id"])
    figured = _NOTHING if acted is None else acted
    return wire.AttemptStats(
        attempt_id=found.attempt_id,
        inboxes=sum(found.states.values()),
        states={state.value: found.states.get(state, 0) for state in InboxState},
        missed=found.missed,
        resends=wire.Resends(
            granted=figured.resends,
            allowed=figured.allowed,
            left=max(0, figured.allowed - figured.resends),
        ),
        actions={state.value: figured.actions.get(state, 0) for state in ActionState},
        **figures(found, found.messages),
    )


def _task(call: Call) -> Task:
    return Task(asker(call), call.path["id"], call.path["name"])


def _lease(call: Call, wanted: float | None) -> int:
    return round((wanted or call.rooms.settings.worker.lease) * 1000)


def _until(action: Action) -> int | None:
    return action.lease_until if action.state in _OPEN else None


def _result(call: Call, action: Action) -> Any:
    result = call.rooms.attempts.opened(action)
    return None if result is None else msgspec.Raw(result)


def _shown(call: Call, action: Action) -> wire.Action:
    return wire.Action(
        attempt_id=action.attempt_id,
        name=action.name,
        state=action.state,
        safe=action.safe.value,
        lease_until=_until(action),
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
        answer=wire.BegunAction,
        handler=begin,
    ),
    Route(
        method="POST",
        path=f"{_ACTION}/done",
        name="doneAction",
        summary="Say that an action happened, and store its result; late is not too late.",
        scopes=_SCOPES,
        body=wire.DoneAction,
        answer=wire.Action,
        handler=done,
    ),
    Route(
        method="POST",
        path=f"{_ACTION}/not-done",
        name="notDoneAction",
        summary="Say that an action did not happen, so that it may begin again.",
        scopes=_SCOPES,
        body=wire.EndAction,
        answer=wire.Action,
        handler=not_done,
    ),
    Route(
        method="POST",
        path=f"{_ACTION}/heartbeat",
        name="heartbeatAction",
        summary="Keep an action for longer.",
        scopes=_SCOPES,
        body=wire.HeartbeatAction,
        answer=wire.Action,
        handler=heartbeat,
    ),
    Route(
        method="POST",
        path=f"{_ONE}/resend",
        name="resendAttempt",
        summary="Get leave to ask for the mail again, as often as the inboxes' policy allows.",
        scopes=_SCOPES,
        body=wire.NewResend,
        answer=wire.Resend,
        status=201,
        creator=resend,
        after=resent,
    ),
    Route(
        method="GET",
        path=f"{_ONE}/stats",
        name="getAttemptStats",
        summary="Show what came of all inboxes of an attempt, and what it did.",
        scopes=_SCOPES,
        answer=wire.AttemptStats,
        handler=stats,
    ),
)
