"""Millions of stored deliveries, written by bulk past the ledger: done, with their bodies.

On PostgreSQL the index over the keys is made again afterwards, which is many times faster
than letting it grow. SQLite would pack it without any room, as no index is that lived with,
so there it grows, in memory.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator
from itertools import islice

import apsw
import psycopg
from psycopg import sql

from bench import load
from oncebox.core import ids
from oncebox.model.deliveries.delivery import DeliveryOutcome
from oncebox.model.validation import key_digest

CHUNK = 100_000
# A year before the first measured key: 5 million rows take a little more than a day of it.
FIRST_SECOND = 1_735_689_600
TENANT = "default"
WORKER = "bench:1:000000"
HEADERS = json.dumps(load.HEADERS, separators=(",", ":")).encode()
KEY_INDEX = "oncebox_deliveries_key_digest"

DELIVERY_COLUMNS = (
    "id", "tenant", "source", "key", "variant", "key_digest", "type", "road", "fingerprint",
    "payload_id", "size", "state", "received_at", "accepted_at", "tries", "fence", "worker",
    "claimed_at", "outcome", "ended_at",
)  # fmt: skip
PAYLOAD_COLUMNS = ("id", "headers", "body")

Value = str | int | bytes
Chunk = tuple[list[tuple[Value, ...]], list[tuple[Value, ...]]]


def fill(url: str, rows: int) -> None:
    """Store `rows` deliveries in a database that has our tables."""
    if url.startswith("sqlite"):
        _fill_sqlite(url.removeprefix("sqlite:///"), rows)
    else:
        _fill_postgres(url, rows)


def _chunks(rows: int) -> Iterator[Chunk]:
    """Yield deliveries and payloads, in the order of their ids."""
    keys = load.keys(seed=rows, second=FIRST_SECOND)
    for first in range(0, rows, CHUNK):
        deliveries: list[tuple[Value, ...]] = []
        payloads: list[tuple[Value, ...]] = []
        count = min(CHUNK, rows - first)
        for number, key in enumerate(islice(keys, count), first):
            id_, body = ids.new("dlv"), load.body(key, load.STORED_BODY_BYTES)
            deliveries.append(_delivery(id_, key, body, FIRST_SECOND * 1000 + number * 20))
            payloads.append((id_, HEADERS, body))
        yield deliveries, payloads


def _delivery(id_: str, key: str, body: bytes, at: int) -> tuple[Value, ...]:
    return (
        id_, TENANT, load.SOURCE, key, "", key_digest(TENANT, load.SOURCE, key), load.TYPE, "api",
        hashlib.sha256(body).digest(), id_, len(body), "done", at, at + 2, 1, 1, WORKER, at + 5,
        DeliveryOutcome.HANDLED.value, at + 9,
    )  # fmt: skip


def _fill_sqlite(file: str, rows: int) -> None:
    connection = apsw.Connection(file)
    # Nothing here needs to survive a crash; the box makes it WAL and durable again.
    for pragma in ("journal_mode = DELETE", "journal_mode = OFF", "synchronous = OFF"):
        connection.execute(f"PRAGMA {pragma}")
    connection.execute("PRAGMA cache_size = -2000000")
    with connection:
        for deliveries, payloads in _chunks(rows):
            connection.executemany(_insert("oncebox_deliveries", DELIVERY_COLUMNS), deliveries)
            connection.executemany(_insert("oncebox_payloads", PAYLOAD_COLUMNS), payloads)
    connection.execute("PRAGMA journal_mode = WAL")
    connection.close()


def _insert(table: str, columns: tuple[str, ...]) -> str:
    marks = ", ".join("?" * len(columns))
    return f"INSERT INTO {table} ({', '.join(columns)}) VALUES ({marks})"  # noqa: S608 - constants


def _fill_postgres(url: str, rows: int) -> None:
    with psycopg.connect(url, autocommit=True) as connection:
        found = connection.execute("SELECT pg_get_indexdef(%s::regclass)", (KEY_INDEX,)).fetchone()
        assert found is not None
        connection.execute("SET maintenance_work_mem = '512MB'")
        connection.execute(sql.SQL("DROP INDEX {}").format(sql.Identifier(KEY_INDEX)))
        for deliveries, payloads in _chunks(rows):
            _copy(connection, "oncebox_deliveries", DELIVERY_COLUMNS, deliveries)
            _copy(connection, "oncebox_payloads", PAYLOAD_COLUMNS, payloads)
        connection.execute(found[0])
        connection.execute("VACUUM (ANALYZE) oncebox_deliveries, oncebox_payloads")
        connection.execute("CHECKPOINT")


def _copy(
    connection: psycopg.Connection,
    table: str,
    columns: tuple[str, ...],
    rows: list[tuple[Value, ...]],
) -> None:
    words = sql.SQL("COPY {} ({}) FROM STDIN").format(
        sql.Identifier(table), sql.SQL(", ").join(map(sql.Identifier, columns))
    )
    with connection.cursor() as cursor, cursor.copy(words) as copy:
        for row in rows:
            copy.write_row(row)
