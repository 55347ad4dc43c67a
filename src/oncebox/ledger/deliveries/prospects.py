"""Prospects: whether a claim would find anything, without writing a word."""

from collections.abc import Iterable

from oncebox.store.database import Transaction
from oncebox.store.queries import load

_sql = load(__package__, "prospects.sql")


def is_any(tx: Transaction, tenant: str, sources: Iterable[str], now: int) -> bool:
    """Say whether one of these sources has something to claim."""
    rows = [(source,) for source in sorted(set(sources))]
    return bool(tx.many(_sql.any, rows, tenant=tenant, now=now))
