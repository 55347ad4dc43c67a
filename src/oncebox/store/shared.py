"""Shared reading: many who ask the same kind of question at the same time share one reading."""

import asyncio
from collections.abc import Callable, Sequence
from typing import Generic, TypeVar

from oncebox.errors import DatabaseClosed
from oncebox.store.database import Database, Transaction

Question = TypeVar("Question")
Answer = TypeVar("Answer")

#: questions of one reading
_MOST = 500


class SharedReading(Generic[Question, Answer]):
    """Answers all who ask, in as few readings as there are turns."""

    def __init__(
        self, database: Database, verb: Callable[[Transaction, Sequence[Question]], list[Answer]]
    ) -> None:
        """Serve any number of callers at the same time, by a verb with an answer for each."""
        self._database = database
        self._verb = verb
        self._asked: list[tuple[Question, asyncio.Future[Answer]]] = []
        self._task: asyncio.Task[None] | None = None

    async def ask(self, question: Question) -> Answer:
        """Return the verb's answer to a question.

        Raises: StoreError, and what the verb raises.
        """
        answer: asyncio.Future[Answer] = asyncio.get_running_loop().create_future()
        self._asked.append((question, answer))
        if self._task is None:
            self._task = asyncio.create_task(self._answer())
        return await answer

    async def close(self) -> None:
        """Answer no more; whoever still waits is told so."""
        task, self._task = self._task, None
        if task is not None:
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)
        asked, self._asked = self._asked, []
        _fail([answer for _, answer in asked], _closed())

    async def _answer(self) -> None:
        try:
            while self._asked:
                batch, self._asked = self._asked[:_MOST], self._asked[_MOST:]
                questions = [question for question, _ in batch]
                waiting = [answer for _, answer in batch]
                try:
                    found = await self._database.read(self._verb, questions)
                except Exception as error:  # noqa: BLE001 - whatever it is, those who ask must hear
                    _fail(waiting, error)
                    continue
                except BaseException:
                    _fail(waiting, _closed())
                    raise
                for answer, each in zip(waiting, found, strict=True):
                    if not answer.done():
                        answer.set_result(each)
        finally:
            self._task = None  # no await since the last look: who comes now starts a new one


def _closed() -> DatabaseClosed:
    return DatabaseClosed("this database was closed; open it again")


def _fail(waiting: Sequence[asyncio.Future[Answer]], error: Exception) -> None:
    for answer in waiting:
        if not answer.done():
            answer.set_exception(error)
            answer.exception()  # seen, even if nobody is left who asked
