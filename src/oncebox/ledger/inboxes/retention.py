"""Retention of inboxes: ended ones are deleted, their rows in batches; addresses stay retired.

An inbox is deleted only when nothing of it is kept any more, so what remains are empty rows that
nobody can claim or read. The inbox goes first, in one commit with the mark of its address; that
mark leads to the rows that are still to be deleted, also after a crash.
See docs/decisions/0050-use-marks-of-retired-addresses-for-deleted-inboxes.md.
"""

import hashlib
from collections.abc import Iterable, Sequence
from typing import NamedTuple

from oncebox.db.database import Transaction
from oncebox.db.queries import load

_sql = load(__package__, "retention.sql")

#: a place among ended inboxes: when, and which
Place = tuple[int, str]
#: the place before all of them
OLDEST: Place = (-1, "")


class EndedInboxes(NamedTuple):
    """Inboxes that ended long ago, and where the search continues; None at the end."""

    ids: list[str]
    after: Place | None


def find_ended(tx: Transaction, before: int, after: Place, most: int = 500) -> EndedInboxes:
    """Find the next inboxes that ended before a time."""
    rows = tx.all(_sql.ended, before=before, after_at=after[0], after_id=after[1], most=most)
    ids = [str(id_) for _, id_ in rows]
    return EndedInboxes(ids, (int(rows[-1][0]), ids[-1]) if rows else None)


def retire(tx: Transaction, ids: Sequence[str], before: int) -> int:
    """Delete inboxes of which nothing is kept, and retire their addresses; return how many."""
    if not ids:
        return 0
    gone = tx.many(_sql.retire, [(id_,) for id_ in sorted(ids)], before=before)
    marks = sorted((_mark(str(address)), tenant, id_) for id_, tenant, address in gone)
    if marks:
        tx.run_many(_sql.remember, marks)
    return len(marks)


def refuse_retired(tx: Transaction, added: Iterable[tuple[str, str]]) -> set[str]:
    """Delete inboxes, by id and address, that were added with a retired address; return which.

    After the insert, not before: the address may be retired by a transaction for which the insert
    has waited.
    """
    rows = sorted((id_, _mark(address)) for id_, address in added)
    return {str(id_) for (id_,) in tx.many(_sql.refuse, rows)} if rows else set()


def delete_contents(tx: Transaction, most: int = 500) -> int:
    """Delete up to ``most`` rows of deleted inboxes, and what hangs on each; return how many.

    Call it again until it returns 0: then nothing is left.
    """
    while (row := tx.one(_sql.unfinished)) is not None:
        mark, tenant, inbox_id = row
        count = _delete_rows(tx, str(tenant), str(inbox_id), most)
        if count:
            return count
        tx.run(_sql.delete_counts, inbox_id=inbox_id)
        tx.run(_sql.finish, mark=mark)
    return 0


def _delete_rows(tx: Transaction, tenant: str, inbox_id: str, most: int) -> int:
    """Delete rows of one kind."""
    found = tx.all(_sql.artifacts, inbox_id=inbox_id, most=most)
    if found:
        return tx.run_many(_sql.delete_artifacts, found)
    found = tx.all(_sql.messages, inbox_id=inbox_id, most=most)
    if found:
        return tx.run_many(_sql.delete_messages, found)
    names = {"lowest": f"{inbox_id}:", "highest": f"{inbox_id};"}
    found = sorted(tx.all(_sql.mails, tenant=tenant, **names, most=most))
    if found:
        for query in (
            _sql.delete_copies, _sql.delete_tries, _sql.delete_effects, _sql.delete_sightings,
            _sql.delete_examples,
        ):  # fmt: skip
            tx.run_many(query, found)
        return tx.run_many(_sql.delete_mails, found)
    return 0


def _mark(address: str) -> bytes:
    return hashlib.sha256(address.encode()).digest()
