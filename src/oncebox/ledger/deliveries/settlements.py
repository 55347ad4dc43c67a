"""Settlements: end tries if the fence is current, run commit hooks, advance lanes, record events.

A commit hook runs in the transaction of its settlement: both are on disk, or neither.
See docs/decisions/0010-use-fenced-settlements-and-isolated-retries-for-deliveries.md.
"""

from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence
from itertools import compress
from operator import not_
from typing import Any, NamedTuple

import msgspec

from oncebox.core import faults, ids
from oncebox.core.logging import Log, iso_time, loggable_key, traceback_fields
from oncebox.db.database import Row, Transaction
from oncebox.db.group_commit import grouped
from oncebox.db.queries import load
from oncebox.ledger.deliveries import lanes
from oncebox.ledger.events import event_log
from oncebox.model.deliveries.delivery import (
    CommitHook,
    Delivery,
    DeliveryOutcome,
    DeliveryState,
    Settlement,
)
from oncebox.model.deliveries.retry import RetryRules
from oncebox.model.events import EventType, NewEvent
from oncebox.settings import RetrySettings

_sql = load(__package__, "settlements.sql")

#: states that are announced by an event
_EVENT_TYPES = {
    DeliveryState.DEAD: EventType.DELIVERY_DEAD,
    DeliveryState.HELD: EventType.DELIVERY_HELD,
}
ANNOUNCED = frozenset(_EVENT_TYPES)


class EndedDelivery(NamedTuple):
    """A delivery whose try has ended, and how."""

    id: str
    tenant: str
    source: str
    state: DeliveryState
    outcome: DeliveryOutcome
    tries: int


def record_end_events(tx: Transaction, ended: Iterable[EndedDelivery], now: int) -> None:
    """Record events of deliveries that are dead or held now.

    Without their keys, types and errors: those come from outside.
    """
    event_log.record(tx, [_end_event(each, now) for each in ended if each.state in ANNOUNCED])


def _end_event(ended: EndedDelivery, now: int) -> NewEvent:
    return NewEvent(
        id=ids.new("evt"),
        tenant=ended.tenant,
        type=_EVENT_TYPES[ended.state],
        subject_id=ended.id,
        at=now,
        data={"source": ended.source, "outcome": str(ended.outcome), "tries": ended.tries},
    )


#: characters of a traceback that are stored
_LONGEST_TRACEBACK = 8_000
#: what happens next with a failed try, in the log
_NEXT = {DeliveryState.FAILED: "retry", DeliveryState.DEAD: "given_up", DeliveryState.HELD: "held"}


def log_failed_try(log: Log, settlement: Settlement, **more: str) -> None:
    """Log a try that failed; the message of its error is stored with the delivery only."""
    delivery, due_at = settlement.delivery, settlement.due_at
    emit = log.warning if settlement.state is DeliveryState.FAILED else log.error
    emit(
        "handler_failed",
        delivery=delivery.id,
        source=delivery.source,
        key=loggable_key(delivery.key),
        tries=delivery.tries,
        outcome=settlement.outcome,
        next=_NEXT[settlement.state],
        due=None if due_at is None else iso_time(due_at),
        **more,
    )


def with_traceback(log: Log, settlement: Settlement, error: BaseException) -> Settlement:
    """Log a try that failed by an error; return its settlement with the traceback."""
    fields = traceback_fields(error)
    log_failed_try(log, settlement, **fields)
    return msgspec.structs.replace(settlement, traceback=fields["traceback"][:_LONGEST_TRACEBACK])


def log_lost(log: Log, dead: Iterable[EndedDelivery]) -> None:
    """Log deliveries that were given up because their workers were lost."""
    for each in dead:
        log.error(
            "delivery_dead",
            delivery=each.id,
            source=each.source,
            tries=each.tries,
            outcome=each.outcome,
            reason="worker_lost",
        )


def default_retry_rules(settings: RetrySettings) -> RetryRules:
    """Return the retry rules of the settings."""
    return RetryRules(
        tries=settings.tries,
        budget=int(settings.budget * 1000),
        first_wait=int(settings.first_wait * 1000),
        longest_wait=int(settings.longest_wait * 1000),
    )


