"""Retention: purging bodies, messages, codes, sends and old keys; missing statistics; restores.

Nothing of unknown outcome or in flight is ever purged.
"""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from itertools import groupby, takewhile
from typing import NamedTuple

from oncebox.core import ids
from oncebox.db.database import Row, Transaction
from oncebox.db.queries import load
from oncebox.ledger.admin import idempotency, sources
from oncebox.ledger.admin.audit import AuditEntry
from oncebox.ledger.inboxes import quotas
from oncebox.ledger.sends import transports
from oncebox.model.deliveries.delivery import DeliveryOutcome, DeliveryState
from oncebox.model.inboxes.received_mail import MAIL_SOURCE
from oncebox.model.sends.transports import ConfiguredTransport

_sql = load(__package__, "maintenance.sql")

#: matches a source of that name of any tenant
ANY_TENANT = "*"
#: by tenant and source: bodies of deliveries that ended before this time may be purged
Cutoffs = Mapping[tuple[str, str], int]
#: sorts after every id
LAST_ID = "~"


class PurgeResult(NamedTuple):
    """How many rows were purged, and where the next call continues; None at the end."""

    rows: int
    after: str | None


class PurgeableBodies(NamedTuple):
    """Bodies that nothing needs any more, and where the search continues; None at the end."""

    #: ids of requests
    requests: list[Row]
    #: their deliveries, each with the time before which it must have ended
    deliveries: list[Row]
    after: str | None


def find_purgeable_bodies(
    tx: Transaction, cutoffs: Cutoffs, after: str = "", upto: str = LAST_ID, most: int = 500
) -> PurgeableBodies:
    """Find bodies past their retention among the next ``most`` requests before ``upto``."""
    kept = tx.all(_sql.kept, after=after, upto=upto, most=most)
    if not kept:
        return PurgeableBodies([], [], None)
    rows = sorted(
        (*tx.many(_sql.own, kept), *tx.many(_sql.elements, kept)), key=lambda row: row[:2]
    )
    found = PurgeableBodies([], [], str(kept[-1][0]))
    for id_, group in groupby(rows, key=lambda row: row[0]):
        deliveries = list(group)
        if all(_is_past_retention(row, cutoffs) for row in deliveries):
            found.deliveries.extend((row[1], _cutoff(row, cutoffs)) for row in deliveries)
            found.requests.append((id_,))
    return found


def purge_bodies(tx: Transaction, found: PurgeableBodies, now: int) -> int:
    """Purge bodies that were found and may still be purged; return how many."""
    if not found.requests:
        return 0
    purged = tx.many(_sql.purge, sorted(found.deliveries), now=now)
    quotas.remove_stored(tx, _filed_mails(purged))
    return tx.run_many(_sql.delete_payloads, found.requests)


def _filed_mails(purged: Iterable[Row]) -> Iterator[tuple[str, str, int]]:
    """Yield tenant, inbox and size of mails that were counted when they were filed."""
    for tenant, source, key, size, outcome in purged:
        if source == MAIL_SOURCE and outcome == DeliveryOutcome.HANDLED:
            yield str(tenant), str(key).rpartition(":")[0], int(size)


def purge_journals(tx: Transaction, before: int, after: str = "", most: int = 500) -> PurgeResult:
    """Purge tries and effects of deliveries that ended long ago and whose bodies are purged.

    A journal outlives its body: a replay needs both.
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
    """How many documents were purged, where the next call continues, and whether to at once."""

    documents: int
    after: str
    has_more: bool


def empty_messages(
    tx: Transaction, before: int, now: int, after: str = "", most: int = 500
) -> EmptiedMessages:
    """Purge documents of messages received before a time, among the next ``most``.

    Messages are about in order of time, so a call ends at the first recent one, and the next
    call continues there.
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
    """Overwrite the values of artifacts received before a time; return how many, by kind.

    The database overwrites deleted content (``secure_delete``), so nothing remains in the file.
    The fingerprint is replaced by the artifact's own id, which no value has.
    """
    rows = tx.all(_sql.old_artifacts, before=before, most=most)
    ids = sorted((str(id_), str(id_).encode()) for id_, _ in rows)
    if ids:
        tx.run_many(_sql.overwrite, ids, before=before, now=now, nothing=b"")
        firsts = sorted(set(tx.many(_sql.firsts, [(id_,) for id_, _ in ids])))
        if firsts:
            tx.run_many(_sql.forget_marks, firsts)
    return Counter(str(kind) for _, kind in rows)


def empty_sends(tx: Transaction, now: int, most: int = 500) -> int:
    """Purge the content of sends past the retention of their class; return how many."""
    over = sorted(tx.all(_sql.over, now=now, most=most))
    emptied = tx.many(_sql.empty_sends, over, now=now) if over else []
    if emptied:
        tx.run_many(_sql.drop_bodies, sorted((row[0],) for row in emptied))
    return len(emptied)


def forget_sends(tx: Transaction, before: int, most: int = 500) -> int:
    """Delete tombstones of sends that ended before a time; return how many.

    The same intent is a new one afterwards.
    """
    old = sorted(tx.all(_sql.forgettable, before=before, most=most))
    gone = sorted((row[0],) for row in tx.many(_sql.forget, old, before=before)) if old else []
    if gone:
        for query in (_sql.forget_recipients, _sql.forget_send_tries, _sql.forget_places):
            tx.run_many(query, gone)
        tx.run(_sql.forget_batches, before=before)
    return len(gone)


def tables_without_statistics(tx: Transaction) -> list[str]:
    """Return the tables that PostgreSQL should analyse: a restore leaves none analysed."""
    return [str(name) for (name,) in tx.all(_sql.unanalysed)]


def analyse(tx: Transaction, table: str) -> None:
    """Make the statistics of a table on PostgreSQL; a role that does not own it changes nothing."""
    tx.execute(f'ANALYZE "{table}"')


def purge_idempotency_and_secrets(tx: Transaction, now: int) -> int:
    """Delete old idempotency keys, some at a time, and erase retired secrets.

    Return how many; call it every few minutes, and again at once while it returns many.
    """
    return idempotency.forget(tx, now) + sources.erase_retired_secrets(tx, now)


#: more fences than any row gets between a backup and its restore
_FENCE_JUMP = 1_000_000


def void_leases_and_pause(
    tx: Transaction, *, now: int, who: str, why: str
) -> list[ConfiguredTransport]:
    """Pause every transport and void every lease; return the transports paused now.

    A pending send may have been sent since the backup, and a worker may still hold a lease
    granted since then, under a fence that would be used again.
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
