"""Lanes: deliveries with the same order key run one at a time, earliest first.

Only the first of a lane is due; the others have no due time until their turn comes. Whoever
adds to a lane or leaves it holds the lane's row, so that no turn is ever missed.
"""

from collections import Counter
from collections.abc import Iterable, Sequence
from typing import NamedTuple

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


def enter(tx: Transaction, places: Sequence[Place], now: int) -> None:
    """Put deliveries at the end of their lanes, in the order given by their ids."""
    if not places:
        return
    counts = Counter((place.tenant, place.source, place.lane) for place in places)
    numbered = tx.many(_sql.number, [(*lane, count) for lane, count in sorted(counts.items())])
    next_position = {
        (tenant, source, lane): last - counts[(tenant, source, lane)] + 1
        for tenant, source, lane, last in numbered
    }
    rows = []
    for place in sorted(places):
        lane = (place.tenant, place.source, place.lane)
        rows.append((place.id, next_position[lane]))
        next_position[lane] += 1
    tx.run_many(_sql.place, rows)
    tx.run_many(_sql.advance, sorted(counts), now=now)


def move_on(tx: Transaction, left: Iterable[Lane], now: int) -> None:
    """Let the next of each lane have its turn, after somebody left or came back."""
    rows = sorted(set(left))
    if rows:
        tx.run_many(_sql.lock, rows)
        tx.run_many(_sql.advance, rows, now=now)
