"""Work that is fetched: ``/v1/deliveries/claim`` and what a worker says about its claims."""

import asyncio
import random
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import msgspec

from oncebox import clock
from oncebox.edge.http.call import Call
from oncebox.edge.http.deliveries import shown_effect
from oncebox.edge.http.route import WORKER, Route
from oncebox.errors import LeaseLost, NotFound
from oncebox.ledger.deliveries import inspections, prospects, pull, rules
from oncebox.ledger.deliveries.leases import Claimant
from oncebox.ledger.office import keys
from oncebox.model.arrival import check_key
from oncebox.model.delivery import Delivery
from oncebox.model.effect import EffectState, Safe
from oncebox.model.key import Scope
from oncebox.model.retry import Failure, RetryRules
from oncebox.model.source import Entry
from oncebox.refusals import Unauthenticated
from oncebox.wire import pull as wire
from oncebox.wire.deliveries import Effect

_ONE = "/v1/deliveries/{id}"
_EFFECT = f"{_ONE}/effects/{{name}}"
_SCOPES = frozenset({WORKER})
#: seconds between two looks at whether a waiting client is still there
_LOOK_EVERY = 1.0


async def claim(call: Call) -> wire.Claimed:
    """Return what is due, after waiting for it if there is nothing."""
    asked: wire.Claim = call.body
    lease = _lease(call, asked.lease)
    until = clock.steady() + asked.wait
    ear = call.rooms.desk.ear()
    async with _watched(call) as left:
        found = await _try_to_claim(call, asked, lease)
        while not found and (rest := until - clock.steady()) > 0:
            await ear.wait(min(rest, _LOOK_EVERY))
            if call.stopping.is_set() or left.done():
                break  # whatever it would claim now, nobody would work on
            if await _has_work(call, asked):
                await _check_key(call)
                found = await _try_to_claim(call, asked, lease)
    return wire.Claimed(deliveries=[_shown(each) for each in found], lease=lease / 1000)


async def heartbeat(call: Call) -> wire.Leased:
    """Prolong a lease."""
    asked: wire.Heartbeat = call.body
    until = call.now + _lease(call, asked.lease)
    lease = pull.Lease(call.path["id"], asked.fence)
    if not await call.rooms.counter.write(pull.heartbeat, _caller(call), [lease], until):
        raise _lost(call)
    return wire.Leased(until=until)


async def complete(call: Call) -> wire.Ended:
    """End a delivery well."""
    lease = pull.Lease(call.path["id"], call.body.fence)
    ended = await call.rooms.counter.write(pull.complete, _caller(call), lease, call.now)
    return _ended(call, ended, "handled")


async def fail(call: Call) -> wire.Ended:
    """End a try that failed."""
    asked: wire.Fail = call.body
    wait = None if asked.retry_after is None else round(asked.retry_after * 1000)
    failure = Failure(error=asked.error, permanent=asked.permanent, wait=wait)
    ended = await call.rooms.counter.write(
        pull.fail,
        _caller(call),
        pull.Lease(call.path["id"], asked.fence),
        failure,
        await _rules_of(call),
        now=call.now,
        random=random.random,
    )
    return _ended(call, ended, str(ended.state))


async def begin(call: Call) -> wire.BegunEffect:
    """Journal a side effect before it happens."""
    asked: wire.BeginEffect = call.body
    check_key(call.path["name"], "effect name")
    answer = await call.rooms.counter.write(
        pull.begin,
        _caller(call),
        pull.Lease(call.path["id"], asked.fence),
        call.path["name"],
        Safe(asked.safe),
        timeout=round(asked.timeout * 1000),
        window=round(asked.window * 1000),
        now=call.now,
    )
    return wire.BegunEffect(
        go=answer.go,
        key=answer.key,
        before=None if answer.before is None else shown_effect(answer.before),
        held=answer.held,
        started_at=answer.started_at,
    )


async def finish(call: Call) -> Effect:
    """Journal how a side effect ended."""
    asked: wire.FinishEffect = call.body
    state = EffectState(asked.state)
    effect = await call.rooms.counter.write(
        pull.finish,
        _caller(call),
        pull.Lease(call.path["id"], asked.fence),
        call.path["name"],
        state,
        now=call.now,
        result=msgspec.json.encode(asked.result) if state is EffectState.DONE else None,
        error=asked.error,
        started_at=asked.started_at,
    )
    return shown_effect(effect)


# claims


@asynccontextmanager
async def _watched(call: Call) -> AsyncIterator[asyncio.Future[None]]:
    """Watch whether the client is still there."""
    left = asyncio.ensure_future(call.left())
    try:
        yield left
    finally:
        left.cancel()


