"""Deduplicating insert of deliveries: new, duplicate (by class), conflict, replay, echo.

See docs/decisions/0011-use-fingerprints-for-duplicate-detection.md.
"""

from collections import defaultdict
from collections.abc import Iterable, Sequence
from typing import NamedTuple

from oncebox.core import faults
from oncebox.db.database import Database, Row, Transaction
from oncebox.db.group_commit import BulkInsert
from oncebox.db.queries import load
from oncebox.ledger.deliveries import lanes, settlements
from oncebox.model.deliveries.delivery import (
    Accepted,
    ArrivalKind,
    DeliveryOutcome,
    DeliveryState,
    NewDelivery,
)
from oncebox.model.deliveries.duplicates import DuplicateClass, DuplicateFacts, classify_duplicate
from oncebox.model.validation import body_digest, key_digest

_sql = load(__package__, "deduplication.sql")

#: how many duplicates of one delivery and class are stored as examples
EXAMPLES_KEPT = 3


class DuplicateArrival(NamedTuple):
    """A duplicate of a delivery."""

    delivery_id: str
    duplicate_class: DuplicateClass
    arrival: NewDelivery


def record_duplicates(tx: Transaction, seen: Sequence[DuplicateArrival], now: int) -> None:
    """Count duplicates and store the first ones; of two channels in a batch the last counts."""
    groups = _grouped(seen)
    counted = tx.many(_sql.count, _count_rows(groups), now=now)
    if examples := _example_rows(counted, groups):
        tx.run_many(_sql.keep, examples, now=now)


#: arrivals by the delivery they repeat and their class
_DuplicateGroups = dict[tuple[str, str], list[NewDelivery]]


def _grouped(seen: Sequence[DuplicateArrival]) -> _DuplicateGroups:
    groups: _DuplicateGroups = defaultdict(list)
    for id_, class_, arrival in seen:
        groups[id_, class_.value].append(arrival)
    return groups


def _count_rows(groups: _DuplicateGroups) -> list[Row]:
    return [
        (*group, arrivals[-1].tenant, len(arrivals), arrivals[-1].road)
        for group, arrivals in sorted(groups.items())
    ]


def _example_rows(counted: Sequence[Row], groups: _DuplicateGroups) -> list[Row]:
    """Return the rows of the arrivals that are among the first of their group."""
    rows: list[Row] = []
    for id_, name, count in counted:
        arrivals = groups[id_, name]
        before = count - len(arrivals)
        rows += [
            (
                id_, name, before + number, each.tenant, each.road, each.verdict, each.secret_id,
                each.headers,
            )
            for number, each in enumerate(arrivals[: max(0, EXAMPLES_KEPT - before)], 1)
        ]  # fmt: skip
    return rows


DeliveryKey = tuple[str, str, str, str]
#: known rows by key: id, state, channel, fingerprint, received_at, accepted_at, replay_of
KnownDeliveries = dict[DeliveryKey, Row]

#: states in which a redelivery revives or hastens a delivery, if the policy allows
_REARMED_STATES = (DeliveryState.FAILED, DeliveryState.DEAD)

#: the first state of a replay, by its source's policy
_REPLAY_STATES = {
    "hold": DeliveryState.HELD,
    "run": DeliveryState.RECEIVED,
    "drop": DeliveryState.DONE,
}


def accept(
    tx: Transaction, arrivals: Sequence[NewDelivery], now: int, *, look_first: bool = False
) -> list[Accepted]:
    """Insert new arrivals, count the others; answer each in order.

    ``look_first`` reads before it writes, which is faster if most are known already.
    """
    answers = _answer_echoes(tx, arrivals, now)
    rest = [each for each in arrivals if each.id not in answers] if answers else arrivals
    known = _known(tx, map(_key, rest)) if look_first else {}
    unseen = [each for each in rest if _key(each) not in known] if known else rest
    known |= _insert_new(tx, unseen, answers, now)
    if len(answers) < len(arrivals):
        _answer_known(tx, [each for each in rest if each.id not in answers], known, answers, now)
    faults.point("accept.written")
    return [answers[each.id] for each in arrivals]


def _plain_row(each: NewDelivery) -> Row | None:
    """Return the row of an arrival; None if it needs more than a row."""
    if each.heavy or not (each.lane is each.hold_reason is each.payload_id is each.echo_of is None):
        return None
    tenant, source = each.tenant, each.source
    return (
        each.id, tenant, source, each.key, key_digest(tenant, source, each.key),
        body_digest(tenant, source, each.fingerprint) if each.unsigned else None,
        each.type, each.road, each.fingerprint,
        len(each.body) if each.length is None else each.length, each.received_at, each.headers,
        each.body, each.verdict, each.secret_id,
    )  # fmt: skip


