"""Arrivals: written once, however often they come; every repeat counted and classed."""

from collections.abc import Iterable, Sequence

from oncebox import faults
from oncebox.ledger.deliveries import lanes, sightings
from oncebox.ledger.deliveries.sightings import Seen
from oncebox.model.delivery import Accepted, Arrival, NewDelivery, Outcome, State
from oncebox.model.sighting import Repeat, Sighting, classify
from oncebox.store.database import Row, Transaction
from oncebox.store.queries import load

_sql = load(__package__, "arrivals.sql")

Key = tuple[str, str, str, str]
#: what is known by key: id, state, road, fingerprint, received_at, accepted_at, replay_of
Known = dict[Key, Row]

#: what becomes of a replay, by its source's policy
_REPLAYED = {"hold": State.HELD, "run": State.RECEIVED, "drop": State.DONE}


def accept(
    tx: Transaction, arrivals: Sequence[NewDelivery], now: int, *, look_first: bool = False
) -> list[Accepted]:
    """Write what is new, count what is not; answer each arrival in order.

    ``look_first`` reads before it writes: the shorter way where most are known already.
    """
    answers = _echoes(tx, arrivals, now)
    rest = [each for each in arrivals if each.id not in answers] if answers else arrivals
    known = _known(tx, map(_key, rest)) if look_first else {}
    unseen = [each for each in rest if _key(each) not in known] if known else rest
    known |= _write(tx, unseen, answers, now)
    if len(answers) < len(arrivals):
        _repeats(tx, [each for each in rest if each.id not in answers], known, answers, now)
    faults.point("accept.written")
    return [answers[each.id] for each in arrivals]


def accept_new(tx: Transaction, arrivals: Sequence[NewDelivery], now: int) -> list[Accepted] | None:
    """Write arrivals in one statement; None if some need more, with the new ones written."""
    if not all(map(_is_plain, arrivals)):
        return None
    rows = sorted(map(_whole, arrivals), key=_by_key)
    count = tx.run_many(_sql.insert_whole, rows, now=now)
    faults.point("accept.written")
    if count < len(arrivals):
        return None
    return [Accepted(each.id, Arrival.NEW, State.RECEIVED) for each in arrivals]


def _is_plain(each: NewDelivery) -> bool:
    """Say whether there is nothing to it but to be written and worked."""
    return each.lane is each.hold_reason is each.payload_id is each.echo_of is None


def _whole(each: NewDelivery) -> Row:
    return (
        each.id, each.tenant, each.source, each.key, each.type, each.road, each.fingerprint,
        each.size, each.received_at, each.headers, each.body, int(each.unsigned),
        each.verdict, each.secret_id,
    )  # fmt: skip


# what is new


def _write(
    tx: Transaction, unseen: Sequence[NewDelivery], answers: dict[str, Accepted], now: int
) -> Known:
    """Write what is new and answer it; return what is known of the rest."""
    if not unseen:
        return {}
    count = _insert(tx, [_row(_key(each), each, _first_state(each), now) for each in unseen], now)
    known: Known = {}
    new = unseen
    if count < len(unseen):
        known = _known(tx, map(_key, unseen))
        replays = [each for each in unseen if _key(each) not in known]
        if replays:
            known |= _write_replays(tx, replays, answers, now)
        new = [each for each in unseen if known[_key(each)][0] == each.id]
    answers |= {
        each.id: Accepted(each.id, Arrival.NEW, _first_state(each))
        for each in new
        if each.id not in answers
    }
    _furnish(tx, new, answers, now)
    return known


def _write_replays(
    tx: Transaction, replays: Sequence[NewDelivery], answers: dict[str, Accepted], now: int
) -> Known:
    """Write known bodies under new, unsigned keys, as their sources want it, and answer them."""
    rows = [_row(_key(each), each, _replayed(each), now, backed=0) for each in replays]
    _insert(tx, rows, now)
    known = _known(tx, map(_key, replays))
    new = [each for each in replays if known[_key(each)][0] == each.id]
    bodies = sorted({_body(each) for each in new})
    owners = {tuple(row[:3]): row[3:] for row in tx.many(_sql.owners, bodies)}
    marks = []
    for each in new:
        state = _replayed(each)
        sighting = Sighting.SUSPICIOUS_REPLAY
        answers[each.id] = Accepted(each.id, Arrival.SUSPICIOUS_REPLAY, state, sighting.value)
        dropped = state is State.DONE
        marks.append((
            each.id, owners[_body(each)][0],
            Outcome.DROPPED.value if dropped else None, now if dropped else None,
        ))  # fmt: skip
    tx.run_many(_sql.mark_replay, sorted(marks))
    seen = [Seen(owners[_body(each)][0], Sighting.SUSPICIOUS_REPLAY, each) for each in new]
    sightings.record(tx, seen, now)
    return known


