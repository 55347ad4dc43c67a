"""Ordered lanes: one delivery per order key at a time, by number and type; stale ones end.

The lowest number goes first, and a type that waits for another lets that one go first. A missing
number or type is waited for up to a limit. A delivery that was begun keeps its turn until it ends.

Only the first of a lane is due; the others have no due time until their turn comes. Adding to a
lane and leaving it lock the lane's row, so that no turn is ever missed.
See docs/decisions/0012-use-due-times-for-ordered-lanes.md.
"""

import hashlib
from collections import Counter
from collections.abc import Iterable, Sequence
from typing import NamedTuple

from oncebox.db.database import Transaction
from oncebox.db.queries import load
from oncebox.model.deliveries.delivery import DeliveryState

_sql = load(__package__, "lanes.sql")

Lane = tuple[str, str, str]
#: a delivery in these has been begun and is not overtaken
_STARTED = {DeliveryState.PROCESSING, DeliveryState.FAILED}


class _LaneMember(NamedTuple):
    """A delivery of a lane, and what it may wait for."""

    id: str
    state: str
    type: str
    sequence: int | None
    gap_until: int | None
    after: str | None
    after_until: int | None


class _TurnHolder(NamedTuple):
    """The delivery that has the turn, if any, and the highest number done in the lane."""

    id: str | None
    state: str | None
    due_at: int | None
    last: int | None


class _NextTurn(NamedTuple):
    """The next delivery, when it is due, and what it waits for until then."""

    member: _LaneMember
    due_at: int
    waits_for: str | None


def give_turn(tx: Transaction, lane: Lane, now: int) -> set[str]:
    """Give the turn to the next delivery; return the ids of those skipped as stale."""
    name = _lane_params(lane)
    skipped: set[str] = set()
    while True:
        holder = _turn_holder(tx, name)
        chosen = None if holder.state in _STARTED else _next_turn(tx, name, holder.last or 0, now)
        if chosen is None:
            return skipped
        member = chosen.member
        if not tx.run(_sql.skip, **name, id=member.id, now=now):
            _pass_turn(tx, name, holder, chosen)
            return skipped
        remember_done(tx, lane, member.type, None)
        skipped.add(member.id)


def remember_done(tx: Transaction, lane: Lane, type_: str, sequence: int | None) -> None:
    """Record the type and number that are done in a lane."""
    name = _lane_params(lane)
    if sequence is not None:
        tx.run(_sql.remember_number, **name, sequence=sequence)
    tx.run(_sql.remember_type, **name, type=_type_digest(type_))


def _turn_holder(tx: Transaction, name: dict[str, str]) -> _TurnHolder:
    """Return the delivery that has the turn; lanes ordered by arrival do not record it."""
    id_, state, due_at, last, turn = tx.one(_sql.standing, **name) or (None,) * 5
    if turn is None:
        id_, state, due_at = tx.one(_sql.active, **name) or (None,) * 3
    return _TurnHolder(id_, state, due_at, last)


def _pass_turn(
    tx: Transaction, name: dict[str, str], holder: _TurnHolder, chosen: _NextTurn
) -> None:
    """Give the turn to another delivery, unless the current one has just been begun."""
    member = chosen.member
    waits = holder.state == DeliveryState.RECEIVED and holder.due_at is not None
    if waits and holder.id != member.id and not tx.run(_sql.take, id=holder.id):
        return
    tx.run(
        _sql.give,
        **name,
        id=member.id,
        due_at=chosen.due_at,
        waits_for=chosen.waits_for,
        last=holder.last,
    )
    tx.run(_sql.hand_over, **name, id=member.id)


