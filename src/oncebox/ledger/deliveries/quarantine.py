"""Quarantine: rejected requests, redacted, stored in the background, admitted or discarded."""

import asyncio
import re
from collections import Counter, deque
from collections.abc import Iterable, Mapping, Sequence

import msgspec

from oncebox.core import ids
from oncebox.core.encryption import MasterKey
from oncebox.core.metrics import Telemetry
from oncebox.db.database import Database, Transaction
from oncebox.db.queries import load
from oncebox.errors import DatabaseClosed, NotFound, RowRefused, StoreError
from oncebox.ledger.admin import audit
from oncebox.ledger.deliveries import deduplication
from oncebox.model.deliveries.delivery import Accepted, Headers, NewDelivery, encode_headers
from oncebox.model.deliveries.duplicates import DuplicateClass, classify_rejection
from oncebox.model.webhooks.quarantine import (
    QuarantinedRequest,
    QuarantineEntry,
    RejectedRequest,
    RejectionCount,
)
from oncebox.settings import QuarantineSettings

_sql = load(__package__, "quarantine.sql")

#: names of headers that hold credentials; a signature is none without its body
_SECRET = re.compile(
    r"authori[sz]ation|cookie|token|secret|passw|api-?key|credential", re.IGNORECASE
)
#: stands for such a value
REDACTED = "[sealed]"
#: the purpose of the key that encrypts them
QUARANTINE = "quarantine"


class _RedactedValues(msgspec.Struct, frozen=True):
    """What is stored encrypted: the whole URL, and header values by their index."""

    url: str
    values: dict[int, str]


def redact(
    rejected: RejectedRequest, key: MasterKey, secret_headers: frozenset[str] = frozenset()
) -> QuarantinedRequest:
    """Return a rejected request for storage, without its secrets.

    ``secret_headers`` are the headers, in lower case, that hold a secret by the source's scheme.
    """
    headers = [(_storable(name), _storable(value)) for name, value in rejected.headers]
    values = {
        place: value
        for place, (name, value) in enumerate(headers)
        if name.lower() in secret_headers or _SECRET.search(name)
    }
    shown = tuple(
        (name, REDACTED if place in values else value)
        for place, (name, value) in enumerate(headers)
    )
    url = _storable(rejected.url)
    secrets = msgspec.json.encode(_RedactedValues(url, values))
    aad = redacted_aad(rejected.tenant, rejected.id)
    encrypted = key.encrypt(secrets, bound_to=aad, purpose=QUARANTINE)
    size = len(rejected.body) + len(encode_headers(shown)) + len(encrypted)
    return QuarantinedRequest(
        rejected.id, rejected.tenant, rejected.source, _storable(rejected.reason),
        classify_rejection(rejected.reason).value, rejected.received_at, _storable(rejected.method),
        url.partition("?")[0], shown, rejected.body, size, encrypted,
    )  # fmt: skip


def restore(stored: QuarantinedRequest, key: MasterKey) -> RejectedRequest:
    """Return a request as it was received, so that it can be verified again."""
    aad = redacted_aad(stored.tenant, stored.id)
    decrypted = key.decrypt(stored.encrypted, bound_to=aad, purpose=QUARANTINE)
    secrets = msgspec.json.decode(decrypted, type=_RedactedValues)
    return RejectedRequest(
        id=stored.id,
        tenant=stored.tenant,
        source=stored.source,
        reason=stored.reason,
        method=stored.method,
        url=secrets.url,
        headers=tuple(
            (name, secrets.values.get(index, value))
            for index, (name, value) in enumerate(stored.headers)
        ),
        body=stored.body,
        received_at=stored.received_at,
    )


def _storable(text: str) -> str:
    """Escape characters that no database stores: lone surrogates and the null character."""
    return text.encode("utf-8", "backslashreplace").decode().replace("\0", "\\x00")


def redacted_aad(tenant: str, id_: str) -> bytes:
    """Return what the secrets of a rejected request are bound to."""
    return f"quarantine\0{tenant}\0{id_}".encode()


_AFTER_ALL_IDS = "~"
#: rejected requests by tenant, source and class
RejectCounts = Mapping[tuple[str, str, str], int]


def store(
    tx: Transaction,
    requests: Sequence[QuarantinedRequest],
    counts: RejectCounts,
    caps: QuarantineSettings,
    now: int,
) -> None:
    """Store some requests and count all; beyond the caps the oldest are deleted."""
    rows = [
        (
            each.id, each.tenant, each.source, each.reason, each.duplicate_class, each.received_at,
            each.method, each.url, encode_headers(each.headers), each.body, each.size,
            each.encrypted,
        )
        for each in requests
        if each.size <= caps.source_bytes
    ]  # fmt: skip
    tx.run_many(_sql.insert, sorted(rows, key=lambda row: row[0]))
    tx.run_many(_sql.count, [(*key, count) for key, count in sorted(counts.items())], now=now)
    for tenant, source in sorted({(each.tenant, each.source) for each in requests}):
        tx.run(
            _sql.trim_source,
            tenant=tenant,
            source=source,
            most=caps.source_count,
            bytes=caps.source_bytes,
        )
    for tenant in sorted({each.tenant for each in requests}):
        tx.run(_sql.trim_all, tenant=tenant, most=caps.count, bytes=caps.bytes)


def newest(
    tx: Transaction,
    tenant: str,
    *,
    source: str | None = None,
    before: str = _AFTER_ALL_IDS,
    most: int = 50,
) -> list[QuarantineEntry]:
    """Return rejected requests, newest first."""
    rows = tx.all(_sql.newest, tenant=tenant, source=source, before=before, most=most)
    return [QuarantineEntry(*row) for row in rows]


