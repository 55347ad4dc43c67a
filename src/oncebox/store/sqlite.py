"""SQLite through apsw: one writer thread, readers apart, WAL with every commit synced."""

import asyncio
import errno
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from itertools import chain
from pathlib import Path
from queue import Empty
from typing import Any, Concatenate, ParamSpec, TypeVar

import apsw

from oncebox import clock, errors
from oncebox.store.bell import Bell, Ear
from oncebox.store.checkpoint import Checkpointer
from oncebox.store.crew import Answer, Crew, Job
from oncebox.store.database import Row, Transaction, Value
from oncebox.store.filesystem import refuse_network
from oncebox.store.queries import Query

P = ParamSpec("P")
T = TypeVar("T")

#: versions before this one can corrupt a WAL database (the WAL-reset bug)
FIRST_SAFE_VERSION = 3_051_003
_BUSY_MS = 10_000
_READERS = 2
_LOOK_EVERY = 0.05
#: jobs of one commit
_SHARED = 16

_REFUSED = (
    apsw.ConstraintError,
    apsw.MismatchError,
    apsw.TooBigError,
    UnicodeEncodeError,
    OverflowError,
)


class SqliteTransaction:
    """The statements of one SQLite transaction."""

    def __init__(self, connection: apsw.Connection) -> None:
        """Speak through this connection."""
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

        The interpreter's lock is let go once for each call into SQLite, and is not had back
        while the event loop is busy; so the fewer calls, the more happens beside the loop.
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

    def execute(self, statement: str, values: Sequence[Value] = ()) -> list[Row]:
        """Run a user's own statement."""
        return self._connection.execute(statement, values).fetchall()


class SqliteSession:
    """One connection to the file."""

    def __init__(self, path: Path, *, writable: bool) -> None:
        """Open the file and set what durability needs."""
        self.broken = False
        self.log_pages = 0
        flags = apsw.SQLITE_OPEN_READWRITE | (apsw.SQLITE_OPEN_CREATE if writable else 0)
        self._begin = "BEGIN IMMEDIATE" if writable else "BEGIN"
        with _translated(self):
            self.connection = apsw.Connection(str(path), flags=flags)
            self._prepare(writable=writable)

    def _prepare(self, *, writable: bool) -> None:
        self.connection.set_busy_timeout(_BUSY_MS)
        if writable:
            self.connection.execute("PRAGMA journal_mode = WAL")
        for pragma in (
            "synchronous = FULL",
            "wal_autocheckpoint = 0",
            "mmap_size = 0",
            "cache_size = -8000",
            "temp_store = MEMORY",
            "secure_delete = ON",
            f"query_only = {0 if writable else 1}",
        ):
            self.connection.execute(f"PRAGMA {pragma}")
        # Plans hold for all values. Else a statement near a partial index is compiled anew whenever
        # another value is bound to it, which takes longer than running it.
        self.connection.config(apsw.SQLITE_DBCONFIG_ENABLE_QPSG, 1)
        self.connection.set_wal_hook(self._committed)

    def _committed(self, _connection: apsw.Connection, _name: str, pages: int) -> int:
        self.log_pages = pages
        return apsw.SQLITE_OK

    def run(self, work: Callable[[Transaction], T]) -> T:
        """Run a function in one transaction."""
        with _translated(self):
            self.connection.execute(self._begin)
            try:
                result = work(SqliteTransaction(self.connection))
                self.connection.execute("COMMIT")
            except BaseException:
                if self.connection.in_transaction:
                    self.connection.execute("ROLLBACK")
                raise
            return result

    def run_apart(self, works: Sequence[Callable[[Transaction], Any]]) -> list[Answer]:
        """Run functions in one transaction, of which one that raises undoes only its own work.

        What ends the transaction itself is raised, and nothing of them all is stored.
        """
        return self.run(lambda tx: [self._apart(tx, work) for work in works])

    def _apart(self, tx: Transaction, work: Callable[[Transaction], Any]) -> Answer:
        connection = self.connection
        connection.execute("SAVEPOINT apart")
        try:
            with _translated(self):
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


class _Writer(Crew[SqliteSession]):
    """The one who writes: what waited during a commit shares the next one, and its sync."""

    def __init__(self, path: Path, checkpointer: Checkpointer) -> None:
        self._checkpointer = checkpointer
        self._next: Job | None = None
        #: pages in the write-ahead log after the last commit
        self.log_pages = 0
        super().__init__("writer", 1, lambda: SqliteSession(path, writable=True))

    def take(self) -> list[Job]:
        """Wait for a job, and take those along that wait behind it."""
        first, self._next = self._next, None
        jobs = [first] if first is not None else super().take()
        while jobs and not jobs[0].alone and len(jobs) < _SHARED:
            try:
                job = self._jobs.get_nowait()
            except Empty:
                break
            if job is None:
                self._jobs.put(None)
                break
            if job.alone:
                self._next = job
                break
            jobs.append(job)
        return jobs

    def run(self, session: SqliteSession, jobs: list[Job]) -> list[Answer]:
        """Do jobs in one commit."""
        works = [job.work for job in jobs]
        if len(works) == 1:
            answers: list[Answer] = [(session.run(works[0]), None)]
        else:
            answers = session.run_apart(works)
        self.log_pages = session.log_pages
        self._checkpointer.after_commit(session.connection, self.log_pages)
        return answers


