"""``/v1/deliveries/claim``: pull workers claim, renew and settle deliveries, journal effects."""

import asyncio
import random
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from itertools import compress

import msgspec

from oncebox.core import clock
from oncebox.errors import LeaseLost, NotFound
from oncebox.errors.http import Unauthenticated
from oncebox.ledger.admin import api_keys
from oncebox.ledger.deliveries import inspections, leases, pull, settlements
from oncebox.ledger.deliveries.leases import DeliveryClaimant
from oncebox.ledger.notifications import DUE, EVENTS
from oncebox.model.admin.access import Scope
from oncebox.model.deliveries.delivery import Delivery, DeliveryState, Settlement
from oncebox.model.deliveries.effects import EffectState, Safety
from oncebox.model.deliveries.retry import RetryRules, TryFailure
from oncebox.model.validation import check_key
from oncebox.model.webhooks.source import SourceEntry
from oncebox.schemas import pull as wire
from oncebox.schemas.deliveries import Effect
from oncebox.server.api.deliveries import effect_schema, encode_given
from oncebox.server.http.routing import WORKERS, ApiCall, Routes

routes = Routes()
_DELIVERY = "/v1/deliveries/{id}"
_EFFECT = f"{_DELIVERY}/effects/{{name}}"
_NOT_PULLED = (
    "a source that was named does not exist, is not pulled, or is not permitted to this key; "
    "see: oncebox source list"
)
#: seconds between two checks that a waiting client is still connected
_POLL_EVERY = 1.0


@routes("POST", "/v1/deliveries/claim", "claimDeliveries", scopes=WORKERS, body=wire.ClaimWork)
async def claim_deliveries(call: ApiCall) -> wire.ClaimResponse:
    """Claim due deliveries, waiting up to 55 seconds; the same request key gets the same ones."""
    asked: wire.ClaimWork = call.body
    lease = _lease(call, asked.lease)
    until = clock.steady() + asked.wait
    subscription = call.ledger.subscribe(DUE)
    async with _watch_client(call) as left:
        found = await _claim_now(call, asked, lease)
        while not found and (rest := until - clock.steady()) > 0:
            await subscription.wait(min(rest, _POLL_EVERY))
            if call.stopping.is_set() or left.done():
                break  # nobody would work on what it claimed now
            if await _has_work(call, asked):
                await _check_key(call)
                found = await _claim_now(call, asked, lease)
    return wire.ClaimResponse(
        deliveries=[claimed_schema(each) for each in found], lease=lease / 1000
    )


@routes("POST", f"{_DELIVERY}/heartbeat", "heartbeat", scopes=WORKERS, body=wire.Heartbeat)
async def renew_lease(call: ApiCall) -> wire.LeaseRenewed:
    """Renew the lease of a delivery."""
    asked: wire.Heartbeat = call.body
    until = call.ledger.clock() + _lease(call, asked.lease)
    lease = pull.LeaseRef(call.path["id"], asked.fence)
    if not await call.ledger.write(pull.heartbeat, _caller(call), [lease], until):
        raise _lease_lost(call)
    return wire.LeaseRenewed(until=until)


@routes("POST", f"{_DELIVERY}/complete", "completeDelivery", scopes=WORKERS, body=wire.CompleteTry)
async def complete_delivery(call: ApiCall) -> wire.TryEnded:
    """Complete a delivery."""
    lease = pull.LeaseRef(call.path["id"], call.body.fence)
    ended = await call.ledger.write(pull.complete, _caller(call), lease, call.ledger.clock())
    return _ended_schema(call, ended)


@routes("POST", f"{_DELIVERY}/fail", "failDelivery", scopes=WORKERS, body=wire.FailTry)
async def fail_delivery(call: ApiCall) -> wire.TryEnded:
    """Record a failed try; the delivery is retried later or becomes a dead letter."""
    asked: wire.FailTry = call.body
    wait = None if asked.retry_after is None else round(asked.retry_after * 1000)
    failure = TryFailure(error=asked.error, permanent=asked.permanent, wait=wait)
    ended = await call.ledger.write(
        pull.fail,
        _caller(call),
        pull.LeaseRef(call.path["id"], asked.fence),
        failure,
        await _retry_rules(call),
        now=call.ledger.clock(),
        random=random.random,
    )
    return _ended_schema(call, ended)


@routes("POST", _EFFECT, "beginEffect", scopes=WORKERS, body=wire.BeginEffect)
async def begin_effect(call: ApiCall) -> wire.BeginEffectResult:
    """Journal an effect before it happens; the answer says whether it happened before."""
    asked: wire.BeginEffect = call.body
    check_key(call.path["name"], "effect name")
    answer = await call.ledger.write(
        pull.begin_effect,
        _caller(call),
        pull.LeaseRef(call.path["id"], asked.fence),
        call.path["name"],
        Safety(asked.safe),
        timeout=round(asked.timeout * 1000),
        window=round(asked.window * 1000),
        now=call.ledger.clock(),
    )
    if answer.held is not None:
        _report_end(call, answer.held)
    return wire.BeginEffectResult(
        go=answer.go,
        key=answer.key,
        before=None if answer.before is None else effect_schema(answer.before),
        held=answer.held is not None,
        started_at=answer.started_at,
    )