def _furnish(
    tx: Transaction, new: Sequence[NewDelivery], answers: dict[str, Accepted], now: int
) -> None:
    """Add to new deliveries what arrived, and their places in lanes."""
    _keep_payloads(tx, new)
    ordered = [each for each in new if each.lane is not None]
    if not ordered:
        return
    _keep_order(tx, ordered)
    waiting = [each for each in ordered if answers[each.id].state is State.RECEIVED]
    for id_ in lanes.enter(tx, [_place(each) for each in waiting], now):
        before = answers[id_]
        answers[id_] = Accepted(id_, before.arrival, State.DONE, before.sighting)


def _keep_payloads(tx: Transaction, new: Sequence[NewDelivery]) -> None:
    rows = [(each.id, each.headers, each.body) for each in new if each.payload_id is None]
    shared = {each.payload_id: each for each in new if each.payload_id is not None}
    rows += [(id_, each.headers, each.body) for id_, each in sorted(shared.items())]
    tx.run_many(_sql.insert_payload, rows)


def _keep_order(tx: Transaction, new: Sequence[NewDelivery]) -> None:
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


def _first_state(each: NewDelivery) -> State:
    return State.RECEIVED if each.hold_reason is None else State.HELD


def _replayed(each: NewDelivery) -> State:
    state = _REPLAYED[each.on_replay]
    return _first_state(each) if state is State.RECEIVED else state


def _insert(tx: Transaction, rows: list[Row], now: int) -> int:
    """Insert in key order, so that two batches never wait for each other crosswise."""
    rows.sort(key=_by_key)
    return tx.run_many(_sql.insert, rows, now=now)


def _row(key: Key, each: NewDelivery, state: State, now: int, *, backed: int | None = None) -> Row:
    held = state is State.HELD
    is_due = state is State.RECEIVED and each.lane is None
    return (
        each.id, *key, each.type, each.road, each.fingerprint, each.payload_id or each.id,
        each.start, each.size, each.lane, state.value, now if is_due else None, each.received_at,
        _reason(key, each, backed) if held else None, now if held else None,
        int(each.unsigned) if backed is None else backed, each.verdict, each.secret_id,
    )  # fmt: skip


def _reason(key: Key, each: NewDelivery, backed: int | None) -> str:
    """Say why a delivery is held from the beginning."""
    if key[3]:
        return Sighting.CONFLICT.value
    if backed == 0 and each.on_replay == "hold":
        return Sighting.SUSPICIOUS_REPLAY.value
    return each.hold_reason or Sighting.SUSPICIOUS_REPLAY.value


def _key(each: NewDelivery) -> Key:
    return (each.tenant, each.source, each.key, "")


def _by_key(row: Row) -> Row:
    return row[1:5]


def _body(each: NewDelivery) -> tuple[str, str, bytes]:
    return (each.tenant, each.source, each.fingerprint)


def _conflict_key(each: NewDelivery) -> Key:
    return (each.tenant, each.source, each.key, each.fingerprint.hex())


def _place(each: NewDelivery) -> lanes.Place:
    return lanes.Place(
        each.id, each.tenant, each.source, each.lane or "", int(each.order is not None)
    )


def _known(tx: Transaction, keys: Iterable[Key]) -> Known:
    return {tuple(row[:4]): row[4:] for row in tx.many(_sql.known, sorted(set(keys)))}


# what is not


