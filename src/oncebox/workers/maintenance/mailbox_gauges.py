"""Gauges of mailboxes: lag, last success, mails that remain, and pauses."""

from collections.abc import Collection, Iterator

from prometheus_client import Gauge

from oncebox.core.metrics import Telemetry
from oncebox.ledger.mailboxes import mailboxes
from oncebox.ledger.transactions import Ledger
from oncebox.model.mailboxes.mailbox import MailboxOrigin, MailboxProgress
from oncebox.workers.maintenance.sweeper import repeat

#: seconds between two looks
_LOOK_EVERY = 10.0


class MailboxGauges:
    """Looks at the mailboxes of all tenants periodically; a scrape reads what was seen last.

    Every process shows them all, so that a mailbox that nobody reads is seen too.
    """

    def __init__(
        self,
        ledger: Ledger,
        telemetry: Telemetry,
        declared: Collection[tuple[str, str]] = (),
        every: float = _LOOK_EVERY,
    ) -> None:
        """Of the mailboxes that settings declare, show ``declared`` ones, by tenant and name."""
        self._ledger = ledger
        self._telemetry = telemetry
        self._declared = declared
        self._every = every
        self._shown: set[tuple[str, str]] = set()

    async def run(self) -> None:
        """Look until cancelled."""
        await repeat(self.look, self._every, self._telemetry, "mailbox_gauges_failed")

    async def look(self) -> None:
        """Look once; a mailbox that was removed is shown no more."""
        found = list(self._expected(await self._ledger.read(mailboxes.read_progress)))
        now = self._ledger.clock()
        for each in found:
            self._show(each, now)
        names = {(each.tenant, each.name) for each in found}
        for labels in self._shown - names:
            for gauge in self._gauges:
                gauge.remove(*labels)
        self._shown = names

    def _expected(self, found: list[MailboxProgress]) -> Iterator[MailboxProgress]:
        for each in found:
            is_declared = (each.tenant, each.name) in self._declared
            if each.origin is MailboxOrigin.DATABASE or is_declared:
                yield each

    def _show(self, one: MailboxProgress, now: int) -> None:
        labels, (lag, success, remaining, paused) = (one.tenant, one.name), self._gauges
        lag.labels(*labels).set(one.lag(now) / 1000)
        success.labels(*labels).set((one.succeeded_at or 0) / 1000)
        remaining.labels(*labels).set(one.remaining or 0)
        paused.labels(*labels).set(one.paused is not None)

    @property
    def _gauges(self) -> tuple[Gauge, Gauge, Gauge, Gauge]:
        telemetry = self._telemetry
        return (
            telemetry.mailbox_lag,
            telemetry.mailbox_last_success,
            telemetry.mailbox_remaining,
            telemetry.mailbox_paused,
        )
