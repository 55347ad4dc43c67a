"""PostgreSQL connections on the event loop, for bulk statements: libpq, prepared, binary.

No thread takes part, so a batch costs one round trip and no hand-over between threads.
See docs/decisions/0044-use-compiled-sources-for-webhook-intake.md.
"""

import asyncio
from collections.abc import Callable, Sequence
from contextlib import suppress
from functools import lru_cache
from typing import Any

import psycopg
from psycopg import pq
from psycopg.adapt import Transformer

from oncebox import errors
from oncebox.db.database import Row, Value
from oncebox.db.queries import Query
from oncebox.db.session_pool import commit_overdue

#: seconds before a connection that could not be opened is tried again
_RECONNECT_SECONDS = 1.0

#: writes a column of rows as an array of a PostgreSQL type
PackColumn = Callable[[str, Sequence[Any]], bytes]

_SUCCEEDED = (pq.ExecStatus.COMMAND_OK, pq.ExecStatus.TUPLES_OK)


class LoopConnection:
    """One connection that runs one bulk statement at a time."""

    def __init__(self, connection: psycopg.Connection[Any], pack: PackColumn) -> None:
        """Take over a connection in autocommit mode that nobody else uses."""
        self._connection = connection
        self._pgconn = connection.pgconn
        self._pgconn.nonblocking = 1
        self._pack = pack
        #: names of the prepared statements by their text: files of queries share names
        self._prepared: dict[bytes, bytes] = {}
        self._loop = asyncio.get_running_loop()
        self._socket = self._pgconn.socket
        self._result: asyncio.Future[pq.abc.PGresult] | None = None
        #: seconds after which the caller of a statement is answered in any case
        self.deadline: float | None = None
        #: whether its caller was answered by the deadline, and the server has not answered yet
        self.is_overdue = False
        #: called when the server has answered, or the connection is gone
        self.when_answered: Callable[[LoopConnection], None] = LoopConnection.close
        self._loop.add_reader(self._socket, self._on_readable)

    @property
    def broken(self) -> bool:
        """Whether the connection is gone."""
        return self._pgconn.status != pq.ConnStatus.OK

    async def insert(self, query: Query, rows: Sequence[Row], shared: dict[str, Value]) -> int:
        """Run a bulk insert, which is a transaction by itself; return how many rows it inserted.

        Raises: psycopg.Error; CommitUnknown, if the connection breaks before the answer;
        CommitOverdue, if there is none by the deadline.
        """
        return (await self._execute(query, rows, shared)).command_tuples or 0

    async def run_bulk(
        self, query: Query, rows: Sequence[Row], shared: dict[str, Value]
    ) -> list[Row]:
        """Run a bulk statement, which is a transaction by itself; return its rows.

        Raises: as ``insert``.
        """
        result = await self._execute(query, rows, shared)
        values = Transformer(self._connection)
        values.set_pgresult(result)
        return values.load_rows(0, result.ntuples, tuple)

    async def _execute(
        self, query: Query, rows: Sequence[Row], shared: dict[str, Value]
    ) -> pq.abc.PGresult:
        name = self._prepared.get(query.postgres) or await self._prepare(query)
        columns = zip(*rows, strict=True)
        values = [self._pack(kind, next(columns)) for _, kind in query.bulk]
        formats = [pq.Format.BINARY] * len(values)
        others = [shared[each] for each in query.shared]
        return await self._ask(
            lambda: self._pgconn.send_query_prepared(
                name,
                [*values, *map(_shared_value, others)],
                [*formats, *map(_shared_format, others)],
                pq.Format.BINARY,
            )
        )

    async def _prepare(self, query: Query) -> bytes:
        name = f"oncebox_{len(self._prepared)}_{query.name}".encode()
        await self._ask(lambda: self._pgconn.send_prepare(name, _numbered(query)))
        self._prepared[query.postgres] = name
        return name

    async def _ask(self, send: Callable[[], None]) -> pq.abc.PGresult:
        """Send a command; return its result."""
        self._result = self._loop.create_future()
        timer = None
        if self.deadline is not None:
            timer = self._loop.call_later(self.deadline, self._give_up)
        try:
            send()
            self._flush()
            result = await self._result
        except errors.CommitOverdue:
            raise  # the connection is in use until the server answers
        except psycopg.OperationalError as error:
            self.close()
            raise errors.CommitUnknown(
                "the connection broke during COMMIT; repeat the call with the same key"
            ) from error
        except BaseException:
            self.close()  # the caller gave up; the statement may still be executed
            raise
        finally:
            self._result = None
            if timer is not None:
                timer.cancel()
        return _successful(result)

    def _give_up(self) -> None:
        """Answer the caller before the server does; the statement may still be executed.

        The connection stays open: the server would go on with it anyway, and another one would
        wait in the same way.
        """
        if self._result is not None and not self._result.done():
            self.is_overdue = True
            self._result.set_exception(commit_overdue())

    def _flush(self) -> None:
        """Send what the socket takes, and the rest when it takes more."""
        if self._pgconn.flush():
            self._loop.add_writer(self._socket, self._on_writable)

    def _on_writable(self) -> None:
        self._loop.remove_writer(self._socket)
        try:
            self._flush()
        except psycopg.OperationalError as error:
            self._fail(error)

    def _on_readable(self) -> None:
        try:
            self._pgconn.consume_input()
            if self._pgconn.is_busy():
                return  # a part of the result
            if self.is_overdue:
                self._end_overdue()
                return
            if self._result is None:
                return  # a notice
            result = self._pgconn.get_result()
            while result is not None and (more := self._pgconn.get_result()) is not None:
                result = more
        except psycopg.OperationalError as error:
            self._fail(error)
            return
        if result is None or self.broken:
            self._fail(psycopg.OperationalError("the connection to the server is lost"))
        elif not self._result.done():
            self._result.set_result(result)

    def _end_overdue(self) -> None:
        """Note the answer to an overdue statement; what it says does not matter any more."""
        self.is_overdue = False
        self.when_answered(self)

    def _fail(self, error: psycopg.OperationalError) -> None:
        self.close()
        if self.is_overdue:
            self._end_overdue()
        if self._result is not None and not self._result.done():
            self._result.set_exception(error)

    def close(self) -> None:
        """Disconnect."""
        if self._socket >= 0:
            self._loop.remove_reader(self._socket)
            self._loop.remove_writer(self._socket)
            self._socket = -1
            self._connection.close()