def _echoes(tx: Transaction, arrivals: Sequence[NewDelivery], now: int) -> dict[str, Accepted]:
    """Answer our own forwards that came back; a mark that names nothing of ours is no echo."""
    marked = [each for each in arrivals if each.echo_of is not None]
    if not marked:
        return {}
    rows = tx.many(_sql.ours, sorted({(each.echo_of, each.tenant) for each in marked}))
    ours = {row[0]: row for row in rows}
    echoes = [each for each in marked if each.echo_of in ours]
    seen = [Seen(str(each.echo_of), _class(each, ours[each.echo_of]), each) for each in echoes]
    if seen:
        sightings.record(tx, seen, now)
    return {
        each.id: Accepted(id_, Arrival.DUPLICATE, State(ours[id_][1]), sighting.value)
        for id_, sighting, each in seen
    }


def _repeats(
    tx: Transaction,
    repeats: Sequence[NewDelivery],
    known: Known,
    answers: dict[str, Accepted],
    now: int,
) -> None:
    """Answer arrivals whose key is known: duplicates, or conflicts with another body."""
    for each in repeats:
        if known[_key(each)][0] == each.id:  # the shortcut has written it
            answers[each.id] = Accepted(each.id, Arrival.NEW, State.RECEIVED)
    repeats = [each for each in repeats if each.id not in answers]
    conflicts = [each for each in repeats if known[_key(each)][3] != each.fingerprint]
    if conflicts:
        known = known | _write_conflicts(tx, conflicts, answers, now)
    seen = []
    for each in repeats:
        first = known[_key(each)]
        answer = answers.get(each.id) or _duplicate(each, known)
        sighting = _class(each, first)
        answers[each.id] = Accepted(answer.id, answer.arrival, answer.state, sighting.value)
        seen.append(Seen(first[0], sighting, each))
    if not seen:
        return
    sightings.record(tx, seen, now)
    same = [each for each in repeats if known[_key(each)][3] == each.fingerprint]
    _redeliver(tx, same, answers, now)


def _write_conflicts(
    tx: Transaction, conflicts: Sequence[NewDelivery], answers: dict[str, Accepted], now: int
) -> Known:
    """Write other bodies under known keys, held; return what is known of them then."""

    def row(each: NewDelivery, backed: int | None = None) -> Row:
        return _row(_conflict_key(each), each, State.HELD, now, backed=backed)

    _insert(tx, [row(each) for each in conflicts], now)
    known = _known(tx, map(_conflict_key, conflicts))
    # A body that is known under yet another unsigned key is no less a conflict.
    again = [each for each in conflicts if _conflict_key(each) not in known]
    if again:
        _insert(tx, [row(each, 0) for each in again], now)
        known |= _known(tx, map(_conflict_key, again))
    new = [each for each in conflicts if known[_conflict_key(each)][0] == each.id]
    answers |= {each.id: Accepted(each.id, Arrival.CONFLICT, State.HELD) for each in new}
    _furnish(tx, new, answers, now)
    return known


def _duplicate(each: NewDelivery, known: Known) -> Accepted:
    row = known.get(_conflict_key(each)) or known[_key(each)]
    return Accepted(row[0], Arrival.DUPLICATE, State(row[1]))


def _class(each: NewDelivery, first: Row) -> Sighting:
    _id, state, road, fingerprint, received_at, accepted_at, replay_of = first
    return classify(
        Repeat(
            same_body=fingerprint == each.fingerprint,
            same_road=road == each.road,
            state=State(state),
            ack_ms=accepted_at - received_at,
            gap_ms=each.received_at - received_at,
            echo=each.echo_of == _id,
            replay=replay_of is not None,
            late=each.verdict == "late",
        )
    )


def _redeliver(
    tx: Transaction, repeats: Sequence[NewDelivery], answers: dict[str, Accepted], now: int
) -> None:
    """Let a redelivery bring failed work forward and dead work back, where its policy allows."""
    willing = [answers[each.id] for each in repeats if each.redelivery == "rearm"]
    failed = sorted({answer.id for answer in willing if answer.state is State.FAILED})
    dead = sorted({answer.id for answer in willing if answer.state is State.DEAD})
    if failed:
        tx.run_many(_sql.hasten, [(id_,) for id_ in failed], now=now)
    if dead:
        back = tx.many(_sql.rearm, [(id_,) for id_ in dead], now=now)
        lanes.enter(tx, [lanes.Place(*row) for row in back if row[3] is not None], now)
