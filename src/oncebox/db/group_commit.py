"""Group commit and shared reads: concurrent callers share one transaction.

See docs/decisions/0005-use-group-commit-for-writes.md.
"""

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable, Iterable, Sequence
from dataclasses import dataclass
from threading import Lock
from typing import Any, Generic, Protocol, TypeVar, cast

from oncebox.core import clock
from oncebox.db.database import INSERT_ROWS, Database, Row, Transaction
from oncebox.db.queries import Query
from oncebox.db.session_pool import commit_overdue, database_overdue
from oncebox.errors import (
    CommitOverdue,
    DatabaseClosed,
    DatabaseOverdue,
    RowRefused,
    StoreError,
    StoreUnavailable,
)

Item = TypeVar("Item")
Result = TypeVar("Result")
T = TypeVar("T")
Result_contra = TypeVar("Result_contra", contravariant=True)
#: returns one result per item, in their order; the last argument is the database's time
BatchFunction = Callable[[Transaction, Sequence[Item], int], list[Result]]
#: the same in one statement; None if the items need the full function
FastFunction = Callable[[Transaction, Sequence[Item], int], list[Result] | None]
#: answers items that are all known, by bulk statements; None if they need the full function
KnownFunction = Callable[[Database, Sequence[Item]], Awaitable[list[Result] | None]]
#: bytes one commit may carry
_MAX_COMMIT_BYTES = 32 * 1024 * 1024
_COMMITS_WITHOUT_FAST = 10
#: seconds between two repeats of a call that failed
_FIRST_WAIT = 0.05
_MAX_WAIT = 1.0


async def before_deadline(answer: Awaitable[T], seconds: float | None) -> T:
    """Return the answer to a read.

    Raises: DatabaseOverdue, if it takes longer; and what the read raises.
    """
    try:
        async with asyncio.timeout(seconds):
            return await answer
    except TimeoutError:
        raise database_overdue() from None


async def retry_until_available(call: Callable[..., Awaitable[T]], /, *args: Any, **kw: Any) -> T:
    """Repeat a call that is safe to repeat, until the database can serve it.

    The caller bounds the repeats: by the handler's time limit, or by the end of the worker.
    """
    wait = _FIRST_WAIT
    while True:
        try:
            return await call(*args, **kw)
        except (DatabaseClosed, RowRefused):
            raise
        except StoreError:  # also a standby or a changed password: temporary during operation
            await asyncio.sleep(wait)
            wait = min(_MAX_WAIT, wait * 2)


@dataclass(frozen=True, slots=True)
class BulkInsert(Generic[Item, Result]):
    """One statement for the usual case: all items are new rows."""

    #: returns the statement for a kind of database
    query: Callable[[str], Query]
    #: returns the row of an item; None if it needs more than a row
    row: Callable[[Item], Row | None]
    #: returns what rows are sorted by where there are several writers, so that none deadlock
    sort_key: Callable[[Row], Any]
    #: returns the results of items that were all inserted
    results: Callable[[Sequence[Item]], list[Result]]


@dataclass(frozen=True, eq=False, slots=True)
class Grouped(Generic[Item, Result]):
    """A ledger function whose concurrent calls share commits; see ``Ledger.submit``."""

    function: BatchFunction[Item, Result]
    #: the function in one statement, for the usual case; used where a round trip is expensive
    fast: FastFunction[Item, Result] | None = None
    #: whether batches commit one after the other
    in_order: bool = False
    #: returns the bytes of an item; they bound a batch
    size: Callable[[Item], int] | None = None
    #: returns the topics to notify after a commit with these results
    topics: Callable[[Sequence[Result]], Iterable[str]] | None = None

    def __call__(self, tx: Transaction, items: Sequence[Item], now: int) -> list[Result]:
        """Run the function in a transaction of the caller."""
        return self.function(tx, items, now)


class _Declaration(Protocol):
    def __call__(self, function: BatchFunction[Item, Result], /) -> Grouped[Item, Result]:
        """Return the function as a grouped one."""


def grouped(
    *,
    fast: FastFunction[Any, Any] | None = None,
    in_order: bool = False,
    size: Callable[[Any], int] | None = None,
    topics: Callable[[Sequence[Any]], Iterable[str]] | None = None,
) -> _Declaration:
    """Declare a ledger function as grouped; it stays callable with a transaction."""

    def declare(function: BatchFunction[Item, Result]) -> Grouped[Item, Result]:
        return Grouped(function, fast, in_order, size, topics)

    return declare