#: endings that do not use up a try, because nothing was tried
_UNCOUNTED = {DeliveryOutcome.GIVEN_BACK}


class SettledTry(NamedTuple):
    """The result of one settlement."""

    #: whether it was recorded; if not, the lease was lost before
    counted: bool
    #: what its commit hook returned; None if no hook ran
    hook_result: Any = None


_COUNTED, _STALE = SettledTry(counted=True), SettledTry(counted=False)


def settle(tx: Transaction, settlements: Sequence[Settlement], now: int) -> list[bool]:
    """End tries; return for each whether it was recorded, or its lease was lost before."""
    return [each.counted for each in settle_with_hooks(tx, settlements, now)]


def settle_with_hooks(
    tx: Transaction, settlements: Sequence[Settlement], now: int
) -> list[SettledTry]:
    """End tries and run their commit hooks."""
    bare = [each for each in settlements if each.commit_hook is None]
    good = [each for each in bare if _is_plain(each)]
    other = [each for each in bare if not _is_plain(each)]
    hooked = _complete_with_hooks(
        tx, [each for each in settlements if each.commit_hook is not None], now
    )
    count = len(hooked)
    if count + _complete(tx, good, now) + _end_unfinished(tx, other, now) == len(settlements):
        counts = [True] * len(settlements)
    else:
        counts = _which_count(tx, settlements)
        _record_proof(tx, list(compress(settlements, map(not_, counts))), now)
    _advance_lanes(tx, list(compress(settlements, counts)), now)
    results = _run_hooks(tx, hooked, now)
    faults.point("worker.settled-not-committed")
    if not results:
        return [_COUNTED if counted else _STALE for counted in counts]
    return [
        SettledTry(counted, results[id(each)])
        if id(each) in results
        else (_COUNTED if counted else _STALE)
        for each, counted in zip(settlements, counts, strict=True)
    ]


def complete_all(
    tx: Transaction, settlements: Sequence[Settlement], now: int
) -> list[SettledTry] | None:
    """End tries well in one statement; None if some need more, with the others ended."""
    if not all(_is_single_row(each) for each in settlements):
        return None
    count = _complete(tx, settlements, now)
    faults.point("worker.settled-not-committed")
    return [_COUNTED] * count if count == len(settlements) else None


@grouped()
def allow(tx: Transaction, deliveries: Sequence[Delivery], _now: int) -> list[bool]:
    """Record that a policy allowed deliveries; return for each whether its lease is held."""
    rows = sorted((each.id, each.fence) for each in deliveries)
    if tx.run_many(_sql.allow, rows) == len(rows):
        return [True] * len(rows)
    current = _states_and_fences(tx, [each.id for each in deliveries])
    return [current.get(each.id) == (DeliveryState.PROCESSING, each.fence) for each in deliveries]


@grouped()
def begin(tx: Transaction, deliveries: Sequence[Delivery], now: int) -> list[int]:
    """Record that work on deliveries begins; return for each how many tries began before.

    A try that only waited in the queue of a lost worker is not one of them.
    """
    tx.run_many(_sql.begin, sorted((each.id, each.fence) for each in deliveries), now=now)
    rows = sorted((each.id, each.fence, each.tries) for each in deliveries)
    counts = {str(id_): int(count) for id_, count in tx.many(_sql.begun_before, rows)}
    return [counts.get(each.id, 0) for each in deliveries]


def _is_plain(settlement: Settlement) -> bool:
    """Say whether the try is done and left no error."""
    return settlement.state is DeliveryState.DONE and settlement.error is None


def _is_single_row(settlement: Settlement) -> bool:
    """Say whether one row is all that changes; a hook or a lane needs a full transaction."""
    plain = _is_plain(settlement) and settlement.commit_hook is None
    return plain and settlement.delivery.lane is None


def _complete_with_hooks(
    tx: Transaction, settlements: Sequence[Settlement], now: int
) -> list[Settlement]:
    """End tries well that have commit hooks; return those that ended just now.

    One that was committed before, when the reply was lost, still counts, but its hook has run.
    """
    if not settlements:
        return []
    rows = sorted(
        (each.delivery.id, each.delivery.fence, str(each.outcome)) for each in settlements
    )
    fulfilled = tx.send_many(_sql.fulfil, rows, now=now)
    ended = {(str(id_), int(fence)) for id_, fence in fulfilled.rows()}
    by_key = {(each.delivery.id, each.delivery.fence): each for each in settlements}
    return [each for key, each in by_key.items() if key in ended]