def _by_key(row: Row) -> Row:
    return row[1:5]


def _new_results(arrivals: Sequence[NewDelivery]) -> list[Accepted]:
    faults.point("accept.written")
    return [Accepted(each.id, ArrivalKind.NEW, DeliveryState.RECEIVED) for each in arrivals]


#: inserts new arrivals in one statement, in a group commit
insert_new = BulkInsert(
    lambda kind: _sql.insert_whole if kind == "postgres" else _sql.insert_arrival,
    _plain_row,
    _by_key,
    _new_results,
)


# new arrivals


def _insert_new(
    tx: Transaction, unseen: Sequence[NewDelivery], answers: dict[str, Accepted], now: int
) -> KnownDeliveries:
    """Insert new arrivals and answer them; return the known rows of the others."""
    if not unseen:
        return {}
    count = _insert_rows(
        tx, [_row(_key(each), each, _first_state(each), now) for each in unseen], now
    )
    known: KnownDeliveries = {}
    new = unseen
    if count < len(unseen):
        known = _known(tx, map(_key, unseen))
        replays = [each for each in unseen if _key(each) not in known]
        if replays:
            known |= _insert_replays(tx, replays, answers, now)
        new = [each for each in unseen if known[_key(each)][0] == each.id]
    answers |= {
        each.id: Accepted(each.id, ArrivalKind.NEW, _first_state(each))
        for each in new
        if each.id not in answers
    }
    _add_what_belongs(tx, new, answers, now)
    return known


def _insert_replays(
    tx: Transaction, replays: Sequence[NewDelivery], answers: dict[str, Accepted], now: int
) -> KnownDeliveries:
    """Insert known bodies under new, unsigned keys, by their sources' policies; answer them."""
    rows = [_row(_key(each), each, _replay_state(each), now, backed=0) for each in replays]
    _insert_rows(tx, rows, now)
    known = _known(tx, map(_key, replays))
    new = [each for each in replays if known[_key(each)][0] == each.id]
    bodies = sorted({(_body_digest(each), *_body_key(each)) for each in new})
    owners = {tuple(row[:3]): row[3:] for row in tx.many(_sql.owners, bodies)}
    marks = []
    for each in new:
        state = _replay_state(each)
        class_ = DuplicateClass.SUSPICIOUS_REPLAY
        answers[each.id] = Accepted(each.id, ArrivalKind.SUSPICIOUS_REPLAY, state, class_.value)
        dropped = state is DeliveryState.DONE
        marks.append((
            each.id, owners[_body_key(each)][0],
            DeliveryOutcome.DROPPED.value if dropped else None, now if dropped else None,
        ))  # fmt: skip
    tx.run_many(_sql.mark_replay, sorted(marks))
    seen = [
        DuplicateArrival(owners[_body_key(each)][0], DuplicateClass.SUSPICIOUS_REPLAY, each)
        for each in new
    ]
    record_duplicates(tx, seen, now)
    return known


def _add_what_belongs(
    tx: Transaction, new: Sequence[NewDelivery], answers: dict[str, Accepted], now: int
) -> None:
    """Store the payloads of new deliveries, announce those that are held, enter lanes."""
    _insert_payloads(tx, new)
    held = [each for each in new if answers[each.id].state is DeliveryState.HELD]
    settlements.record_end_events(tx, map(_held_on_arrival, held), now)
    ordered = [each for each in new if each.lane is not None]
    if not ordered:
        return
    _insert_order(tx, ordered)
    waiting = [each for each in ordered if answers[each.id].state is DeliveryState.RECEIVED]
    places = [
        lanes.LanePlace(each.id, *_key(each)[:2], each.lane or "", int(each.order is not None))
        for each in waiting
    ]
    for id_ in lanes.enter(tx, places, now):
        before = answers[id_]
        answers[id_] = Accepted(id_, before.arrival, DeliveryState.DONE, before.duplicate_class)


def _held_on_arrival(each: NewDelivery) -> settlements.EndedDelivery:
    return settlements.EndedDelivery(
        each.id, each.tenant, each.source, DeliveryState.HELD, DeliveryOutcome.HELD, tries=0
    )


def _insert_payloads(tx: Transaction, new: Sequence[NewDelivery]) -> None:
    rows = [(each.id, each.headers, each.body) for each in new if each.payload_id is None]
    shared = {each.payload_id: each for each in new if each.payload_id is not None}
    rows += [(id_, each.headers, each.body) for id_, each in sorted(shared.items())]
    tx.run_many(_sql.insert_payload, rows)


def _insert_order(tx: Transaction, new: Sequence[NewDelivery]) -> None:
    rows = [
        (
            each.id, each.order.sequence, int(each.order.skip_stale), each.order.gap_until,
            each.order.after, each.order.after_until,
        )
        for each in new
        if each.order is not None
    ]  # fmt: skip
    if rows:
        tx.run_many(_sql.order, sorted(rows))