def _next_turn(tx: Transaction, name: dict[str, str], last: int, now: int) -> _NextTurn | None:
    """Find the next delivery: the oldest, the lowest-numbered, or the one others wait for."""
    first = tx.one(_sql.first, **name)
    if first is None:
        return None
    member = _LaneMember(*first)
    if member.sequence is not None:
        member = _LaneMember(*(tx.one(_sql.lowest, **name) or first))
    asked: set[str] = set()
    while _waits_for_type(tx, name, member, now) and member.after not in asked:
        asked.add(str(member.after))  # types may wait for each other in a circle
        before = tx.one(_sql.of_type, **name, type=member.after)
        if before is None:
            break
        member = _LaneMember(*before)
    waits = _missing_number(member, last, now)
    if _waits_for_type(tx, name, member, now):
        waits.append((member.after_until or 0, str(member.after)))
    if not waits:
        return _NextTurn(member, now, None)
    return _NextTurn(
        member, max(until for until, _ in waits), " and ".join(what for _, what in waits)
    )


def _missing_number(member: _LaneMember, last: int, now: int) -> list[tuple[int, str]]:
    """Return the number a delivery waits for, and until when; a new lane begins at one."""
    if member.sequence is None or (member.gap_until or 0) <= now or member.sequence <= last + 1:
        return []
    return [(int(member.gap_until or 0), f"number {last + 1}")]


def _waits_for_type(tx: Transaction, name: dict[str, str], member: _LaneMember, now: int) -> bool:
    """Say whether a delivery waits for a type that was never done in its lane."""
    if member.after is None or (member.after_until or 0) <= now:
        return False
    return tx.one(_sql.is_done, **name, type=_type_digest(member.after)) is None


def _lane_params(lane: Lane) -> dict[str, str]:
    tenant, source, key = lane
    return {"tenant": tenant, "source": source, "lane": key}


def _type_digest(type_: str) -> bytes:
    return hashlib.sha256(type_.encode()).digest()


class LanePlace(NamedTuple):
    """A delivery that enters a lane."""

    id: str
    tenant: str
    source: str
    lane: str
    #: 1 if its source orders by more than arrival
    ruled: int = 0


class LaneCompletion(NamedTuple):
    """The type of a delivery that is done, and its number, if any."""

    type: str
    sequence: int | None


def enter(tx: Transaction, places: Sequence[LanePlace], now: int) -> set[str]:
    """Put deliveries at the end of their lanes, by their ids; return those skipped as stale."""
    if not places:
        return set()
    counts = Counter(place[1:4] for place in places)
    ruled = {place[1:4] for place in places if place.ruled}
    rows = [(*lane, count, int(lane in ruled)) for lane, count in sorted(counts.items())]
    numbered = tx.many(_sql.number, rows)
    next_position = {tuple(row[:3]): row[3] - counts[tuple(row[:3])] + 1 for row in numbered}
    positions = []
    for place in sorted(places):
        positions.append((place.id, next_position[place[1:4]]))
        next_position[place[1:4]] += 1
    tx.run_many(_sql.place, positions)
    return _give_turns(tx, {tuple(row[:3]): row[4] for row in numbered}, now)


def advance(tx: Transaction, left: Iterable[tuple[Lane, LaneCompletion | None]], now: int) -> None:
    """Give the turn to the next of each lane, after a delivery left or came back."""
    left = list(left)
    if not left:
        return
    lanes = {
        tuple(row[:3]): row[3] for row in tx.many(_sql.lock, sorted({lane for lane, _ in left}))
    }
    for lane, done in left:
        if done is not None and lanes[lane]:
            remember_done(tx, lane, done.type, done.sequence)
    _give_turns(tx, lanes, now)


def _give_turns(tx: Transaction, lanes: dict[Lane, int], now: int) -> set[str]:
    """Make the next delivery of each lane due; return those that were skipped as stale."""
    plain = sorted(lane for lane, ruled in lanes.items() if not ruled)
    if plain:
        tx.run_many(_sql.advance, plain, now=now)
    skipped: set[str] = set()
    for lane in sorted(lane for lane, ruled in lanes.items() if ruled):
        skipped |= give_turn(tx, lane, now)
    return skipped
