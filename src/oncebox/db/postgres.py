"""PostgreSQL through psycopg 3: sessions, LISTEN/NOTIFY, error translation."""

import asyncio
import random
import select
import time
from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress
from struct import error as StructError  # noqa: N812 - it is one
from threading import Event, Thread
from typing import Any, NoReturn, ParamSpec, TypeVar

import psycopg
from psycopg import errors as pg

from oncebox import errors
from oncebox.core import clock
from oncebox.core import clock as core_clock
from oncebox.db.database import Row, Transaction, TxFunction, Value
from oncebox.db.loop_connection import LoopConnection, LoopConnections
from oncebox.db.notify import Notifier, Subscription
from oncebox.db.postgres_transaction import (
    PostgresTransaction,
    pack_column,
    register_array_dumpers,
)
from oncebox.db.queries import Query
from oncebox.db.session_pool import SessionPool

P = ParamSpec("P")
T = TypeVar("T")

_DEADLOCK_ERRORS = (pg.DeadlockDetected, pg.SerializationFailure)
#: classes of errors after which a transaction may have been committed: connection, shutdown
_UNKNOWN_STATES = ("08", "57")
_REFUSED_DATA_ERRORS = (
    psycopg.DataError,
    psycopg.IntegrityError,
    UnicodeEncodeError,
    OverflowError,
    StructError,
)
_LOGIN_ERRORS = (pg.InvalidPassword, pg.InvalidAuthorizationSpecification, pg.InvalidCatalogName)
_DEADLOCK_TRIES = 6
#: a server that vanished without a word is noticed within seconds
_CONNECT_OPTIONS: dict[str, Any] = {
    "application_name": "oncebox",
    "connect_timeout": 5,
    "keepalives_idle": 10,
    "keepalives_interval": 5,
    "keepalives_count": 3,
    "tcp_user_timeout": 20_000,
}
#: a process that was paused inside a transaction must not stop all others with it
_SESSION_TIMEOUTS = "SET lock_timeout = '5s'; SET idle_in_transaction_session_timeout = '15s'"
#: Every query has its index. A plan that reads a whole table or sorts it is a wrong guess, made
#: without statistics; see docs/decisions/0041-use-index-plans-for-every-query.md.
_NOT_PLANNED = (
    "enable_seqscan",
    "enable_bitmapscan",
    "enable_mergejoin",
    "enable_incremental_sort",
    "enable_sort",
    # Compiling a plan would take longer than running it.
    "jit",
)
_SESSION_SETTINGS = "; ".join((_SESSION_TIMEOUTS, *(f"SET {each} = off" for each in _NOT_PLANNED)))
#: for the statements of users, who know their own tables
_PLANNER_DEFAULTS = "; ".join(
    f"SET LOCAL {each} TO DEFAULT" for each in (*_NOT_PLANNED, "plan_cache_mode")
)


