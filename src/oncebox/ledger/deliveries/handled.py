"""Handled: which sources have a handler in some program, wherever it runs?

Whoever works on deliveries only where nobody else would must know of programs in other processes,
also while these are down.
"""

from collections.abc import Iterable

from oncebox.store.database import Transaction
from oncebox.store.queries import load

_sql = load(__package__, "handled.sql")

#: a tenant and the name of a source
Place = tuple[str, str]


def announce(tx: Transaction, places: Iterable[Place], now: int) -> None:
    """Write down that a program has handlers for sources."""
    tx.run_many(_sql.announce, sorted(set(places)), now=now)


def since(tx: Transaction, at: int) -> set[Place]:
    """Return the sources that a program had handlers for, at this moment or later."""
    return {(tenant, source) for tenant, source in tx.all(_sql.since, at=at)}