class SqliteDatabase:
    """A database in one file, shared by any number of processes on this machine."""

    kind = "sqlite"
    writers = 1
    round_trips = False

    def __init__(self, path: Path, *, now: clock.Clock = clock.system) -> None:
        """Open or create the file.

        Raises: StoreError of the kind that names the trouble.
        """
        refuse_old_library(apsw.sqlite_lib_version())
        refuse_network(path.parent)
        self.path = path
        self._now = now
        self._bell = Bell(self._keep_watch)
        self._watch = SqliteSession(path, writable=True)
        self._seen = 0
        self._has_changed()
        self._watching: asyncio.Task[None] | None = None
        self._checkpointer = Checkpointer(path)
        self._writer = _Writer(path, self._checkpointer)
        self._readers = Crew("reader", _READERS, lambda: SqliteSession(path, writable=False))

    def clock(self) -> int:
        """Milliseconds since 1970; one machine, one clock."""
        return self._now()

    async def write(
        self, verb: Callable[Concatenate[Transaction, P], T], /, *args: P.args, **kwargs: P.kwargs
    ) -> T:
        """Run a verb in one transaction, or in one with others; return only after its commit."""
        return await self._writer.do(lambda tx: verb(tx, *args, **kwargs))

    async def write_alone(
        self, verb: Callable[Concatenate[Transaction, P], T], /, *args: P.args, **kwargs: P.kwargs
    ) -> T:
        """Run a verb in a transaction of its own; return only after its commit."""
        return await self._writer.do(lambda tx: verb(tx, *args, **kwargs), alone=True)

    async def write_one(
        self, verb: Callable[Concatenate[Transaction, P], T], /, *args: P.args, **kwargs: P.kwargs
    ) -> T:
        """Run a verb of a single statement; here that is no different."""
        return await self.write(verb, *args, **kwargs)

    async def read(
        self, verb: Callable[Concatenate[Transaction, P], T], /, *args: P.args, **kwargs: P.kwargs
    ) -> T:
        """Run a verb that changes nothing."""
        return await self._readers.do(
            lambda session: session.run(lambda tx: verb(tx, *args, **kwargs))
        )

    def ring(self, channel: str) -> None:
        """Wake whoever waits in this process; other processes see the file change."""
        self._bell.ring(channel)

    def ear(self, channel: str) -> Ear:
        """Return an ear of its own for one who waits on a channel more than once."""
        return self._bell.ear(channel)

    async def wait(self, channel: str, within: float) -> None:
        """Rest until the channel rings or another process has committed."""
        await self._bell.wait(channel, within)

    async def close(self) -> None:
        """Finish what was begun and let go of the file."""
        if self._watching is not None:
            self._watching.cancel()
            await asyncio.gather(self._watching, return_exceptions=True)
        await self._writer.close()
        await self._readers.close()
        self._checkpointer.close()
        self._watch.close()

    def _keep_watch(self) -> None:
        """Watch the file for all who wait; the first of them begins it."""
        if self._watching is None or self._watching.done():
            self._watching = asyncio.create_task(self._look_out())

    async def _look_out(self) -> None:
        """Ring whenever anybody has committed, for as long as anybody waits."""
        while self._bell.is_awaited:
            if self._has_changed():
                self._bell.ring_all()
            await asyncio.sleep(_LOOK_EVERY)
        self._watching = None  # no await since the last look: who comes now begins anew

    def _has_changed(self) -> bool:
        """Say whether anybody committed since the last look.

        Two microseconds of shared memory, no lock: cheaper here than a hop to a thread.
        """
        before = self._seen
        with suppress(apsw.Error):  # whoever writes next will meet the trouble and name it
            self._seen = self._watch.connection.pragma("data_version")
        return self._seen != before


def refuse_old_library(version: str) -> None:
    """Refuse a SQLite that can corrupt what it keeps.

    Raises: DatabaseUnsafe.
    """
    major, minor, patch = (int(part) for part in version.split(".")[:3])
    if major * 1_000_000 + minor * 1_000 + patch < FIRST_SAFE_VERSION:
        message = (
            f"SQLite {version} can corrupt a database in WAL mode; "
            "install apsw 3.51.3 or newer, which brings a fixed one"
        )
        raise errors.DatabaseUnsafe(message)


@contextmanager
def _translated(session: SqliteSession) -> Iterator[None]:
    """Turn apsw's errors into ours, and mark the session broken where it must be replaced."""
    try:
        yield
    except _REFUSED as error:
        message = f"the database refused a value: {type(error).__name__}"
        raise errors.RowRefused(message) from error
    except apsw.BusyError as error:
        message = f"another process held the database for over {_BUSY_MS // 1000} s; try again"
        raise errors.DatabaseBusy(message) from error
    except (apsw.FullError, apsw.IOError) as error:
        session.broken = True
        raise _out_of_room(error) from error
    except (apsw.ReadOnlyError, apsw.CantOpenError, apsw.PermissionsError) as error:
        session.broken = True
        raise _not_writable(error) from error
    except (apsw.CorruptError, apsw.NotADBError) as error:
        session.broken = True
        message = "the file is not a healthy database; restore it from a backup"
        raise errors.DatabaseCorrupt(message) from error
    except apsw.Error as error:
        session.broken = True
        message = f"the database failed ({type(error).__name__}); try again"
        raise errors.StoreFailed(message) from error


def _not_writable(error: apsw.Error) -> errors.StoreError:
    moved = getattr(error, "extendedresult", None) == apsw.SQLITE_READONLY_DBMOVED
    if moved:  # we have waited for the lock of a restore
        return errors.DatabaseBusy("the database was restored just now; try again")
    message = "the database file or its folder cannot be written; check owner and permissions"
    return errors.DatabaseReadOnly(message)


def _out_of_room(error: apsw.Error) -> errors.StoreUnavailable:
    full = isinstance(error, apsw.FullError) or getattr(error, "errno", None) == errno.ENOSPC
    if full:
        return errors.DiskFull("the disk is full; nothing was stored; free some room")
    return errors.StoreUnavailable("the disk reported an error; nothing was acknowledged")
