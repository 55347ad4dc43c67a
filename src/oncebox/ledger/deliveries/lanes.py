"""Lanes: deliveries with the same order key run one at a time, earliest first.

Only the first of a lane is due; the others have no due time until their turn comes. Whoever
adds to a lane or leaves it holds the lane's row, so that no turn is ever missed. Where a
source has rules about more than arrival, ``turns`` says whose turn it is.
"""

from collections import Counter
from collections.abc import Iterable, Sequence
from typing import NamedTuple

from oncebox.ledger.deliveries import turns
from oncebox.store.database import Transaction
from oncebox.store.queries import load

_sql = load(__package__, "lanes.sql")

Lane = tuple[str, str, str]


class Place(NamedTuple):
    """A delivery that belongs into a lane."""

    id: str
    tenant: str
    source: str
    lane: str
    #: 1 where its source has rules about more than arrival
    ruled: int = 0


class Done(NamedTuple):
    """What is done in a lane: a delivery's type, and its number where it has one."""

    type: str
    sequence: int | None


def enter(tx: Transaction, places: Sequence[Place], now: int) -> set[str]:
    """Put deliveries at the end of their lanes, by their ids; return those skipped as stale."""
    if not places:
        return set()
    counts = Counter(place[1:4] for place in places)
    ruled = {place[1:4] for place in places if place.ruled}
    rows = [(*lane, count, int(lane in ruled)) for lane, count in sorted(counts.items())]
    numbered = tx.many(_sql.number, rows)
    next_position = {tuple(row[:3]): row[3] - counts[tuple(row[:3])] + 1 for row in numbered}
    seats = []
    for place in sorted(places):
        seats.append((place.id, next_position[place[1:4]]))
        next_position[place[1:4]] += 1
    tx.run_many(_sql.place, seats)
    return _give_turns(tx, {tuple(row[:3]): row[4] for row in numbered}, now)


def move_on(tx: Transaction, left: Iterable[tuple[Lane, Done | None]], now: int) -> None:
    """Let the next of each lane have its turn, after somebody left or came back."""
    left = list(left)
    if not left:
        return
    lanes = {
        tuple(row[:3]): row[3] for row in tx.many(_sql.lock, sorted({lane for lane, _ in left}))
    }
    for lane, done in left:
        if done is not None and lanes[lane]:
            turns.remember(tx, lane, done.type, done.sequence)
    _give_turns(tx, lanes, now)


def _give_turns(tx: Transaction, lanes: dict[Lane, int], now: int) -> set[str]:
    """Let whoever is next in each lane be due; return those that were skipped as stale."""
    plain = sorted(lane for lane, ruled in lanes.items() if not ruled)
    if plain:
        tx.run_many(_sql.advance, plain, now=now)
    skipped: set[str] = set()
    for lane in sorted(lane for lane, ruled in lanes.items() if ruled):
        skipped |= turns.give(tx, lane, now)
    return skipped
