"""A session with PostgreSQL: one connection, READ COMMITTED, its errors in our words."""

import random
import select
import time
from collections.abc import Callable, Sequence
from struct import error as StructError  # noqa: N812 - it is one
from typing import Any, NoReturn, TypeVar

import psycopg
from psycopg import errors as pg

from oncebox import clock, errors
from oncebox.store.arrays import array, teach
from oncebox.store.database import Row, Transaction, Value
from oncebox.store.queries import Query

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
        self._open()
        try:
            self.offset = _clock_offset(self.connection)
        except psycopg.Error as error:
            self.close()
            raise translated(error) from error

    def _open(self) -> None:
        self.connection = connect(self._url)
        self._ears = select.poll()
        self._ears.register(self.connection.fileno(), select.POLLIN)

    @property
    def broken(self) -> bool:
        """Whether the connection is gone."""
        return self.connection.closed

    def run(self, work: Callable[[Transaction], T]) -> T:
        """Run a function in one transaction; again after a deadlock, which undid all of it."""
        return _again_after_deadlocks(lambda: self._in_transaction(work))

    def run_one(self, work: Callable[[Transaction], T]) -> T:
        """Run a function of one statement: a transaction by itself, one round trip, not four."""
        return _again_after_deadlocks(lambda: self._alone(work))

    def read(self, work: Callable[[Transaction], T]) -> T:
        """Run a function that changes nothing; each statement sees the newest commits anyway."""
        self._refresh()
        try:
            return self._work(work)
        except Exception as error:  # noqa: BLE001 - raised again, in our words
            _raise(error)

    def _alone(self, work: Callable[[Transaction], T]) -> T:
        self._refresh()
        try:
            return self._work(work)
        except Exception as error:
            if isinstance(translated(error), errors.DatabaseUnreachable):
                self.close()
                raise _commit_unknown() from error
            _raise(error)

    def _in_transaction(self, work: Callable[[Transaction], T]) -> T:
        self._refresh()
        try:
            self.connection.execute("BEGIN")
            result = self._work(work)
        except BaseException as error:  # noqa: BLE001 - raised again, in our words
            self._rollback()
            _raise(error)
        self._commit()
        return result

    def _work(self, work: Callable[[Transaction], T]) -> T:
        with self.connection.cursor(binary=True) as cursor:
            return work(PostgresTransaction(cursor))

    def _refresh(self) -> None:
        """Replace a connection that died while idle: only such a one has something to read."""
        if not self._ears.poll(0):
            return
        try:
            self.connection.execute("SELECT 1")
        except psycopg.OperationalError:
            self.close()
            self._open()

    def _commit(self) -> None:
        try:
            self.connection.execute("COMMIT")
        except psycopg.OperationalError as error:
            self.close()
            raise _commit_unknown() from error
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


def _again_after_deadlocks(work: Callable[[], T]) -> T:
    for round_ in range(_ROUNDS):
        try:
            return work()
        except _AGAIN:
            time.sleep(random.uniform(0, 0.01 * 2**round_))  # noqa: S311 - not in step again
    message = "the database kept reporting deadlocks; try again"
    raise errors.DatabaseBusy(message)


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


def _raise(error: BaseException) -> NoReturn:
    """Raise our error for a driver's, and any other as it is."""
    ours = translated(error)
    if ours is error:
        raise error
    raise ours from error


def _commit_unknown() -> errors.CommitUnknown:
    message = "the connection broke during COMMIT; repeat the call with the same key"
    return errors.CommitUnknown(message)


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