def _first_state(each: NewDelivery) -> DeliveryState:
    return DeliveryState.RECEIVED if each.hold_reason is None else DeliveryState.HELD


def _replay_state(each: NewDelivery) -> DeliveryState:
    state = _REPLAY_STATES[each.on_replay]
    return _first_state(each) if state is DeliveryState.RECEIVED else state


def _insert_rows(tx: Transaction, rows: list[Row], now: int) -> int:
    """Insert in key order, so that two batches never deadlock."""
    rows.sort(key=_by_key)
    return tx.run_many(_sql.insert, rows, now=now)


def _row(
    key: DeliveryKey,
    each: NewDelivery,
    state: DeliveryState,
    now: int,
    *,
    backed: int | None = None,
) -> Row:
    held = state is DeliveryState.HELD
    is_backed = each.unsigned if backed is None else backed
    is_due = state is DeliveryState.RECEIVED and each.lane is None
    return (
        each.id, *key, key_digest(*key[:3]), _body_digest(each) if is_backed else None, each.type,
        each.road, each.fingerprint, each.payload_id or each.id, each.start, each.size, each.lane,
        state.value, now if is_due else None, each.received_at,
        _hold_reason(key, each, backed) if held else None, now if held else None, each.verdict,
        each.secret_id, int(each.heavy),
    )  # fmt: skip


def _hold_reason(key: DeliveryKey, each: NewDelivery, backed: int | None) -> str:
    if key[3]:
        return DuplicateClass.CONFLICT.value
    if backed == 0 and each.on_replay == "hold":
        return DuplicateClass.SUSPICIOUS_REPLAY.value
    return each.hold_reason or DuplicateClass.SUSPICIOUS_REPLAY.value


def _key(each: NewDelivery) -> DeliveryKey:
    return (each.tenant, each.source, each.key, "")


def _body_key(each: NewDelivery) -> tuple[str, str, bytes]:
    return (each.tenant, each.source, each.fingerprint)


def _body_digest(each: NewDelivery) -> bytes:
    return body_digest(*_body_key(each))


def _conflict_key(each: NewDelivery) -> DeliveryKey:
    return (each.tenant, each.source, each.key, each.fingerprint.hex())


def _known(tx: Transaction, keys: Iterable[DeliveryKey]) -> KnownDeliveries:
    return _by_delivery_key(tx.many(_sql.known, _known_rows(keys)))


def _known_rows(keys: Iterable[DeliveryKey]) -> list[Row]:
    return [(key_digest(*key[:3]), *key) for key in sorted(set(keys))]


def _by_delivery_key(found: Sequence[Row]) -> KnownDeliveries:
    return {row[:4]: row[4:] for row in found}


# known arrivals


async def count_duplicates(
    database: Database, arrivals: Sequence[NewDelivery]
) -> list[Accepted] | None:
    """Answer arrivals that are all plain duplicates as ``accept`` does; None if one is not.

    Nothing is written then. Each statement is a transaction by itself, so that on PostgreSQL the
    event loop runs them. That is safe: the deliveries have been committed before, the count is
    changed within one statement, and an example that is lost in a crash was never promised.
    """
    if any(each.echo_of is not None for each in arrivals):
        return None
    found = await database.run_bulk(_sql.known, _known_rows(map(_key, arrivals)))
    known = _by_delivery_key(found)
    if not all(_is_plain_duplicate(each, known.get(_key(each))) for each in arrivals):
        return None
    seen = [
        DuplicateArrival(first[0], _duplicate_class(each, first), each)
        for each in arrivals
        for first in (known[_key(each)],)
    ]
    await _record_by_statements(database, seen)
    faults.point("accept.written")
    return [
        Accepted(id_, ArrivalKind.DUPLICATE, DeliveryState(known[_key(each)][1]), class_.value)
        for id_, class_, each in seen
    ]


def _is_plain_duplicate(each: NewDelivery, first: Row | None) -> bool:
    """Say whether an arrival has only to be counted."""
    if first is None:
        return False
    id_, state, _road, fingerprint, *_ = first
    rearms = each.redelivery == "rearm" and state in _REARMED_STATES
    return id_ != each.id and fingerprint == each.fingerprint and not rearms


async def _record_by_statements(database: Database, seen: Sequence[DuplicateArrival]) -> None:
    """Do the same as ``record_duplicates``, each statement by itself."""
    groups, now = _grouped(seen), database.clock()
    counted = await database.run_bulk(_sql.count, _count_rows(groups), now=now)
    if examples := _example_rows(counted, groups):
        await database.run_bulk(_sql.keep, examples, now=now)


