"""PostgreSQL through psycopg 3: a crew of threads with a connection each, READ COMMITTED."""

import asyncio
import random
import time
from collections.abc import Callable, Sequence
from struct import error as StructError  # noqa: N812 - it is one
from typing import Any, Concatenate, ParamSpec, TypeVar

import psycopg
from psycopg import errors as pg

from oncebox import clock, errors
from oncebox.store.arrays import array, teach
from oncebox.store.bell import Bell
from oncebox.store.crew import Crew
from oncebox.store.database import Row, Transaction, Value
from oncebox.store.listener import Listener
from oncebox.store.queries import Query

P = ParamSpec("P")
T = TypeVar("T")

_AGAIN = (pg.DeadlockDetected, pg.SerializationFailure)
_REFUSED = (
    psycopg.DataError,
    psycopg.IntegrityError,
    UnicodeEncodeError,
    OverflowError,
    StructError,
)
_LOGIN = (pg.InvalidPassword, pg.InvalidAuthorizationSpecification, pg.InvalidCatalogName)
_ROUNDS = 6
#: a server that vanished without a word is noticed within seconds
_CONNECTION: dict[str, Any] = {
    "application_name": "oncebox",
    "connect_timeout": 5,
    "keepalives_idle": 10,
    "keepalives_interval": 5,
    "keepalives_count": 3,
    "tcp_user_timeout": 20_000,
}
_NOTIFY_EVERY = 0.01
#: a process that was paused inside a transaction must not stop all others with it
_BOUNDS = "SET lock_timeout = '5s'; SET idle_in_transaction_session_timeout = '15s'"


class PostgresTransaction:
    """The statements of one PostgreSQL transaction."""

    def __init__(self, cursor: psycopg.Cursor[Any]) -> None:
        """Speak through this cursor."""
        self._cursor = cursor

    def one(self, query: Query, /, **values: Value) -> Row | None:
        """Return the first row, or None."""
        row: Row | None = self._cursor.execute(query.postgres, values).fetchone()
        return row

    def all(self, query: Query, /, **values: Value) -> list[Row]:
        """Return every row."""
        return self._cursor.execute(query.postgres, values).fetchall()

    def run(self, query: Query, /, **values: Value) -> int:
        """Return how many rows were changed."""
        return self._cursor.execute(query.postgres, values).rowcount

    def many(self, query: Query, rows: Sequence[Row], /, **shared: Value) -> list[Row]:
        """Run a bulk query once, over all rows."""
        return self._bulk(query, rows, shared).fetchall() if rows else []

    def run_many(self, query: Query, rows: Sequence[Row], /, **shared: Value) -> int:
        """Run a bulk query once, over all rows; return how many rows were changed."""
        return self._bulk(query, rows, shared).rowcount if rows else 0

    def _bulk(
        self, query: Query, rows: Sequence[Row], shared: dict[str, Value]
    ) -> psycopg.Cursor[Any]:
        columns = zip(*rows, strict=True)
        arrays = {name: array(kind, next(columns)) for name, kind in query.bulk}
        return self._cursor.execute(query.postgres, arrays | shared)

    def execute(self, statement: str, values: Sequence[Value] = ()) -> list[Row]:
        """Run a user's own statement."""
        with self._cursor.connection.cursor() as cursor:  # text mode, which takes whole scripts
            cursor.execute(statement.encode(), values or None)
            return cursor.fetchall() if cursor.description else []


class PostgresSession:
    """One connection to the server."""

    def __init__(self, url: str) -> None:
        """Connect, or say what is wrong.

        Raises: DatabaseUnreachable, DatabaseLoginRefused, ConfigInvalid.
        """
        self._url = url
        self.connection = connect(url)
        try:
            self.offset = _clock_offset(self.connection)
        except psycopg.Error as error:
            self.close()
            raise translated(error) from error

    @property
    def broken(self) -> bool:
        """Whether the connection is gone."""
        return self.connection.closed

    def run(self, work: Callable[[Transaction], T]) -> T:
        """Run a function in one transaction; again after a deadlock, which undid all of it."""
        for round_ in range(_ROUNDS):
            try:
                return self._once(work)
            except _AGAIN:
                time.sleep(random.uniform(0, 0.01 * 2**round_))  # noqa: S311 - not in step again
        message = "the database kept reporting deadlocks; try again"
        raise errors.DatabaseBusy(message)

    def _once(self, work: Callable[[Transaction], T]) -> T:
        try:
            self._begin()
            with self.connection.cursor(binary=True) as cursor:
                result = work(PostgresTransaction(cursor))
        except BaseException as error:
            self._rollback()
            ours = translated(error)
            if ours is error:
                raise
            raise ours from error
        self._commit()
        return result

    def _begin(self) -> None:
        """Open a transaction; a connection that died while idle is replaced, once."""
        try:
            self.connection.execute("BEGIN")
        except psycopg.OperationalError:
            self.close()
            self.connection = connect(self._url)
            self.connection.execute("BEGIN")

    def _commit(self) -> None:
        try:
            self.connection.execute("COMMIT")
        except psycopg.OperationalError as error:
            self.close()
            message = "the connection broke during COMMIT; repeat the call with the same key"
            raise errors.CommitUnknown(message) from error
        except psycopg.Error as error:
            self._rollback()
            raise translated(error) from error

    def _rollback(self) -> None:
        try:
            self.connection.execute("ROLLBACK")
        except psycopg.Error:
            self.close()

    def close(self) -> None:
        """Close the connection."""
        self.connection.close()