def _run_hooks(tx: Transaction, settlements: Sequence[Settlement], now: int) -> dict[int, Any]:
    """Run commit hooks, all of one function in one call; return results by settlement."""
    by_function: defaultdict[Callable[..., Any], list[tuple[int, CommitHook]]] = defaultdict(list)
    for each in settlements:
        if each.commit_hook is not None:
            by_function[each.commit_hook.function].append((id(each), each.commit_hook))
    results: dict[int, Any] = {}
    for function, hooks in by_function.items():
        returned = function(tx, [hook.argument for _, hook in hooks], now)
        results.update(zip((key for key, _ in hooks), returned, strict=True))
    return results


def _complete(tx: Transaction, good: Sequence[Settlement], now: int) -> int:
    rows = sorted((each.delivery.id, each.delivery.fence, str(each.outcome)) for each in good)
    return tx.run_many(_sql.complete, rows, now=now) if rows else 0


def _end_unfinished(tx: Transaction, other: Sequence[Settlement], now: int) -> int:
    if not other:
        return 0
    tries = [
        (each.delivery.id, each.delivery.fence, str(each.outcome), each.error, each.traceback)
        for each in other
    ]
    rows = [
        (
            each.delivery.id, each.delivery.fence, str(each.state), str(each.outcome), each.error,
            each.due_at, each.not_before, each.hold_reason, int(each.outcome in _UNCOUNTED),
            int(each.heavy),
        )
        for each in other
    ]  # fmt: skip
    tx.run_many(_sql.record_try, sorted(tries, key=_by_id), now=now)
    settled = {id_ for (id_,) in tx.many(_sql.settle, sorted(rows, key=_by_id), now=now)}
    record_end_events(
        tx, (_ended_delivery(each) for each in other if each.delivery.id in settled), now
    )
    return len(settled)


def _ended_delivery(settlement: Settlement) -> EndedDelivery:
    delivery = settlement.delivery
    return EndedDelivery(
        delivery.id, delivery.tenant, delivery.source, settlement.state, settlement.outcome,
        delivery.tries,
    )  # fmt: skip


def _by_id(row: Row) -> tuple[str, int]:
    return (row[0], row[1])


def _which_count(tx: Transaction, settlements: Sequence[Settlement]) -> list[bool]:
    """Return for each settlement whether it was recorded, now or by a commit without a reply."""
    current = _states_and_fences(tx, [each.delivery.id for each in settlements])
    return [
        current.get(each.delivery.id) == (each.state, each.delivery.fence) for each in settlements
    ]


def _states_and_fences(tx: Transaction, ids: Sequence[str]) -> dict[str, tuple[str, int]]:
    rows = tx.many(_sql.standing, [(id_,) for id_ in sorted(set(ids))])
    return {str(id_): (str(state), int(fence)) for id_, state, fence in rows}


def _record_proof(tx: Transaction, stale: Sequence[Settlement], now: int) -> None:
    proofs = [
        (each.delivery.id, each.delivery.fence, each.delivery.tenant)
        for each in stale
        if each.state is DeliveryState.DONE
    ]
    if proofs:
        tx.run_many(_sql.record_proof, sorted(proofs), now=now)


def _advance_lanes(tx: Transaction, settled: Sequence[Settlement], now: int) -> None:
    left = [
        ((delivery.tenant, delivery.source, delivery.lane), _lane_completion(each))
        for each in settled
        # A failed delivery keeps its turn.
        if (delivery := each.delivery).lane is not None and each.state is not DeliveryState.FAILED
    ]
    if left:
        lanes.advance(tx, left, now)


def _lane_completion(settlement: Settlement) -> lanes.LaneCompletion | None:
    delivery = settlement.delivery
    return (
        lanes.LaneCompletion(delivery.type, delivery.sequence)
        if settlement.state is DeliveryState.DONE
        else None
    )
