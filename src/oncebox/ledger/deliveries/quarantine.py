"""Quarantine: rejected requests, kept for a while, so that they can be checked again."""

from collections import Counter
from collections.abc import Mapping, Sequence

import msgspec

from oncebox.config import QuarantineSettings
from oncebox.errors import NotFound
from oncebox.ledger.deliveries import arrivals
from oncebox.ledger.office import audit
from oncebox.model.delivery import Accepted, Headers, NewDelivery, encode_headers
from oncebox.model.quarantine import Kept, Listed, Rejects
from oncebox.store.database import Transaction
from oncebox.store.queries import load

_sql = load(__package__, "quarantine.sql")

_AFTER_ALL = "~"
#: rejected requests by tenant, source and class
Counts = Mapping[tuple[str, str, str], int]


def keep(tx: Transaction, kept: Sequence[Kept], caps: QuarantineSettings, now: int) -> None:
    """Keep and count rejected requests; beyond the caps the oldest go."""
    keep_some(
        tx, kept, Counter((each.tenant, each.source, each.sighting) for each in kept), caps, now
    )


def keep_some(
    tx: Transaction, kept: Sequence[Kept], counts: Counts, caps: QuarantineSettings, now: int
) -> None:
    """Count rejected requests and keep those there was room for; beyond the caps the oldest go."""
    rows = [
        (
            each.id, each.tenant, each.source, each.reason, each.sighting, each.received_at,
            each.method, each.url, encode_headers(each.headers), each.body, each.size, each.sealed,
        )
        for each in kept
        if each.size <= caps.source_bytes
    ]  # fmt: skip
    tx.run_many(_sql.insert, sorted(rows, key=lambda row: row[0]))
    tx.run_many(_sql.count, [(*key, count) for key, count in sorted(counts.items())], now=now)
    for tenant, source in sorted({(each.tenant, each.source) for each in kept}):
        tx.run(
            _sql.trim_source,
            tenant=tenant,
            source=source,
            most=caps.source_count,
            bytes=caps.source_bytes,
        )
    for tenant in sorted({each.tenant for each in kept}):
        tx.run(_sql.trim_all, tenant=tenant, most=caps.count, bytes=caps.bytes)


def newest(
    tx: Transaction,
    tenant: str,
    *,
    source: str | None = None,
    before: str = _AFTER_ALL,
    most: int = 50,
) -> list[Listed]:
    """Return rejected requests, newest first."""
    rows = tx.all(_sql.newest, tenant=tenant, source=source, before=before, most=most)
    return [Listed(*row) for row in rows]


def get(tx: Transaction, tenant: str, id_: str) -> Kept:
    """Return one rejected request; what may be secret in it stays sealed.

    Raises: NotFound.
    """
    row = tx.one(_sql.by_id, tenant=tenant, id=id_)
    if row is None:
        raise NotFound(_GONE)
    values = list(row)
    values[8] = msgspec.json.decode(row[8], type=Headers)
    return Kept(*values)


def counts(tx: Transaction, tenant: str) -> list[Rejects]:
    """Return how many requests were rejected, by source and class."""
    return [Rejects(*row) for row in tx.all(_sql.counts, tenant=tenant)]


def forget(tx: Transaction, id_: str, deed: audit.Deed) -> None:
    """Throw a rejected request away.

    Raises: NotFound.
    """
    _take(tx, deed.tenant, id_)
    audit.record(tx, deed, "forget", id_)


def admit(
    tx: Transaction, id_: str, verified: Sequence[NewDelivery], deed: audit.Deed
) -> list[Accepted]:
    """Accept what a request turned out to hold after all, once, and take it out.

    Raises: NotFound, when it was taken out already.
    """
    _take(tx, deed.tenant, id_)
    accepted = arrivals.accept(tx, verified, deed.at)
    audit.record(tx, deed, "admit", id_, " ".join(each.id for each in accepted))
    return accepted


def _take(tx: Transaction, tenant: str, id_: str) -> None:
    if tx.one(_sql.take, tenant=tenant, id=id_) is None:
        raise NotFound(_GONE)


_GONE = "there is no such request in the quarantine; list them with: oncebox quarantine list"
