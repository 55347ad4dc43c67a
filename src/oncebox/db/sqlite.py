"""SQLite through apsw: one writer thread, reader threads, synced WAL, checkpoints."""

import asyncio
import errno
import fcntl
import os
from collections.abc import Awaitable, Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from functools import partial
from itertools import chain, repeat
from pathlib import Path
from queue import Empty
from threading import Thread
from typing import Any, ParamSpec, TypeVar

import apsw

from oncebox import errors
from oncebox.core import clock as core_clock
from oncebox.core import faults
from oncebox.core.files import create_private_file, refuse_network_filesystem
from oncebox.db.database import INSERT_ROWS, Row, StatementResult, Transaction, TxFunction, Value
from oncebox.db.notify import Notifier
from oncebox.db.queries import Query, insert_of_rows
from oncebox.db.session_pool import Job, JobResult, SessionPool
from oncebox.model import validation

#: pages in the log before it is copied into the database
_CHECKPOINT_PAGES = 16_000


class Checkpointer:
    """Copies the log into the database in the background, then lets the writer finish it.

    Every connection has its own checkpoints switched off; whichever process holds the lock
    beside the database copies for all. The background copy does the bulk without stopping
    the writer; the writer then copies the little that came meanwhile, and the log starts anew.
    Nothing here may fail a commit that has already happened.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        self._lock = path.with_name(path.name + "-checkpoint")
        self._handle: int | None = None
        self._thread: Thread | None = None
        self._copied = False

    def after_commit(self, connection: apsw.Connection, pages: int) -> None:
        """Start or finish a checkpoint when the log has grown; called by the writer."""
        if self._copied:
            self._copied = False
            checkpoint(connection)
        elif pages > _CHECKPOINT_PAGES and self._may_start():
            self._start_copy()

    def _start_copy(self) -> None:
        thread = Thread(target=self._copy, name="oncebox-checkpoint", daemon=True)
        try:
            thread.start()
        except RuntimeError:  # no thread is available; the commit is safe, the copy can wait
            self._release_lock()
        else:
            self._thread = thread

    def close(self) -> None:
        """Wait for a running copy."""
        if self._thread is not None:
            self._thread.join()

    def _may_start(self) -> bool:
        running = self._thread is not None and self._thread.is_alive()
        return not running and self._acquire_lock()

    def _acquire_lock(self) -> bool:
        try:
            handle = os.open(self._lock, os.O_RDWR | os.O_CREAT, 0o600)
        except OSError:
            return False
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            os.close(handle)
            return False
        self._handle = handle
        return True

    def _copy(self) -> None:
        """Copy, then give the lock back: this process may never write again."""
        try:
            with suppress(apsw.Error):  # the next one repeats it
                connection = apsw.Connection(str(self._path))
                try:
                    connection.execute("PRAGMA synchronous = FULL")
                    checkpoint(connection)
                    self._copied = True
                finally:
                    connection.close()
        finally:
            self._release_lock()

    def _release_lock(self) -> None:
        if self._handle is not None:
            os.close(self._handle)
            self._handle = None


def checkpoint(connection: apsw.Connection) -> None:
    """Copy what can be copied without blocking readers or writers."""
    faults.point("upkeep.checkpointing")
    with suppress(apsw.Error):
        connection.wal_checkpoint(mode=apsw.SQLITE_CHECKPOINT_PASSIVE)


P = ParamSpec("P")
T = TypeVar("T")

#: versions before this one can corrupt a WAL database (the WAL-reset bug)
FIRST_SAFE_VERSION = 3_051_003
_BUSY_TIMEOUT_MS = 5_000
_READER_THREADS = 2
_POLL_SECONDS = 0.05
#: jobs of one commit
_MAX_JOBS_PER_COMMIT = 16
#: rows of the prepared statements of a bulk insert; rows of nulls fill the next longer one
_INSERT_SIZES = (1, 2, 3, 4, 6, 8, 12, 16, 24, 32, 48, 64, 96, 128, 192, INSERT_ROWS)
_STATEMENTS_KEPT = 100 + len(_INSERT_SIZES)
#: bytes that a statement may keep: apsw keeps the last values of each one that it keeps prepared
_BYTES_KEPT = 256 * 1024

_REFUSED_DATA_ERRORS = (
    apsw.ConstraintError,
    apsw.MismatchError,
    apsw.TooBigError,
    UnicodeEncodeError,
    OverflowError,
)


class SqliteTransaction:
    """The statements of one SQLite transaction."""

    #: it begins with the lock for writing
    is_serial = True

    def __init__(self, connection: apsw.Connection) -> None:
        self._connection = connection

    def one(self, query: Query, /, **values: Value) -> Row | None:
        """Return the first row, or None."""
        rows = self.all(query, **values)
        return rows[0] if rows else None

    def all(self, query: Query, /, **values: Value) -> list[Row]:
        """Return every row."""
        bound = [values[name] for name in query.parameters]
        return self._connection.execute(query.sqlite, bound).fetchall()

    def run(self, query: Query, /, **values: Value) -> int:
        """Return how many rows were changed."""
        self.all(query, **values)
        return self._connection.changes()

    def many(self, query: Query, rows: Sequence[Row], /, **shared: Value) -> list[Row]:
        """Run a bulk query: an insert over many rows at a time, any other row by row.

        Each call into SQLite releases the interpreter's lock, and cannot get it back while the
        event loop is busy; so fewer calls leave more to run beside the loop.
        """
        tail = tuple(shared[name] for name in query.shared)
        found: list[Row] = []
        for span, statement in query.spans:
            while len(rows) >= span:
                bound = (*chain.from_iterable(rows[:span]), *tail)
                found += self._connection.execute(statement, bound)
                rows = rows[span:]
        rest = [row + tail for row in rows] if tail else rows
        found += self._connection.executemany(query.sqlite, rest)
        return found

    def run_many(self, query: Query, rows: Sequence[Row], /, **shared: Value) -> int:
        """Run a bulk query, row by row; return how many rows were changed."""
        before = self._connection.total_changes()
        self.many(query, rows, **shared)
        return self._connection.total_changes() - before

    def send(self, query: Query, /, **values: Value) -> StatementResult:
        """Run a statement, at once."""
        return StatementResult(self.all(query, **values), self._connection.changes())

    def send_many(self, query: Query, rows: Sequence[Row], /, **shared: Value) -> StatementResult:
        """Run a bulk query, at once."""
        before = self._connection.total_changes()
        found = self.many(query, rows, **shared)
        return StatementResult(found, self._connection.total_changes() - before)

    def insert(self, statement: str, values: Sequence[Value], *, keep: bool) -> None:
        """Run a bulk insert, and keep it prepared or not."""
        self._connection.execute(statement, values, can_cache=keep)

    def execute(self, statement: str, values: Sequence[Value] = ()) -> list[Row]:
        """Run a user's own statement."""
        return self._connection.execute(statement, values).fetchall()