@routes("PUT", _EFFECT, "finishEffect", scopes=WORKERS, body=wire.FinishEffect)
async def finish_effect(call: ApiCall) -> Effect:
    """Journal how an effect ended."""
    asked: wire.FinishEffect = call.body
    state = EffectState(asked.state)
    effect = await call.ledger.write(
        pull.finish_effect,
        _caller(call),
        pull.LeaseRef(call.path["id"], asked.fence),
        call.path["name"],
        state,
        now=call.ledger.clock(),
        result=encode_given(asked.result) if state is EffectState.DONE else None,
        error=asked.error,
        started_at=asked.started_at,
    )
    return effect_schema(effect)


# claims


@asynccontextmanager
async def _watch_client(call: ApiCall) -> AsyncIterator[asyncio.Future[None]]:
    """Yield a future that is done when the client has disconnected."""
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
    claimed, dead = await call.ledger.write(pull.claim, ask, call.ledger.clock())
    report_dead(call, dead)
    return await _allowed(call, ask, claimed)


def report_dead(call: ApiCall, dead: Sequence[settlements.EndedDelivery]) -> None:
    """Log and count deliveries that a claim gave up on."""
    if dead:
        settlements.log_lost(call.components.telemetry.log, dead)
        call.ledger.notify(EVENTS)
    for each in dead:
        call.components.telemetry.settled.labels(each.source, each.outcome).inc()


async def _allowed(
    call: ApiCall, ask: pull.ClaimRequest, claimed: list[Delivery]
) -> list[Delivery]:
    """Return what the policies of this program allow; end the tries of the rest."""
    ask_policy = call.components.ask_policy
    if ask_policy is None or not claimed:
        return claimed
    rulings = await asyncio.gather(*map(ask_policy, claimed), return_exceptions=True)
    refusals: list[Settlement] = []
    allowed: list[Delivery] = []
    for delivery, ruling in zip(claimed, rulings, strict=True):
        if ruling is None:
            allowed.append(delivery)
        elif isinstance(ruling, Settlement):
            refusals.append(ruling)
        elif not isinstance(ruling, LeaseLost):
            raise ruling
    if len(allowed) < len(claimed):
        now = call.ledger.clock()
        counts = await call.ledger.write(pull.withdraw, ask, refusals, allowed, now)
        for each in compress(refusals, counts):
            call.components.telemetry.settled.labels(each.delivery.source, each.outcome).inc()
        call.ledger.notify(DUE, EVENTS)
    return allowed


async def _check_key(call: ApiCall) -> None:
    """Check that the key was not revoked and did not expire while the call waited.

    Raises: Unauthenticated.
    """
    if call.components.api_keys.is_own(call.key):
        return
    if not await call.ledger.read(api_keys.is_active, call.key, call.ledger.clock()):
        raise Unauthenticated


async def _has_work(call: ApiCall, asked: wire.ClaimWork) -> bool:
    names = [each.source.name for each in _claimable_sources(call, asked)]
    return await call.ledger.read(leases.has_claimable, call.tenant, names, call.ledger.clock())


def _claimable_sources(call: ApiCall, asked: wire.ClaimWork) -> list[SourceEntry]:
    """Return the sources to claim from: pulled, not paused, and permitted to the key.

    Raises: NotFound, if one that was named is not.
    """
    mine = [
        each
        for each in call.components.sources.all(call.tenant)
        if each.source.mode == "pull" and call.key.may_work(each.source.name)
    ]
    if asked.sources is not None:
        mine = [each for each in mine if each.source.name in asked.sources]
        if len(mine) < len(set(asked.sources)):
            raise NotFound(_NOT_PULLED)
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
    """Return the sources whose deliveries the key may work on."""
    scopes = call.key.scopes
    if Scope.ADMIN in scopes or "worker:*" in scopes:
        return pull.WorkerCaller(tenant=call.tenant)
    sources = {each.removeprefix("worker:") for each in scopes if each.startswith("worker:")}
    return pull.WorkerCaller(tenant=call.tenant, sources=sources)


async def _retry_rules(call: ApiCall) -> RetryRules:
    """Return the retry rules of the delivery's source."""
    id_ = call.path["id"]
    facts = await call.ledger.read(inspections.read_facts, call.tenant, id_)
    default = settlements.default_retry_rules(call.components.settings.retry)
    entry = call.components.sources.find(call.tenant, facts.source)
    return default if entry is None else entry.source.retry_rules(default)


def _ended_schema(call: ApiCall, ended: pull.SettleResult) -> wire.TryEnded:
    if not ended.counts:
        raise _lease_lost(call)
    settlement = ended.settlement
    _report_end(call, settlement)
    return wire.TryEnded(state=settlement.state, due_at=settlement.due_at)


def _report_end(call: ApiCall, settlement: Settlement) -> None:
    """Count the end of a try, log it if it failed, and wake who waits for it."""
    telemetry = call.components.telemetry
    telemetry.settled.labels(settlement.delivery.source, settlement.outcome).inc()
    if settlement.state is not DeliveryState.DONE:
        settlements.log_failed_try(telemetry.log, settlement)
    call.ledger.notify(DUE, EVENTS)  # the next of its lane may be due now


def _lease_lost(call: ApiCall) -> LeaseLost:
    call.components.telemetry.lease_conflicts.inc()
    return LeaseLost()


def claimed_schema(delivery: Delivery) -> wire.ClaimedDelivery:
    """Return a claimed delivery as the API shows it."""
    return msgspec.convert(delivery, wire.ClaimedDelivery, from_attributes=True)