class PostgresSession:
    """One connection to the server."""

    def __init__(self, url: str, *, read_only: bool = False) -> None:
        """Connect.

        Raises: DatabaseUnreachable, DatabaseLoginRefused, ConfigInvalid.
        """
        self._url = url
        self._read_only = read_only
        self._open()
        try:
            self.offset = _clock_offset(self.connection)
        except psycopg.Error as error:
            self.close()
            raise translate_error(error) from error

    def _open(self) -> None:
        self.connection = connect(self._url, read_only=self._read_only, plan_once=True)
        self._readable = select.poll()
        self._readable.register(self.connection.fileno(), select.POLLIN)

    @property
    def broken(self) -> bool:
        """Whether the connection is gone."""
        return self.connection.closed

    def run(self, work: Callable[[Transaction], T]) -> T:
        """Run a function in one transaction; again after a deadlock, which undid all of it."""
        return _retry_deadlocks(lambda: self._in_transaction(work))

    def run_statement(self, work: Callable[[Transaction], T]) -> T:
        """Run a function of one statement: a transaction by itself, one round trip, not four."""
        return _retry_deadlocks(lambda: self._in_autocommit(work))

    def read(self, work: Callable[[Transaction], T]) -> T:
        """Run a function that changes nothing; each statement sees the newest commits anyway."""
        self._replace_if_dead()
        try:
            return self._call(work)
        except Exception as error:  # noqa: BLE001 - raised again, translated
            _raise_translated(error)

    def _in_autocommit(self, work: Callable[[Transaction], T]) -> T:
        self._replace_if_dead()
        try:
            return self._call(work)
        except Exception as error:
            if isinstance(translate_error(error), errors.DatabaseUnreachable):
                self.close()
                raise _commit_unknown() from error
            _raise_translated(error)

    def _in_transaction(self, work: Callable[[Transaction], T]) -> T:
        self._replace_if_dead()
        try:
            tx = PostgresTransaction(self.connection)
            result = self._work_or_roll_back(tx, work)
        except BaseException as error:  # noqa: BLE001 - raised again, translated
            _raise_translated(error)
        self._commit(tx)
        return result

    def _work_or_roll_back(self, tx: PostgresTransaction, work: Callable[[Transaction], T]) -> T:
        try:
            return work(tx)
        except BaseException:
            self._rollback(tx)
            raise

    def _call(self, work: Callable[[Transaction], T]) -> T:
        """Run a function without a transaction: each round trip is one."""
        tx = PostgresTransaction(self.connection, begun=True)
        try:
            result = work(tx)
        except BaseException:
            tx.abandon()
            raise
        tx.receive()
        return result

    def _replace_if_dead(self) -> None:
        """Replace a connection that died while idle: only such a one has something to read."""
        if not self._readable.poll(0):
            return
        try:
            self.connection.execute("SELECT 1")
        except psycopg.OperationalError:
            self.close()
            self._open()

    def _commit(self, tx: PostgresTransaction) -> None:
        try:
            tx.commit()
        except psycopg.Error as error:
            if not self._is_undone(error):
                self.close()
                raise _commit_unknown() from error
            self._rollback(tx)
            _raise_translated(error)

    def _is_undone(self, error: psycopg.Error) -> bool:
        """Say whether the server refused COMMIT, or a statement that was sent just before.

        A server that is shutting down may have committed before it says so.
        """
        state = error.sqlstate or ""
        return bool(state) and not state.startswith(_UNKNOWN_STATES) and not self.broken

    def _rollback(self, tx: PostgresTransaction) -> None:
        try:
            tx.rollback()
        except psycopg.Error:
            self.close()

    def close(self) -> None:
        """Close the connection."""
        self.connection.close()


def _retry_deadlocks(work: Callable[[], T]) -> T:
    for round_ in range(_DEADLOCK_TRIES):
        try:
            return work()
        except _DEADLOCK_ERRORS:
            time.sleep(random.uniform(0, 0.01 * 2**round_))  # noqa: S311 - not in step again
    raise errors.DatabaseBusy("the database kept reporting deadlocks; try again")


def _open(url: str) -> psycopg.Connection[Any]:
    try:
        return psycopg.connect(url, autocommit=True, **_CONNECT_OPTIONS)
    except psycopg.OperationalError as error:
        raise _connect_error(error) from error
    except psycopg.Error:
        raise errors.ConfigInvalid(
            "the database URL cannot be used; it looks like postgresql://user@host/name"
        ) from None  # the driver's message quotes the password


def connect(
    url: str, *, read_only: bool = False, plan_once: bool = False
) -> psycopg.Connection[Any]:
    """Connect to the server; with ``plan_once``, a prepared statement keeps its first plan.

    Raises: DatabaseUnreachable, DatabaseLoginRefused, ConfigInvalid.
    """
    connection = _open(url)
    try:
        register_array_dumpers(connection)
        connection.execute(_SESSION_SETTINGS.encode())
        if plan_once:
            connection.execute("SET plan_cache_mode = force_generic_plan")
        if read_only:
            connection.execute("SET default_transaction_read_only = on")
    except psycopg.Error as error:
        connection.close()
        raise translate_error(error) from error
    return connection


def refuse_transaction_pooling(url: str) -> None:
    """Refuse a pooler that gives the connection of one client to another between transactions.

    Settings and prepared statements of a session would reach other clients, and be missing here.
    It is recognised before anything is set: a server names the process that it made for this
    connection, which a pooler cannot know in advance.

    Raises: PoolerUnsupported, DatabaseUnreachable, DatabaseLoginRefused, ConfigInvalid.
    """
    with _open(url) as first:
        if _server_process(first) == first.info.backend_pid:
            return
        with _open(url) as second:
            processes = {(_server_process(first), _server_process(second)) for _ in range(20)}
    ((one, other), *more) = processes
    if more or one == other:
        raise errors.PoolerUnsupported(
            "the database URL leads to a pooler in transaction mode; set pool_mode = session for "
            "this database in the pooler, or use the address of the server itself"
        )


