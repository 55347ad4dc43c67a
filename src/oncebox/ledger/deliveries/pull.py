"""Pull API: remote workers claim, renew, settle and journal effects; calls are repeatable.

Missing and foreign look the same: what is not of the caller's tenant and sources is not found.
"""

from collections.abc import Callable, Collection, Sequence
from typing import NamedTuple

import msgspec

from oncebox.db.database import Row, Transaction
from oncebox.db.queries import load
from oncebox.errors import LeaseLost, NotFound, RequestKeyReused
from oncebox.ledger.deliveries import effects, leases, settlements
from oncebox.ledger.deliveries.leases import DeliveryClaimant
from oncebox.model.deliveries.delivery import Delivery, DeliveryOutcome, DeliveryState, Settlement
from oncebox.model.deliveries.effects import (
    BeginEffect,
    Effect,
    EffectState,
    FinishEffect,
    Safety,
    effect_key,
)
from oncebox.model.deliveries.retry import RetryRules, TryFailure, one_line, settle_failure

_sql = load(__package__, "pull.sql")


class ClaimRequest(msgspec.Struct, frozen=True, kw_only=True):
    """A worker's wish for work."""

    tenant: str
    worker: str
    #: the same key is answered with the same lease
    request_key: str
    #: the sources to claim from, in their turn; all of this tenant and for this worker
    claimants: tuple[DeliveryClaimant, ...]
    most: int


class WorkerCaller(msgspec.Struct, frozen=True, kw_only=True):
    """Who speaks of a delivery: a tenant, and the sources it may work on."""

    tenant: str
    #: None is all of them
    sources: Collection[str] | None = None


class LeaseRef(NamedTuple):
    """Which claim of a delivery is meant."""

    id: str
    fence: int


class SettleResult(msgspec.Struct, frozen=True):
    """How a settlement went."""

    #: whether it counts; if not, the lease was lost before
    counts: bool
    state: DeliveryState
    #: when it is tried again
    due_at: int | None = None


class BeginEffectAnswer(msgspec.Struct, frozen=True):
    """The journal's answer to a worker that wants to begin an effect."""

    #: make the call now
    go: bool
    #: what to hand to the other side, the same for every repeat
    key: str
    #: what was journalled before
    before: Effect | None
    #: nobody can know whether it happened: the delivery is held for a person
    held: bool = False
    #: names the start of the call that is to be made now
    started_at: int | None = None


class _ClaimedLease(msgspec.Struct, frozen=True, array_like=True):
    """What a claim changed in a delivery, kept so that it can be told again."""

    id: str
    fence: int
    tries: int
    give_up_at: int


# claims


def claim(tx: Transaction, ask: ClaimRequest, now: int) -> list[Delivery]:
    """Lease due deliveries; a repeat is told the same leases, whatever became of them.

    What was lost by its last worker comes alone. A claim that finds nothing leaves no trace.

    Raises: RequestKeyReused.
    """
    name = {"tenant": ask.tenant, "request_key": ask.request_key}
    sources = msgspec.json.encode(sorted(who.source for who in ask.claimants))
    reserved = tx.run(_sql.reserve, **name, worker=ask.worker, sources=sources, now=now, answer=b"")
    if not reserved:
        return _repeat_claim(tx, ask, sources)
    claimed = _claim_lost(tx, ask, now) or _claim_due(tx, ask, now)
    if not claimed:
        tx.run(_sql.let_go, **name)
        return []
    told = [_ClaimedLease(each.id, each.fence, each.tries, each.give_up_at) for each in claimed]
    tx.run(_sql.answer, **name, answer=msgspec.json.encode(told))
    return claimed


def forget_claims(tx: Transaction, before: int) -> int:
    """Forget claims that were asked before a moment; return how many."""
    return tx.run(_sql.forget, before=before)


def _repeat_claim(tx: Transaction, ask: ClaimRequest, sources: bytes) -> list[Delivery]:
    """Tell a claim again."""
    row = tx.one(_sql.asked, tenant=ask.tenant, request_key=ask.request_key)
    if row is None or (row[0], row[1]) != (ask.worker, sources):
        raise RequestKeyReused(
            "this request key claimed for another worker or other sources; take a new one"
        )
    told = msgspec.json.decode(row[2], type=list[_ClaimedLease])
    found = leases.as_claimed(tx, ask.tenant, [each.id for each in told])
    return [
        msgspec.structs.replace(
            found[each.id], fence=each.fence, tries=each.tries, give_up_at=each.give_up_at
        )
        for each in told
    ]


