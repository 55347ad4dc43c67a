"""Sightings: every repeat counted by its class, and the first few of each class kept."""

from collections import defaultdict
from collections.abc import Sequence
from typing import NamedTuple

from oncebox.model.delivery import NewDelivery
from oncebox.model.sighting import Sighting
from oncebox.store.database import Row, Transaction
from oncebox.store.queries import load

_sql = load(__package__, "sightings.sql")

#: how many repeats of one delivery and class are kept as they came
KEPT = 3


class Seen(NamedTuple):
    """A delivery that was seen again, and what came."""

    delivery_id: str
    sighting: Sighting
    arrival: NewDelivery


def record(tx: Transaction, seen: Sequence[Seen], now: int) -> None:
    """Count repeats and keep the first of them; the last road wins where a batch mixes two."""
    groups: dict[tuple[str, str], list[NewDelivery]] = defaultdict(list)
    for id_, sighting, arrival in seen:
        groups[id_, sighting.value].append(arrival)
    rows = [
        (*group, arrivals[-1].tenant, len(arrivals), arrivals[-1].road)
        for group, arrivals in sorted(groups.items())
    ]
    counted = tx.many(_sql.count, rows, now=now)
    examples = [row for id_, name, count in counted for row in _examples(id_, name, count, groups)]
    if examples:
        tx.run_many(_sql.keep, examples, now=now)


def _examples(
    id_: str, name: str, count: int, groups: dict[tuple[str, str], list[NewDelivery]]
) -> list[Row]:
    """Return those of a group that are among the first."""
    arrivals = groups[id_, name]
    before = count - len(arrivals)
    return [
        (
            id_, name, before + place, each.tenant, each.road, each.verdict, each.secret_id,
            each.headers,
        )
        for place, each in enumerate(arrivals[: max(0, KEPT - before)], 1)
    ]  # fmt: skip