async def _try_to_claim(call: Call, asked: wire.Claim, lease: int) -> list[Delivery]:
    entries = _entries(call, asked)
    turn = hash(asked.request_key) % len(entries) if entries else 0
    ask = pull.Ask(
        tenant=call.tenant,
        worker=asked.worker,
        request_key=asked.request_key,
        claimants=tuple(
            _claimant(call, asked, each, lease) for each in entries[turn:] + entries[:turn]
        ),
        most=asked.limit,
    )
    return await call.rooms.counter.write(pull.claim, ask, call.now)


async def _check_key(call: Call) -> None:
    """Make sure that the key was not revoked, and is not over, since the call began to wait.

    Raises: Unauthenticated.
    """
    if not await call.rooms.counter.read(keys.is_active, call.key, call.now):
        raise Unauthenticated


async def _has_work(call: Call, asked: wire.Claim) -> bool:
    names = [each.source.name for each in _entries(call, asked)]
    return await call.rooms.counter.read(prospects.is_any, call.tenant, names, call.now)


def _entries(call: Call, asked: wire.Claim) -> list[Entry]:
    """Return the sources to claim from: those that are pulled, not paused, and the key's to work.

    Raises: NotFound.
    """
    mine = [
        each
        for each in call.rooms.book.all(call.tenant)
        if each.source.mode == "pull" and call.key.may_work(each.source.name)
    ]
    if asked.sources is not None:
        mine = [each for each in mine if each.source.name in asked.sources]
        if len(mine) < len(set(asked.sources)):
            raise NotFound
    if not mine:
        raise NotFound
    return [each for each in mine if not each.source.paused]


def _claimant(call: Call, asked: wire.Claim, entry: Entry, lease: int) -> Claimant:
    source = entry.source
    retry = source.retry(rules.by_default(call.rooms.settings.retry))
    return Claimant(
        call.tenant,
        source.name,
        asked.worker,
        lease,
        retry.tries,
        retry.budget,
        source.rate,
        source.concurrency,
    )


def _lease(call: Call, wanted: float | None) -> int:
    return round((wanted or call.rooms.settings.worker.lease) * 1000)


def _caller(call: Call) -> pull.Caller:
    """Return whose work may be spoken of."""
    scopes = call.key.scopes
    if Scope.ADMIN in scopes or "worker:*" in scopes:
        return pull.Caller(tenant=call.tenant)
    sources = {each.removeprefix("worker:") for each in scopes if each.startswith("worker:")}
    return pull.Caller(tenant=call.tenant, sources=sources)


async def _rules_of(call: Call) -> RetryRules:
    """Return how often the delivery's source is tried."""
    id_ = call.path["id"]
    facts = await call.rooms.counter.read(inspections.read_facts, call.tenant, id_)
    default = rules.by_default(call.rooms.settings.retry)
    entry = call.rooms.book.find(call.tenant, facts.source)
    return default if entry is None else entry.source.retry(default)


def _ended(call: Call, ended: pull.Ended, outcome: str) -> wire.Ended:
    if not ended.counts:
        raise _lost(call)
    call.rooms.telemetry.settled.labels(outcome).inc()
    call.rooms.desk.ring()  # the next of its lane may be due now
    return wire.Ended(state=ended.state, due_at=ended.due_at)


def _lost(call: Call) -> LeaseLost:
    call.rooms.telemetry.lease_conflicts.inc()
    return LeaseLost()


def _shown(delivery: Delivery) -> wire.ClaimedDelivery:
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
        body=wire.Claim,
        answer=wire.Claimed,
        handler=claim,
    ),
    Route(
        method="POST",
        path=f"{_ONE}/heartbeat",
        name="heartbeat",
        summary="Keep a claim for longer.",
        scopes=_SCOPES,
        body=wire.Heartbeat,
        answer=wire.Leased,
        handler=heartbeat,
    ),
    Route(
        method="POST",
        path=f"{_ONE}/complete",
        name="completeDelivery",
        summary="Say that a delivery is done.",
        scopes=_SCOPES,
        body=wire.Complete,
        answer=wire.Ended,
        handler=complete,
    ),
    Route(
        method="POST",
        path=f"{_ONE}/fail",
        name="failDelivery",
        summary="Say that a try failed; it is repeated later, or given up.",
        scopes=_SCOPES,
        body=wire.Fail,
        answer=wire.Ended,
        handler=fail,
    ),
    Route(
        method="POST",
        path=_EFFECT,
        name="beginEffect",
        summary="Journal a side effect before it happens; learn whether it happened before.",
        scopes=_SCOPES,
        body=wire.BeginEffect,
        answer=wire.BegunEffect,
        handler=begin,
    ),
    Route(
        method="PUT",
        path=_EFFECT,
        name="finishEffect",
        summary="Journal how a side effect ended.",
        scopes=_SCOPES,
        body=wire.FinishEffect,
        answer=Effect,
        handler=finish,
    ),
)
