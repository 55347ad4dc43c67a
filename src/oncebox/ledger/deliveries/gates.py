"""Gates: how much of a source may be begun, counted for all processes together."""

from collections.abc import Iterable
from typing import NamedTuple

from oncebox.store.database import Transaction
from oncebox.store.queries import load

_sql = load(__package__, "gates.sql")

#: an allowance is kept in thousandths, of which each millisecond brings as many as the rate
_WHOLE = 1_000


class Limits(NamedTuple):
    """What a source allows; None is no limit."""

    tenant: str
    source: str
    #: deliveries begun per second
    rate: int | None
    #: deliveries worked on at the same time
    concurrency: int | None

    @property
    def any(self) -> bool:
        """Whether there is a limit at all."""
        return self.rate is not None or self.concurrency is not None


def lock(tx: Transaction, several: Iterable[Limits], now: int) -> None:
    """Lock the gates of several sources, always in the same order."""
    for limits in sorted((each for each in several if each.any), key=lambda each: each[:2]):
        _open(tx, limits, now)


def room(tx: Transaction, limits: Limits, most: int, now: int) -> int:
    """Return how many may be begun, at most ``most``; others wait until the commit."""
    allowance = _open(tx, limits, now)
    if limits.rate is not None:
        most = min(most, allowance // _WHOLE)
    if limits.concurrency is not None:
        working = tx.one(_sql.in_work, tenant=limits.tenant, source=limits.source)
        most = min(most, limits.concurrency - (working[0] if working else 0))
    return max(0, most)


def _open(tx: Transaction, limits: Limits, now: int) -> int:
    """Lock a gate and return what it allows, in thousandths."""
    rate = limits.rate or 0
    row = tx.one(
        _sql.open,
        tenant=limits.tenant,
        source=limits.source,
        rate=rate,
        most=rate * _WHOLE,
        now=now,
    )
    return int(row[0]) if row else 0


def take(tx: Transaction, limits: Limits, begun: int) -> None:
    """Count what was begun against the rate."""
    if limits.rate is not None and begun:
        tx.run(_sql.take, tenant=limits.tenant, source=limits.source, taken=begun * _WHOLE)
