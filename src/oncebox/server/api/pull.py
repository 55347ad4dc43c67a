"""``/v1/deliveries/claim``: pull workers claim, renew and settle deliveries, journal effects."""

import asyncio
import random
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import msgspec

from oncebox.core import clock
from oncebox.errors import LeaseLost, NotFound
from oncebox.errors.http import Unauthenticated
from oncebox.ledger.admin import api_keys
from oncebox.ledger.deliveries import inspections, leases, pull, settlements
from oncebox.ledger.deliveries.leases import DeliveryClaimant
from oncebox.ledger.notifications import DUE
from oncebox.model.admin.access import Scope
from oncebox.model.deliveries.delivery import Delivery
from oncebox.model.deliveries.effects import EffectState, Safety
from oncebox.model.deliveries.retry import RetryRules, TryFailure
from oncebox.model.validation import check_key
from oncebox.model.webhooks.source import SourceEntry
from oncebox.schemas import pull as wire
from oncebox.schemas.deliveries import Effect
from oncebox.server.api.deliveries import effect_schema
from oncebox.server.http.routing import WORKER, ApiCall, Route

_ONE = "/v1/deliveries/{id}"
_EFFECT = f"{_ONE}/effects/{{name}}"
_SCOPES = frozenset({WORKER})
#: seconds between two looks at whether a waiting client is still there
_POLL_EVERY = 1.0


async def claim_deliveries(call: ApiCall) -> wire.ClaimResponse:
    """Return what is due, after waiting for it if there is nothing."""
    asked: wire.ClaimWork = call.body
    lease = _lease(call, asked.lease)
    until = clock.steady() + asked.wait
    ear = call.components.ledger.subscribe(DUE)
    async with _watch_client(call) as left:
        found = await _claim_now(call, asked, lease)
        while not found and (rest := until - clock.steady()) > 0:
            await ear.wait(min(rest, _POLL_EVERY))
            if call.stopping.is_set() or left.done():
                break  # whatever it would claim now, nobody would work on
            if await _has_work(call, asked):
                await _check_key(call)
                found = await _claim_now(call, asked, lease)
    return wire.ClaimResponse(
        deliveries=[_claimed_schema(each) for each in found], lease=lease / 1000
    )


async def renew_lease(call: ApiCall) -> wire.LeaseRenewed:
    """Prolong a lease."""
    asked: wire.Heartbeat = call.body
    until = call.now + _lease(call, asked.lease)
    lease = pull.LeaseRef(call.path["id"], asked.fence)
    if not await call.components.ledger.write(pull.heartbeat, _caller(call), [lease], until):
        raise _lease_lost(call)
    return wire.LeaseRenewed(until=until)


async def complete_delivery(call: ApiCall) -> wire.TryEnded:
    """End a delivery well."""
    lease = pull.LeaseRef(call.path["id"], call.body.fence)
    ended = await call.components.ledger.write(pull.complete, _caller(call), lease, call.now)
    return _ended_schema(call, ended, "handled")


async def fail_delivery(call: ApiCall) -> wire.TryEnded:
    """End a try that failed."""
    asked: wire.FailTry = call.body
    wait = None if asked.retry_after is None else round(asked.retry_after * 1000)
    failure = TryFailure(error=asked.error, permanent=asked.permanent, wait=wait)
    ended = await call.components.ledger.write(
        pull.fail,
        _caller(call),
        pull.LeaseRef(call.path["id"], asked.fence),
        failure,
        await _retry_rules(call),
        now=call.now,
        random=random.random,
    )
    return _ended_schema(call, ended, str(ended.state))


async def begin_effect(call: ApiCall) -> wire.BeginEffectResult:
    """Journal a side effect before it happens."""
    asked: wire.BeginEffect = call.body
    check_key(call.path["name"], "effect name")
    answer = await call.components.ledger.write(
        pull.begin_effect,
        _caller(call),
        pull.LeaseRef(call.path["id"], asked.fence),
        call.path["name"],
        Safety(asked.safe),
        timeout=round(asked.timeout * 1000),
        window=round(asked.window * 1000),
        now=call.now,
    )
    return wire.BeginEffectResult(
        go=answer.go,
        key=answer.key,
        before=None if answer.before is None else effect_schema(answer.before),
        held=answer.held,
        started_at=answer.started_at,
    )


async def finish_effect(call: ApiCall) -> Effect:
    """Journal how a side effect ended."""
    asked: wire.FinishEffect = call.body
    state = EffectState(asked.state)
    effect = await call.components.ledger.write(
        pull.finish_effect,
        _caller(call),
        pull.LeaseRef(call.path["id"], asked.fence),
        call.path["name"],
        state,
        now=call.now,
        result=msgspec.json.encode(asked.result) if state is EffectState.DONE else None,
        error=asked.error,
        started_at=asked.started_at,
    )
    return effect_schema(effect)


# claims


@asynccontextmanager
async def _watch_client(call: ApiCall) -> AsyncIterator[asyncio.Future[None]]:
    """Watch whether the client is still there."""
    left = asyncio.ensure_future(call.client_gone())
    try:
        yield left
    finally:
        left.cancel()


async def _claim_now(call: ApiCall, asked: wire.ClaimWork, lease: int) -> list[Delivery]:
    entries = _claimable_sources(call, asked)
    turn = hash(asked.request_key) % len(entries) if entries else 0
    ask = pull.ClaimRequest(
        tenant=call.tenant,
        worker=asked.worker,
        request_key=asked.request_key,
        claimants=tuple(
            _claimant(call, asked, each, lease) for each in entries[turn:] + entries[:turn]
        ),
        most=asked.limit,
    )
    return await call.components.ledger.write(pull.claim, ask, call.now)


