"""Retention sweeper and inbox expiry, in small transactions."""

import asyncio

from oncebox.core.clock import steady
from oncebox.core.metrics import Telemetry
from oncebox.errors import StoreError
from oncebox.ledger import maintenance
from oncebox.ledger import maintenance as messages
from oncebox.ledger import maintenance as sends
from oncebox.ledger.admin.source_cache import SourceCache
from oncebox.ledger.deliveries import pull
from oncebox.ledger.events import event_log
from oncebox.ledger.inboxes import inboxes
from oncebox.ledger.notifications import EVENTS
from oncebox.ledger.sends import submission
from oncebox.ledger.transactions import Ledger
from oncebox.model.inboxes.received_mail import MAIL_SOURCE
from oncebox.settings import EventSettings, RetentionSettings

#: seconds between two looks
EXPIRE_EVERY = 1.0
#: how many inboxes one transaction takes on; where it found as many, there may be more
_EXPIRY_BATCH = 500


class InboxExpirer:
    """Lets inboxes drain whose time is over, and ends those that have drained."""

    def __init__(
        self, counter: Ledger, telemetry: Telemetry, *, draining: int, every: float = EXPIRE_EVERY
    ) -> None:
        """Look after all tenants; any number of processes may.

        An inbox drains for so many milliseconds after its time.
        """
        self._ledger = counter
        self._telemetry = telemetry
        self._draining = draining
        self._every = every

    async def run(self) -> None:
        """Look again and again, until cancelled."""
        while True:
            try:
                await self.run_once()
            except StoreError as error:
                self._telemetry.store_errors.labels(error.code).inc()
            except Exception:
                # What does not end now ends later; nobody gets mail through it meanwhile.
                self._telemetry.log.exception("expiry_stumbled")
            await asyncio.sleep(self._every)

    async def run_once(self) -> None:
        """Take every step that is due, in small transactions that keep nobody waiting."""
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


#: seconds between two rounds
SWEEP_EVERY = 60.0
#: milliseconds for which a claim can be told again
_KEEP_CLAIMS = 24 * 3_600_000
_DAY = 24 * 3_600_000
#: seconds between two looks at what has been kept for days
_PURGE_EVERY = 3_600.0
#: how many rows a verb takes on at once; where it found as many, there may be more
_SWEEP_BATCH = 1_000


class Sweeper:
    """Forgets old answers, claims and events, erases secrets, empties what was kept long enough."""

    def __init__(
        self,
        counter: Ledger,
        book: SourceCache,
        telemetry: Telemetry,
        *,
        events: EventSettings,
        keep: RetentionSettings | None = None,
        every: float = SWEEP_EVERY,
    ) -> None:
        """Sweep for all tenants; any number of processes may."""
        self._ledger = counter
        self._sources = book
        self._telemetry = telemetry
        self._events_kept = events.keep * _DAY
        self._retention = keep or RetentionSettings()
        self._every = every
        self._purge_at = 0.0
        #: all messages up to this one are empty; those that may not be are looked at every day
        self._emptied_upto = ""
        self._restart_at = 0.0

    async def run(self) -> None:
        """Sweep again and again, until cancelled."""
        while True:
            try:
                await self.sweep()
            except StoreError as error:
                self._telemetry.store_errors.labels(error.code).inc()
            except Exception:
                # What is not swept today is swept tomorrow; the sweeper must live.
                self._telemetry.log.exception("sweep_stumbled")
            await asyncio.sleep(self._every)

    async def sweep(self) -> None:
        """Sweep once, in small transactions that keep nobody waiting."""
        clock = self._ledger.clock
        while (
            await self._ledger.write(maintenance.purge_idempotency_and_secrets, clock())
            >= _SWEEP_BATCH
        ):
            pass
        await self._ledger.write(pull.forget_claims, clock() - _KEEP_CLAIMS)
        while (
            await self._ledger.write(submission.forget_guards, clock(), _SWEEP_BATCH)
            >= _SWEEP_BATCH
        ):
            pass
        while (
            await self._ledger.write(event_log.forget, clock() - self._events_kept) >= _SWEEP_BATCH
        ):
            pass
        if steady() >= self._purge_at:
            self._purge_at = steady() + _PURGE_EVERY
            await self._purge_bodies()
            await self._purge_journals()
            await self._empty_messages()
            await self._overwrite_artifacts()
            await self._empty_sends()

    def _before(self, days: int) -> int:
        return self._ledger.clock() - days * _DAY

    async def _purge_bodies(self) -> None:
        """Let the bodies go that sources keep no longer, and raw mail."""
        now = self._ledger.clock()
        cutoffs = {
            (each.source.tenant, each.source.name): now - each.source.retention * _DAY
            for each in self._sources.all()
            if each.source.retention is not None
        }
        if self._retention.raw_mail:
            cutoffs[maintenance.ANY_TENANT, MAIL_SOURCE] = self._before(self._retention.raw_mail)
        after: str | None = ""
        while cutoffs and after is not None:
            purged = await self._ledger.write(maintenance.purge_bodies, cutoffs, now, after)
            after = purged.after

    async def _purge_journals(self) -> None:
        """Let the journals go of what has no body any more, if they are not kept for ever."""
        after: str | None = "" if self._retention.journals else None
        while after is not None:
            before = self._before(self._retention.journals)
            purged = await self._ledger.write(maintenance.purge_journals, before, after)
            after = purged.after

    async def _empty_messages(self) -> None:
        """Let go of what was read of old messages."""
        if steady() >= self._restart_at:
            self._restart_at = steady() + _DAY / 1000
            self._emptied_upto = ""
        has_more = bool(self._retention.documents)
        while has_more:
            before = self._before(self._retention.documents)
            emptied = await self._ledger.write(
                messages.empty_messages, before, self._ledger.clock(), self._emptied_upto
            )
            self._emptied_upto, has_more = emptied.after, emptied.has_more

    async def _overwrite_artifacts(self) -> None:
        """Overwrite what old codes and links say."""
        has_more = bool(self._retention.artifacts)
        while has_more:
            before = self._before(self._retention.artifacts)
            gone = await self._ledger.write(
                messages.overwrite_artifacts, before, self._ledger.clock()
            )
            for kind, count in gone.items():
                self._telemetry.artifacts.labels(kind, "overwritten").inc(count)
            has_more = bool(gone)

    async def _empty_sends(self) -> None:
        """Let go of what sends said, and forget keys that are not kept for ever."""
        while (
            await self._ledger.write(sends.empty_sends, self._ledger.clock(), _SWEEP_BATCH)
            >= _SWEEP_BATCH
        ):
            pass
        has_more = bool(self._retention.sends)
        while has_more:
            before = self._before(self._retention.sends)
            has_more = (
                await self._ledger.write(sends.forget_sends, before, _SWEEP_BATCH) >= _SWEEP_BATCH
            )
