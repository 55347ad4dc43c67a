"""Effect journal: written before and after each side effect of a handler."""

from collections.abc import Callable, Sequence

import msgspec

from oncebox.core import faults
from oncebox.db.database import Row, Transaction
from oncebox.db.group_commit import Grouped, grouped
from oncebox.db.queries import load
from oncebox.errors import EffectOutcomeUnknown, LeaseLost
from oncebox.model.deliveries.effects import BeginEffect, Effect, EffectState, FinishEffect, Safety

_sql = load(__package__, "effects.sql")


class BeginResult(msgspec.Struct, frozen=True):
    """The journal's answer to a request to begin an effect."""

    #: the call may be made now
    go: bool
    #: the earlier journal entry, if there is one
    before: Effect | None


def begin_new(
    tx: Transaction, requests: Sequence[BeginEffect], now: int
) -> list[BeginResult] | None:
    """Journal effects as started in one statement; None if some were journalled before."""
    rows = sorted(
        (r.delivery_id, r.name, r.tenant, str(r.safe), r.fence, now, r.surely_over_at)
        for r in requests
    )
    if tx.run_many(_sql.begin, rows) < len(rows):
        return None
    return [BeginResult(go=True, before=None)] * len(rows)


@grouped(fast=begin_new)
def begin(tx: Transaction, requests: Sequence[BeginEffect], now: int) -> list[BeginResult]:
    """Journal effects as started; for those journalled before, return the earlier entry."""
    return begin_new(tx, requests, now) or _begun_or_known(tx, requests)


def _begun_or_known(tx: Transaction, requests: Sequence[BeginEffect]) -> list[BeginResult]:
    """Recognise effects that these very tries began, perhaps in a commit whose reply was lost."""
    known = _journalled(tx, [(r.delivery_id, r.name) for r in requests])
    ids = sorted({r.delivery_id for r in requests})
    leases: dict[str, int] = dict(tx.many(_sql.current, [(id_,) for id_ in ids]))
    results = []
    for request in requests:
        found = known.get((request.delivery_id, request.name))
        started = found is not None and found.state is EffectState.STARTED
        ours = found is not None and found.fence == request.fence == leases.get(request.delivery_id)
        results.append(BeginResult(go=started and ours, before=found))
    return results


@grouped()
def begin_again(tx: Transaction, requests: Sequence[BeginEffect], now: int) -> list[bool]:
    """Start effects anew that did not happen or may safely be repeated."""
    rows = sorted(
        (r.delivery_id, r.name, str(r.safe), r.fence, now, r.surely_over_at, r.known_fence)
        for r in requests
    )
    if tx.run_many(_sql.begin_again, rows) == len(rows):
        return [True] * len(rows)
    return [each.go for each in _begun_or_known(tx, requests)]


def _finish(tx: Transaction, endings: Sequence[FinishEffect], now: int) -> list[None]:
    rows = [
        (
            e.delivery_id, e.name, e.fence, str(e.state), now, e.result, e.error,
            e.from_fence, e.started_at,
        )
        for e in endings
    ]  # fmt: skip
    tx.run_many(_sql.finish, sorted(rows, key=lambda row: row[:3]))
    return [None] * len(endings)


#: records how effects ended, in one statement
finish: Grouped[FinishEffect, None] = Grouped(_finish, fast=_finish)


def transact(
    tx: Transaction, request: BeginEffect, work: Callable[[Transaction], bytes | None], now: int
) -> Effect:
    """Run ``work`` and journal it as done, in one commit; a repeat gets the stored result."""
    if _begin_transaction(tx, request, now):
        ending = FinishEffect(
            delivery_id=request.delivery_id,
            fence=request.fence,
            name=request.name,
            state=EffectState.DONE,
            result=work(tx),
        )
        finish(tx, [ending], now)
        if not tx.run(_sql.hold_fence, delivery_id=request.delivery_id, fence=request.fence):
            raise LeaseLost("the lease was lost while the transaction ran; it was undone")
        faults.point("effect.done-not-recorded")
    key = (request.delivery_id, request.name)
    return _journalled(tx, [key])[key]


def _begin_transaction(tx: Transaction, request: BeginEffect, now: int) -> bool:
    """Begin the effect of a transaction; return whether its work must still be done."""
    begun = begin(tx, [request], now)[0]
    before = begun.before
    if begun.go or (before is not None and before.state is EffectState.DONE):
        return begun.go
    if before is not None and before.state is not EffectState.NOT_DONE:
        # Only a call of the same name can have left this; a transaction's outcome is known.
        raise EffectOutcomeUnknown(
            f"effect {request.name!r} was started and nobody knows whether it happened"
        )
    again = before and msgspec.structs.replace(request, known_fence=before.fence)
    if not again or not begin_again(tx, [again], now)[0]:
        raise LeaseLost("the lease was lost, so the transaction was not begun")
    return True


def of_delivery(tx: Transaction, tenant: str, delivery_id: str) -> list[Effect]:
    """Return the journal of one delivery."""
    return [
        _effect(row) for row in tx.all(_sql.of_delivery, tenant=tenant, delivery_id=delivery_id)
    ]


def resolve(  # noqa: PLR0913 - the effect, the decision and its time
    tx: Transaction,
    tenant: str,
    delivery_id: str,
    name: str,
    state: EffectState,
    now: int,
    *,
    result: bytes | None = None,
) -> bool:
    """Record an operator's decision on an effect of unknown outcome; say whether there was one."""
    key = {"tenant": tenant, "delivery_id": delivery_id, "name": name}
    return tx.run(_sql.resolve, **key, state=str(state), now=now, result=result) == 1


def _journalled(
    tx: Transaction, wanted: Sequence[tuple[str, str]]
) -> dict[tuple[str, str], Effect]:
    if not wanted:
        return {}
    rows = tx.many(_sql.journalled, sorted(set(wanted)))
    return {(str(row[0]), str(row[1])): _effect(row[1:]) for row in rows}


def _effect(row: Row) -> Effect:
    name, state, safe, *rest = row
    return Effect(name, EffectState(state), Safety(safe), *rest)
