"""The sweeper: what has had its time goes, a little at a time, wherever work is done."""

import asyncio

from oncebox.clock import steady
from oncebox.config import EventSettings, RetentionSettings
from oncebox.errors import StoreError
from oncebox.ledger.counter import Counter
from oncebox.ledger.deliveries import pull, retention
from oncebox.ledger.events import stream
from oncebox.ledger.inboxes import retention as messages
from oncebox.ledger.office import upkeep
from oncebox.ledger.office.sourcebook import SourceBook
from oncebox.ledger.sends import guards
from oncebox.ledger.sends import retention as sends
from oncebox.model.envelope import MAIL
from oncebox.telemetry import Telemetry

#: seconds between two rounds
EVERY = 60.0
#: milliseconds for which a claim can be told again
_CLAIMS_KEPT = 24 * 3_600_000
_DAY = 24 * 3_600_000
#: seconds between two looks at what has been kept for days
_PURGE_EVERY = 3_600.0
#: how many rows a verb takes on at once; where it found as many, there may be more
_MANY = 1_000


class Sweeper:
    """Forgets old answers, claims and events, erases secrets, empties what was kept long enough."""

    def __init__(
        self,
        counter: Counter,
        book: SourceBook,
        telemetry: Telemetry,
        *,
        events: EventSettings,
        keep: RetentionSettings | None = None,
        every: float = EVERY,
    ) -> None:
        """Sweep for all tenants; any number of processes may."""
        self._counter = counter
        self._book = book
        self._telemetry = telemetry
        self._events_kept = events.keep * _DAY
        self._keep = keep or RetentionSettings()
        self._every = every
        self._purge_at = 0.0
        #: all messages up to this one are empty; those that may not be are looked at every day
        self._emptied = ""
        self._anew_at = 0.0

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
        clock = self._counter.clock
        while await self._counter.write(upkeep.tidy, clock()) >= _MANY:
            pass
        await self._counter.write(pull.forget, clock() - _CLAIMS_KEPT)
        while await self._counter.write(guards.forget, clock(), _MANY) >= _MANY:
            pass
        while await self._counter.write(stream.forget, clock() - self._events_kept) >= _MANY:
            pass
        if steady() >= self._purge_at:
            self._purge_at = steady() + _PURGE_EVERY
            await self._purge_bodies()
            await self._purge_journals()
            await self._empty_messages()
            await self._overwrite_artifacts()
            await self._empty_sends()

    def _before(self, days: int) -> int:
        return self._counter.clock() - days * _DAY

    async def _purge_bodies(self) -> None:
        """Let the bodies go that sources keep no longer, and raw mail."""
        now = self._counter.clock()
        cutoffs = {
            (each.source.tenant, each.source.name): now - each.source.retention * _DAY
            for each in self._book.all()
            if each.source.retention is not None
        }
        if self._keep.raw_mail:
            cutoffs[retention.ANY_TENANT, MAIL] = self._before(self._keep.raw_mail)
        after: str | None = ""
        while cutoffs and after is not None:
            purged = await self._counter.write(retention.purge, cutoffs, now, after)
            after = purged.after

    async def _purge_journals(self) -> None:
        """Let the journals go of what has no body any more, if they are not kept for ever."""
        after: str | None = "" if self._keep.journals else None
        while after is not None:
            before = self._before(self._keep.journals)
            purged = await self._counter.write(retention.purge_journals, before, after)
            after = purged.after

    async def _empty_messages(self) -> None:
        """Let go of what was read of old messages."""
        if steady() >= self._anew_at:
            self._anew_at = steady() + _DAY / 1000
            self._emptied = ""
        has_more = bool(self._keep.documents)
        while has_more:
            before = self._before(self._keep.documents)
            emptied = await self._counter.write(
                messages.empty, before, self._counter.clock(), self._emptied
            )
            self._emptied, has_more = emptied.after, emptied.has_more

    async def _overwrite_artifacts(self) -> None:
        """Overwrite what old codes and links say."""
        has_more = bool(self._keep.artifacts)
        while has_more:
            before = self._before(self._keep.artifacts)
            gone = await self._counter.write(messages.overwrite, before, self._counter.clock())
            for kind, count in gone.items():
                self._telemetry.artifacts.labels(kind, "overwritten").inc(count)
            has_more = bool(gone)

    async def _empty_sends(self) -> None:
        """Let go of what sends said, and forget keys that are not kept for ever."""
        while await self._counter.write(sends.empty, self._counter.clock(), _MANY) >= _MANY:
            pass
        has_more = bool(self._keep.sends)
        while has_more:
            before = self._before(self._keep.sends)
            has_more = await self._counter.write(sends.forget, before, _MANY) >= _MANY
