"""Ledger: runs functions in transactions: read, write, grouped, dry run; retries, notifications.

A ledger function takes a transaction and plain values. Callers pass it to ``read``, ``write`` or,
if it is declared with ``@grouped``, to ``submit``; no class stands between them and the function.
"""

import asyncio
from collections.abc import Callable, Sequence
from copy import copy
from typing import Any, NoReturn, ParamSpec, TypeVar

from oncebox.core import clock
from oncebox.db import migrate, startup
from oncebox.db.database import Database, Transaction, TxFunction
from oncebox.db.group_commit import (
    BatchFunction,
    FastFunction,
    GroupCommit,
    Grouped,
    ResultSink,
    SharedRead,
    before_deadline,
    retry_until_available,
)
from oncebox.db.notify import Subscription

__all__ = ["Ledger", "Transaction"]

P = ParamSpec("P")
T = TypeVar("T")
Item = TypeVar("Item")
Result = TypeVar("Result")
Request = TypeVar("Request")

#: seconds for which a successful readiness check is reused
_READY_SECONDS = 1.0
#: seconds after which a check that is still running means not ready
_READY_WITHIN = 2.0


class _RolledBack(Exception):
    """Carries a result out of a transaction that is rolled back."""

    def __init__(self, result: Any) -> None:
        super().__init__()
        self.result = result


class Ledger:
    """Runs ledger functions in transactions; serves any number of concurrent callers."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self.kind = database.kind
        self.clock = database.clock
        self.subscribe: Callable[[str], Subscription] = database.subscribe
        #: seconds a user's transaction may take; on SQLite all other writers wait meanwhile
        self.transaction_limit = 1.0 if database.kind == "sqlite" else 10.0
        self._groups: dict[Grouped[Any, Any], GroupCommit[Any, Any]] = {}
        self._shared_reads: list[SharedRead[Any, Any]] = []
        self._check: asyncio.Task[None] | None = None
        self._ready_until = 0.0
        self._retries = False

    async def read(self, work: TxFunction[P, T], /, *args: P.args, **kwargs: P.kwargs) -> T:
        """Run a function that changes nothing."""
        if self._retries:
            return await retry_until_available(self._database.read, work, *args, **kwargs)
        return await self._database.read(work, *args, **kwargs)

    async def write(self, work: TxFunction[P, T], /, *args: P.args, **kwargs: P.kwargs) -> T:
        """Run a function in one transaction, perhaps shared; return after the commit."""
        if self._retries:
            return await retry_until_available(self._database.write, work, *args, **kwargs)
        return await self._database.write(work, *args, **kwargs)

    async def write_alone(self, work: TxFunction[P, T], /, *args: P.args, **kwargs: P.kwargs) -> T:
        """Run a function that executes a user's statements, in a transaction of its own."""
        if self._retries:
            return await retry_until_available(self._database.write_alone, work, *args, **kwargs)
        return await self._database.write_alone(work, *args, **kwargs)

    async def dry_run(self, work: TxFunction[P, T], /, *args: P.args, **kwargs: P.kwargs) -> T:
        """Run a function and roll it back; return its result."""

        def undone(tx: Transaction) -> NoReturn:
            raise _RolledBack(work(tx, *args, **kwargs))

        try:
            return await self._database.write(undone)
        except _RolledBack as rolled_back:
            result: T = rolled_back.result
            return result

    async def submit(self, function: Grouped[Item, Result], item: Item) -> Result:
        """Run a grouped function for one item; return its result after the commit.

        Concurrent calls of the same function share commits.

        Raises: StoreError, and what the function raises.
        """
        group = self._group_of(function)
        if self._retries:
            return await retry_until_available(group.submit, item)
        return await group.submit(item)

    def enqueue(
        self, function: Grouped[Item, Result], item: Item, waiter: ResultSink[Result]
    ) -> None:
        """Run a grouped function for one item; its result reaches the waiter, whoever is gone.

        Raises: StoreUnavailable, if too many wait.
        """
        self._group_of(function).enqueue(item, waiter)

    def _group_of(self, function: Grouped[Item, Result]) -> GroupCommit[Item, Result]:
        group: GroupCommit[Item, Result] | None = self._groups.get(function)
        if group is None:
            group = self._groups[function] = GroupCommit(
                self._database,
                function.function,
                fast=function.fast,
                in_order=function.in_order,
                size=function.size,
                topics=function.topics,
            )
        return group

    def group(
        self,
        function: BatchFunction[Item, Result],
        *,
        fast: FastFunction[Item, Result] | None = None,
        **options: Any,
    ) -> GroupCommit[Item, Result]:
        """Return a group commit of its own, for a function bound to an object's state.

        The options are those of ``GroupCommit``.
        """
        return GroupCommit(self._database, function, fast=fast, **options)

    def shared(
        self, function: Callable[[Transaction, Sequence[Request]], list[Result]]
    ) -> SharedRead[Request, Result]:
        """Return a shared read: concurrent requests are answered by one query."""
        read = SharedRead(self._database, function, retries=self._retries)
        self._shared_reads.append(read)
        return read

    def retrying(self) -> "Ledger":
        """Return this ledger with calls that repeat on StoreError until they succeed.

        Only for calls that are safe to repeat, because a fence or the journal makes them so. The
        handler's time limit or the end of the worker ends the repeats.
        """
        retrying = copy(self)
        retrying._retries = True  # noqa: SLF001 - the same class
        return retrying

    def notify(self, *topics: str) -> None:
        """Wake the subscribers of these topics, in this process and in others."""
        for topic in topics:
            self._database.notify(topic)

    def notify_others(self, topic: str) -> None:
        """Wake the subscribers of a topic in other processes; those of this one know already."""
        self._database.notify_others(topic)

    async def check_ready(self) -> None:
        """Make sure that the schema is this version's and that commits succeed.

        Uses the database at most once a second, for one check at a time: those that come during a
        check share its result, and wait no longer than two seconds for it.

        Raises: StoreError.
        """
        if self._check is None:
            if clock.steady() < self._ready_until:
                return
            self._check = asyncio.create_task(self._check_database())
            self._check.add_done_callback(self._check_done)
        await before_deadline(asyncio.shield(self._check), _READY_WITHIN)

    async def _check_database(self) -> None:
        await migrate.check_schema(self._database)
        await startup.check_writable(self._database)
        self._ready_until = clock.steady() + _READY_SECONDS

    def _check_done(self, check: asyncio.Task[None]) -> None:
        self._check = None
        if not check.cancelled():
            check.exception()  # retrieved, even if all who waited are gone

    async def close(self) -> None:
        """Close the shared reads, then the database."""
        if self._check is not None:
            self._check.cancel()
        for read in self._shared_reads:
            await read.close()
        await self._database.close()
