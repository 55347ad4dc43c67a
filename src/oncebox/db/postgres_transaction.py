"""PostgresTransaction: statements, sent in pipelines, and the bulk arrays of their rows."""

from collections.abc import Callable, Sequence
from contextlib import ExitStack, suppress
from itertools import chain
from struct import Struct
from typing import Any, cast

import psycopg
from psycopg import Connection
from psycopg.adapt import Dumper
from psycopg.pq import Format

from oncebox.db.database import Row, SentStatement, StatementResult, Value
from oncebox.db.queries import Query


class PostgresTransaction:
    """The statements of one PostgreSQL transaction.

    What is sent is pipelined: it goes to the server without a wait, up to the first statement
    whose result is needed. ``BEGIN`` and ``COMMIT`` share the round trips of such statements.
    """

    is_serial = False

    def __init__(self, connection: Connection[Any], *, begun: bool = False) -> None:
        """Begin with the first statement, if the transaction is not ``begun``."""
        self._connection = connection
        self._cursor = connection.cursor(binary=True)
        self._begun = begun
        self._pipeline: ExitStack | None = None

    def one(self, query: Query, /, **values: Value) -> Row | None:
        """Return the first row, or None."""
        row: Row | None = self._execute(query.postgres, values).fetchone()
        return row

    def all(self, query: Query, /, **values: Value) -> list[Row]:
        """Return every row."""
        return self._execute(query.postgres, values).fetchall()

    def run(self, query: Query, /, **values: Value) -> int:
        """Return how many rows were changed."""
        return self._execute(query.postgres, values).rowcount

    def many(self, query: Query, rows: Sequence[Row], /, **shared: Value) -> list[Row]:
        """Run a bulk query once, over all rows."""
        return _rows(self._execute(query.postgres, _bulk(query, rows, shared))) if rows else []

    def run_many(self, query: Query, rows: Sequence[Row], /, **shared: Value) -> int:
        """Run a bulk query once, over all rows; return how many rows were changed."""
        return self._execute(query.postgres, _bulk(query, rows, shared)).rowcount if rows else 0

    def send(self, query: Query, /, **values: Value) -> SentStatement:
        """Run a statement without waiting for its result."""
        return self._send(query, values)

    def send_many(self, query: Query, rows: Sequence[Row], /, **shared: Value) -> SentStatement:
        """Run a bulk query once, over all rows, without waiting for its result."""
        return self._send(query, _bulk(query, rows, shared)) if rows else StatementResult([], 0)

    def execute(self, statement: str, values: Sequence[Value] = ()) -> list[Row]:
        """Run a user's own statement."""
        self.receive()
        self._begin()
        with self._connection.cursor() as cursor:  # text mode, which takes whole scripts
            cursor.execute(statement.encode(), values or None)
            return _rows(cursor)

    def receive(self, wanted: ExitStack | None = None) -> None:
        """Wait for the results of everything that was sent, or that of a ``wanted`` pipeline."""
        pipeline = self._pipeline
        if pipeline is not None and (wanted is None or wanted is pipeline):
            self._pipeline = None
            pipeline.close()

    def commit(self) -> None:
        """Commit, in one round trip with what was sent last."""
        if self._begun:
            cursor = self._connection.execute("COMMIT")
            self.receive()
            if cursor.statusmessage != "COMMIT":  # the caller ignored the error of a statement
                raise psycopg.errors.InFailedSqlTransaction

    def abandon(self) -> None:
        """Leave the results of what was sent, after an error."""
        with suppress(psycopg.Error):
            self.receive()

    def rollback(self) -> None:
        """Roll back."""
        self.abandon()
        if self._begun:
            self._connection.execute("ROLLBACK")

    def _begin(self) -> None:
        if not self._begun:
            self._begun = True
            self._connection.execute("BEGIN")

    def _execute(self, statement: bytes, values: dict[str, Any]) -> psycopg.Cursor[Any]:
        self._begin()
        cursor = self._cursor.execute(statement, values)
        self.receive()
        return cursor

    def _send(self, query: Query, values: dict[str, Any]) -> "_SentStatement":
        if self._pipeline is None:
            self._pipeline = ExitStack()
            self._pipeline.enter_context(self._connection.pipeline())
        self._begin()
        cursor = self._connection.cursor(binary=True)
        return _SentStatement(self, self._pipeline, cursor.execute(query.postgres, values))


