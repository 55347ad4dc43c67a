"""Retention of mail: what was read and found goes after its time; that it came stays."""

from collections import Counter
from itertools import takewhile
from typing import NamedTuple

from oncebox.store.database import Transaction
from oncebox.store.queries import load

_sql = load(__package__, "retention.sql")


class Emptied(NamedTuple):
    """How many documents went, where the next look goes on, and whether that is at once."""

    documents: int
    after: str
    has_more: bool


def empty(tx: Transaction, before: int, now: int, after: str = "", most: int = 500) -> Emptied:
    """Let documents of messages go that came before a moment, looking at the next ``most``.

    Messages of about the same time lie beside each other, so a look ends at the first that is
    too young, and the next one goes on from there.
    """
    rows = tx.all(_sql.next, after=after, most=most)
    old = [str(id_) for id_, _ in takewhile(lambda row: row[1] <= before, rows)]
    if not old:
        return Emptied(0, after, has_more=False)
    count = tx.run_many(_sql.empty, [(id_,) for id_ in old], before=before, now=now, nothing=b"")
    return Emptied(count, old[-1], has_more=len(old) == most)


def overwrite(tx: Transaction, before: int, now: int, most: int = 500) -> Counter[str]:
    """Overwrite what artifacts say that came before a moment; return how many, by kind.

    The store overwrites what it lets go of, so this leaves nothing behind in the file. In the
    place of its mark an artifact has its own id, which no value has.
    """
    rows = tx.all(_sql.old_artifacts, before=before, most=most)
    ids = sorted((str(id_), str(id_).encode()) for id_, _ in rows)
    if ids:
        tx.run_many(_sql.overwrite, ids, before=before, now=now, nothing=b"")
    return Counter(str(kind) for _, kind in rows)
