"""Retention sweeper and inbox expiry, in small transactions; every process may run both."""

import asyncio
from collections.abc import Awaitable, Callable

from oncebox.core import ids
from oncebox.core.clock import steady
from oncebox.core.metrics import Telemetry
from oncebox.errors import StoreError
from oncebox.ledger import maintenance
from oncebox.ledger.admin.source_cache import SourceCache
from oncebox.ledger.deliveries import pull
from oncebox.ledger.events import event_log
from oncebox.ledger.inboxes import inboxes, retention
from oncebox.ledger.notifications import EVENTS
from oncebox.ledger.sends import submission
from oncebox.ledger.transactions import Ledger
from oncebox.model.inboxes.received_mail import MAIL_SOURCE
from oncebox.settings import EventSettings, RetentionSettings

#: inboxes that one transaction expires; if it found as many, there may be more
_EXPIRY_BATCH = 500
#: seconds between two sweeps
_SWEEP_EVERY = 60.0
#: milliseconds for which a claim can be repeated
_KEEP_CLAIMS = 24 * 3_600_000
_DAY = 24 * 3_600_000
#: seconds between two purges of what is kept for days
_PURGE_EVERY = 3_600.0
#: rows that one transaction deletes; if it found as many, there may be more
_SWEEP_BATCH = 1_000


async def repeat(
    step: Callable[[], Awaitable[None]], every: float, telemetry: Telemetry, failed: str
) -> None:
    """Repeat a step until cancelled; after an error, the next one may succeed."""
    while True:
        try:
            await step()
        except StoreError as error:
            telemetry.count_store_error("sweeper", error)
        except Exception:
            telemetry.log.exception(failed)
        await asyncio.sleep(every)


class InboxExpirer:
    """Drains inboxes whose time is over, and ends those that have drained."""

    def __init__(
        self, ledger: Ledger, telemetry: Telemetry, *, draining: int, every: float = 1.0
    ) -> None:
        """Drain for so many milliseconds; check every so many seconds."""
        self._ledger = ledger
        self._telemetry = telemetry
        self._draining = draining
        self._every = every

    async def run(self) -> None:
        """Expire inboxes until cancelled."""
        await repeat(self.run_once, self._every, self._telemetry, "inbox_expiry_failed")

    async def run_once(self) -> None:
        """Take every step that is due, in small transactions."""
        found = _EXPIRY_BATCH
        while found >= _EXPIRY_BATCH:
            now = self._ledger.clock()
            # A read first: most of the time there is nothing to do, and nothing to lock.
            if not await self._ledger.read(inboxes.is_expiry_due, now):
                return
            turned = await self._ledger.write(inboxes.expire, self._draining, now, _EXPIRY_BATCH)
            self._telemetry.inboxes_missed.inc(turned.missed)
            self._ledger.notify(EVENTS)
            found = turned.found