class LoopConnections:
    """A few connections on the event loop, opened when first used and again after a failure."""

    def __init__(self, connect: Callable[[], psycopg.Connection[Any]], pack: PackColumn) -> None:
        """Open nothing yet; ``connect`` may block."""
        self._connect = connect
        self._pack = pack
        self._idle: list[LoopConnection] = []
        #: those whose server has not answered by the deadline
        self._overdue: set[LoopConnection] = set()
        self._missing = COUNT
        #: seconds after which the caller of a statement is answered in any case
        self.deadline: float | None = None
        self._retry_at = 0.0
        self._tasks: set[asyncio.Task[None]] = set()
        self._closed = False

    @property
    def overdue(self) -> int:
        """How many connections wait for a server that has not answered by the deadline."""
        return len(self._overdue)

    def take(self) -> LoopConnection | None:
        """Return an idle connection, if there is one; open a missing one in the background."""
        while self._idle:
            connection = self._idle.pop()
            if not connection.broken:
                connection.deadline = self.deadline
                return connection
            self._discard(connection)
        loop = asyncio.get_running_loop()
        if self._missing and not self._closed and loop.time() >= self._retry_at:
            self._missing -= 1
            task = loop.create_task(self._open())
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)
        return None

    def give_back(self, connection: LoopConnection) -> None:
        """Make a connection available again, as soon as its server has answered."""
        if connection.is_overdue and not self._closed:
            self._overdue.add(connection)
            connection.when_answered = self._discard_overdue
        elif connection.broken or self._closed:
            self._discard(connection)
        else:
            self._idle.append(connection)

    async def close(self) -> None:
        """Disconnect."""
        self._closed = True
        await asyncio.gather(*self._tasks, return_exceptions=True)
        for connection in (*self._idle, *self._overdue):
            connection.close()
        self._idle.clear()
        self._overdue.clear()

    async def _open(self) -> None:
        try:
            opened = await asyncio.to_thread(self._connect)
        except errors.StoreError:
            self._missing += 1
            self._retry_at = asyncio.get_running_loop().time() + _RECONNECT_SECONDS
        else:
            self.give_back(LoopConnection(opened, self._pack))

    def _discard_overdue(self, connection: LoopConnection) -> None:
        self._overdue.discard(connection)
        self._discard(connection)

    def _discard(self, connection: LoopConnection) -> None:
        connection.close()
        self._missing += 1


#: connections per process; while one commits, the next batch is prepared for the other
COUNT = 2


def _successful(result: pq.abc.PGresult) -> pq.abc.PGresult:
    """Return a result; raise the error that it is, if it is one."""
    if result.status in _SUCCEEDED:
        return result
    state = (result.error_field(pq.DiagnosticField.SQLSTATE) or b"").decode()
    raise _error_class(state)("the server refused the statement")


def _shared_value(value: Value) -> bytes | None:
    return value if value is None or isinstance(value, bytes) else str(value).encode()


def _shared_format(value: Value) -> pq.Format:
    return pq.Format.BINARY if isinstance(value, bytes) else pq.Format.TEXT


def _error_class(sqlstate: str) -> type[psycopg.Error]:
    with suppress(KeyError):
        return psycopg.errors.lookup(sqlstate)
    return psycopg.DatabaseError


@lru_cache(64)
def _numbered(query: Query) -> bytes:
    """Return a query with libpq's placeholders."""
    text = query.postgres
    for number, name in enumerate(query.parameters, 1):
        for kind in (b"s", b"b"):
            text = text.replace(b"%%(%b)%b" % (name.encode(), kind), b"$%d" % number)
    return text.replace(b"%%", b"%")
