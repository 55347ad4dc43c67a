"""Rounds: what a worker looks at again and again, of all tenants."""

from collections.abc import Sequence

from oncebox.ledger.events.outbox import EVENTS
from oncebox.ledger.sends import gates, sends, spooled, sweep, transports
from oncebox.ledger.sends.sends import SENDS
from oncebox.ledger.sends.sweep import Swept
from oncebox.model.spooled import Spooled
from oncebox.model.transport import Transport
from oncebox.store.bell import Ear
from oncebox.store.database import Database, Transaction


class Rounds:
    """Says what waits, by which ways, and looks after what was lost."""

    def __init__(self, database: Database) -> None:
        """Serve one worker."""
        self._database = database
        self.clock = database.clock

    def ear(self) -> Ear:
        """Return what hears of new sends and of changes."""
        return self._database.ear(SENDS)

    def ring(self) -> None:
        """Wake whoever waits for sends."""
        self._database.ring(SENDS)

    async def waited_for(self) -> list[Transport]:
        """Return the ways of all tenants by which something could be claimed now."""
        return await self._database.read(_waited_for, self.clock())

    async def transports(self, tenant: str) -> list[Transport]:
        """Return the ways of a tenant, those that are taken first first."""
        return await self._database.read(transports.all_, tenant)

    async def every_way(self) -> list[Transport]:
        """Return the ways of all tenants, those that are taken first first."""
        return await self._database.read(transports.every)

    async def merge(self, sent: Sequence[Spooled]) -> None:
        """Write down what was sent past the ledger."""
        await self._database.write(spooled.merge, sent, self.clock())
        self._database.ring(SENDS)
        self._database.ring(EVENTS)

    async def sweep(self, tries: int) -> Swept:
        """Take the next step with what was lost, or waits for a way that rests."""
        swept, diverted = await self._database.write(_look_after, self.clock(), tries)
        if diverted or swept.given_back or swept.doubtful:
            self._database.ring(SENDS)
        if swept.doubtful or swept.expired or swept.lapsed:
            self._database.ring(EVENTS)
        return swept

    async def doubtful(self) -> int:
        """Return how many sends wait for evidence or a person."""
        return await self._database.read(sends.count_doubtful)


def _waited_for(tx: Transaction, now: int) -> list[Transport]:
    return [transports.get(tx, *way) for way in transports.waited_for(tx, now)]


def _look_after(tx: Transaction, now: int, tries: int) -> tuple[Swept, int]:
    return sweep.sweep(tx, now, tries=tries), gates.divert(tx, now)
