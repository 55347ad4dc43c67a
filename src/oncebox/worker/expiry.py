"""Expiry: inboxes end on time, wherever work is done."""

import asyncio

from oncebox.errors import StoreError
from oncebox.ledger.counter import Counter
from oncebox.ledger.events.outbox import EVENTS
from oncebox.ledger.inboxes import expiry
from oncebox.telemetry import Telemetry

#: seconds between two looks
EVERY = 1.0
#: how many inboxes one transaction takes on; where it found as many, there may be more
_MANY = 500


class Expiry:
    """Lets inboxes drain whose time is over, and ends those that have drained."""

    def __init__(
        self, counter: Counter, telemetry: Telemetry, *, draining: int, every: float = EVERY
    ) -> None:
        """Look after all tenants; any number of processes may.

        An inbox drains for so many milliseconds after its time.
        """
        self._counter = counter
        self._telemetry = telemetry
        self._draining = draining
        self._every = every

    async def run(self) -> None:
        """Look again and again, until cancelled."""
        while True:
            try:
                await self.turn()
            except StoreError as error:
                self._telemetry.store_errors.labels(error.code).inc()
            except Exception:
                # What does not end now ends later; nobody gets mail through it meanwhile.
                self._telemetry.log.exception("expiry_stumbled")
            await asyncio.sleep(self._every)

    async def turn(self) -> None:
        """Take every step that is due, in small transactions that keep nobody waiting."""
        found = _MANY
        while found >= _MANY:
            now = self._counter.clock()
            # A read first: most of the time there is nothing to do, and nothing to lock.
            if not await self._counter.read(expiry.is_due, now):
                return
            turned = await self._counter.write(expiry.turn, self._draining, now, _MANY)
            self._telemetry.inboxes_missed.inc(turned.missed)
            self._counter.ring(EVENTS)
            found = turned.found
