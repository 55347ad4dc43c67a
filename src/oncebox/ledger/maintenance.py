"""Retention: purging bodies, messages, codes, sends and old keys; lease voiding after a restore.

What is in doubt, or under way, is never let go.
"""

from collections import Counter
from collections.abc import Mapping
from itertools import groupby, takewhile
from typing import NamedTuple

from oncebox.core import ids
from oncebox.db.database import Row, Transaction
from oncebox.db.queries import load
from oncebox.ledger.admin import idempotency, sources
from oncebox.ledger.admin.audit import AuditEntry
from oncebox.ledger.sends import transports
from oncebox.model.deliveries.delivery import DeliveryState
from oncebox.model.sends.transports import ConfiguredTransport

_sql = load(__package__, "maintenance.sql")

#: stands for the sources of that name of all tenants
ANY_TENANT = "*"
#: by tenant and source: bodies of what ended before this moment may go
Cutoffs = Mapping[tuple[str, str], int]


class PurgeResult(NamedTuple):
    """How many rows went, and where the next look goes on; None when all was looked at."""

    bodies: int
    after: str | None


def purge_bodies(
    tx: Transaction, cutoffs: Cutoffs, now: int, after: str = "", most: int = 500
) -> PurgeResult:
    """Let the bodies go whose time has passed, looking at the next ``most`` requests."""
    rows = tx.all(_sql.kept, after=after, most=most)
    if not rows:
        return PurgeResult(0, None)
    over: list[Row] = []
    requests: list[Row] = []
    for id_, deliveries in groupby(rows, key=lambda row: row[0]):
        found = list(deliveries)
        if all(_is_past_retention(row, cutoffs) for row in found):
            over += [(row[1], _cutoff(row, cutoffs)) for row in found]
            requests.append((id_,))
    count = 0
    if over:
        tx.run_many(_sql.purge, sorted(over), now=now)
        count = tx.run_many(_sql.delete_payloads, requests)
    return PurgeResult(count, rows[-1][0])


def purge_journals(tx: Transaction, before: int, after: str = "", most: int = 500) -> PurgeResult:
    """Let the tries and effects go of deliveries whose bodies are gone and that ended long ago.

    A journal is never gone before its body: there is no replay without one.
    """
    ids = tx.all(_sql.journalled, after=after, most=most)
    if not ids:
        return PurgeResult(0, None)
    count = tx.run_many(_sql.forget_effects, ids, before=before)
    count += tx.run_many(_sql.forget_tries, ids, before=before)
    return PurgeResult(count, str(ids[-1][0]))


def _is_past_retention(row: Row, cutoffs: Cutoffs) -> bool:
    """Say whether a delivery no longer needs its body; the statement that purges decides."""
    _request, _id, _tenant, _source, state, ended_at, seen_at = row
    ended = state == DeliveryState.DONE or (state == DeliveryState.DEAD and seen_at is not None)
    return ended and ended_at <= _cutoff(row, cutoffs)


def _cutoff(row: Row, cutoffs: Cutoffs) -> int:
    tenant, source = row[2:4]
    own = cutoffs.get((tenant, source))
    return cutoffs.get((ANY_TENANT, source), 0) if own is None else own


class EmptiedMessages(NamedTuple):
    """How many documents went, where the next look goes on, and whether that is at once."""

    documents: int
    after: str
    has_more: bool


def empty_messages(
    tx: Transaction, before: int, now: int, after: str = "", most: int = 500
) -> EmptiedMessages:
    """Let documents of messages go that came before a moment, looking at the next ``most``.

    Messages of about the same time lie beside each other, so a look ends at the first that is
    too young, and the next one goes on from there.
    """
    rows = tx.all(_sql.next, after=after, most=most)
    old = [str(id_) for id_, _ in takewhile(lambda row: row[1] <= before, rows)]
    if not old:
        return EmptiedMessages(0, after, has_more=False)
    count = tx.run_many(
        _sql.empty_messages, [(id_,) for id_ in old], before=before, now=now, nothing=b""
    )
    return EmptiedMessages(count, old[-1], has_more=len(old) == most)


def overwrite_artifacts(tx: Transaction, before: int, now: int, most: int = 500) -> Counter[str]:
    """Overwrite what artifacts say that came before a moment; return how many, by kind.

    The store overwrites what it lets go of, so this leaves nothing behind in the file. In the
    place of its mark an artifact has its own id, which no value has.
    """
    rows = tx.all(_sql.old_artifacts, before=before, most=most)
    ids = sorted((str(id_), str(id_).encode()) for id_, _ in rows)
    if ids:
        tx.run_many(_sql.overwrite, ids, before=before, now=now, nothing=b"")
    return Counter(str(kind) for _, kind in rows)


def empty_sends(tx: Transaction, now: int, most: int = 500) -> int:
    """Let go of what sends say whose class keeps them no longer; return how many."""
    over = sorted(tx.all(_sql.over, now=now, most=most))
    emptied = tx.many(_sql.empty_sends, over, now=now) if over else []
    if emptied:
        tx.run_many(_sql.drop_bodies, sorted((row[0],) for row in emptied))
    return len(emptied)


def forget_sends(tx: Transaction, before: int, most: int = 500) -> int:
    """Forget tombstones of sends that ended before a moment; return how many.

    The same intent would be a new one then.
    """
    old = sorted(tx.all(_sql.forgettable, before=before, most=most))
    gone = sorted((row[0],) for row in tx.many(_sql.forget, old, before=before)) if old else []
    if gone:
        for query in (_sql.forget_recipients, _sql.forget_send_tries, _sql.forget_places):
            tx.run_many(query, gone)
        tx.run(_sql.forget_batches, before=before)
    return len(gone)


def purge_idempotency_and_secrets(tx: Transaction, now: int) -> int:
    """Forget old idempotency keys, some at a time, and erase retired secrets.

    Return how many there were; call it every few minutes, and again at once while it is many.
    """
    return idempotency.forget(tx, now) + sources.erase_retired_secrets(tx, now)


#: more fences than anything gets between a backup and its return
_FENCE_JUMP = 1_000_000


def void_leases_and_pause(
    tx: Transaction, *, now: int, who: str, why: str
) -> list[ConfiguredTransport]:
    """Pause every way by which mail leaves, and void every lease; return what was paused now.

    What the ledger means to send may have been sent since the backup, and a worker may still
    hold a lease that was given since then, under a fence that would be given again.
    """
    for void in (_sql.void_deliveries, _sql.void_sends, _sql.void_actions, _sql.void_duties):
        tx.run(void, jump=_FENCE_JUMP)
    return [
        transports.pause(tx, each.name, _audit_entry(each.tenant, now, who, why))
        for each in transports.of_all_tenants(tx)
        if not each.paused
    ]


def _audit_entry(tenant: str, now: int, who: str, why: str) -> AuditEntry:
    return AuditEntry(id=ids.new("aud"), tenant=tenant, at=now, who=who, why=why)