class SqliteSession:
    """One connection to the file."""

    def __init__(self, path: Path, *, writable: bool) -> None:
        """Open the file and set what durability needs."""
        self.broken = False
        self.wal_pages = 0
        # A reader of a WAL database writes its lock into the -shm file, and creates that file if
        # it is the first; so readers open the file for writing too, and query_only stops changes.
        flags = apsw.SQLITE_OPEN_READWRITE | (apsw.SQLITE_OPEN_CREATE if writable else 0)
        self._begin = "BEGIN IMMEDIATE" if writable else "BEGIN"
        if writable:
            with suppress(OSError):  # SQLite meets the same error, and reports it
                create_private_file(path)
        with _translate_errors(self):
            self.connection = apsw.Connection(
                str(path), flags=flags, statementcachesize=_STATEMENTS_KEPT
            )
            self._configure(writable=writable)

    def _configure(self, *, writable: bool) -> None:
        self.connection.set_busy_timeout(_BUSY_TIMEOUT_MS)
        if writable:
            self.connection.execute("PRAGMA journal_mode = WAL")
        for pragma in (
            "synchronous = FULL",
            "wal_autocheckpoint = 0",
            "mmap_size = 0",
            "cache_size = -8000",
            "temp_store = MEMORY",
            "secure_delete = ON",
            # Every query has its index; one made for a single execution reads a whole table.
            "automatic_index = OFF",
            f"query_only = {0 if writable else 1}",
        ):
            self.connection.execute(f"PRAGMA {pragma}")
        # Plans hold for all values. Else a statement near a partial index is compiled anew whenever
        # another value is bound to it, which takes longer than running it.
        self.connection.config(apsw.SQLITE_DBCONFIG_ENABLE_QPSG, 1)
        self.connection.set_wal_hook(self._on_commit)
        if writable:  # for migrations
            self.connection.create_scalar_function("oncebox_digest", _digest, deterministic=True)

    def _on_commit(self, _connection: apsw.Connection, _name: str, pages: int) -> int:
        self.wal_pages = pages
        return apsw.SQLITE_OK

    def run(self, work: Callable[[Transaction], T]) -> T:
        """Run a function in one transaction."""
        with _translate_errors(self):
            self.connection.execute(self._begin)
            try:
                result = work(SqliteTransaction(self.connection))
                self.connection.execute("COMMIT")
            except BaseException:
                if self.connection.in_transaction:
                    self.connection.execute("ROLLBACK")
                raise
            return result

    def run_statement(self, work: Callable[[Transaction], T]) -> T:
        """Run a function of one statement, which is a transaction by itself."""
        with _translate_errors(self):
            return work(SqliteTransaction(self.connection))

    def run_isolated(self, works: Sequence[Callable[[Transaction], Any]]) -> list[JobResult]:
        """Run functions in one transaction; one that raises undoes only its own work.

        An error that ends the transaction itself is raised, and nothing is stored.
        """
        return self.run(lambda tx: [self._run_in_savepoint(tx, work) for work in works])

    def _run_in_savepoint(self, tx: Transaction, work: Callable[[Transaction], Any]) -> JobResult:
        connection = self.connection
        connection.execute("SAVEPOINT apart")
        try:
            with _translate_errors(self):
                result = work(tx)
        except BaseException as error:
            if self.broken or not connection.in_transaction:
                raise
            connection.execute("ROLLBACK TO apart")
            connection.execute("RELEASE apart")
            return None, error
        connection.execute("RELEASE apart")
        return result, None

    def close(self) -> None:
        """Close the connection."""
        self.connection.close()


