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

#: header names whose values let somebody in; a signature lets nobody in without its body
_SECRET = re.compile(
    r"authori[sz]ation|cookie|token|secret|passw|api-?key|credential", re.IGNORECASE
)
#: what stands in the place of such a value
REDACTED = "[sealed]"


class _RedactedValues(msgspec.Struct, frozen=True):
    """What is sealed: the whole URL, and header values by their place."""

    url: str
    values: dict[int, str]


def redact(rejected: RejectedRequest, key: MasterKey) -> QuarantinedRequest:
    """Return a rejected request fit to be stored."""
    headers = [(_storable(name), _storable(value)) for name, value in rejected.headers]
    values = {place: pair[1] for place, pair in enumerate(headers) if _SECRET.search(pair[0])}
    shown = tuple(
        (name, REDACTED if place in values else value)
        for place, (name, value) in enumerate(headers)
    )
    url = _storable(rejected.url)
    secrets = msgspec.json.encode(_RedactedValues(url, values))
    sealed = key.encrypt(secrets, bound_to=_redacted_aad(rejected.tenant, rejected.id))
    size = len(rejected.body) + len(encode_headers(shown)) + len(sealed)
    return QuarantinedRequest(
        rejected.id, rejected.tenant, rejected.source, _storable(rejected.reason),
        classify_rejection(rejected.reason).value, rejected.received_at, _storable(rejected.method),
        url.partition("?")[0], shown, rejected.body, size, sealed,
    )  # fmt: skip


def restore(kept: QuarantinedRequest, key: MasterKey) -> RejectedRequest:
    """Return a request as it came, so that it can be checked again."""
    opened = key.decrypt(kept.encrypted, bound_to=_redacted_aad(kept.tenant, kept.id))
    secrets = msgspec.json.decode(opened, type=_RedactedValues)
    return RejectedRequest(
        id=kept.id,
        tenant=kept.tenant,
        source=kept.source,
        reason=kept.reason,
        method=kept.method,
        url=secrets.url,
        headers=_restored_headers(kept.headers, secrets.values),
        body=kept.body,
        received_at=kept.received_at,
    )


def _restored_headers(headers: Headers, values: dict[int, str]) -> Headers:
    return tuple((name, values.get(place, value)) for place, (name, value) in enumerate(headers))


def _storable(text: str) -> str:
    """Spell out what no database takes: lone surrogates and the null character."""
    return text.encode("utf-8", "backslashreplace").decode().replace("\0", "\\x00")


def _redacted_aad(tenant: str, id_: str) -> bytes:
    return f"quarantine\0{tenant}\0{id_}".encode()


_AFTER_ALL_IDS = "~"
#: rejected requests by tenant, source and class
RejectCounts = Mapping[tuple[str, str, str], int]


def store(
    tx: Transaction, kept: Sequence[QuarantinedRequest], caps: QuarantineSettings, now: int
) -> None:
    """Keep and count rejected requests; beyond the caps the oldest go."""
    store_and_count(
        tx,
        kept,
        Counter((each.tenant, each.source, each.duplicate_class) for each in kept),
        caps,
        now,
    )


