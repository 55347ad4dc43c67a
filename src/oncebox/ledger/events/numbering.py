"""The numbering of events as the sequencer uses it: its verbs, bound to one database."""

from oncebox import faults
from oncebox.ledger.events import sequencer
from oncebox.ledger.events.outbox import EVENTS, STREAM
from oncebox.ledger.events.sequencer import Numbered, Standing
from oncebox.store.bell import Ear
from oncebox.store.database import Database


class Numbering:
    """Looks, numbers, and tells the readers."""

    def __init__(self, database: Database) -> None:
        """Serve one sequencer."""
        self._database = database
        self.clock = database.clock

    def ear(self) -> Ear:
        """Return an ear that hears when events are recorded."""
        return self._database.ear(EVENTS)

    async def look(self) -> Standing:
        """Say how things stand."""
        return await self._database.read(sequencer.look)

    async def number(self, holder: str, fence: int, lease: int, most: int) -> Numbered:
        """Give the next events their numbers, and wake whoever reads.

        Raises: LeaseLost, StoreError.
        """
        now = self.clock()
        numbered = await self._database.write(
            sequencer.number, holder, fence, now=now, until=now + lease, most=most
        )
        faults.point("sequencer.committed")
        self._database.ring(STREAM)
        return numbered

    async def give_up(self, holder: str, fence: int) -> None:
        """Leave the duty to whoever wants it."""
        await self._database.write(sequencer.give_up, holder, fence)
        self._database.ring(EVENTS)