class SqliteReader:
    """One connection that only reads: no thread, no lock for writing, no file is created."""

    kind = "sqlite"

    def __init__(self, path: Path, *, now: core_clock.Clock = core_clock.system) -> None:
        """Open the file, which must exist.

        Raises: StoreError.
        """
        refuse_old_library(apsw.sqlite_lib_version())
        refuse_network_filesystem(path.parent)
        wal = path.with_name(path.name + "-wal")
        crashed = wal.exists() and wal.stat().st_size > 0
        self._session = SqliteSession(path, writable=False)
        if crashed:  # closing the last connection would copy the log into the database
            self._session.connection.config(apsw.SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, 1)
        self._now = now

    def clock(self) -> int:
        """Milliseconds since 1970; one machine, one clock."""
        return self._now()

    def read(self, work: TxFunction[P, T], /, *args: P.args, **kwargs: P.kwargs) -> T:
        """Run a ledger function in one read transaction."""
        return self._session.run(lambda tx: work(tx, *args, **kwargs))

    def close(self) -> None:
        """Close the connection."""
        self._session.close()


class _WriterThread(SessionPool[SqliteSession]):
    """The only writer: jobs that waited during a commit share the next one, and its sync."""

    def __init__(self, path: Path, checkpointer: Checkpointer) -> None:
        self._checkpointer = checkpointer
        self._held_back: Job | None = None
        #: pages in the write-ahead log after the last commit
        self.wal_pages = 0
        super().__init__("writer", 1, partial(SqliteSession, path, writable=True))

    def next_jobs(self) -> list[Job]:
        """Wait for a job; return it with those that wait behind it."""
        first, self._held_back = self._held_back, None
        jobs = [first] if first is not None else super().next_jobs()
        while jobs and not jobs[0].exclusive and len(jobs) < _MAX_JOBS_PER_COMMIT:
            try:
                job = self._jobs.get_nowait()
            except Empty:
                break
            if job is None:
                self._jobs.put(None)
                break
            if job.exclusive:
                self._held_back = job
                break
            jobs.append(job)
        return jobs

    def run_jobs(self, session: SqliteSession, jobs: list[Job]) -> list[JobResult]:
        """Run jobs in one commit."""
        if len(jobs) == 1:
            run = session.run_statement if jobs[0].is_statement else session.run
            answers: list[JobResult] = [(run(jobs[0].function), None)]
        else:
            answers = session.run_isolated([job.function for job in jobs])
        self.wal_pages = session.wal_pages
        self._checkpointer.after_commit(session.connection, self.wal_pages)
        return answers


