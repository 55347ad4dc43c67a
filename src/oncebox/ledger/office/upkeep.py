"""Upkeep of the office: what has had its time goes."""

from oncebox.ledger.office import idempotency, sources
from oncebox.store.database import Transaction


def tidy(tx: Transaction, now: int) -> int:
    """Forget old idempotency keys, some at a time, and erase retired secrets.

    Return how many there were; call it every few minutes, and again at once while it is many.
    """
    return idempotency.forget(tx, now) + sources.erase_retired(tx, now)
