"""The sequencer: gives recorded events their numbers, in one process at a time.

Any number of processes run one. The duty is taken only when there is something to number, so
that an idle ledger is left alone, and it is kept for a lease, so that the others leave it alone.
What happens when a lease is too short, or a clock wrong, is decided by the fence, not by time.
"""

import asyncio

from oncebox import clock, ids
from oncebox.config import EventSettings
from oncebox.errors import LeaseLost, StoreError
from oncebox.ledger.events.numbering import Numbering
from oncebox.telemetry import Telemetry

#: the longest rest between two looks, in seconds
_POLL = 1.0
#: seconds in which events gather for one commit
_GATHER = 0.02
#: events that get their numbers in one commit
_MOST = 500
#: seconds between two log lines about a database that is away
_COMPLAIN_EVERY = 30.0


class Sequencer:
    """Numbers the events of all tenants, whenever it is this one's duty."""

    def __init__(
        self,
        numbering: Numbering,
        telemetry: Telemetry,
        settings: EventSettings,
        *,
        name: str | None = None,
    ) -> None:
        """Prepare; nothing is numbered before ``run``."""
        self._numbering = numbering
        self._telemetry = telemetry
        self._lease = round(settings.lease * 1000)
        #: no two have the same, so that who has the duty can tell by it
        self._name = name or ids.new("seq")
        #: of the duty, while it is ours; else 0
        self._fence = 0
        self._ear = numbering.ear()
        self._complain_at = 0.0

    async def run(self) -> None:
        """Number again and again, until cancelled; then leave the duty to others."""
        try:
            while True:
                await self._rest(await self._round())
        finally:
            await self._leave()

    async def _round(self) -> float:
        """Number what there is; return how long to rest, at most."""
        try:
            return await self.number()
        except LeaseLost:
            self._fence = 0
        except StoreError as error:
            self._telemetry.store_errors.labels(error.code).inc()
            self._complain(error)
        except Exception:
            # Readers wait for this; whatever happened, the next round may go better.
            self._telemetry.log.exception("sequencer_stumbled")
        return _POLL

    async def number(self) -> float:
        """Number one batch if it is our duty; return how long to rest before the next.

        Raises: LeaseLost, StoreError.
        """
        found = await self._numbering.look()
        if not found.work:
            return _POLL
        # Also what a commit with a lost reply made ours.
        self._fence = found.fence if found.holder == self._name else 0
        left = found.until - self._numbering.clock()
        if not self._fence and left > 0:
            return min(_POLL, left / 1000)
        before = self._fence
        numbered = await self._numbering.number(self._name, before, self._lease, _MOST)
        self._fence = numbered.fence
        self._telemetry.events_numbered.inc(numbered.events)
        if not before:
            self._telemetry.sequencer_turns.inc()
        return 0 if numbered.events == _MOST else _GATHER

    async def _rest(self, within: float) -> None:
        """Wait until there may be something to do; a moment in any case, in which more gathers."""
        if within <= _GATHER:
            await asyncio.sleep(within)
        else:
            await self._ear.wait(within)

    async def _leave(self) -> None:
        """Leave the duty, so that nobody waits for the end of a lease."""
        fence, self._fence = self._fence, 0
        if not fence:
            return
        try:
            await self._numbering.give_up(self._name, fence)
        except StoreError as error:
            self._telemetry.store_errors.labels(error.code).inc()

    def _complain(self, error: StoreError) -> None:
        if clock.steady() >= self._complain_at:
            self._complain_at = clock.steady() + _COMPLAIN_EVERY
            self._telemetry.log.warning("events_not_numbered", code=error.code)
