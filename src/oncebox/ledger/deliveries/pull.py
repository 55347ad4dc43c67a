"""Pull API: remote workers claim, renew, settle and journal effects; calls are repeatable.

A delivery of another tenant, or of a source the caller may not work on, is not found.
"""

from collections.abc import Callable, Collection, Sequence
from typing import NamedTuple

import msgspec

from oncebox.db.database import Row, Transaction
from oncebox.db.queries import load
from oncebox.errors import LeaseLost, NotFound, RequestKeyReused
from oncebox.ledger.deliveries import effects, leases, settlements
from oncebox.ledger.deliveries.leases import DeliveryClaimant
from oncebox.ledger.deliveries.settlements import EndedDelivery
from oncebox.model.deliveries.delivery import Delivery, DeliveryOutcome, DeliveryState, Settlement
from oncebox.model.deliveries.effects import (
    BeginEffect,
    Effect,
    EffectState,
    FinishEffect,
    Safety,
    effect_key,
)
from oncebox.model.deliveries.retry import (
    RetryRules,
    TryFailure,
    hold_settlement,
    one_line,
    settle_failure,
)

_sql = load(__package__, "pull.sql")


class ClaimRequest(msgspec.Struct, frozen=True, kw_only=True):
    """A worker's request for deliveries."""

    tenant: str
    worker: str
    #: a repeat with the same key gets the same leases
    request_key: str
    #: the sources to claim from, in this order; all of this tenant and for this worker
    claimants: tuple[DeliveryClaimant, ...]
    most: int


class WorkerCaller(msgspec.Struct, frozen=True, kw_only=True):
    """A tenant, and the sources its worker may work on."""

    tenant: str
    #: None is all of them
    sources: Collection[str] | None = None


class LeaseRef(NamedTuple):
    """One claim of a delivery."""

    id: str
    fence: int


class PulledDeliveries(NamedTuple):
    """What a claim leased, and what it gave up on before."""

    claimed: list[Delivery]
    dead: list[EndedDelivery]


class SettleResult(msgspec.Struct, frozen=True):
    """The result of a settlement."""

    #: whether it was recorded; if not, the lease was lost before
    counts: bool
    settlement: Settlement


class BeginEffectAnswer(msgspec.Struct, frozen=True):
    """The journal's answer to a worker that wants to begin an effect."""

    #: make the call now
    go: bool
    #: the idempotency key, the same for every repeat
    key: str
    #: the earlier journal entry
    before: Effect | None
    #: the outcome is unknown: the delivery is held for an operator
    held: Settlement | None = None
    #: identifies the start of the call that is to be made now
    started_at: int | None = None


class _ClaimedLease(msgspec.Struct, frozen=True, array_like=True):
    """What a claim changed in a delivery, stored for repeats of the claim."""

    id: str
    fence: int
    tries: int
    give_up_at: int


def claim(tx: Transaction, ask: ClaimRequest, now: int) -> PulledDeliveries:
    """Lease due deliveries; a repeat gets the same leases, whatever became of them.

    A delivery whose last worker was lost comes alone. A claim that finds nothing is not stored.

    Raises: RequestKeyReused.
    """
    name = {"tenant": ask.tenant, "request_key": ask.request_key}
    sources = msgspec.json.encode(sorted(who.source for who in ask.claimants))
    reserved = tx.run(_sql.reserve, **name, worker=ask.worker, sources=sources, now=now, answer=b"")
    if not reserved:
        return PulledDeliveries(_repeat_claim(tx, ask, sources), [])
    claimed, dead = _claim_lost(tx, ask, now)
    claimed = claimed or _claim_due(tx, ask, now)
    if not claimed:
        tx.run(_sql.let_go, **name)
        return PulledDeliveries([], dead)
    tx.run(_sql.answer, **name, answer=_encode_leases(claimed))
    return PulledDeliveries(claimed, dead)


def withdraw(
    tx: Transaction,
    ask: ClaimRequest,
    refusals: Sequence[Settlement],
    allowed: Sequence[Delivery],
    now: int,
) -> list[bool]:
    """End the tries that a policy refused; a repeat of the claim gets only what it allowed.

    Returns for each refusal whether it was recorded, or its lease was lost before.
    """
    counts = settlements.settle(tx, refusals, now)
    name = {"tenant": ask.tenant, "request_key": ask.request_key}
    if allowed:
        tx.run(_sql.answer, **name, answer=_encode_leases(allowed))
    else:
        tx.run(_sql.let_go, **name)
    return counts


def _encode_leases(claimed: Sequence[Delivery]) -> bytes:
    leased = [_ClaimedLease(each.id, each.fence, each.tries, each.give_up_at) for each in claimed]
    return msgspec.json.encode(leased)


def forget_claims(tx: Transaction, before: int) -> int:
    """Delete stored claims older than a time; return how many."""
    return tx.run(_sql.forget, before=before)


def _repeat_claim(tx: Transaction, ask: ClaimRequest, sources: bytes) -> list[Delivery]:
    row = tx.one(_sql.asked, tenant=ask.tenant, request_key=ask.request_key)
    if row is None or (row[0], row[1]) != (ask.worker, sources):
        raise RequestKeyReused(
            "this request key claimed for another worker or other sources; take a new one"
        )
    answer = msgspec.json.decode(row[2], type=list[_ClaimedLease])
    found = leases.as_claimed(tx, ask.tenant, [each.id for each in answer])
    return [
        msgspec.structs.replace(
            found[each.id], fence=each.fence, tries=each.tries, give_up_at=each.give_up_at
        )
        for each in answer
    ]