class SqliteDatabase:
    """A database in one file, shared by any number of processes on this machine."""

    kind = "sqlite"
    writers = 1
    round_trips = False

    def __init__(self, path: Path, *, now: core_clock.Clock = core_clock.system) -> None:
        """Open or create the file.

        Raises: StoreError.
        """
        refuse_old_library(apsw.sqlite_lib_version())
        refuse_network_filesystem(path.parent)
        self.path = path
        self._now = now
        self._notifier = Notifier(self._start_polling)
        # Other processes see the file change.
        self.notify, self.subscribe = self._notifier.notify, self._notifier.subscribe
        self._poll_session = SqliteSession(path, writable=True)
        self._data_version = 0
        self._has_changed()
        self._polling: asyncio.Task[None] | None = None
        self._checkpointer = Checkpointer(path)
        self._writer = _WriterThread(path, self._checkpointer)
        self._readers = SessionPool(
            "reader", _READER_THREADS, partial(SqliteSession, path, writable=False), writes=False
        )
        self._deadline: float | None = None

    @property
    def deadline(self) -> float | None:
        """Seconds after which a caller is answered; None: the caller waits."""
        return self._deadline

    @deadline.setter
    def deadline(self, seconds: float | None) -> None:
        self._deadline = self._writer.deadline = self._readers.deadline = seconds

    @property
    def disk_full(self) -> bool:
        """Whether a write found the disk full since this was last set to False."""
        return self._writer.disk_full

    @disk_full.setter
    def disk_full(self, found: bool) -> None:
        self._writer.disk_full = found

    @property
    def overdue(self) -> int:
        """How many calls were answered by their deadline and are still running."""
        return self._writer.overdue + self._readers.overdue

    def clock(self) -> int:
        """Milliseconds since 1970; one machine, one clock."""
        return self._now()

    async def write(self, work: TxFunction[P, T], /, *args: P.args, **kwargs: P.kwargs) -> T:
        """Run a function in one transaction, perhaps shared; return only after its commit."""
        return await self._writer.submit(lambda tx: work(tx, *args, **kwargs))

    async def write_alone(self, work: TxFunction[P, T], /, *args: P.args, **kwargs: P.kwargs) -> T:
        """Run a function in a transaction of its own; return only after its commit."""

        def with_automatic_indexes(tx: Transaction) -> T:  # users know their own tables
            tx.execute("PRAGMA automatic_index = ON")
            try:
                return work(tx, *args, **kwargs)
            finally:
                tx.execute("PRAGMA automatic_index = OFF")

        return await self._writer.submit(with_automatic_indexes, alone=True)

    async def write_statement(
        self, work: TxFunction[P, T], /, *args: P.args, **kwargs: P.kwargs
    ) -> T:
        """Run a function of a single statement; no different from ``write`` here."""
        return await self.write(work, *args, **kwargs)

    def insert(
        self, query: Query, rows: Callable[[], Sequence[Row] | None], /
    ) -> Awaitable[int | None]:
        """Run a bulk insert: one statement, so that the interpreter's lock is released once."""

        def work(tx: SqliteTransaction) -> int | None:
            found = rows()
            if not found:
                return None if found is None else 0
            statement, values, keep = _filled_insert(query, found, (self.clock(),))
            tx.insert(statement, values, keep=keep)
            return len(found)

        return self._writer.start(work, statement=True)

    async def run_bulk(self, query: Query, rows: Sequence[Row], /, **shared: Value) -> list[Row]:
        """Run a bulk statement in the writer; return its rows."""
        return await self.write_statement(lambda tx: tx.many(query, rows, **shared))

    async def read(self, work: TxFunction[P, T], /, *args: P.args, **kwargs: P.kwargs) -> T:
        """Run a function that changes nothing."""
        return await self._readers.submit(
            lambda session: session.run(lambda tx: work(tx, *args, **kwargs))
        )

    def notify_others(self, topic: str) -> None:
        """Do nothing: other processes watch the file."""

    async def wait(self, topic: str, within: float) -> None:
        """Wait until the topic is notified or another process has committed."""
        await self._notifier.wait(topic, within)

    async def close(self) -> None:
        """Finish pending work and close the file; what is overdue is left alone."""
        if self._polling is not None:
            self._polling.cancel()
            await asyncio.gather(self._polling, return_exceptions=True)
        await self._writer.close()
        await self._readers.close()
        self._checkpointer.close()
        self._poll_session.close()

    def _start_polling(self) -> None:
        """Watch the file for all waiters; the first of them starts it."""
        if self._polling is None or self._polling.done():
            self._polling = asyncio.create_task(self._poll_for_changes())

    async def _poll_for_changes(self) -> None:
        """Notify all topics after every commit, for as long as there are waiters."""
        while self._notifier.has_waiters:
            if self._has_changed():
                self._notifier.notify_all()
            await asyncio.sleep(_POLL_SECONDS)
        self._polling = None  # no await since the last check: the next waiter starts it again

    def _has_changed(self) -> bool:
        """Say whether any process has committed since the last call.

        Two microseconds of shared memory, no lock: cheaper than a hop to a thread.
        """
        before = self._data_version
        with suppress(apsw.Error):  # the next write meets the same error and reports it
            self._data_version = self._poll_session.connection.pragma("data_version")
        return self._data_version != before