async def _check_key(call: ApiCall) -> None:
    """Make sure that the key was not revoked, and is not over, since the call began to wait.

    Raises: Unauthenticated.
    """
    if not await call.components.ledger.read(api_keys.is_active, call.key, call.now):
        raise Unauthenticated


async def _has_work(call: ApiCall, asked: wire.ClaimWork) -> bool:
    names = [each.source.name for each in _claimable_sources(call, asked)]
    return await call.components.ledger.read(leases.has_claimable, call.tenant, names, call.now)


def _claimable_sources(call: ApiCall, asked: wire.ClaimWork) -> list[SourceEntry]:
    """Return the sources to claim from: those that are pulled, not paused, and the key's to work.

    Raises: NotFound.
    """
    mine = [
        each
        for each in call.components.sources.all(call.tenant)
        if each.source.mode == "pull" and call.key.may_work(each.source.name)
    ]
    if asked.sources is not None:
        mine = [each for each in mine if each.source.name in asked.sources]
        if len(mine) < len(set(asked.sources)):
            raise NotFound
    if not mine:
        raise NotFound
    return [each for each in mine if not each.source.paused]


def _claimant(
    call: ApiCall, asked: wire.ClaimWork, entry: SourceEntry, lease: int
) -> DeliveryClaimant:
    source = entry.source
    retry = source.retry_rules(settlements.default_retry_rules(call.components.settings.retry))
    return DeliveryClaimant(
        call.tenant,
        source.name,
        asked.worker,
        lease,
        retry.tries,
        retry.budget,
        source.rate,
        source.concurrency,
    )


def _lease(call: ApiCall, wanted: float | None) -> int:
    return round((wanted or call.components.settings.worker.lease) * 1000)


def _caller(call: ApiCall) -> pull.WorkerCaller:
    """Return whose work may be spoken of."""
    scopes = call.key.scopes
    if Scope.ADMIN in scopes or "worker:*" in scopes:
        return pull.WorkerCaller(tenant=call.tenant)
    sources = {each.removeprefix("worker:") for each in scopes if each.startswith("worker:")}
    return pull.WorkerCaller(tenant=call.tenant, sources=sources)


async def _retry_rules(call: ApiCall) -> RetryRules:
    """Return how often the delivery's source is tried."""
    id_ = call.path["id"]
    facts = await call.components.ledger.read(inspections.read_facts, call.tenant, id_)
    default = settlements.default_retry_rules(call.components.settings.retry)
    entry = call.components.sources.find(call.tenant, facts.source)
    return default if entry is None else entry.source.retry_rules(default)


def _ended_schema(call: ApiCall, ended: pull.SettleResult, outcome: str) -> wire.TryEnded:
    if not ended.counts:
        raise _lease_lost(call)
    call.components.telemetry.settled.labels(outcome).inc()
    call.components.ledger.notify(DUE)  # the next of its lane may be due now
    return wire.TryEnded(state=ended.state, due_at=ended.due_at)


def _lease_lost(call: ApiCall) -> LeaseLost:
    call.components.telemetry.lease_conflicts.inc()
    return LeaseLost()


def _claimed_schema(delivery: Delivery) -> wire.ClaimedDelivery:
    return wire.ClaimedDelivery(
        id=delivery.id,
        source=delivery.source,
        key=delivery.key,
        type=delivery.type,
        fence=delivery.fence,
        tries=delivery.tries,
        late=delivery.late,
        verdict=delivery.verdict,
        lane=delivery.lane,
        sequence=delivery.sequence,
        received_at=delivery.received_at,
        give_up_at=delivery.give_up_at,
        headers=list(delivery.headers),
        body=delivery.body,
    )


ROUTES = (
    Route(
        method="POST",
        path="/v1/deliveries/claim",
        name="claimDeliveries",
        summary="Claim work, waiting for it up to 55 seconds; the same request key, the same work.",
        scopes=_SCOPES,
        body=wire.ClaimWork,
        answer=wire.ClaimResponse,
        handler=claim_deliveries,
    ),
    Route(
        method="POST",
        path=f"{_ONE}/heartbeat",
        name="heartbeat",
        summary="Keep a claim for longer.",
        scopes=_SCOPES,
        body=wire.Heartbeat,
        answer=wire.LeaseRenewed,
        handler=renew_lease,
    ),
    Route(
        method="POST",
        path=f"{_ONE}/complete",
        name="completeDelivery",
        summary="Say that a delivery is done.",
        scopes=_SCOPES,
        body=wire.CompleteTry,
        answer=wire.TryEnded,
        handler=complete_delivery,
    ),
    Route(
        method="POST",
        path=f"{_ONE}/fail",
        name="failDelivery",
        summary="Say that a try failed; it is repeated later, or given up.",
        scopes=_SCOPES,
        body=wire.FailTry,
        answer=wire.TryEnded,
        handler=fail_delivery,
    ),
    Route(
        method="POST",
        path=_EFFECT,
        name="beginEffect",
        summary="Journal a side effect before it happens; learn whether it happened before.",
        scopes=_SCOPES,
        body=wire.BeginEffect,
        answer=wire.BeginEffectResult,
        handler=begin_effect,
    ),
    Route(
        method="PUT",
        path=_EFFECT,
        name="finishEffect",
        summary="Journal how a side effect ended.",
        scopes=_SCOPES,
        body=wire.FinishEffect,
        answer=Effect,
        handler=finish_effect,
    ),
)
