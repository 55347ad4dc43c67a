"""Settlements: how tries end. A stale worker changes nothing; it may only add proof.

A settlement may carry a deed, which is done in the same transaction: both are on disk, or neither.
"""

from collections import defaultdict
from collections.abc import Callable, Sequence
from itertools import compress
from operator import not_
from typing import Any, NamedTuple

from oncebox import faults
from oncebox.ledger.deliveries import lanes, notices
from oncebox.model.deed import Deed
from oncebox.model.delivery import Delivery, Outcome, Settlement, State
from oncebox.store.database import Row, Transaction
from oncebox.store.queries import load

_sql = load(__package__, "settlements.sql")

#: the state in which a delivery keeps its turn in its lane
_KEEPS_TURN = State.FAILED
#: endings that do not use up a try, because nothing was tried
_UNCOUNTED = {Outcome.GIVEN_BACK}


class Settled(NamedTuple):
    """What came of some settlements."""

    #: for each whether it counts, or its lease was lost before
    counts: list[bool]
    #: the deeds that were done, with what came of each
    done: list[tuple[Deed, Any]]


def settle(tx: Transaction, settlements: Sequence[Settlement], now: int) -> list[bool]:
    """End tries; say for each whether it counts, or its lease was lost before."""
    return settle_with_deeds(tx, settlements, now).counts


def settle_with_deeds(tx: Transaction, settlements: Sequence[Settlement], now: int) -> Settled:
    """End tries and do what they ask for; say also what came of that."""
    bare = [each for each in settlements if each.deed is None]
    good = [each for each in bare if _is_plain(each)]
    other = [each for each in bare if not _is_plain(each)]
    doing = _fulfil(tx, [each for each in settlements if each.deed is not None], now)
    count = len(doing)
    if count + _complete(tx, good, now) + _end_otherwise(tx, other, now) == len(settlements):
        counts = [True] * len(settlements)
    else:
        counts = _which_count(tx, settlements)
        _keep_proof(tx, list(compress(settlements, map(not_, counts))), now)
    _move_lanes_on(tx, list(compress(settlements, counts)), now)
    done = _do(tx, doing, now)
    faults.point("worker.settled-not-committed")
    return Settled(counts, done)


def complete_all(tx: Transaction, settlements: Sequence[Settlement], now: int) -> list[bool] | None:
    """End tries well in one statement; None if some need more, with the others ended."""
    if not all(_is_alone(each) for each in settlements):
        return None
    count = _complete(tx, settlements, now)
    faults.point("worker.settled-not-committed")
    return [True] * count if count == len(settlements) else None


def allow(tx: Transaction, deliveries: Sequence[Delivery]) -> list[bool]:
    """Journal that a policy let deliveries run; say for each whether its lease still holds."""
    rows = sorted((each.id, each.fence) for each in deliveries)
    if tx.run_many(_sql.allow, rows) == len(rows):
        return [True] * len(rows)
    standing = _standing(tx, [each.id for each in deliveries])
    return [standing.get(each.id) == (State.PROCESSING, each.fence) for each in deliveries]


def _is_plain(settlement: Settlement) -> bool:
    """Say whether there is nothing to tell but that it is done."""
    return settlement.state is State.DONE and settlement.error is None


def _is_alone(settlement: Settlement) -> bool:
    """Say whether one row is all that changes; a deed or a lane wants a whole transaction."""
    plain = _is_plain(settlement) and settlement.deed is None
    return plain and settlement.delivery.lane is None


def _fulfil(tx: Transaction, asked: Sequence[Settlement], now: int) -> list[Deed]:
    """End tries well that have deeds; return the deeds of those that ended just now.

    One that was committed before, when the reply was lost, still counts, but its deed is done.
    """
    if not asked:
        return []
    rows = sorted((each.delivery.id, each.delivery.fence, str(each.outcome)) for each in asked)
    ended = {(str(id_), int(fence)) for id_, fence in tx.many(_sql.fulfil, rows, now=now)}
    doing = {(each.delivery.id, each.delivery.fence): each.deed for each in asked}
    return [deed for key, deed in doing.items() if key in ended and deed is not None]


def _do(tx: Transaction, doing: Sequence[Deed], now: int) -> list[tuple[Deed, Any]]:
    """Do deeds, all of one kind in one call."""
    kinds: defaultdict[Callable[..., Any], list[Deed]] = defaultdict(list)
    for deed in doing:
        kinds[deed.verb].append(deed)
    done: list[tuple[Deed, Any]] = []
    for verb, deeds in kinds.items():
        done += zip(deeds, verb(tx, [each.what for each in deeds], now), strict=True)
    return done


def _complete(tx: Transaction, good: Sequence[Settlement], now: int) -> int:
    rows = sorted((each.delivery.id, each.delivery.fence, str(each.outcome)) for each in good)
    return tx.run_many(_sql.complete, rows, now=now) if rows else 0


def _end_otherwise(tx: Transaction, other: Sequence[Settlement], now: int) -> int:
    if not other:
        return 0
    tries = [
        (each.delivery.id, each.delivery.fence, str(each.outcome), each.error) for each in other
    ]
    rows = [
        (
            each.delivery.id, each.delivery.fence, str(each.state), str(each.outcome), each.error,
            each.due_at, each.not_before, each.hold_reason, int(each.outcome in _UNCOUNTED),
        )
        for each in other
    ]  # fmt: skip
    tx.run_many(_sql.record_try, sorted(tries, key=_by_id), now=now)
    settled = {id_ for (id_,) in tx.many(_sql.settle, sorted(rows, key=_by_id), now=now)}
    notices.record(tx, (_ended(each) for each in other if each.delivery.id in settled), now)
    return len(settled)


def _ended(settlement: Settlement) -> notices.Ended:
    delivery = settlement.delivery
    return notices.Ended(
        delivery.id, delivery.tenant, delivery.source, settlement.state, settlement.outcome,
        delivery.tries,
    )  # fmt: skip


def _by_id(row: Row) -> tuple[str, int]:
    return (row[0], row[1])


def _which_count(tx: Transaction, settlements: Sequence[Settlement]) -> list[bool]:
    """Tell settlements that count from those that came too late.

    One that was committed before, when the reply to the commit was lost, counts too.
    """
    standing = _standing(tx, [each.delivery.id for each in settlements])
    return [
        standing.get(each.delivery.id) == (each.state, each.delivery.fence) for each in settlements
    ]


def _standing(tx: Transaction, ids: Sequence[str]) -> dict[str, tuple[str, int]]:
    rows = tx.many(_sql.standing, [(id_,) for id_ in sorted(set(ids))])
    return {str(id_): (str(state), int(fence)) for id_, state, fence in rows}


def _keep_proof(tx: Transaction, stale: Sequence[Settlement], now: int) -> None:
    proofs = [
        (each.delivery.id, each.delivery.fence, each.delivery.tenant)
        for each in stale
        if each.state is State.DONE
    ]
    if proofs:
        tx.run_many(_sql.record_proof, sorted(proofs), now=now)


def _move_lanes_on(tx: Transaction, settled: Sequence[Settlement], now: int) -> None:
    left = [
        ((delivery.tenant, delivery.source, delivery.lane), _done(each))
        for each in settled
        if (delivery := each.delivery).lane is not None and each.state is not _KEEPS_TURN
    ]
    lanes.move_on(tx, left, now)


def _done(settlement: Settlement) -> lanes.Done | None:
    """Return what a lane should remember of a delivery that left it."""
    delivery = settlement.delivery
    return lanes.Done(delivery.type, delivery.sequence) if settlement.state is State.DONE else None