def _server_process(connection: psycopg.Connection[Any]) -> int:
    """Return the number of the server's process that answers."""
    try:
        row = connection.execute("SELECT pg_backend_pid()", prepare=False).fetchone()
    except psycopg.Error as error:
        _raise_translated(error)
    return int(row[0]) if row else 0


def _connect_error(error: psycopg.OperationalError) -> errors.StoreError:
    text = str(error)
    refused = isinstance(error, _LOGIN_ERRORS) or any(
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


def _raise_translated(error: BaseException) -> NoReturn:
    """Raise our error for a driver's, and any other as it is."""
    ours = translate_error(error)
    if ours is error:
        raise error
    raise ours from error


def _commit_unknown() -> errors.CommitUnknown:
    message = "the connection broke during COMMIT; repeat the call with the same key"
    return errors.CommitUnknown(message)


def translate_error(error: BaseException) -> BaseException:
    """Return our error for a driver's error, and any other error as it is."""
    if isinstance(error, (errors.OnceboxError, *_DEADLOCK_ERRORS)):
        return error
    for kinds, kind, message in _ERROR_TRANSLATIONS:
        if isinstance(error, kinds):
            ours = kind(message)
            ours.sqlstate = getattr(error, "sqlstate", None)
            return ours
    return error


#: the first that fits decides
_ERROR_TRANSLATIONS: tuple[tuple[Any, type[errors.StoreError], str], ...] = (
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
    (
        _REFUSED_DATA_ERRORS,
        errors.RowRefused,
        "the database refused a value; check its characters and size",
    ),
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
    (psycopg.Error, errors.StoreFailed, "the database failed unexpectedly; try again"),
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


class PostgresReader:
    """One connection that only reads."""

    kind = "postgres"

    def __init__(self, url: str, *, now: core_clock.Clock = core_clock.system) -> None:
        """Connect.

        Raises: StoreError.
        """
        refuse_transaction_pooling(url)
        self._session = PostgresSession(url, read_only=True)
        self._now = now

    def clock(self) -> int:
        """Milliseconds since 1970 by the server's clock, as measured when connecting."""
        return self._now() + self._session.offset

    def read(self, work: TxFunction[P, T], /, *args: P.args, **kwargs: P.kwargs) -> T:
        """Run a ledger function that changes nothing."""
        return self._session.read(lambda tx: work(tx, *args, **kwargs))

    def close(self) -> None:
        """Close the connection."""
        self._session.close()


class NotifySession:
    """Sends notifications, which are hints: they need not be synced to disk."""

    def __init__(self, url: str) -> None:
        """Connect.

        Raises: StoreError.
        """
        self._connection = connect(url)
        self._connection.execute("SET synchronous_commit = off")

    @property
    def broken(self) -> bool:
        """Whether the connection is gone."""
        return self._connection.closed

    @property
    def pid(self) -> int:
        """The process of the server that sends them."""
        return self._connection.info.backend_pid

    def notify(self, topics: list[str]) -> None:
        """Notify every listening process of topics."""
        self._connection.execute(
            "SELECT pg_notify('oncebox', topic) FROM unnest(%s::text[]) AS topic", (topics,)
        )

    def close(self) -> None:
        """Close the connection."""
        self._connection.close()


_LISTEN_POLL_SECONDS = 0.5
_LISTENER_ENDS_WITHIN = 2.0
_RECONNECT_SECONDS = 0.5
#: seconds between two searches for stalled sessions
_END_STALLED_EVERY = 5.0
#: seconds without a word from the client, inside a transaction
_STALLED_AFTER = 15
#: The server's own limit, ``idle_in_transaction_session_timeout``, does not count in the middle
#: of a pipeline.
_END_STALLED = """
SELECT pg_terminate_backend(pid) FROM pg_stat_activity
WHERE datname = current_database() AND usename = current_user AND application_name = 'oncebox'
    AND pid <> pg_backend_pid() AND xact_start IS NOT NULL AND wait_event = 'ClientRead'
    AND state_change < clock_timestamp() - make_interval(secs => %s)
"""


class NotifyListener:
    """Passes the server's notifications on to the process; losing it costs only speed.

    Its connection also ends sessions of processes that were paused inside a transaction, whose
    locks would stop all others.
    """

    def __init__(self, url: str, notifier: Notifier, is_own: Callable[[int], bool]) -> None:
        """Start listening; what a process of the server sent for us is known here already."""
        self._url = url
        self._notifier = notifier
        self._is_own = is_own
        self._loop = asyncio.get_running_loop()
        self._stopping = Event()
        self._thread = Thread(target=self._run, name="oncebox-listener", daemon=True)
        self._thread.start()

    async def close(self) -> None:
        """Stop listening; a server that does not answer is not waited for."""
        self._stopping.set()
        await asyncio.to_thread(self._thread.join, _LISTENER_ENDS_WITHIN)

    def _run(self) -> None:
        while not self._stopping.is_set():
            with suppress(psycopg.Error):
                self._listen()
            self._stopping.wait(_RECONNECT_SECONDS)

    def _listen(self) -> None:
        with psycopg.connect(self._url, autocommit=True, connect_timeout=5) as connection:
            connection.execute("LISTEN oncebox")
            # Notifications may have been sent before this connection listened.
            self._call_in_loop(self._notifier.notify_all)
            end_stalled_at = core_clock.steady() + _END_STALLED_EVERY
            while not self._stopping.is_set():
                if core_clock.steady() >= end_stalled_at:
                    end_stalled_at = core_clock.steady() + _END_STALLED_EVERY
                    connection.execute(_END_STALLED, (_STALLED_AFTER,))
                for notice in connection.notifies(timeout=_LISTEN_POLL_SECONDS, stop_after=1):
                    if not self._is_own(notice.pid):
                        self._call_in_loop(self._notifier.notify, notice.payload)

    def _call_in_loop(self, function: Callable[..., None], *args: str) -> None:
        with suppress(RuntimeError):  # the loop has ended, and the process ends too
            self._loop.call_soon_threadsafe(function, *args)


_NOTIFY_INTERVAL_SECONDS = 0.01
#: one in so many connections is for reading
_READING_SHARE = 3


class PostgresDatabase:
    """A database on a server, shared by any number of hosts."""

    kind = "postgres"
    writers = 2
    round_trips = True

    def __init__(
        self, url: str, *, connections: int = 6, now: core_clock.Clock = core_clock.system
    ) -> None:
        """Connect once to see that it works.

        Raises: StoreError.
        """
        refuse_transaction_pooling(url)
        self.url = url
        self._now = now
        self._offset = 0
        self._deadline: float | None = None
        self._local_notifier = Notifier(self._start_listener)
        self._pending_topics: set[str] = set()
        self._background: set[asyncio.Task[None]] = set()
        self._connect().close()
        # Reads have connections of their own: writes that wait for COMMIT hold all of theirs.
        for_reading = max(1, connections // _READING_SHARE)
        for_writing = max(1, connections - for_reading)
        self._sessions = SessionPool("postgres", for_writing, self._connect)
        self._readers = SessionPool("postgres-reader", for_reading, self._connect, writes=False)
        self._loop_connections = LoopConnections(lambda: connect(url), pack_column)
        self._notify_sessions = SessionPool("notifier", 1, self._connect_notifier)
        self._notifying_pid = 0
        self._listener: NotifyListener | None = None

    def _connect(self) -> PostgresSession:
        session = PostgresSession(self.url)
        self._offset = session.offset
        return session

    def _connect_notifier(self) -> NotifySession:
        session = NotifySession(self.url)
        self._notifying_pid = session.pid
        return session

    @property
    def deadline(self) -> float | None:
        """Seconds after which a caller is answered; None: the caller waits."""
        return self._deadline

    @deadline.setter
    def deadline(self, seconds: float | None) -> None:
        self._deadline = seconds
        self._sessions.deadline = self._readers.deadline = seconds
        self._loop_connections.deadline = self._notify_sessions.deadline = seconds

    @property
    def disk_full(self) -> bool:
        """Whether a write found the disk full since this was last set to False."""
        return self._sessions.disk_full

    @disk_full.setter
    def disk_full(self, found: bool) -> None:
        self._sessions.disk_full = found

    @property
    def overdue(self) -> int:
        """How many calls were answered by their deadline and are still running."""
        return self._sessions.overdue + self._readers.overdue + self._loop_connections.overdue

    def clock(self) -> int:
        """Milliseconds since 1970 by the server's clock, as measured when connecting."""
        return self._now() + self._offset

    async def write(self, work: TxFunction[P, T], /, *args: P.args, **kwargs: P.kwargs) -> T:
        """Run a function in one transaction; return only after its commit."""
        return await self._sessions.submit(
            lambda session: session.run(lambda tx: work(tx, *args, **kwargs))
        )

    async def write_alone(self, work: TxFunction[P, T], /, *args: P.args, **kwargs: P.kwargs) -> T:
        """Run a function in a transaction of its own, with the server's own planner settings."""

        def as_configured(tx: Transaction) -> T:
            tx.execute(_PLANNER_DEFAULTS)
            return work(tx, *args, **kwargs)

        return await self._sessions.submit(lambda session: session.run(as_configured), alone=True)

    async def write_statement(
        self, work: TxFunction[P, T], /, *args: P.args, **kwargs: P.kwargs
    ) -> T:
        """Run a function of a single statement, which is a transaction by itself."""
        return await self._sessions.submit(
            lambda session: session.run_statement(lambda tx: work(tx, *args, **kwargs))
        )

    async def insert(self, query: Query, rows: Callable[[], Sequence[Row] | None], /) -> int | None:
        """Run a bulk insert, which is a transaction by itself, on the event loop."""
        found = rows()
        if found is None:
            return None
        now = self.clock()
        return await self._run_on_loop(
            lambda connection: connection.insert(query, found, {"now": now}),
            lambda tx: tx.run_many(query, found, now=now),
        )

    async def run_bulk(self, query: Query, rows: Sequence[Row], /, **shared: Value) -> list[Row]:
        """Run a bulk statement, which is a transaction by itself, on the event loop."""
        if not rows:
            return []
        return await self._run_on_loop(
            lambda connection: connection.run_bulk(query, rows, shared),
            lambda tx: tx.many(query, rows, **shared),
        )

    async def _run_on_loop(
        self,
        statement: Callable[[LoopConnection], Awaitable[T]],
        in_session: Callable[[Transaction], T],
    ) -> T:
        """Run a statement on a connection of the loop; in a session, if none is free."""
        connection = self._loop_connections.take()
        if connection is not None:
            try:
                return await statement(connection)
            except _DEADLOCK_ERRORS:
                pass  # rolled back; the sessions repeat it as often as it takes
            except Exception as error:
                ours = translate_error(error)
                if isinstance(ours, errors.DiskFull):
                    self.disk_full = True
                if isinstance(ours, errors.DatabaseUnreachable):
                    # A server that is shutting down may have committed before it says so.
                    connection.close()
                    raise _commit_unknown() from error
                _raise_translated(error)
            finally:
                self._loop_connections.give_back(connection)
        return await self.write_statement(in_session)

    async def read(self, work: TxFunction[P, T], /, *args: P.args, **kwargs: P.kwargs) -> T:
        """Run a function that changes nothing."""
        return await self._readers.submit(
            lambda session: session.read(lambda tx: work(tx, *args, **kwargs))
        )

    def notify(self, topic: str) -> None:
        """Wake waiters of this process at once, and other processes at most every 10 ms."""
        self._local_notifier.notify(topic)
        self.notify_others(topic)

    def notify_others(self, topic: str) -> None:
        """Wake waiters of other processes, at most every 10 ms."""
        if not self._pending_topics:
            asyncio.get_running_loop().call_later(
                _NOTIFY_INTERVAL_SECONDS, self._flush_notifications
            )
        self._pending_topics.add(topic)

    def _flush_notifications(self) -> None:
        if not self._pending_topics:
            return
        topics, self._pending_topics = self._pending_topics, set()
        task = asyncio.create_task(self._send_notifications(sorted(topics)))
        self._background.add(task)
        task.add_done_callback(self._background.discard)

    async def _send_notifications(self, topics: list[str]) -> None:
        try:
            await self._notify_sessions.submit(lambda notifier: notifier.notify(topics))
        except (errors.StoreError, psycopg.Error):
            return  # every waiter polls as well

    def subscribe(self, topic: str) -> Subscription:
        """Return a subscription to a topic; it receives every notification from now on."""
        return self._local_notifier.subscribe(topic)

    async def wait(self, topic: str, within: float) -> None:
        """Wait until the topic is notified, here or in another process."""
        await self._local_notifier.wait(topic, within)

    def _start_listener(self) -> None:
        """Listen to other processes too; the listener makes up for what was missed before."""
        if self._listener is None:
            self._listener = NotifyListener(
                self.url, self._local_notifier, lambda pid: pid == self._notifying_pid
            )

    async def close(self) -> None:
        """Finish pending work and disconnect; what is overdue is left alone."""
        self._flush_notifications()
        listening = [] if self._listener is None else [self._listener.close()]
        await asyncio.gather(*listening, self._loop_connections.close(), self._close_sessions())

    async def _close_sessions(self) -> None:
        pools = (self._notify_sessions, self._sessions, self._readers)
        await asyncio.gather(*self._background, return_exceptions=True)
        await asyncio.gather(*(pool.close() for pool in pools))
