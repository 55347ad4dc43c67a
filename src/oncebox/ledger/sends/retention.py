"""Retention of sends: what they say goes after its time; the key stays as a tombstone.

What is in doubt, or under way, is never let go.
"""

from oncebox.store.database import Transaction
from oncebox.store.queries import load

_sql = load(__package__, "retention.sql")


def empty(tx: Transaction, now: int, most: int = 500) -> int:
    """Let go of what sends say whose class keeps them no longer; return how many."""
    over = sorted(tx.all(_sql.over, now=now, most=most))
    emptied = tx.many(_sql.empty, over, now=now) if over else []
    if emptied:
        tx.run_many(_sql.drop_bodies, sorted((row[0],) for row in emptied))
    return len(emptied)


def forget(tx: Transaction, before: int, most: int = 500) -> int:
    """Forget tombstones of sends that ended before a moment; return how many.

    The same intent would be a new one then.
    """
    old = sorted(tx.all(_sql.forgettable, before=before, most=most))
    gone = sorted((row[0],) for row in tx.many(_sql.forget, old, before=before)) if old else []
    if gone:
        for query in (_sql.forget_recipients, _sql.forget_tries, _sql.forget_places):
            tx.run_many(query, gone)
        tx.run(_sql.forget_batches, before=before)
    return len(gone)