def _claim_lost(tx: Transaction, ask: ClaimRequest, now: int) -> list[Delivery]:
    for who in ask.claimants:
        leases.dead_letter_exhausted(tx, who, now)
        found = leases.claim_expired(tx, who, now)
        if found is not None:
            return [found]
    return []


def _claim_due(tx: Transaction, ask: ClaimRequest, now: int) -> list[Delivery]:
    # All gates first, in one order: two claims must not wait for each other crosswise.
    leases.lock_limits(tx, [leases.source_limits(who) for who in ask.claimants], now)
    claimed: list[Delivery] = []
    for who in ask.claimants:
        if len(claimed) < ask.most:
            claimed += leases.claim(tx, who, ask.most - len(claimed), now)
    return claimed


# leases and settlements


def heartbeat(
    tx: Transaction, caller: WorkerCaller, held: Sequence[LeaseRef], until: int
) -> set[str]:
    """Prolong leases; return the ids of those that still hold."""
    _find_deliveries(tx, caller, [each.id for each in held])
    return leases.renew(tx, [(each.id, each.fence) for each in held], until)


def complete(tx: Transaction, caller: WorkerCaller, lease: LeaseRef, now: int) -> SettleResult:
    """End a delivery well."""
    delivery = _as_leased(tx, caller, lease)
    return _settle(
        tx,
        Settlement(delivery=delivery, state=DeliveryState.DONE, outcome=DeliveryOutcome.HANDLED),
        now,
    )


def fail(  # noqa: PLR0913 - who, what, how, by which rules, when and with which dice
    tx: Transaction,
    caller: WorkerCaller,
    lease: LeaseRef,
    failure: TryFailure,
    rules: RetryRules,
    *,
    now: int,
    random: Callable[[], float],
) -> SettleResult:
    """End a try that failed: it is repeated later, or given up."""
    delivery = _as_leased(tx, caller, lease)
    return _settle(tx, settle_failure(delivery, failure, rules, now=now, random=random), now)


def hold(
    tx: Transaction, caller: WorkerCaller, lease: LeaseRef, reason: str, now: int
) -> SettleResult:
    """End a try so that a person decides."""
    return _settle(tx, _hold_settlement(_as_leased(tx, caller, lease), reason), now)


def _settle(tx: Transaction, settlement: Settlement, now: int) -> SettleResult:
    (counts,) = settlements.settle(tx, [settlement], now)
    return SettleResult(counts, settlement.state, settlement.due_at)


def _hold_settlement(delivery: Delivery, reason: str) -> Settlement:
    reason = one_line(reason)
    return Settlement(
        delivery=delivery,
        state=DeliveryState.HELD,
        outcome=DeliveryOutcome.HELD,
        hold_reason=reason,
        error=reason,
    )


# effects


def begin_effect(  # noqa: PLR0913 - who, what, its name and choice, how long it may take, and when
    tx: Transaction,
    caller: WorkerCaller,
    lease: LeaseRef,
    name: str,
    safe: Safety,
    *,
    timeout: int,
    window: int,
    now: int,
) -> BeginEffectAnswer:
    """Journal an effect as started, or say what is known of it.

    One that was started and never heard of again is begun anew where that is safe within
    ``window``; with ``Safe.VERIFY`` the worker asks the other side once ``surely_over_at`` has
    passed and says what it found; else the delivery is held.

    Raises: NotFound, LeaseLost.
    """
    delivery = _as_leased(tx, caller, lease)
    key = effect_key(delivery.tenant, delivery.source, delivery.key, delivery.variant, name)
    request = BeginEffect(
        delivery_id=delivery.id,
        tenant=delivery.tenant,
        fence=delivery.fence,
        name=name,
        safe=safe,
        surely_over_at=now + 2 * timeout,  # the journal's commit takes time too
    )
    (begun,) = effects.begin(tx, [request], now)
    before = begun.before
    if begun.go:
        return BeginEffectAnswer(
            go=True, key=key, before=before, started_at=_started_at(tx, delivery, name)
        )
    if before is None:
        raise LeaseLost(_LOST)
    if before.state is EffectState.DONE:
        return BeginEffectAnswer(go=False, key=key, before=before)
    if _may_repeat(before, safe, now - window):
        again = msgspec.structs.replace(request, known_fence=before.fence)
        if not effects.begin_again(tx, [again], now)[0]:
            raise LeaseLost(_LOST)
        return BeginEffectAnswer(
            go=True, key=key, before=before, started_at=_started_at(tx, delivery, name)
        )
    if before.state is EffectState.STARTED and safe is Safety.VERIFY:
        return BeginEffectAnswer(go=False, key=key, before=before)
    return _hold_unknown(tx, delivery, before, key, now)