def _filled_insert(query: Query, rows: Sequence[Row], tail: Row) -> tuple[str, list[Any], bool]:
    """Return the statement for rows, its values, and whether they are few enough to be kept."""
    size = next(size for size in _INSERT_SIZES if size >= len(rows))
    # Flattened without a step of Python per row: the interpreter's lock is held meanwhile.
    values: list[Any] = [*chain.from_iterable(chain.from_iterable(zip(rows, repeat(tail))))]
    width = len(query.parameters)
    blobs = [values[at::width] for at, (_, kind) in enumerate(query.bulk) if kind == "bytea"]
    total = sum(map(len, filter(None, chain.from_iterable(blobs))))
    values += [None] * ((size - len(rows)) * width)
    return insert_of_rows(query, size), values, total <= _BYTES_KEPT


def _digest(*parts: Any) -> bytes:
    """Return the digest of a key or a body, in SQL; see ``validation.key_digest``."""
    return validation.digest(
        b"\n".join(part if isinstance(part, bytes) else str(part).encode() for part in parts)
    )


def refuse_old_library(version: str) -> None:
    """Refuse a SQLite that can corrupt the database.

    Raises: DatabaseUnsafe.
    """
    major, minor, patch = (int(part) for part in version.split(".")[:3])
    if major * 1_000_000 + minor * 1_000 + patch < FIRST_SAFE_VERSION:
        raise errors.DatabaseUnsafe(
            f"SQLite {version} can corrupt a database in WAL mode; "
            "install apsw 3.51.3 or newer, which brings a fixed one"
        )


@contextmanager
def _translate_errors(session: SqliteSession) -> Iterator[None]:
    """Turn apsw's errors into ours, and mark the session broken where it must be replaced."""
    try:
        yield
    except _REFUSED_DATA_ERRORS as error:
        raise errors.RowRefused(f"the database refused a value: {type(error).__name__}") from error
    except apsw.BusyError as error:
        raise errors.DatabaseBusy(
            f"another process held the database for over {_BUSY_TIMEOUT_MS // 1000} s; try again"
        ) from error
    except (apsw.FullError, apsw.IOError) as error:
        session.broken = True
        raise _disk_error(error) from error
    except (apsw.ReadOnlyError, apsw.CantOpenError, apsw.PermissionsError) as error:
        session.broken = True
        raise _read_only_error(error) from error
    except (apsw.CorruptError, apsw.NotADBError) as error:
        session.broken = True
        raise errors.DatabaseCorrupt(
            "the file is not a healthy database; restore it from a backup"
        ) from error
    except apsw.Error as error:
        session.broken = True
        raise errors.StoreFailed(
            f"the database failed ({type(error).__name__}); try again"
        ) from error


def _read_only_error(error: apsw.Error) -> errors.StoreError:
    moved = getattr(error, "extendedresult", None) == apsw.SQLITE_READONLY_DBMOVED
    if moved:  # we have waited for the lock of a restore
        return errors.DatabaseBusy("the database was restored just now; try again")
    message = "the database file or its folder cannot be written; check owner and permissions"
    return errors.DatabaseReadOnly(message)


def _disk_error(error: apsw.Error) -> errors.StoreUnavailable:
    full = isinstance(error, apsw.FullError) or getattr(error, "errno", None) == errno.ENOSPC
    if full:
        return errors.DiskFull("the disk is full; nothing was stored; free some space")
    return errors.StoreUnavailable("the disk reported an error; nothing was acknowledged")
