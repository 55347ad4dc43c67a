"""Pull: workers elsewhere claim, renew and settle by call; every call may be repeated.

Missing and foreign look the same: what is not of the caller's tenant and sources is not found.
"""

from collections.abc import Callable, Collection, Sequence
from typing import NamedTuple

import msgspec

from oncebox.errors import LeaseLost, NotFound, RequestKeyReused
from oncebox.ledger.deliveries import effects, gates, leases, settlements
from oncebox.ledger.deliveries.leases import Claimant
from oncebox.model.delivery import Delivery, Outcome, Settlement, State
from oncebox.model.effect import Begin, Effect, EffectState, Finish, Safe, effect_key
from oncebox.model.retry import Failure, RetryRules, after_failure, one_line
from oncebox.store.database import Row, Transaction
from oncebox.store.queries import load

_sql = load(__package__, "pull.sql")


class Ask(msgspec.Struct, frozen=True, kw_only=True):
    """A worker's wish for work."""

    tenant: str
    worker: str
    #: the same key is answered with the same lease
    request_key: str
    #: the sources to claim from, in their turn; all of this tenant and for this worker
    claimants: tuple[Claimant, ...]
    most: int


class Caller(msgspec.Struct, frozen=True, kw_only=True):
    """Who speaks of a delivery: a tenant, and the sources it may work on."""

    tenant: str
    #: None is all of them
    sources: Collection[str] | None = None


class Lease(NamedTuple):
    """Which claim of a delivery is meant."""

    id: str
    fence: int


class Ended(msgspec.Struct, frozen=True):
    """How a settlement went."""

    #: whether it counts; if not, the lease was lost before
    counts: bool
    state: State
    #: when it is tried again
    due_at: int | None = None


class Answer(msgspec.Struct, frozen=True):
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


class _Claimed(msgspec.Struct, frozen=True, array_like=True):
    """What a claim changed in a delivery, kept so that it can be told again."""

    id: str
    fence: int
    tries: int
    give_up_at: int


# claims


def claim(tx: Transaction, ask: Ask, now: int) -> list[Delivery]:
    """Lease due deliveries; a repeat is told the same leases, whatever became of them.

    What was lost by its last worker comes alone. A claim that finds nothing leaves no trace.

    Raises: RequestKeyReused.
    """
    name = {"tenant": ask.tenant, "request_key": ask.request_key}
    sources = msgspec.json.encode(sorted(who.source for who in ask.claimants))
    reserved = tx.run(_sql.reserve, **name, worker=ask.worker, sources=sources, now=now, answer=b"")
    if not reserved:
        return _again(tx, ask, sources)
    claimed = _lost_by_others(tx, ask, now) or _due(tx, ask, now)
    if not claimed:
        tx.run(_sql.let_go, **name)
        return []
    told = [_Claimed(each.id, each.fence, each.tries, each.give_up_at) for each in claimed]
    tx.run(_sql.answer, **name, answer=msgspec.json.encode(told))
    return claimed


def forget(tx: Transaction, before: int) -> int:
    """Forget claims that were asked before a moment; return how many."""
    return tx.run(_sql.forget, before=before)


def _again(tx: Transaction, ask: Ask, sources: bytes) -> list[Delivery]:
    """Tell a claim again."""
    row = tx.one(_sql.asked, tenant=ask.tenant, request_key=ask.request_key)
    if row is None or (row[0], row[1]) != (ask.worker, sources):
        message = "this request key claimed for another worker or other sources; take a new one"
        raise RequestKeyReused(message)
    told = msgspec.json.decode(row[2], type=list[_Claimed])
    found = leases.as_claimed(tx, ask.tenant, [each.id for each in told])
    return [
        msgspec.structs.replace(
            found[each.id], fence=each.fence, tries=each.tries, give_up_at=each.give_up_at
        )
        for each in told
    ]


def _lost_by_others(tx: Transaction, ask: Ask, now: int) -> list[Delivery]:
    for who in ask.claimants:
        leases.bury_hopeless(tx, who, now)
        found = leases.claim_expired(tx, who, now)
        if found is not None:
            return [found]
    return []


def _due(tx: Transaction, ask: Ask, now: int) -> list[Delivery]:
    # All gates first, in one order: two claims must not wait for each other crosswise.
    gates.lock(tx, [leases.limits(who) for who in ask.claimants], now)
    claimed: list[Delivery] = []
    for who in ask.claimants:
        if len(claimed) < ask.most:
            claimed += leases.claim(tx, who, ask.most - len(claimed), now)
    return claimed


# leases and settlements


def heartbeat(tx: Transaction, caller: Caller, held: Sequence[Lease], until: int) -> set[str]:
    """Prolong leases; return the ids of those that still hold.

    Raises: NotFound.
    """
    _standing(tx, caller, [each.id for each in held])
    return leases.renew(tx, [(each.id, each.fence) for each in held], until)


def complete(tx: Transaction, caller: Caller, lease: Lease, now: int) -> Ended:
    """End a delivery well.

    Raises: NotFound.
    """
    delivery = _leased(tx, caller, lease)
    return _settle(
        tx, Settlement(delivery=delivery, state=State.DONE, outcome=Outcome.HANDLED), now
    )


def fail(  # noqa: PLR0913 - who, what, how, by which rules, when and with which dice
    tx: Transaction,
    caller: Caller,
    lease: Lease,
    failure: Failure,
    rules: RetryRules,
    *,
    now: int,
    random: Callable[[], float],
) -> Ended:
    """End a try that failed: it is repeated later, or given up.

    Raises: NotFound.
    """
    delivery = _leased(tx, caller, lease)
    return _settle(tx, after_failure(delivery, failure, rules, now=now, random=random), now)