def finish_effect(  # noqa: PLR0913 - who, what, its name, how it ended, and when
    tx: Transaction,
    caller: WorkerCaller,
    lease: LeaseRef,
    name: str,
    state: EffectState,
    *,
    now: int,
    result: bytes | None = None,
    error: str | None = None,
    started_at: int | None = None,
) -> Effect:
    """Record how an effect ended; return what the journal says now.

    A word other than done is taken of the start that ``started_at`` names, else of this claim's
    own: what another try began may have happened all the same.

    Raises: NotFound.
    """
    delivery = _as_leased(tx, caller, lease)
    ending = FinishEffect(
        delivery_id=delivery.id,
        fence=delivery.fence,
        name=name,
        state=state,
        result=result,
        error=None if error is None else one_line(error),
        from_fence=delivery.fence if started_at is None else 0,
        started_at=started_at,
    )
    effects.finish(tx, [ending], now)
    found = _journalled(tx, delivery, name)
    if found is None:
        raise NotFound("this effect was never begun; begin it first")
    return found


def _journalled(tx: Transaction, delivery: Delivery, name: str) -> Effect | None:
    journal = effects.of_delivery(tx, delivery.tenant, delivery.id)
    return next((each for each in journal if each.name == name), None)


def _started_at(tx: Transaction, delivery: Delivery, name: str) -> int | None:
    found = _journalled(tx, delivery, name)
    return None if found is None else found.started_at


def _may_repeat(before: Effect, safe: Safety, window_start: int) -> bool:
    """Say whether an effect may be begun anew: proven not done, or safe to repeat."""
    if before.state is EffectState.NOT_DONE:
        return True
    in_window = window_start <= before.first_started_at
    return before.state is EffectState.STARTED and safe is Safety.IDEMPOTENT and in_window


def _hold_unknown(
    tx: Transaction, delivery: Delivery, before: Effect, key: str, now: int
) -> BeginEffectAnswer:
    """Hold a delivery because nobody can know whether its effect happened."""
    reason = f"effect {before.name!r} was started and nobody knows whether it happened"
    ended = _settle(tx, _hold_settlement(delivery, reason), now)
    if not ended.counts:
        raise LeaseLost(_LOST)
    unknown = FinishEffect(
        delivery_id=delivery.id,
        fence=delivery.fence,
        name=before.name,
        state=EffectState.UNKNOWN,
    )
    effects.finish(tx, [unknown], now)
    return BeginEffectAnswer(go=False, key=key, before=before, held=True)


# whose it is


def _as_leased(tx: Transaction, caller: WorkerCaller, lease: LeaseRef) -> Delivery:
    """Return a delivery as the caller claimed it; whether the claim still holds is told later."""
    delivery = _find_deliveries(tx, caller, [lease.id])[lease.id]
    return msgspec.structs.replace(delivery, fence=lease.fence)


def _find_deliveries(
    tx: Transaction, caller: WorkerCaller, ids: Sequence[str]
) -> dict[str, Delivery]:
    rows = tx.many(_sql.standing, [(id_,) for id_ in sorted(set(ids))], tenant=caller.tenant)
    found = {
        row[0]: _without_payload(row)
        for row in rows
        if caller.sources is None or row[2] in caller.sources
    }
    if len(found) < len(set(ids)):
        raise NotFound("there is no such delivery")
    return found


def _without_payload(row: Row) -> Delivery:
    id_, tenant, source, key, variant, type_, lane, late, policy, fence, *rest = row
    tries, received_at, give_up_at, verdict, sequence = rest
    return Delivery(
        id_, tenant, source, key, variant, type_, lane, bool(late), policy, fence, tries,
        received_at, give_up_at, b"[]", b"", verdict, sequence,
    )  # fmt: skip


_LOST = "the lease was lost; somebody else may be working on it"