class ResultSink(Protocol[Result_contra]):
    """Receives the result of one item; a future is one."""

    def done(self) -> bool:
        """Say whether the result is no longer wanted."""

    def set_result(self, result: Result_contra, /) -> None:
        """Receive the function's result."""

    def set_exception(self, error: Exception, /) -> None:
        """Receive the error."""


#: an item, what receives its result, its row for the bulk insert, and since when it waits
PendingItem = tuple[Item, ResultSink[Result] | None, Row | None, float]


class _Answered:
    """Receives the result of an item whose caller was answered by the deadline."""

    def done(self) -> bool:
        return True

    def set_result(self, _result: object, /) -> None: ...

    def set_exception(self, _error: Exception, /) -> None: ...


_ANSWERED = _Answered()


class _Batch(Generic[Item, Result]):
    """The items of one commit."""

    __slots__ = ("inserting", "pending")

    def __init__(self, pending: list[PendingItem[Item, Result]] | None = None) -> None:
        #: None until they are taken from the pending items
        self.pending = pending
        #: the result of a bulk insert that has been started
        self.inserting: Awaitable[int | None] | None = None


class GroupCommit(Generic[Item, Result]):
    """Merges concurrent calls of one ledger function into few commits.

    The next batch collects while a commit is in progress, so batches grow with the load and
    a single caller does not wait. Where one thread writes, it takes the next batch by itself as
    soon as it is free, whatever the event loop does meanwhile.

    Every caller is answered by the database's deadline. After a commit that was not confirmed by
    then, one batch at a time is tried, and further callers are refused at once, until the database
    answers again.
    """

    def __init__(  # noqa: PLR0913, PLR0915 - options of group commit, all but one with a default
        self,
        database: Database,
        function: BatchFunction[Item, Result],
        *,
        fast: FastFunction[Item, Result] | None = None,
        insert: BulkInsert[Item, Result] | None = None,
        known: KnownFunction[Item, Result] | None = None,
        in_order: bool = False,
        most: int = 500,
        waiting: int = 10_000,
        size: Callable[[Item], int] | None = None,
        committed: Callable[[Sequence[tuple[Item, Result]]], None] | None = None,
        topics: Callable[[Sequence[Result]], Iterable[str]] | None = None,
        failed: Callable[[Sequence[Item], Exception], None] | None = None,
        retries: bool = False,
        linger: Callable[[], float] | None = None,
    ) -> None:
        """Commit at most ``most`` items together and let at most ``waiting`` wait.

        ``fast`` is the function in one statement, for the usual case; in other cases it returns
        None, and ``function`` must cope with what ``fast`` has written. ``insert`` is the same as
        a statement, and ``known`` is tried after it while not all items are new, where a round trip
        is expensive. ``in_order`` commits one batch after the other. ``size`` returns the bytes of
        an item, which bound a batch too. ``committed`` is called with each batch after its commit,
        ``topics`` returns the topics to notify then, ``failed`` is called with the items that were
        enqueued without a waiter and could not be committed. With ``retries`` a commit is repeated
        until the database is available. ``linger`` returns the seconds to wait for more items
        before a commit.
        """
        self._database = database
        self._function = function
        self._fast = fast if database.round_trips else None
        self._insert = insert
        self._insert_query = insert.query(database.kind) if insert is not None else None
        self._known = known if database.round_trips else None
        self._commits_without_fast = 0
        self._max_items = most if insert is None else min(most, INSERT_ROWS)
        self._max_pending = waiting
        self._size = size or _no_size
        self._on_commit = committed
        self._topics = topics
        self._on_failure = failed
        self._retries = retries
        self._linger = linger
        self._pending: deque[PendingItem[Item, Result]] = deque()
        self._takes_late = database.writers == 1
        #: where batches are taken late: the one that will take what is pending
        self._untaken: _Batch[Item, Result] | None = None
        self._max_flushers = 1 if in_order else max(2, database.writers)
        self._taking = Lock()
        self._flushers = 0
        self._committing = 0
        self._tasks: set[asyncio.Task[None]] = set()
        #: batches that are being committed
        self._running: set[_Batch[Item, Result]] = set()
        self._timer: asyncio.TimerHandle | None = None
        #: whether the database did not answer the last batch in time
        self._is_overdue = False

    async def submit(self, item: Item) -> Result:
        """Return the function's result for this item, after its commit.

        Raises: StoreUnavailable, if too many wait; and what the function raises.
        """
        future: asyncio.Future[Result] = asyncio.get_running_loop().create_future()
        self.enqueue(item, future)
        return await future

    def enqueue(self, item: Item, waiter: ResultSink[Result] | None = None) -> None:
        """Commit an item in the background, and pass its result to the waiter, if there is one.

        The waiter's methods must not raise: other waiters come after it.

        Raises: StoreUnavailable, if too many wait; DatabaseOverdue, if it does not answer.
        """
        if len(self._pending) >= self._max_pending:
            raise StoreUnavailable("too many calls wait for the database; try again in a moment")
        if self._is_overdue and self._flushers and waiter is not None:
            raise database_overdue()
        row = None if self._insert is None else self._insert.row(item)
        self._pending.append((item, waiter, row, clock.steady()))
        if self._timer is None and self._deadline is not None:
            self._answer_overdue_after(self._deadline)
        # A writer clears ``_untaken`` before it takes the items: what comes later begins a batch.
        if self._untaken is None and self._flushers < self._max_flushers:
            self._flushers += 1
            first = None if self._linger is not None else self._begin_batch()
            task = asyncio.create_task(self._flush(first))
            self._tasks.add(task)  # the loop itself keeps only a weak reference
            task.add_done_callback(self._tasks.discard)

    @property
    def _deadline(self) -> float | None:
        """Seconds after which a caller is answered; none where commits are repeated."""
        return None if self._retries else self._database.deadline

    def _answer_overdue_after(self, seconds: float) -> None:
        loop = asyncio.get_running_loop()
        self._timer = loop.call_later(seconds, self._answer_overdue)

    def _answer_overdue(self) -> None:
        """Answer the callers that have waited for too long.

        Items that no commit has taken are removed; the others may still be committed.
        """
        self._timer = None
        deadline = self._deadline
        if deadline is None:
            return
        now = clock.steady()
        removed = []
        with self._taking:
            while self._pending and self._pending[0][3] + deadline <= now:
                removed.append(self._pending.popleft())
            taken = [batch.pending for batch in self._running if batch.pending]
        self._fail(removed, database_overdue())
        for pending in taken:
            self._answer_taken(pending, now - deadline)
        lists = (*taken, self._pending)
        oldest = [next((each[3] for each in list_ if _waits(each)), None) for list_ in lists]
        if since := [each for each in oldest if each is not None]:
            self._answer_overdue_after(min(since) + deadline - now)

    def _answer_taken(self, pending: list[PendingItem[Item, Result]], before: float) -> None:
        for place, (item, waiter, row, since) in enumerate(pending):
            if since <= before and waiter is not None and waiter is not _ANSWERED:
                self._is_overdue = True
                pending[place] = (item, _ANSWERED, row, since)
                if not waiter.done():
                    waiter.set_exception(commit_overdue())

    def _begin_batch(self) -> _Batch[Item, Result] | None:
        """Return the next batch, if its writer takes it: at once, before the loop's next turn."""
        if not self._takes_late:
            return None
        batch: _Batch[Item, Result] = _Batch()
        self._untaken = batch
        if self._insert is not None and not self._commits_without_fast:
            batch.inserting = self._start_insert(self._insert, batch)
        return batch

    async def _flush(self, first: _Batch[Item, Result] | None) -> None:
        """Commit batch after batch until none is pending."""
        try:
            if first is not None:
                await self._commit(first)
            while self._pending and self._untaken is None:
                if self._linger is not None and (seconds := self._linger()):
                    await asyncio.sleep(seconds)
                batch = self._begin_batch()
                if batch is None:
                    batch = _Batch(self._next_batch())
                self._committing += 1
                try:
                    await self._commit(batch)
                finally:
                    self._committing -= 1
        finally:
            # No await since the last check: the next item starts a new flush.
            self._flushers -= 1

    def _take(self, batch: _Batch[Item, Result]) -> list[PendingItem[Item, Result]]:
        """Return the items of a batch; the first call takes them, in whatever thread."""
        with self._taking:
            if batch.pending is None:
                if self._untaken is batch:
                    self._untaken = None
                batch.pending = self._next_batch()
            return batch.pending

    def _next_batch(self) -> list[PendingItem[Item, Result]]:
        """Remove the next batch from the pending items: at least one, if there are any."""
        batch: list[PendingItem[Item, Result]] = []
        most = self._batch_limit()
        total = 0
        while self._pending and len(batch) < most:
            total += self._size(self._pending[0][0])
            if batch and total > _MAX_COMMIT_BYTES:
                break
            batch.append(self._pending.popleft())
        return batch

    def _batch_limit(self) -> int:
        """Share the pending items among the idle flushers: one prepares while another commits."""
        if self._takes_late:
            return self._max_items
        idle = self._flushers - self._committing
        return min(self._max_items, 1 + (len(self._pending) - 1) // idle)

    async def _commit(self, batch: _Batch[Item, Result]) -> None:
        """Commit a batch; if a row is refused, halve the batch until only that row fails."""
        try:
            results = await self._write_watched(batch)
        except RowRefused as error:
            pending = self._take(batch)
            if len(pending) <= 1:
                self._fail(pending, error)
                return
            middle = len(pending) // 2
            await self._commit(_Batch(pending[:middle]))
            await self._commit(_Batch(pending[middle:]))
        except Exception as error:  # noqa: BLE001 - the callers receive it
            self._fail(self._take(batch), error)
        except BaseException:
            stopping = StoreUnavailable("the program is stopping; try again")
            self._fail(self._take(batch), stopping)
            raise
        else:
            self._resolve(self._take(batch), results)

    async def _write_watched(self, batch: _Batch[Item, Result]) -> list[Result]:
        """Write a batch, whose callers are answered by the deadline meanwhile."""
        is_overdue = False
        self._running.add(batch)
        try:
            if self._retries:
                return await retry_until_available(self._write, batch)
            return await self._write(batch)
        except (CommitOverdue, DatabaseOverdue):
            is_overdue = True
            raise
        finally:
            self._running.discard(batch)
            self._is_overdue = is_overdue

    async def _write(self, batch: _Batch[Item, Result]) -> list[Result]:
        """Try the fast form; where it did not suffice, skip it for the next few commits."""
        if not self._commits_without_fast or batch.inserting is not None:
            results = await self._write_fast(batch)
            if results is not None:
                return results
        if self._commits_without_fast:
            self._commits_without_fast -= 1
            if self._known is not None:
                results = await self._known(self._database, self._items(batch))
                if results is not None:
                    return results
        return await self._database.write(self._run, self._function, batch)

    async def _write_fast(self, batch: _Batch[Item, Result]) -> list[Result] | None:
        """Commit a batch by its fast form; return None if there is none or it did not suffice."""
        results: list[Result] | None
        if self._insert is not None:
            inserted = await self._insert_rows(self._insert, batch)
            if inserted is None:
                return None
            items = self._items(batch)
            results = self._insert.results(items) if inserted == len(items) else None
        elif self._fast is not None:
            results = await self._database.write_statement(self._run, self._fast, batch)
        else:
            return None
        if results is None:
            self._commits_without_fast = 1 + _COMMITS_WITHOUT_FAST  # with this one
        return results

    async def _insert_rows(
        self, insert: BulkInsert[Item, Result], batch: _Batch[Item, Result]
    ) -> int | None:
        """Insert a batch; return how many rows are new, or None if it needs the function."""
        inserting, batch.inserting = batch.inserting, None
        try:
            return await (inserting or self._start_insert(insert, batch))
        except RowRefused:  # on SQLite, perhaps because one is known; the function finds out
            return -1

    def _start_insert(
        self, insert: BulkInsert[Item, Result], batch: _Batch[Item, Result]
    ) -> Awaitable[int | None]:
        def rows() -> list[Row] | None:
            found = [row for _, _, row, _ in self._take(batch) if row is not None]
            if len(found) < len(self._take(batch)):
                return None
            if self._database.writers > 1:
                found.sort(key=insert.sort_key)
            return found

        assert self._insert_query is not None  # noqa: S101 - there is an insert
        return self._database.insert(self._insert_query, rows)

    def _items(self, batch: _Batch[Item, Result]) -> list[Item]:
        return [item for item, _, _, _ in self._take(batch)]

    def _run(
        self,
        tx: Transaction,
        function: Callable[[Transaction, list[Item], int], T],
        batch: _Batch[Item, Result],
    ) -> T:
        items = self._items(batch)
        if not items:  # all of them were answered by the deadline
            return cast("T", [])
        # The time is read as late as possible: an item that waited may have come too late.
        return function(tx, items, self._database.clock())

    def _resolve(
        self, batch: Sequence[PendingItem[Item, Result]], results: Sequence[Result]
    ) -> None:
        if not batch:
            return  # another commit has taken them
        if self._on_commit is not None:
            # Run by the loop: whatever it raises, the callers have their results.
            pairs = [(each[0], result) for each, result in zip(batch, results, strict=True)]
            asyncio.get_running_loop().call_soon(self._on_commit, pairs)
        if self._topics is not None:
            asyncio.get_running_loop().call_soon(self._notify, self._topics, results)
        for (_, waiter, _, _), result in zip(batch, results, strict=True):
            if waiter is not None and not waiter.done():
                waiter.set_result(result)

    def _notify(
        self, topics: Callable[[Sequence[Result]], Iterable[str]], results: Sequence[Result]
    ) -> None:
        for topic in topics(results):
            self._database.notify(topic)

    def _fail(self, batch: Sequence[PendingItem[Item, Result]], error: Exception) -> None:
        for _, waiter, _, _ in batch:
            if waiter is not None and not waiter.done():
                waiter.set_exception(error)
        unattended = [item for item, waiter, _, _ in batch if waiter is None]
        if unattended and self._on_failure is not None:
            self._on_failure(unattended, error)


def _waits(pending: PendingItem[Any, Any]) -> bool:
    return pending[1] is not None and pending[1] is not _ANSWERED


def _no_size(_item: object) -> int:
    return 0


ReadRequest = TypeVar("ReadRequest")
ReadResult = TypeVar("ReadResult")

#: requests per query
_MAX_SHARED_READS = 500


class SharedRead(Generic[ReadRequest, ReadResult]):
    """Merges concurrent reads by one ledger function into few queries."""

    def __init__(
        self,
        database: Database,
        function: Callable[[Transaction, Sequence[ReadRequest]], list[ReadResult]],
        *,
        retries: bool = False,
    ) -> None:
        """Serve concurrent callers; the function returns one result per request, in order.

        With ``retries`` a query is repeated until the database is available.
        """
        self._database = database
        self._retries = retries
        self._function = function
        self._pending: list[tuple[ReadRequest, asyncio.Future[ReadResult]]] = []
        self._task: asyncio.Task[None] | None = None
        #: whether the database did not answer the last query in time
        self._is_overdue = False

    async def read(self, request: ReadRequest) -> ReadResult:
        """Return the function's result for a request.

        After a query without an answer, one is tried at a time, and others are refused at once.

        Raises: StoreError, and what the function raises.
        """
        if self._is_overdue and self._task is not None:
            raise database_overdue()
        result: asyncio.Future[ReadResult] = asyncio.get_running_loop().create_future()
        self._pending.append((request, result))
        if self._task is None:
            self._task = asyncio.create_task(self._run())
        if self._retries:
            return await result
        return await before_deadline(result, self._database.deadline)

    async def close(self) -> None:
        """Stop; pending requests fail with DatabaseClosed."""
        task, self._task = self._task, None
        if task is not None:
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)
        pending, self._pending = self._pending, []
        _fail_reads([result for _, result in pending], _database_closed())

    async def _run(self) -> None:
        try:
            while self._pending:
                batch, self._pending = (
                    self._pending[:_MAX_SHARED_READS],
                    self._pending[_MAX_SHARED_READS:],
                )
                requests = [request for request, _ in batch]
                waiting = [result for _, result in batch]
                try:
                    found = await self._query(requests)
                except Exception as error:  # noqa: BLE001 - the callers receive it
                    self._is_overdue = isinstance(error, DatabaseOverdue)
                    _fail_reads(waiting, error)
                    continue
                except BaseException:
                    _fail_reads(waiting, _database_closed())
                    raise
                self._is_overdue = False
                for result, each in zip(waiting, found, strict=True):
                    if not result.done():
                        result.set_result(each)
        finally:
            self._task = None  # no await since the last check: the next request starts a new task

    async def _query(self, requests: list[ReadRequest]) -> list[ReadResult]:
        if self._retries:
            return await retry_until_available(self._database.read, self._function, requests)
        return await self._database.read(self._function, requests)


def _database_closed() -> DatabaseClosed:
    return DatabaseClosed("this database was closed; open it again")


def _fail_reads(waiting: Sequence[asyncio.Future[ReadResult]], error: Exception) -> None:
    for result in waiting:
        if not result.done():
            result.set_exception(error)
            result.exception()  # retrieved, even if the caller is gone
