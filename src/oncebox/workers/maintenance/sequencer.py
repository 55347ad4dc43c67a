"""Event sequencer: numbers recorded events, in one process at a time.

Any number of processes run one. A process acquires the lease only when there is something to
number, so that an idle ledger is not written to. If a lease is too short or a clock is wrong, the
fence decides, not the time.
See docs/decisions/0007-use-commit-order-for-message-and-event-numbers.md.
"""

import asyncio

from oncebox.core import clock, faults, ids
from oncebox.core.metrics import Telemetry
from oncebox.errors import LeaseLost, StoreError
from oncebox.ledger.events import event_log
from oncebox.ledger.notifications import EVENTS, STREAM
from oncebox.ledger.transactions import Ledger
from oncebox.settings import EventSettings
from oncebox.workers.scan_floor import ScanFloor

#: seconds between two polls, at most
_POLL = 1.0
#: seconds in which events collect for one commit
_GATHER = 0.02
#: events numbered in one commit
_MAX_BATCH = 500
#: milliseconds by which the clock of a host that records events may be slow
_ID_SLACK = 5_000
#: seconds between two log lines about an unavailable database
_LOG_EVERY = 30.0


class Sequencer:
    """Numbers the events of all tenants while it holds the sequencer lease."""

    def __init__(
        self,
        ledger: Ledger,
        telemetry: Telemetry,
        settings: EventSettings,
        *,
        name: str | None = None,
    ) -> None:
        self._ledger = ledger
        self._telemetry = telemetry
        self._lease = round(settings.lease * 1000)
        #: unique, so that the holder of the lease recognises itself
        self._name = name or ids.new("seq")
        #: the fence of the lease while this process has it; else 0
        self._fence = 0
        self._subscription = ledger.subscribe(EVENTS)
        self._log_at = 0.0
        #: of the times in the ids of events without a number
        self._floor = ScanFloor(_ID_SLACK)

    async def run(self) -> None:
        """Number events until cancelled; then release the lease."""
        try:
            while True:
                await self._wait_for_events(await self._run_once())
        finally:
            await self._release_lease()

    async def _run_once(self) -> float:
        """Number one batch; return how long to wait, at most."""
        try:
            return await self.number()
        except LeaseLost:
            self._fence = 0
        except StoreError as error:
            self._telemetry.count_store_error("sequencer", error)
            if clock.steady() >= self._log_at:
                self._log_at = clock.steady() + _LOG_EVERY
                self._telemetry.log.warning("events_not_numbered", code=error.code)
        except Exception:
            # Readers depend on this; the next round may succeed.
            self._telemetry.log.exception("sequencer_failed")
        return _POLL

    async def number(self) -> float:
        """Number one batch if this process holds the lease; return the wait before the next.

        Raises: LeaseLost, StoreError.
        """
        looked_at = clock.system()  # ids have the time of the host that made them
        since = self._floor.begin(looked_at)
        floor = ids.lowest("evt", since) if since else ""
        found = await self._ledger.read(event_log.sequencer_status, floor)
        # What a transaction has recorded that has not ended yet must be found by the next look.
        ahead = self._ledger.clock() - clock.system()
        upto = min(looked_at, found.writing_since - ahead) if found.writing_since else looked_at
        if not found.work:
            self._floor.end(since, upto)
            return _POLL
        # Also a lease that was acquired by a commit whose reply was lost.
        self._fence = found.fence if found.holder == self._name else 0
        now = self._ledger.clock()
        if not self._fence and found.until > now:
            return min(_POLL, (found.until - now) / 1000)
        before = self._fence
        numbered = await self._ledger.write(
            event_log.number_events,
            self._name,
            before,
            now=now,
            until=now + self._lease,
            most=_MAX_BATCH,
            floor=floor,
        )
        if numbered.events < _MAX_BATCH:
            self._floor.end(since, upto)
        faults.point("sequencer.committed")
        self._ledger.notify(STREAM)
        self._fence = numbered.fence
        self._telemetry.events_numbered.inc(numbered.events)
        if not before:
            self._telemetry.sequencer_turns.inc()
        return 0 if numbered.events == _MAX_BATCH else _GATHER

    async def _wait_for_events(self, within: float) -> None:
        """Wait until there may be something to do; at least a moment, in which events collect."""
        if within <= _GATHER:
            await asyncio.sleep(within)
        else:
            await self._subscription.wait(within)

    async def _release_lease(self) -> None:
        """Release the lease, so that others need not wait until it expires."""
        fence, self._fence = self._fence, 0
        if not fence:
            return
        try:
            await self._ledger.write(event_log.release_sequencer, self._name, fence)
            self._ledger.notify(EVENTS)
        except StoreError as error:
            self._telemetry.count_store_error("sequencer", error)
