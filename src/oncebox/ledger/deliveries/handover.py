"""The hand-over: rejected requests on their way into the quarantine; nobody waits for it."""

import asyncio
from collections import Counter, deque
from collections.abc import Iterable

from oncebox import ids
from oncebox.config import QuarantineSettings
from oncebox.errors import DatabaseClosed, RowRefused, StoreError
from oncebox.ledger.deliveries import quarantine, redaction
from oncebox.model.quarantine import Kept, Rejected
from oncebox.model.sighting import Sighting, classify_reject
from oncebox.seal import MasterKey
from oncebox.store.database import Database
from oncebox.telemetry import Telemetry

#: seconds between two commits, in which a flood gathers, and after a failure
_GATHER, _AFTER_FAILURE = 0.1, 1.0
_MOST = 100


class Quarantine:
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
        self._waiting: deque[Kept] = deque()
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
    ) -> Sighting:
        """Take a rejected request; return what it most likely was."""
        sighting = classify_reject(reason)
        self._telemetry.rejected.labels(sighting.value).inc()
        self._counts[tenant, source, sighting.value] += 1
        if self._has_room(len(body)):
            rejected = Rejected(
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
            self._add(redaction.seal(rejected, self._key))
        else:
            self._telemetry.not_quarantined.inc()
        if self._task is None:
            self._task = asyncio.create_task(self._store_all())
        return sighting

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

    def _add(self, kept: Kept) -> None:
        self._waiting.append(kept)
        self._bytes += kept.size

    async def _store_all(self) -> None:
        """Store until nothing waits; a flood gathers meanwhile, a failure is waited out."""
        while self._has_any():
            await asyncio.sleep(_GATHER)
            if not await self._store():
                await asyncio.sleep(_AFTER_FAILURE)
        self._task = None  # no await since the last look: who comes now starts anew

    async def _store(self) -> bool:
        """Store a batch; say whether that went well. What was refused for its data is dropped."""
        batch = [self._waiting.popleft() for _ in range(min(_MOST, len(self._waiting)))]
        counts, self._counts = self._counts, Counter()
        self._bytes -= sum(each.size for each in batch)
        try:
            await self._database.write(
                quarantine.keep_some, batch, counts, self._caps, self._database.clock()
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

    def _give_back(self, batch: list[Kept], counts: Counter[tuple[str, str, str]]) -> None:
        self._waiting.extendleft(reversed(batch))
        self._bytes += sum(each.size for each in batch)
        self._counts.update(counts)

    def _lose(self, batch: list[Kept], error: Exception) -> None:
        self._telemetry.not_quarantined.inc(len(batch))
        why = type(error).__name__
        self._telemetry.log.error("quarantine_failed", requests=len(batch), error=why)
