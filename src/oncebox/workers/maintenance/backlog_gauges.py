"""Gauges of the backlog: deliveries by state and source, and how long the oldest have waited."""

from oncebox.core.metrics import COUNTED_STATES, Telemetry
from oncebox.ledger.deliveries import backlog
from oncebox.ledger.deliveries.backlog import SourceBacklog
from oncebox.ledger.transactions import Ledger
from oncebox.workers.maintenance.sweeper import repeat

#: seconds between two counts
_COUNT_EVERY = 10.0


class BacklogGauges:
    """Counts the backlog periodically; a scrape reads the last count."""

    def __init__(self, ledger: Ledger, telemetry: Telemetry, every: float = _COUNT_EVERY) -> None:
        self._ledger = ledger
        self._telemetry = telemetry
        self._every = every

    async def run(self) -> None:
        """Count until cancelled."""
        await repeat(self.count, self._every, self._telemetry, "backlog_count_failed")

    async def count(self) -> None:
        """Count once; a source that has nothing left is shown as zero."""
        found = await self._ledger.read(backlog.read_backlog)
        now = self._ledger.clock()
        for source in found:
            self._telemetry.expect_source(source)
        for source in self._telemetry.expected_sources:
            self._show(source, found.get(source, SourceBacklog()), now)

    def _show(self, source: str, one: SourceBacklog, now: int) -> None:
        telemetry = self._telemetry
        for state in COUNTED_STATES:
            telemetry.deliveries.labels(state, source).set(one.counts[state])
        telemetry.oldest_due.labels(source).set(_seconds_since(one.oldest_due_at, now))
        telemetry.oldest_held.labels(source).set(_seconds_since(one.oldest_held_at, now))


def _seconds_since(then: int | None, now: int) -> float:
    return 0.0 if then is None else max(0, now - then) / 1000