def get(tx: Transaction, tenant: str, id_: str) -> QuarantinedRequest:
    """Return one rejected request; its secrets stay encrypted."""
    row = tx.one(_sql.by_id, tenant=tenant, id=id_)
    if row is None:
        raise NotFound(_GONE)
    values = list(row)
    values[8] = msgspec.json.decode(row[8], type=Headers)
    return QuarantinedRequest(*values)


def count_rejects(tx: Transaction, tenant: str) -> list[RejectionCount]:
    """Return how many requests were rejected, by source and class."""
    return [RejectionCount(*row) for row in tx.all(_sql.counts, tenant=tenant)]


def discard(tx: Transaction, id_: str, entry: audit.AuditEntry) -> None:
    """Delete a rejected request."""
    _remove(tx, entry.tenant, id_)
    audit.record(tx, entry, "forget", id_)


def admit(
    tx: Transaction, id_: str, verified: Sequence[NewDelivery], entry: audit.AuditEntry
) -> list[Accepted]:
    """Accept the deliveries of a request that verifies now, and delete the request."""
    _remove(tx, entry.tenant, id_)
    accepted = deduplication.accept(tx, verified, entry.at)
    audit.record(tx, entry, "admit", id_, " ".join(each.id for each in accepted))
    return accepted


def _remove(tx: Transaction, tenant: str, id_: str) -> None:
    if tx.one(_sql.take, tenant=tenant, id=id_) is None:
        raise NotFound(_GONE)


_GONE = "there is no such request in the quarantine; list them with: oncebox quarantine list"


#: seconds between two commits, in which requests collect, and after a failure
_GATHER_SECONDS, _RETRY_SECONDS = 0.1, 1.0
_MOST_PER_COMMIT = 100


class QuarantineWriter:
    """Queues rejected requests and stores them in the background.

    When the queue is full, requests are counted, in the ledger too, but not stored.
    """

    def __init__(
        self,
        database: Database,
        telemetry: Telemetry,
        *,
        key: MasterKey,
        caps: QuarantineSettings,
        new_id: ids.NewId = ids.new,
    ) -> None:
        self._database = database
        self._telemetry = telemetry
        self._key = key
        self._caps = caps
        self._new_id = new_id
        self._waiting: deque[QuarantinedRequest] = deque()
        self._bytes = 0
        self._counts: Counter[tuple[str, str, str]] = Counter()
        self._task: asyncio.Task[None] | None = None

    def put(  # noqa: PLR0913 - a request has this many properties
        self,
        source: str,
        *,
        tenant: str,
        reason: str,
        headers: Iterable[tuple[str, str]],
        body: bytes,
        method: str = "POST",
        url: str = "",
        secret_headers: frozenset[str] = frozenset(),
    ) -> DuplicateClass:
        """Queue a rejected request; return its class."""
        duplicate_class = classify_rejection(reason)
        self._telemetry.rejected.labels(duplicate_class.value).inc()
        self._counts[tenant, source, duplicate_class.value] += 1
        fits = self._bytes + len(body) <= self._caps.waiting_bytes
        if fits and len(self._waiting) < self._caps.waiting:
            rejected = RejectedRequest(
                id=self._new_id("rej"),
                tenant=tenant,
                source=source,
                reason=reason,
                method=method,
                url=url,
                headers=tuple(headers),
                body=body,
                received_at=self._database.clock(),
            )
            stored = redact(rejected, self._key, secret_headers)
            self._waiting.append(stored)
            self._bytes += stored.size
        else:
            self._telemetry.not_quarantined.inc()
        if self._task is None:
            self._task = asyncio.create_task(self._store_all())
        return duplicate_class

    async def close(self) -> None:
        """Store what is queued, if the database is available, and stop."""
        task, self._task = self._task, None
        if task is not None:
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)
        while (self._waiting or self._counts) and await self._store():
            pass

    async def _store_all(self) -> None:
        """Store until nothing is queued; requests collect meanwhile; failures are retried."""
        while self._waiting or self._counts:
            await asyncio.sleep(_GATHER_SECONDS)
            if not await self._store():
                await asyncio.sleep(_RETRY_SECONDS)
        self._task = None  # no await since the check: the next ``put`` starts a new task

    async def _store(self) -> bool:
        """Store a batch; return False if the database is unavailable. Invalid data is dropped."""
        batch = [self._waiting.popleft() for _ in range(min(_MOST_PER_COMMIT, len(self._waiting)))]
        counts, self._counts = self._counts, Counter()
        self._bytes -= sum(each.size for each in batch)
        try:
            await self._database.write(store, batch, counts, self._caps, self._database.clock())
        except (DatabaseClosed, RowRefused) as error:
            self._lose(batch, error)
        except StoreError as error:
            self._telemetry.count_store_error("quarantine", error)
            self._waiting.extendleft(reversed(batch))
            self._bytes += sum(each.size for each in batch)
            self._counts.update(counts)
            return False
        except Exception as error:  # noqa: BLE001 - whatever it is, the next ones must be stored
            self._lose(batch, error)
        return True

    def _lose(self, batch: list[QuarantinedRequest], error: Exception) -> None:
        self._telemetry.not_quarantined.inc(len(batch))
        why = type(error).__name__
        self._telemetry.log.error("quarantine_failed", requests=len(batch), error=why)