def hold(tx: Transaction, caller: Caller, lease: Lease, reason: str, now: int) -> Ended:
    """End a try so that a person decides.

    Raises: NotFound.
    """
    return _settle(tx, _held(_leased(tx, caller, lease), reason), now)


def _settle(tx: Transaction, settlement: Settlement, now: int) -> Ended:
    (counts,) = settlements.settle(tx, [settlement], now)
    return Ended(counts, settlement.state, settlement.due_at)


def _held(delivery: Delivery, reason: str) -> Settlement:
    reason = one_line(reason)
    return Settlement(
        delivery=delivery, state=State.HELD, outcome=Outcome.HELD, hold_reason=reason, error=reason
    )


# effects


def begin(  # noqa: PLR0913 - who, what, its name and choice, how long it may take, and when
    tx: Transaction,
    caller: Caller,
    lease: Lease,
    name: str,
    safe: Safe,
    *,
    timeout: int,
    window: int,
    now: int,
) -> Answer:
    """Journal an effect as started, or say what is known of it.

    One that was started and never heard of again is begun anew where that is safe within
    ``window``; with ``Safe.VERIFY`` the worker asks the other side once ``surely_over_at`` has
    passed and says what it found; else the delivery is held.

    Raises: NotFound, LeaseLost.
    """
    delivery = _leased(tx, caller, lease)
    key = effect_key(delivery.tenant, delivery.source, delivery.key, delivery.variant, name)
    wish = Begin(
        delivery_id=delivery.id,
        tenant=delivery.tenant,
        fence=delivery.fence,
        name=name,
        safe=safe,
        now=now,
        surely_over_at=now + 2 * timeout,  # the journal's commit takes time too
    )
    (begun,) = effects.begin(tx, [wish])
    before = begun.before
    if begun.go:
        return Answer(go=True, key=key, before=before, started_at=_start(tx, delivery, name))
    if before is None:
        raise LeaseLost(_LOST)
    if before.state is EffectState.DONE:
        return Answer(go=False, key=key, before=before)
    if _may_repeat(before, wish, window):
        if not effects.begin_again(tx, [msgspec.structs.replace(wish, seen=before.fence)])[0]:
            raise LeaseLost(_LOST)
        return Answer(go=True, key=key, before=before, started_at=_start(tx, delivery, name))
    if before.state is EffectState.STARTED and safe is Safe.VERIFY:
        return Answer(go=False, key=key, before=before)
    return _in_doubt(tx, delivery, before, key, now)


def finish(  # noqa: PLR0913 - who, what, its name, how it ended, and when
    tx: Transaction,
    caller: Caller,
    lease: Lease,
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
    delivery = _leased(tx, caller, lease)
    ending = Finish(
        delivery_id=delivery.id,
        fence=delivery.fence,
        name=name,
        state=state,
        now=now,
        result=result,
        error=None if error is None else one_line(error),
        since=delivery.fence if started_at is None else 0,
        started_at=started_at,
    )
    effects.finish(tx, [ending])
    found = _journalled(tx, delivery, name)
    if found is None:
        message = "this effect was never begun; begin it first"
        raise NotFound(message)
    return found


def _journalled(tx: Transaction, delivery: Delivery, name: str) -> Effect | None:
    journal = effects.of_delivery(tx, delivery.tenant, delivery.id)
    return next((each for each in journal if each.name == name), None)


def _start(tx: Transaction, delivery: Delivery, name: str) -> int | None:
    found = _journalled(tx, delivery, name)
    return None if found is None else found.started_at


def _may_repeat(before: Effect, wish: Begin, window: int) -> bool:
    """Say whether an effect may be begun anew: proven not done, or safe to repeat."""
    if before.state is EffectState.NOT_DONE:
        return True
    in_window = wish.now <= before.first_started_at + window
    return before.state is EffectState.STARTED and wish.safe is Safe.IDEMPOTENT and in_window


def _in_doubt(tx: Transaction, delivery: Delivery, before: Effect, key: str, now: int) -> Answer:
    """Hold a delivery because nobody can know whether its effect happened."""
    reason = f"effect {before.name!r} was started and nobody knows whether it happened"
    ended = _settle(tx, _held(delivery, reason), now)
    if not ended.counts:
        raise LeaseLost(_LOST)
    unknown = Finish(
        delivery_id=delivery.id,
        fence=delivery.fence,
        name=before.name,
        state=EffectState.UNKNOWN,
        now=now,
    )
    effects.finish(tx, [unknown])
    return Answer(go=False, key=key, before=before, held=True)


# whose it is


def _leased(tx: Transaction, caller: Caller, lease: Lease) -> Delivery:
    """Return a delivery as the caller claimed it; whether the claim still holds is told later."""
    delivery = _standing(tx, caller, [lease.id])[lease.id]
    return msgspec.structs.replace(delivery, fence=lease.fence)


def _standing(tx: Transaction, caller: Caller, ids: Sequence[str]) -> dict[str, Delivery]:
    rows = tx.many(_sql.standing, [(id_,) for id_ in sorted(set(ids))], tenant=caller.tenant)
    found = {
        row[0]: _without_payload(row)
        for row in rows
        if caller.sources is None or row[2] in caller.sources
    }
    if len(found) < len(set(ids)):
        message = "there is no such delivery"
        raise NotFound(message)
    return found


def _without_payload(row: Row) -> Delivery:
    id_, tenant, source, key, variant, type_, lane, late, policy, fence, *rest = row
    tries, received_at, give_up_at, verdict, sequence = rest
    return Delivery(
        id_, tenant, source, key, variant, type_, lane, bool(late), policy, fence, tries,
        received_at, give_up_at, b"[]", b"", verdict, sequence,
    )  # fmt: skip


_LOST = "the lease was lost; somebody else may be working on it"
