"""Listening: which ways have a provider that tells of its mail, and what it told."""

from collections.abc import Iterable, Sequence

from oncebox.ledger.deliveries import handled
from oncebox.ledger.events.outbox import EVENTS
from oncebox.ledger.sends import evidence, transports
from oncebox.ledger.sends.sends import SENDS
from oncebox.model.evidence import Evidence, Heard
from oncebox.model.transport import Transport
from oncebox.store.database import Database


class Listening:
    """Records what is told, and wakes who waits for it."""

    def __init__(self, database: Database) -> None:
        """Serve any number of workers."""
        self._database = database
        self.clock = database.clock

    async def transports(self, kind: str) -> list[Transport]:
        """Return the ways of one kind, of all tenants."""
        return await self._database.read(transports.of_kind, kind)

    async def announce(self, places: Sequence[handled.Place]) -> None:
        """Let all processes know that a program has handlers for sources."""
        await self._database.write(handled.announce, places, self._database.clock())

    async def handled(self, within: int) -> set[handled.Place]:
        """Return the sources that a program had handlers for, within so many milliseconds."""
        return await self._database.read(handled.since, self._database.clock() - within)

    async def hear(self, words: Sequence[Evidence]) -> list[Heard]:
        """Record what is told, in a commit of its own."""
        heard = await self._database.write(evidence.hear, words, self._database.clock())
        self.ring(heard)
        return heard

    def ring(self, heard: Iterable[Heard]) -> None:
        """Wake who waits for what is on disk now."""
        told = [each for each in heard if each.proven or each.news]
        if told:
            self._database.ring(EVENTS)
        if any(each.proven for each in told):
            self._database.ring(SENDS)
