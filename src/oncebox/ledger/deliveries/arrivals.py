"""Arrivals: written once, however often they come; every repeat counted and classed."""

from collections import Counter
from collections.abc import Sequence

from oncebox import faults
from oncebox.ledger.deliveries import lanes
from oncebox.model.delivery import Accepted, Arrival, NewDelivery, State
from oncebox.model.sighting import Repeat, Sighting, classify
from oncebox.store.database import Row, Transaction
from oncebox.store.queries import load

_sql = load(__package__, "arrivals.sql")

Key = tuple[str, str, str, str]


def accept(tx: Transaction, arrivals: Sequence[NewDelivery], now: int) -> list[Accepted]:
    """Write what is new, count what is not; answer each arrival in order."""
    answers = _insert(tx, [(_key(each), each) for each in arrivals], now, conflict=False)
    if len(answers) < len(arrivals):
        answers |= _repeats(tx, [each for each in arrivals if each.id not in answers], now)
    faults.point("accept.written")
    return [answers[each.id] for each in arrivals]


def accept_new(tx: Transaction, arrivals: Sequence[NewDelivery], now: int) -> list[Accepted] | None:
    """Write arrivals in one statement; None if some need more, with the new ones written."""
    if any(each.lane is not None for each in arrivals):
        return None
    rows = sorted((_whole(each) for each in arrivals), key=lambda row: row[1:4])
    count = tx.run_many(_sql.insert_whole, rows, now=now)
    faults.point("accept.written")
    if count < len(arrivals):
        return None
    return [Accepted(each.id, Arrival.NEW, State.RECEIVED) for each in arrivals]


def _whole(each: NewDelivery) -> Row:
    return (
        each.id, each.tenant, each.source, each.key, each.type, each.road, each.fingerprint,
        len(each.body), each.received_at, each.headers, each.body,
    )  # fmt: skip


def _insert(
    tx: Transaction, keyed: Sequence[tuple[Key, NewDelivery]], now: int, *, conflict: bool
) -> dict[str, Accepted]:
    """Insert in key order, so that two batches never wait for each other crosswise."""
    keyed = sorted(keyed, key=lambda pair: pair[0])
    rows = [_row(key, each, now, conflict=conflict) for key, each in keyed]
    count = tx.run_many(_sql.insert, rows, now=now)
    new = [each for _, each in keyed]
    if count < len(new):
        ids = {row[4] for row in tx.many(_sql.known, sorted({key for key, _ in keyed}))}
        new = [each for each in new if each.id in ids]
    if new:
        tx.run_many(_sql.insert_payload, [(each.id, each.headers, each.body) for each in new])
        if not conflict:
            lanes.enter(tx, [_place(each) for each in new if each.lane is not None], now)
    if conflict:
        return {each.id: Accepted(each.id, Arrival.CONFLICT, State.HELD) for each in new}
    return {each.id: Accepted(each.id, Arrival.NEW, State.RECEIVED) for each in new}


def _key(each: NewDelivery) -> Key:
    return (each.tenant, each.source, each.key, "")


def _conflict_key(each: NewDelivery) -> Key:
    return (each.tenant, each.source, each.key, each.fingerprint.hex())


def _place(each: NewDelivery) -> lanes.Place:
    return lanes.Place(each.id, each.tenant, each.source, each.lane or "")


def _row(key: Key, each: NewDelivery, now: int, *, conflict: bool) -> Row:
    state = State.HELD if conflict else State.RECEIVED
    due_at = None if conflict or each.lane is not None else now
    return (
        each.id, *key, each.type, each.road, each.fingerprint, len(each.body), each.lane,
        str(state), due_at, each.received_at,
        "conflict" if conflict else None, now if conflict else None,
    )  # fmt: skip


def _repeats(tx: Transaction, repeats: Sequence[NewDelivery], now: int) -> dict[str, Accepted]:
    """Answer arrivals whose key is known: duplicates, or conflicts with another body."""
    known = {
        tuple(row[:4]): row[4:] for row in tx.many(_sql.known, sorted(set(map(_key, repeats))))
    }
    conflicts = [each for each in repeats if known[_key(each)][3] != each.fingerprint]
    answers = _insert(tx, [(_conflict_key(each), each) for each in conflicts], now, conflict=True)
    keys = sorted({_conflict_key(each) for each in conflicts})
    known |= {tuple(row[:4]): row[4:] for row in tx.many(_sql.known, keys)} if keys else {}
    counts: Counter[tuple[str, str, str, str]] = Counter()
    for each in repeats:
        answer = answers.get(each.id) or _duplicate(each, known)
        sighting = _class(each, known[_key(each)])
        answers[each.id] = Accepted(answer.id, answer.arrival, answer.state, str(sighting))
        counts[(str(known[_key(each)][0]), str(sighting), each.tenant, each.road)] += 1
    _count(tx, counts, now)
    same = [each for each in repeats if known[_key(each)][3] == each.fingerprint]
    _redeliver(tx, same, answers, now)
    return answers


def _duplicate(each: NewDelivery, known: dict[tuple[object, ...], Row]) -> Accepted:
    row = known.get(_conflict_key(each)) or known[_key(each)]
    return Accepted(str(row[0]), Arrival.DUPLICATE, State(row[1]))


def _class(each: NewDelivery, first: Row) -> Sighting:
    _id, state, road, fingerprint, received_at, accepted_at, _lane = first
    return classify(
        Repeat(
            same_body=fingerprint == each.fingerprint,
            same_road=road == each.road,
            state=State(state),
            ack_ms=accepted_at - received_at,
            gap_ms=each.received_at - received_at,
        )
    )


def _count(tx: Transaction, counts: Counter[tuple[str, str, str, str]], now: int) -> None:
    """Add to the counters; the last road wins where a batch mixes two."""
    rows: dict[tuple[str, str], Row] = {}
    for (id_, sighting, tenant, road), count in sorted(counts.items()):
        before = rows[(id_, sighting)][3] if (id_, sighting) in rows else 0
        rows[(id_, sighting)] = (id_, sighting, tenant, before + count, road)
    tx.run_many(_sql.count_sighting, list(rows.values()), now=now)


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