def store_and_count(
    tx: Transaction,
    kept: Sequence[QuarantinedRequest],
    counts: RejectCounts,
    caps: QuarantineSettings,
    now: int,
) -> None:
    """Count rejected requests and keep those there was room for; beyond the caps the oldest go."""
    rows = [
        (
            each.id, each.tenant, each.source, each.reason, each.duplicate_class, each.received_at,
            each.method, each.url, encode_headers(each.headers), each.body, each.size,
            each.encrypted,
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
    before: str = _AFTER_ALL_IDS,
    most: int = 50,
) -> list[QuarantineEntry]:
    """Return rejected requests, newest first."""
    rows = tx.all(_sql.newest, tenant=tenant, source=source, before=before, most=most)
    return [QuarantineEntry(*row) for row in rows]


def get(tx: Transaction, tenant: str, id_: str) -> QuarantinedRequest:
    """Return one rejected request; what may be secret in it stays sealed."""
    row = tx.one(_sql.by_id, tenant=tenant, id=id_)
    if row is None:
        raise NotFound(_GONE)
    values = list(row)
    values[8] = msgspec.json.decode(row[8], type=Headers)
    return QuarantinedRequest(*values)


def count_rejects(tx: Transaction, tenant: str) -> list[RejectionCount]:
    """Return how many requests were rejected, by source and class."""
    return [RejectionCount(*row) for row in tx.all(_sql.counts, tenant=tenant)]


def discard(tx: Transaction, id_: str, deed: audit.AuditEntry) -> None:
    """Throw a rejected request away."""
    _remove(tx, deed.tenant, id_)
    audit.record(tx, deed, "forget", id_)


def admit(
    tx: Transaction, id_: str, verified: Sequence[NewDelivery], deed: audit.AuditEntry
) -> list[Accepted]:
    """Accept what a request turned out to hold after all, once, and take it out."""
    _remove(tx, deed.tenant, id_)
    accepted = deduplication.accept(tx, verified, deed.at)
    audit.record(tx, deed, "admit", id_, " ".join(each.id for each in accepted))
    return accepted


def _remove(tx: Transaction, tenant: str, id_: str) -> None:
    if tx.one(_sql.take, tenant=tenant, id=id_) is None:
        raise NotFound(_GONE)


_GONE = "there is no such request in the quarantine; list them with: oncebox quarantine list"


#: seconds between two commits, in which a flood gathers, and after a failure
_GATHER_SECONDS, _RETRY_SECONDS = 0.1, 1.0
_MOST_PER_COMMIT = 100


class QuarantineWriter:
    """Takes rejected requests at once and stores them in the background, as far as there is room.

    What finds no room is counted, in the ledger too, but not kept.
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
        """Begin with nothing waiting."""
        self._database = database
        self._telemetry = telemetry
        self._key = key
        self._caps = caps
        self._new_id = new_id
        self._waiting: deque[QuarantinedRequest] = deque()
        self._bytes = 0
        self._counts: Counter[tuple[str, str, str]] = Counter()
        self._task: asyncio.Task[None] | None = None

    def put(  # noqa: PLR0913 - a request simply has this many sides
        self,
        source: str,
        *,
        tenant: str,
        reason: str,
        headers: Iterable[tuple[str, str]],
        body: bytes,
        method: str = "POST",
        url: str = "",
    ) -> DuplicateClass:
        """Take a rejected request; return what it most likely was."""
        duplicate_class = classify_rejection(reason)
        self._telemetry.rejected.labels(duplicate_class.value).inc()
        self._counts[tenant, source, duplicate_class.value] += 1
        if self._has_room(len(body)):
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
            self._add(redact(rejected, self._key))
        else:
            self._telemetry.not_quarantined.inc()
        if self._task is None:
            self._task = asyncio.create_task(self._store_all())
        return duplicate_class

    async def close(self) -> None:
        """Store what waits, if the database is there, and stop."""
        task, self._task = self._task, None
        if task is not None:
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)
        while self._has_any() and await self._store():
            pass

    def _has_any(self) -> bool:
        return bool(self._waiting or self._counts)

    def _has_room(self, size: int) -> bool:
        return len(self._waiting) < self._caps.waiting and (
            self._bytes + size <= self._caps.waiting_bytes
        )

    def _add(self, kept: QuarantinedRequest) -> None:
        self._waiting.append(kept)
        self._bytes += kept.size

    async def _store_all(self) -> None:
        """Store until nothing waits; a flood gathers meanwhile, a failure is waited out."""
        while self._has_any():
            await asyncio.sleep(_GATHER_SECONDS)
            if not await self._store():
                await asyncio.sleep(_RETRY_SECONDS)
        self._task = None  # no await since the last look: who comes now starts anew

    async def _store(self) -> bool:
        """Store a batch; say whether that went well. What was refused for its data is dropped."""
        batch = [self._waiting.popleft() for _ in range(min(_MOST_PER_COMMIT, len(self._waiting)))]
        counts, self._counts = self._counts, Counter()
        self._bytes -= sum(each.size for each in batch)
        try:
            await self._database.write(
                store_and_count, batch, counts, self._caps, self._database.clock()
            )
        except (DatabaseClosed, RowRefused) as error:
            self._lose(batch, error)
        except StoreError as error:
            self._telemetry.store_errors.labels(error.code).inc()
            self._give_back(batch, counts)
            return False
        except Exception as error:  # noqa: BLE001 - whatever it is, the next ones must be stored
            self._lose(batch, error)
        return True

    def _give_back(
        self, batch: list[QuarantinedRequest], counts: Counter[tuple[str, str, str]]
    ) -> None:
        self._waiting.extendleft(reversed(batch))
        self._bytes += sum(each.size for each in batch)
        self._counts.update(counts)

    def _lose(self, batch: list[QuarantinedRequest], error: Exception) -> None:
        self._telemetry.not_quarantined.inc(len(batch))
        why = type(error).__name__
        self._telemetry.log.error("quarantine_failed", requests=len(batch), error=why)