def _answer_echoes(
    tx: Transaction, arrivals: Sequence[NewDelivery], now: int
) -> dict[str, Accepted]:
    """Answer our own forwards that came back; a mark with an unknown id is ignored."""
    marked = [each for each in arrivals if each.echo_of is not None]
    if not marked:
        return {}
    rows = tx.many(_sql.ours, sorted({(each.echo_of, each.tenant) for each in marked}))
    ours = {row[0]: row for row in rows}
    echoes = [each for each in marked if each.echo_of in ours]
    seen = [
        DuplicateArrival(str(each.echo_of), _duplicate_class(each, ours[each.echo_of]), each)
        for each in echoes
    ]
    if seen:
        record_duplicates(tx, seen, now)
    return {
        each.id: Accepted(id_, ArrivalKind.DUPLICATE, DeliveryState(ours[id_][1]), class_.value)
        for id_, class_, each in seen
    }


def _answer_known(
    tx: Transaction,
    repeats: Sequence[NewDelivery],
    known: KnownDeliveries,
    answers: dict[str, Accepted],
    now: int,
) -> None:
    """Answer arrivals whose key is known: duplicates, or conflicts with another body."""
    for each in repeats:
        if known[_key(each)][0] == each.id:  # inserted by ``insert_new``
            answers[each.id] = Accepted(each.id, ArrivalKind.NEW, DeliveryState.RECEIVED)
    repeats = [each for each in repeats if each.id not in answers]
    conflicts = [each for each in repeats if known[_key(each)][3] != each.fingerprint]
    if conflicts:
        known = known | _insert_conflicts(tx, conflicts, answers, now)
    seen = []
    for each in repeats:
        first = known[_key(each)]
        row = known.get(_conflict_key(each)) or first
        answer = answers.get(each.id) or Accepted(
            row[0], ArrivalKind.DUPLICATE, DeliveryState(row[1])
        )
        class_ = _duplicate_class(each, first)
        answers[each.id] = Accepted(answer.id, answer.arrival, answer.state, class_.value)
        seen.append(DuplicateArrival(first[0], class_, each))
    if not seen:
        return
    record_duplicates(tx, seen, now)
    same = [each for each in repeats if known[_key(each)][3] == each.fingerprint]
    _rearm_redelivered(tx, same, answers, now)


def _insert_conflicts(
    tx: Transaction, conflicts: Sequence[NewDelivery], answers: dict[str, Accepted], now: int
) -> KnownDeliveries:
    """Insert other bodies under known keys, held; return their rows."""

    def row(each: NewDelivery, backed: int | None = None) -> Row:
        return _row(_conflict_key(each), each, DeliveryState.HELD, now, backed=backed)

    _insert_rows(tx, [row(each) for each in conflicts], now)
    known = _known(tx, map(_conflict_key, conflicts))
    # A body that is known under another unsigned key is a conflict too.
    again = [each for each in conflicts if _conflict_key(each) not in known]
    if again:
        _insert_rows(tx, [row(each, 0) for each in again], now)
        known |= _known(tx, map(_conflict_key, again))
    new = [each for each in conflicts if known[_conflict_key(each)][0] == each.id]
    answers |= {
        each.id: Accepted(each.id, ArrivalKind.CONFLICT, DeliveryState.HELD) for each in new
    }
    _add_what_belongs(tx, new, answers, now)
    return known


def _duplicate_class(each: NewDelivery, first: Row) -> DuplicateClass:
    _id, state, road, fingerprint, received_at, accepted_at, replay_of = first
    return classify_duplicate(
        DuplicateFacts(
            same_body=fingerprint == each.fingerprint,
            same_channel=road == each.road,
            state=DeliveryState(state),
            ack_ms=accepted_at - received_at,
            gap_ms=each.received_at - received_at,
            echo=each.echo_of == _id,
            replay=replay_of is not None,
            late=each.verdict == "late",
        )
    )


def _rearm_redelivered(
    tx: Transaction, repeats: Sequence[NewDelivery], answers: dict[str, Accepted], now: int
) -> None:
    """Retry failed and revive dead deliveries that were sent again, if the policy allows."""
    willing = [answers[each.id] for each in repeats if each.redelivery == "rearm"]
    failed = sorted({answer.id for answer in willing if answer.state is DeliveryState.FAILED})
    dead = sorted({answer.id for answer in willing if answer.state is DeliveryState.DEAD})
    if failed:
        tx.run_many(_sql.hasten, [(id_,) for id_ in failed], now=now)
    if dead:
        back = tx.many(_sql.rearm, [(id_,) for id_ in dead], now=now)
        lanes.enter(tx, [lanes.LanePlace(*row) for row in back if row[3] is not None], now)
