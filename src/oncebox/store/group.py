"""Group commit: concurrent callers share one transaction, and each is answered after it."""

import asyncio
from collections import deque
from collections.abc import Callable, Sequence
from typing import Generic, Protocol, TypeVar

from oncebox.errors import RowRefused, StoreUnavailable
from oncebox.store.database import Database, Transaction

Item = TypeVar("Item")
Result = TypeVar("Result")
Result_contra = TypeVar("Result_contra", contravariant=True)
Verb = Callable[[Transaction, Sequence[Item]], list[Result]]
Shortcut = Callable[[Transaction, Sequence[Item]], list[Result] | None]
#: bytes one commit may carry
_MOST_BYTES = 32 * 1024 * 1024
_DETOURS = 10


class Waiter(Protocol[Result_contra]):
    """Where an answer goes; futures are such."""

    def done(self) -> bool:
        """Say whether nobody waits for it any more."""

    def set_result(self, result: Result_contra, /) -> None:
        """Take the verb's result."""

    def set_exception(self, error: Exception, /) -> None:
        """Take why there is none."""


Waiting = tuple[Item, Waiter[Result]]


class Group(Generic[Item, Result]):
    """Merges concurrent calls of one verb into few commits.

    While a commit is under way the next batch gathers, so batches grow with the load
    and a lone caller waits for nobody.
    """

    def __init__(  # noqa: PLR0913 - each is a word of the contract
        self,
        database: Database,
        verb: Verb[Item, Result],
        *,
        shortcut: Shortcut[Item, Result] | None = None,
        in_order: bool = False,
        most: int = 500,
        waiting: int = 10_000,
        size: Callable[[Item], int] = lambda _item: 0,
        committed: Callable[[Sequence[tuple[Item, Result]]], None] | None = None,
    ) -> None:
        """Commit at most ``most`` items together and let at most ``waiting`` wait.

        ``shortcut`` is the verb in one statement, for the usual case; where the case is another
        it answers None, and the verb must cope with what it has written. ``in_order`` commits
        one batch after the other. ``size`` tells the bytes of an item, which bound a batch too.
        ``committed`` is told of each batch after its commit.
        """
        self._database = database
        self._verb = verb
        self._shortcut = shortcut if database.round_trips else None
        self._detours = 0
        self._most = most
        self._limit = waiting
        self._size = size
        self._committed = committed
        self._waiting: deque[Waiting[Item, Result]] = deque()
        self._most_flushers = 1 if in_order else database.writers
        self._flushers = 0
        self._committing = 0
        self._tasks: set[asyncio.Task[None]] = set()

    async def submit(self, item: Item) -> Result:
        """Return the verb's result for this item, after the commit that holds it.

        Raises: StoreUnavailable, if too many wait; and what the verb raises.
        """
        future: asyncio.Future[Result] = asyncio.get_running_loop().create_future()
        self.enlist(item, future)
        return await future

    def enlist(self, item: Item, waiter: Waiter[Result]) -> None:
        """Let a waiter have the verb's result for this item, after the commit that holds it.

        What a waiter does with its answer must not raise: others wait behind it.

        Raises: StoreUnavailable, if too many wait.
        """
        if len(self._waiting) >= self._limit:
            message = "too many calls wait for the database; try again in a moment"
            raise StoreUnavailable(message)
        self._waiting.append((item, waiter))
        if self._flushers < self._most_flushers:
            self._flushers += 1
            task = asyncio.create_task(self._flush())
            self._tasks.add(task)  # a task nobody refers to may vanish
            task.add_done_callback(self._tasks.discard)

    async def _flush(self) -> None:
        """Commit batch after batch until nobody waits."""
        try:
            while self._waiting:
                batch = self._take()
                self._committing += 1
                try:
                    await self._commit(batch)
                finally:
                    self._committing -= 1
        finally:
            # No await since the last look: whoever comes now starts a new flush.
            self._flushers -= 1

    def _take(self) -> list[Waiting[Item, Result]]:
        """Take the next batch from those who wait; never none."""
        batch = [self._waiting.popleft()]
        total = self._size(batch[0][0])
        most = self._share()
        while self._waiting and len(batch) < most:
            total += self._size(self._waiting[0][0])
            if total > _MOST_BYTES:
                break
            batch.append(self._waiting.popleft())
        return batch

    def _share(self) -> int:
        """Leave the flushers beside this one their part: one prepares while another commits."""
        idle = self._flushers - self._committing
        return min(self._most, 1 + len(self._waiting) // idle)

    async def _commit(self, batch: list[Waiting[Item, Result]]) -> None:
        """Commit a batch; on refused data halve it until only the guilty row is refused."""
        try:
            items = [item for item, _ in batch]
            results = await self._write(items)
        except RowRefused as error:
            if len(batch) == 1:
                _fail(batch, error)
                return
            middle = len(batch) // 2
            await self._commit(batch[:middle])
            await self._commit(batch[middle:])
        except Exception as error:  # noqa: BLE001 - whatever it is, the callers must hear of it
            _fail(batch, error)
        except BaseException:
            _fail(batch, StoreUnavailable("the program is stopping; try again"))
            raise
        else:
            self._answer(batch, results)

    async def _write(self, items: list[Item]) -> list[Result]:
        """Take the shortcut; where it did not lead to the end, not for the next few commits."""
        if self._shortcut is not None and not self._detours:
            results = await self._database.write_one(self._shortcut, items)
            if results is not None:
                return results
            self._detours = _DETOURS
        self._detours = max(0, self._detours - 1)
        return await self._database.write(self._verb, items)

    def _answer(self, batch: Sequence[Waiting[Item, Result]], results: Sequence[Result]) -> None:
        if self._committed is not None:
            # By way of the loop: whatever it raises, the callers have their answers.
            pairs = [(item, result) for (item, _), result in zip(batch, results, strict=True)]
            asyncio.get_running_loop().call_soon(self._committed, pairs)
        for (_, waiter), result in zip(batch, results, strict=True):
            if not waiter.done():
                waiter.set_result(result)


def _fail(batch: Sequence[Waiting[Item, Result]], error: Exception) -> None:
    for _, waiter in batch:
        if not waiter.done():
            waiter.set_exception(error)
