"""Backlog: how many deliveries of each source are not done, by state, and since when they wait.

Counting reads at most a fixed number of rows per source, tenant and state, however many there are.
See docs/decisions/0048-use-bounded-counts-of-the-backlog-for-alerts.md.
"""

from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

from oncebox.db.database import Transaction
from oncebox.db.queries import load
from oncebox.ledger.deliveries import inspections
from oncebox.model.deliveries.delivery import DeliveryState

_sql = load(__package__, "backlog.sql")

#: as many of a source or tenant are counted in each state
MOST_COUNTED = 1_000
#: tenants that are counted
_MOST_TENANTS = 1_000


@dataclass(slots=True)
class SourceBacklog:
    """The deliveries of the sources of one name that are not done, of all tenants."""

    counts: Counter[DeliveryState] = field(default_factory=Counter)
    #: when the first was due that no worker has, and since when the first has been held
    oldest_due_at: int | None = None
    oldest_held_at: int | None = None


def read_backlog(tx: Transaction, most: int = MOST_COUNTED) -> Mapping[str, SourceBacklog]:
    """Return what is not done, by the name of the source; dead ones until acknowledged."""
    found: defaultdict[str, SourceBacklog] = defaultdict(SourceBacklog)
    for tenant in _tenants(tx):
        for source in inspections.sources(tx, tenant):
            _add_waiting(tx, tenant, source, found[source], most)
        for source, count, held_at in tx.all(_sql.held, tenant=tenant, most=most):
            one = found[source]
            one.counts[DeliveryState.HELD] += count
            one.oldest_held_at = _earlier(one.oldest_held_at, held_at)
        for source, count in tx.all(_sql.dead, tenant=tenant, most=most):
            found[source].counts[DeliveryState.DEAD] += count
    return found


def _tenants(tx: Transaction) -> Iterator[str]:
    """Yield every tenant that has deliveries."""
    last = ""
    for _ in range(_MOST_TENANTS):
        row = tx.one(_sql.next_tenant, tenant=last)
        if row is None or row[0] is None:
            return
        last = str(row[0])
        yield last


def _add_waiting(tx: Transaction, tenant: str, source: str, one: SourceBacklog, most: int) -> None:
    """Add what waits or is being worked on."""
    place: dict[str, str | int] = {"tenant": tenant, "source": source, "most": most}
    for state, count, due_at in tx.all(_sql.due, **place):
        one.counts[DeliveryState(state)] += count
        one.oldest_due_at = _earlier(one.oldest_due_at, due_at)
    for query, state in (
        (_sql.processing, DeliveryState.PROCESSING),
        (_sql.in_lanes, DeliveryState.RECEIVED),
    ):
        ((count,),) = tx.all(query, **place)
        one.counts[state] += count


def _earlier(one: int | None, other: int | None) -> int | None:
    return min((each for each in (one, other) if each is not None), default=None)