class PostgresDatabase:
    """A database on a server, shared by any number of hosts."""

    kind = "postgres"
    writers = 2

    def __init__(self, url: str, *, connections: int = 6, now: clock.Clock = clock.system) -> None:
        """Connect once to see that it works.

        Raises: StoreError of the kind that names the trouble.
        """
        self.url = url
        self._now = now
        self._offset = 0
        self._bell = Bell()
        self._ringing: set[str] = set()
        self._background: set[asyncio.Task[None]] = set()
        self._connect().close()
        self._crew = Crew("postgres", connections, self._connect)
        self._notifier = Crew("notifier", 1, self._connect)
        self._listener: Listener | None = None

    def _connect(self) -> PostgresSession:
        session = PostgresSession(self.url)
        self._offset = session.offset
        return session

    def clock(self) -> int:
        """Milliseconds since 1970 by the server's clock, as measured when connecting."""
        return self._now() + self._offset

    async def write(
        self, verb: Callable[Concatenate[Transaction, P], T], /, *args: P.args, **kwargs: P.kwargs
    ) -> T:
        """Run a verb in one transaction; return only after its commit."""
        return await self._crew.do(
            lambda session: session.run(lambda tx: verb(tx, *args, **kwargs))
        )

    async def read(
        self, verb: Callable[Concatenate[Transaction, P], T], /, *args: P.args, **kwargs: P.kwargs
    ) -> T:
        """Run a verb that changes nothing."""
        return await self.write(verb, *args, **kwargs)

    def ring(self, channel: str) -> None:
        """Wake whoever waits here at once, and the other processes at most every 10 ms."""
        self._bell.ring(channel)
        if channel not in self._ringing:
            self._ringing.add(channel)
            asyncio.get_running_loop().call_later(_NOTIFY_EVERY, self._notify, channel)

    def _notify(self, channel: str) -> None:
        if channel not in self._ringing:
            return
        self._ringing.discard(channel)
        task = asyncio.create_task(self._send_notification(channel))
        self._background.add(task)
        task.add_done_callback(self._background.discard)

    async def _send_notification(self, channel: str) -> None:
        try:
            await self._notifier.do(lambda session: notify(session.connection, channel))
        except (errors.StoreError, psycopg.Error):
            return  # the poll behind every wait will see it

    async def wait(self, channel: str, within: float) -> None:
        """Rest until the channel rings, here or in another process."""
        if self._listener is None:
            self._listener = Listener(self.url, self._bell)
        await self._bell.wait(channel, within)

    async def close(self) -> None:
        """Finish what was begun and disconnect."""
        if self._listener is not None:
            await self._listener.close()
        for channel in list(self._ringing):
            self._notify(channel)
        await asyncio.gather(*self._background)
        await self._notifier.close()
        await self._crew.close()


def connect(url: str) -> psycopg.Connection[Any]:
    """Connect to the server, in our own error words."""
    try:
        connection = psycopg.connect(url, autocommit=True, **_CONNECTION)
    except psycopg.OperationalError as error:
        raise _cannot_connect(error) from error
    except psycopg.Error:
        message = "the database URL cannot be used; it looks like postgresql://user@host/name"
        raise errors.ConfigInvalid(message) from None  # the driver's words quote the password
    try:
        teach(connection)
        connection.execute(_BOUNDS)
    except psycopg.Error as error:
        connection.close()
        raise translated(error) from error
    return connection


def notify(connection: psycopg.Connection[Any], channel: str) -> None:
    """Tell every listening process that something happened on a channel."""
    connection.execute("SELECT pg_notify('oncebox', %s)", (channel,))


def _cannot_connect(error: psycopg.OperationalError) -> errors.StoreError:
    text = str(error)
    refused = isinstance(error, _LOGIN) or any(
        word in text
        for word in (
            "authentication failed",
            "does not exist",
            "no password supplied",
            "no pg_hba.conf entry",
        )
    )
    if refused:
        return errors.DatabaseLoginRefused(
            "the database server refused user, password or database name; check the database URL"
        )
    return errors.DatabaseUnreachable(
        "the database server cannot be reached; check that it runs and that host and port are right"
    )


def translated(error: BaseException) -> BaseException:
    """Return our error for a driver's error, and any other error as it is."""
    if isinstance(error, (errors.OnceboxError, *_AGAIN)):
        return error
    for kinds, ours, message in _WORDS:
        if isinstance(error, kinds):
            return ours(message)
    return error


#: the first that fits decides
_WORDS: tuple[tuple[Any, type[errors.StoreError], str], ...] = (
    (pg.DiskFull, errors.DiskFull, "the database server's disk is full; nothing was stored"),
    (
        pg.ReadOnlySqlTransaction,
        errors.DatabaseReadOnly,
        "the database server is read-only; is this a standby?",
    ),
    (
        pg.UndefinedTable,
        errors.SchemaOutdated,
        "the database has no Oncebox tables; run: oncebox migrate",
    ),
    (_REFUSED, errors.RowRefused, "the database refused a value; check its characters and size"),
    (
        pg.LockNotAvailable,
        errors.DatabaseBusy,
        "another process held a row for too long; try again",
    ),
    (
        psycopg.OperationalError,
        errors.DatabaseUnreachable,
        "the connection to the database broke; try again",
    ),
    (psycopg.Error, errors.StoreFailed, "the database failed in an unforeseen way; try again"),
)


def _clock_offset(connection: psycopg.Connection[Any]) -> int:
    """Measure how far the server's clock is ahead of ours, in milliseconds."""
    before = clock.system()
    row = connection.execute(
        "SELECT (extract(epoch FROM clock_timestamp()) * 1000)::bigint"
    ).fetchone()
    after = clock.system()
    offset = int(row[0]) - (before + after) // 2 if row else 0
    error = after - before + 2
    return offset if abs(offset) > error else 0  # within the error there is nothing to correct
