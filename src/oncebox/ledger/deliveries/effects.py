"""Effects: the journal that is written before and after each side effect of a handler."""

from collections.abc import Callable, Sequence

import msgspec

from oncebox import faults
from oncebox.errors import EffectInDoubt, LeaseLost
from oncebox.model.effect import Begin, Effect, EffectState, Finish, Safe
from oncebox.store.database import Row, Transaction
from oncebox.store.queries import load

_sql = load(__package__, "effects.sql")


class Begun(msgspec.Struct, frozen=True):
    """The journal's answer to a wish to begin."""

    #: the call may be made now
    go: bool
    #: what was journalled before, where there was something
    before: Effect | None


def begin(tx: Transaction, wishes: Sequence[Begin]) -> list[Begun]:
    """Journal effects as started; where one is known already, say what is known instead."""
    return begin_new(tx, wishes) or _which_go(tx, wishes)


def begin_new(tx: Transaction, wishes: Sequence[Begin]) -> list[Begun] | None:
    """Journal effects as started in one statement; None if some were known already."""
    rows = sorted(
        (w.delivery_id, w.name, w.tenant, str(w.safe), w.fence, w.now, w.surely_over_at)
        for w in wishes
    )
    if tx.run_many(_sql.begin, rows) < len(rows):
        return None
    return [Begun(go=True, before=None)] * len(rows)


def _which_go(tx: Transaction, wishes: Sequence[Begin]) -> list[Begun]:
    """Tell effects these very tries have begun, perhaps in a commit whose reply was lost."""
    known = _journalled(tx, [(w.delivery_id, w.name) for w in wishes])
    ids = sorted({w.delivery_id for w in wishes})
    leases: dict[str, int] = dict(tx.many(_sql.current, [(id_,) for id_ in ids]))
    answers = []
    for wish in wishes:
        found = known.get((wish.delivery_id, wish.name))
        started = found is not None and found.state is EffectState.STARTED
        ours = found is not None and found.fence == wish.fence == leases.get(wish.delivery_id)
        answers.append(Begun(go=started and ours, before=found))
    return answers


def begin_again(tx: Transaction, wishes: Sequence[Begin]) -> list[bool]:
    """Start effects anew that did not happen or may safely be repeated."""
    rows = sorted(
        (w.delivery_id, w.name, str(w.safe), w.fence, w.now, w.surely_over_at, w.seen)
        for w in wishes
    )
    if tx.run_many(_sql.begin_again, rows) == len(rows):
        return [True] * len(rows)
    return [each.go for each in _which_go(tx, wishes)]


def finish(tx: Transaction, endings: Sequence[Finish]) -> list[None]:
    """Record how effects ended."""
    rows = [
        (
            e.delivery_id, e.name, e.fence, str(e.state), e.now, e.result, e.error,
            e.since, e.started_at,
        )
        for e in endings
    ]  # fmt: skip
    tx.run_many(_sql.finish, sorted(rows, key=lambda row: row[:3]))
    return [None] * len(endings)


def transact(tx: Transaction, wish: Begin, work: Callable[[Transaction], bytes | None]) -> Effect:
    """Run ``work`` and journal it as done, in one commit; a repeat gets the stored result.

    Raises: LeaseLost, EffectInDoubt.
    """
    if _is_to_run(tx, wish):
        ending = Finish(
            delivery_id=wish.delivery_id,
            fence=wish.fence,
            name=wish.name,
            state=EffectState.DONE,
            now=wish.now,
            result=work(tx),
        )
        finish(tx, [ending])
        if not tx.run(_sql.hold_fence, delivery_id=wish.delivery_id, fence=wish.fence):
            message = "the lease was lost while the transaction ran; it was undone"
            raise LeaseLost(message)
        faults.point("effect.done-not-recorded")
    return _journalled(tx, [(wish.delivery_id, wish.name)])[(wish.delivery_id, wish.name)]


def _is_to_run(tx: Transaction, wish: Begin) -> bool:
    """Begin the effect of a transaction; say whether its work is still to be done."""
    begun = begin(tx, [wish])[0]
    before = begun.before
    if begun.go or (before is not None and before.state is EffectState.DONE):
        return begun.go
    if before is not None and before.state is not EffectState.NOT_DONE:
        # Only a call under the same name can have left this; a transaction leaves no doubt.
        message = f"effect {wish.name!r} was started and nobody knows whether it happened"
        raise EffectInDoubt(message)
    again = before and msgspec.structs.replace(wish, seen=before.fence)
    if not again or not begin_again(tx, [again])[0]:
        message = "the lease was lost, so the transaction was not begun"
        raise LeaseLost(message)
    return True


def of_delivery(tx: Transaction, tenant: str, delivery_id: str) -> list[Effect]:
    """Return the journal of one delivery."""
    return [
        _effect(row) for row in tx.all(_sql.of_delivery, tenant=tenant, delivery_id=delivery_id)
    ]


def resolve(
    tx: Transaction, tenant: str, delivery_id: str, name: str, state: EffectState, now: int
) -> bool:
    """Record a person's word on an effect in doubt; say whether there was one."""
    return (
        tx.run(
            _sql.resolve,
            tenant=tenant,
            delivery_id=delivery_id,
            name=name,
            state=str(state),
            now=now,
        )
        == 1
    )


def _journalled(
    tx: Transaction, wanted: Sequence[tuple[str, str]]
) -> dict[tuple[str, str], Effect]:
    if not wanted:
        return {}
    rows = tx.many(_sql.journalled, sorted(set(wanted)))
    return {(str(row[0]), str(row[1])): _effect(row[1:]) for row in rows}


def _effect(row: Row) -> Effect:
    name, state, safe, *rest = row
    return Effect(name, EffectState(state), Safe(safe), *rest)