class _SentStatement:
    """A statement in a pipeline of a transaction."""

    __slots__ = ("_cursor", "_pipeline", "_transaction")

    def __init__(
        self, transaction: PostgresTransaction, pipeline: ExitStack, cursor: psycopg.Cursor[Any]
    ) -> None:
        self._transaction = transaction
        self._pipeline = pipeline
        self._cursor = cursor

    def rows(self) -> list[Row]:
        """Return its rows."""
        self._transaction.receive(self._pipeline)
        return _rows(self._cursor)

    def count(self) -> int:
        """Return how many rows it changed."""
        self._transaction.receive(self._pipeline)
        return self._cursor.rowcount


def _rows(cursor: psycopg.Cursor[Any]) -> list[Row]:
    # Not ``cursor.description``, which describes every column.
    return cursor.fetchall() if cursor.pgresult and cursor.pgresult.nfields else []


def _bulk(query: Query, rows: Sequence[Row], shared: dict[str, Value]) -> dict[str, Any]:
    columns = zip(*rows, strict=True)
    arrays = {name: bulk_array(kind, next(columns)) for name, kind in query.bulk}
    return arrays | shared


# arrays

#: dimensions, whether there are nulls, element type, length, lower bound
_ARRAY_HEADER = Struct(">5i")
_pack_length = Struct(">i").pack
_PACKED_NULL = _pack_length(-1)
_pack_sized_number = Struct(">iq").pack
_NUMBER_SIZE = 8


def _pack_texts(values: Sequence[str | None]) -> bytes:
    return _pack_blobs([None if value is None else value.encode() for value in values])


def _pack_blobs(values: Sequence[bytes | None]) -> bytes:
    if None in values:
        sized = [
            _PACKED_NULL if value is None else _pack_length(len(value)) + value for value in values
        ]
        return b"".join(sized)
    lengths = map(_pack_length, map(len, cast("Sequence[bytes]", values)))
    return b"".join(chain.from_iterable(zip(lengths, cast("Sequence[bytes]", values), strict=True)))


def _pack_numbers(values: Sequence[int | None]) -> bytes:
    return b"".join(
        [
            _PACKED_NULL if value is None else _pack_sized_number(_NUMBER_SIZE, value)
            for value in values
        ]
    )


def _pack_array(
    values: Sequence[Any], element: int, pack: Callable[[Sequence[Any]], bytes]
) -> bytes:
    header = _ARRAY_HEADER.pack(1, 1, element, len(values), 1)
    if values and values.count(values[0]) == len(values):  # most columns of a batch have one value
        return header + pack(values[:1]) * len(values)
    return header + pack(values)


_COLUMN_PACKERS: dict[str, tuple[int, Callable[[Sequence[Any]], bytes]]] = {
    "text": (25, _pack_texts),
    "bigint": (20, _pack_numbers),
    "bytea": (17, _pack_blobs),
}


def pack_column(kind: str, values: Sequence[Any]) -> bytes:
    """Return a column as a binary array of a PostgreSQL type: text, bigint or bytea."""
    return _pack_array(values, *_COLUMN_PACKERS[kind])


class _Array(list[Any]):
    """A column of a bulk query's rows."""


class _TextArray(_Array):
    pass


class _NumberArray(_Array):
    pass


class _BytesArray(_Array):
    pass


class _TextDumper(Dumper):
    format = Format.BINARY
    oid = 1009

    def dump(self, obj: _Array) -> bytes:
        return _pack_array(obj, 25, _pack_texts)


class _NumberDumper(Dumper):
    format = Format.BINARY
    oid = 1016

    def dump(self, obj: _Array) -> bytes:
        return _pack_array(obj, 20, _pack_numbers)


class _BytesDumper(Dumper):
    format = Format.BINARY
    oid = 1001

    def dump(self, obj: _Array) -> bytes:
        return _pack_array(obj, 17, _pack_blobs)


_ARRAY_TYPES: dict[str, type[_Array]] = {
    "text": _TextArray,
    "bigint": _NumberArray,
    "bytea": _BytesArray,
}


def bulk_array(kind: str, values: Sequence[Any]) -> list[Any]:
    """Return a column as an array of a PostgreSQL type: text, bigint or bytea."""
    return _ARRAY_TYPES[kind](values)


def register_array_dumpers(connection: Connection[Any]) -> None:
    """Let a connection send these arrays."""
    connection.adapters.register_dumper(_TextArray, _TextDumper)
    connection.adapters.register_dumper(_NumberArray, _NumberDumper)
    connection.adapters.register_dumper(_BytesArray, _BytesDumper)
