"""Looks: many who look for what they wait for at the same time share one reading."""

import asyncio

from oncebox.ledger.inboxes import waits
from oncebox.ledger.inboxes.waits import Look, Place, Question
from oncebox.ledger.vault import Vault
from oncebox.store.database import Database

#: questions of one reading
_MOST = 500

_Asked = tuple[Question, asyncio.Future[Look]]


class Looks:
    """Answers all who ask, in as few readings as there are turns."""

    def __init__(self, database: Database, vault: Vault) -> None:
        """Serve any number of callers at the same time."""
        self._database = database
        self._vault = vault
        self._asked: list[_Asked] = []
        self._task: asyncio.Task[None] | None = None

    async def look(self, question: Question) -> tuple[Place, ...]:
        """Return what there is in the inboxes that a question is about.

        Raises: NotFound, Unauthenticated, StoreError.
        """
        answer: asyncio.Future[Look] = asyncio.get_running_loop().create_future()
        self._asked.append((question, answer))
        if self._task is None:
            self._task = asyncio.create_task(self._answer())
        found = await answer
        if isinstance(found, tuple):
            return found
        raise type(found)(*found.args)  # anew: several may have been given the same

    async def close(self) -> None:
        """Answer no more."""
        task, self._task = self._task, None
        if task is not None:
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)

    async def _answer(self) -> None:
        try:
            while self._asked:
                batch, self._asked = self._asked[:_MOST], self._asked[_MOST:]
                try:
                    questions = [each for each, _ in batch]
                    now = self._database.clock()
                    found = await self._database.read(waits.look, self._vault, questions, now)
                except Exception as error:  # noqa: BLE001 - whatever it is, those who ask must hear
                    _fail(batch, error)
                    continue
                for (_question, answer), look in zip(batch, found, strict=True):
                    if not answer.done():
                        answer.set_result(look)
        finally:
            self._task = None  # no await since the last look: who comes now starts a new one


def _fail(batch: list[_Asked], error: Exception) -> None:
    for _question, answer in batch:
        if not answer.done():
            answer.set_exception(error)
            answer.exception()  # seen, even if nobody is left who asked
