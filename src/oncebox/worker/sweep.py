"""The sweeper: what has had its time goes, a little at a time, wherever work is done."""

import asyncio

from oncebox.errors import StoreError
from oncebox.ledger.counter import Counter
from oncebox.ledger.deliveries import pull, retention
from oncebox.ledger.office import upkeep
from oncebox.ledger.office.sourcebook import SourceBook
from oncebox.telemetry import Telemetry

#: seconds between two rounds
EVERY = 60.0
#: milliseconds for which a claim can be told again
_CLAIMS_KEPT = 24 * 3_600_000
_DAY = 24 * 3_600_000
#: how many rows a verb takes on at once; where it found as many, there may be more
_MANY = 1_000


class Sweeper:
    """Forgets old answers and claims, erases retired secrets, empties old deliveries."""

    def __init__(
        self, counter: Counter, book: SourceBook, telemetry: Telemetry, *, every: float = EVERY
    ) -> None:
        """Sweep for all tenants; any number of processes may."""
        self._counter = counter
        self._book = book
        self._telemetry = telemetry
        self._every = every

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
        await self._purge()

    async def _purge(self) -> None:
        """Let the bodies go that sources keep no longer."""
        now = self._counter.clock()
        cutoffs = {
            (each.source.tenant, each.source.name): now - each.source.retention * _DAY
            for each in self._book.all()
            if each.source.retention is not None
        }
        after: str | None = ""
        while cutoffs and after is not None:
            purged = await self._counter.write(retention.purge, cutoffs, now, after)
            after = purged.after