def _claim_lost(tx: Transaction, ask: ClaimRequest, now: int) -> PulledDeliveries:
    dead: list[EndedDelivery] = []
    for who in ask.claimants:
        dead += leases.dead_letter_exhausted(tx, who, now)
        found = leases.claim_expired(tx, who, now)
        if found is not None:
            return PulledDeliveries([found], dead)
    return PulledDeliveries([], dead)


def _claim_due(tx: Transaction, ask: ClaimRequest, now: int) -> list[Delivery]:
    # All limits are locked first, in one order: two claims must not deadlock.
    leases.lock_limits(tx, ask.claimants, now)
    claimed: list[Delivery] = []
    for who in ask.claimants:
        if len(claimed) < ask.most:
            claimed += leases.claim(tx, who, ask.most - len(claimed), now)
    return claimed


def heartbeat(
    tx: Transaction, caller: WorkerCaller, held: Sequence[LeaseRef], until: int
) -> set[str]:
    """Renew leases; return the ids of those that are still held."""
    _find_deliveries(tx, caller, [each.id for each in held])
    return leases.renew(tx, [(each.id, each.fence) for each in held], until)


def complete(tx: Transaction, caller: WorkerCaller, lease: LeaseRef, now: int) -> SettleResult:
    """Complete a delivery."""
    delivery = _as_leased(tx, caller, lease)
    done = Settlement(delivery=delivery, state=DeliveryState.DONE, outcome=DeliveryOutcome.HANDLED)
    return _settle(tx, done, now)


def fail(  # noqa: PLR0913 - caller, lease, failure, rules, time and randomness
    tx: Transaction,
    caller: WorkerCaller,
    lease: LeaseRef,
    failure: TryFailure,
    rules: RetryRules,
    *,
    now: int,
    random: Callable[[], float],
) -> SettleResult:
    """End a failed try: it is repeated later, or given up."""
    delivery = _as_leased(tx, caller, lease)
    return _settle(tx, settle_failure(delivery, failure, rules, now=now, random=random), now)


def hold(
    tx: Transaction, caller: WorkerCaller, lease: LeaseRef, reason: str, now: int
) -> SettleResult:
    """End a try so that an operator decides."""
    return _settle(tx, hold_settlement(_as_leased(tx, caller, lease), reason), now)


def _settle(tx: Transaction, settlement: Settlement, now: int) -> SettleResult:
    (counts,) = settlements.settle(tx, [settlement], now)
    return SettleResult(counts, settlement)


def begin_effect(  # noqa: PLR0913 - caller, lease, name, safety, limits and time
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
    """Journal an effect as started, or return its earlier journal entry.

    If its outcome is unknown, it is begun again where that is safe within ``window``; with
    ``Safety.VERIFY`` the worker asks the other side once ``surely_over_at`` has passed and
    reports the outcome; else the delivery is held.

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
    if not begun.go:
        if before is None:
            raise LeaseLost(_LOST)
        verifies = before.state is EffectState.STARTED and safe is Safety.VERIFY
        if before.state is EffectState.DONE or verifies:
            return BeginEffectAnswer(go=False, key=key, before=before)
        if not _may_repeat(before, safe, now - window):
            return _hold_unknown(tx, delivery, before, key, now)
        again = msgspec.structs.replace(request, known_fence=before.fence)
        if not effects.begin_again(tx, [again], now)[0]:
            raise LeaseLost(_LOST)
    entry = _journalled(tx, delivery, name)
    started_at = None if entry is None else entry.started_at
    return BeginEffectAnswer(go=True, key=key, before=before, started_at=started_at)


def finish_effect(  # noqa: PLR0913 - caller, lease, name, outcome and time
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
    """Record how an effect ended; return its journal entry.

    An outcome other than done applies to the start that ``started_at`` identifies, else to one of
    this claim: the call of another try may have happened all the same.

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


def _may_repeat(before: Effect, safe: Safety, window_start: int) -> bool:
    """Say whether an effect may be begun again: proven not done, or safe to repeat."""
    if before.state is EffectState.NOT_DONE:
        return True
    in_window = window_start <= before.first_started_at
    return before.state is EffectState.STARTED and safe is Safety.IDEMPOTENT and in_window


def _hold_unknown(
    tx: Transaction, delivery: Delivery, before: Effect, key: str, now: int
) -> BeginEffectAnswer:
    """Hold a delivery because the outcome of its effect is unknown."""
    reason = f"effect {before.name!r} was started and nobody knows whether it happened"
    held = _settle(tx, hold_settlement(delivery, reason), now)
    if not held.counts:
        raise LeaseLost(_LOST)
    unknown = FinishEffect(
        delivery_id=delivery.id, fence=delivery.fence, name=before.name, state=EffectState.UNKNOWN
    )
    effects.finish(tx, [unknown], now)
    return BeginEffectAnswer(go=False, key=key, before=before, held=held.settlement)


def _as_leased(tx: Transaction, caller: WorkerCaller, lease: LeaseRef) -> Delivery:
    """Return a delivery with the caller's fence, which is checked by the writes."""
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