class Sweeper:
    """Deletes old answers, claims and events, and what its retention no longer keeps."""

    def __init__(
        self,
        ledger: Ledger,
        sources: SourceCache,
        telemetry: Telemetry,
        *,
        events: EventSettings,
        keep: RetentionSettings | None = None,
    ) -> None:
        self._ledger = ledger
        self._sources = sources
        self._telemetry = telemetry
        self._events_kept = events.keep * _DAY
        self._retention = keep or RetentionSettings()
        self._purge_at = 0.0
        #: bodies and inboxes up to these were looked at, messages up to this one are empty; once a
        #: day all searches start again
        self._purged_upto = ""
        self._retired_upto = retention.OLDEST
        self._emptied_upto = ""
        self._restart_at = 0.0

    async def run(self) -> None:
        """Sweep until cancelled."""
        await repeat(self.sweep, _SWEEP_EVERY, self._telemetry, "sweep_failed")

    async def sweep(self) -> None:
        """Sweep once, in small transactions."""
        write, clock = self._ledger.write, self._ledger.clock
        await _in_batches(lambda: write(maintenance.purge_idempotency_and_secrets, clock()))
        await write(pull.forget_claims, clock() - _KEEP_CLAIMS)
        await _in_batches(lambda: write(submission.forget_guards, clock(), _SWEEP_BATCH))
        await _in_batches(lambda: write(event_log.forget, clock() - self._events_kept))
        if self._ledger.kind == "postgres":
            await self._analyse()
        if steady() >= self._purge_at:
            self._purge_at = steady() + _PURGE_EVERY
            if steady() >= self._restart_at:
                self._restart_at = steady() + _DAY / 1000
                self._purged_upto = self._emptied_upto = ""
                self._retired_upto = retention.OLDEST
            await self._purge_bodies()
            await self._purge_journals()
            await self._empty_messages()
            await self._overwrite_artifacts()
            await self._delete_inboxes()
            await self._empty_sends()

    async def _analyse(self) -> None:
        """Analyse tables without statistics, one after another."""
        for table in await self._ledger.read(maintenance.tables_without_statistics):
            await self._ledger.write_alone(maintenance.analyse, table)

    def _before(self, days: int) -> int:
        return self._ledger.clock() - days * _DAY

    async def _purge_bodies(self) -> None:
        """Delete bodies after the retention of their source, and raw mail."""
        now = self._ledger.clock()
        cutoffs = {
            (each.source.tenant, each.source.name): now - each.source.retention * _DAY
            for each in self._sources.all()
            if each.source.retention is not None
        }
        if self._retention.raw_mail:
            cutoffs[maintenance.ANY_TENANT, MAIL_SOURCE] = self._before(self._retention.raw_mail)
        if not cutoffs:
            return
        # What arrived after a time has not ended before it; a day for clocks that differ.
        upto = ids.lowest("dlv", max(cutoffs.values()) + _DAY)
        after: str | None = self._purged_upto
        while after is not None:
            self._purged_upto = after
            # A read: most bodies are kept, and looking at them must not hold up any write.
            found = await self._ledger.read(maintenance.find_purgeable_bodies, cutoffs, after, upto)
            if found.requests:
                await self._ledger.write(maintenance.purge_bodies, found, now)
            after = found.after

    async def _purge_journals(self) -> None:
        """Delete journals of deliveries without a body, unless they are kept for ever."""
        after: str | None = "" if self._retention.journals else None
        while after is not None:
            before = self._before(self._retention.journals)
            purged = await self._ledger.write(maintenance.purge_journals, before, after)
            after = purged.after

    async def _empty_messages(self) -> None:
        """Delete the parsed content of old messages."""
        has_more = bool(self._retention.documents)
        while has_more:
            before = self._before(self._retention.documents)
            emptied = await self._ledger.write(
                maintenance.empty_messages, before, self._ledger.clock(), self._emptied_upto
            )
            self._emptied_upto, has_more = emptied.after, emptied.has_more

    async def _overwrite_artifacts(self) -> None:
        """Overwrite old codes and links."""
        has_more = bool(self._retention.artifacts)
        while has_more:
            before, now = self._before(self._retention.artifacts), self._ledger.clock()
            gone = await self._ledger.write(maintenance.overwrite_artifacts, before, now)
            for kind, count in gone.items():
                self._telemetry.artifacts.labels(kind, "overwritten").inc(count)
            has_more = bool(gone)

    async def _delete_inboxes(self) -> None:
        """Delete old inboxes of which nothing is kept, then their rows, also of earlier ones."""
        after = self._retired_upto if self._retention.inboxes else None
        before = self._before(self._retention.inboxes)
        while after is not None:
            self._retired_upto = after
            found = await self._ledger.read(retention.find_ended, before, after)
            if found.ids:
                await self._ledger.write(retention.retire, found.ids, before)
            after = found.after
        while await self._ledger.write(retention.delete_contents):
            pass

    async def _empty_sends(self) -> None:
        """Delete the content of old sends, and keys that are not kept for ever."""
        write, clock = self._ledger.write, self._ledger.clock
        await _in_batches(lambda: write(maintenance.empty_sends, clock(), _SWEEP_BATCH))
        days = self._retention.sends
        if days:
            await _in_batches(
                lambda: write(maintenance.forget_sends, self._before(days), _SWEEP_BATCH)
            )


async def _in_batches(delete: Callable[[], Awaitable[int]]) -> None:
    """Repeat a deletion until it finds less than a full batch."""
    while await delete() >= _SWEEP_BATCH:
        pass
