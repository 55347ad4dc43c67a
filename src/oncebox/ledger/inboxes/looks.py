"""Looks: many who look for what they wait for at the same time share one reading."""

from collections.abc import Sequence

from oncebox.ledger.inboxes import waits
from oncebox.ledger.inboxes.waits import Look, Place, Question
from oncebox.ledger.vault import Vault
from oncebox.store.database import Database, Transaction
from oncebox.store.shared import SharedReading


class Looks:
    """Answers all who ask, in as few readings as there are turns."""

    def __init__(self, database: Database, vault: Vault) -> None:
        """Serve any number of callers at the same time."""
        self._database = database
        self._vault = vault
        self._reading: SharedReading[Question, Look] = SharedReading(database, self._look)

    async def look(self, question: Question) -> tuple[Place, ...]:
        """Return what there is in the inboxes that a question is about.

        Raises: NotFound, Unauthenticated, StoreError.
        """
        found = await self._reading.ask(question)
        if isinstance(found, tuple):
            return found
        raise type(found)(*found.args)  # anew: several may have been given the same

    async def close(self) -> None:
        """Answer no more."""
        await self._reading.close()

    def _look(self, tx: Transaction, questions: Sequence[Question]) -> list[Look]:
        return waits.look(tx, self._vault, questions, self._database.clock())
