"""Accepting in the usual way: one transaction per call, a pool of ten connections.

The same driver, the same durability, the same table shape and the same idempotent
insert as ours, called from asyncio; only the merging of concurrent calls is missing.
"""

from __future__ import annotations

import argparse
import asyncio
import threading
import time
import uuid
from collections.abc import AsyncIterator, Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from typing import Any

import apsw
import psycopg_pool
import uvloop

from bench import load

SCHEMA = """
CREATE TABLE payload (id TEXT PRIMARY KEY, body {blob} NOT NULL, headers TEXT NOT NULL);
CREATE TABLE delivery (
    id TEXT PRIMARY KEY, tenant TEXT NOT NULL, source TEXT NOT NULL, key TEXT NOT NULL,
    type TEXT NOT NULL, state TEXT NOT NULL, payload TEXT NOT NULL,
    received_at BIGINT NOT NULL, due_at BIGINT NOT NULL, tries INTEGER NOT NULL DEFAULT 0,
    UNIQUE (tenant, source, key)
);
CREATE INDEX delivery_due ON delivery (due_at) WHERE state = 'received';
"""
DELIVERY = """
INSERT INTO delivery (id, tenant, source, key, type, state, payload, received_at, due_at)
VALUES ({0}, 'main', {0}, {0}, {0}, 'received', {0}, {0}, {0})
ON CONFLICT (tenant, source, key) DO NOTHING
"""
PAYLOAD = "INSERT INTO payload (id, body, headers) VALUES ({0}, {0}, {0})"
BOTH = f"""
WITH new AS ({DELIVERY.format("%s")} RETURNING payload)
INSERT INTO payload (id, body, headers) SELECT payload, %s, %s FROM new
"""  # noqa: S608 - constants only
HEADERS = str(load.HEADERS)


def delivery_row(key: str) -> tuple[str | int, ...]:
    """Return the parameters of one delivery."""
    now = time.time_ns() // 1_000_000
    return (f"dlv_{uuid.uuid4().hex}", load.SOURCE, key, load.TYPE, f"pay_{key}", now, now)


class SqliteAccept:
    """One thread-bound connection per worker thread, BEGIN IMMEDIATE, synchronous=FULL."""

    def __init__(self, file: str, threads: int) -> None:
        self._file = file
        self._local = threading.local()
        self._pool = ThreadPoolExecutor(threads)
        self._connect().execute(SCHEMA.format(blob="BLOB"))

    def _connect(self) -> apsw.Connection:
        db = apsw.Connection(self._file)
        db.set_busy_timeout(30_000)
        db.execute("PRAGMA journal_mode=WAL")
        db.execute("PRAGMA synchronous=FULL")
        db.wal_autocheckpoint(4_000)
        return db

    def _insert(self, key: str, body: bytes) -> bool:
        db: apsw.Connection | None = getattr(self._local, "db", None)
        if db is None:
            db = self._local.db = self._connect()
        row = delivery_row(key)
        db.execute("BEGIN IMMEDIATE")
        db.execute(DELIVERY.format("?"), row)
        new = db.changes() == 1
        if new:
            db.execute(PAYLOAD.format("?"), (row[4], body, HEADERS))
        db.execute("COMMIT")
        return new

    async def __call__(self, key: str, body: bytes) -> bool:
        loop = asyncio.get_running_loop()
        return await loop.run_in_executor(self._pool, self._insert, key, body)


class PostgresThreads:
    """Synchronous psycopg, a pool of connections, a thread for each."""

    def __init__(self, pool: Any, size: int, insert: Callable[..., bool]) -> None:
        self._pool = pool
        self._threads = ThreadPoolExecutor(size)
        self._statement = insert

    def _insert(self, key: str, body: bytes) -> bool:
        with self._pool.connection() as db:
            return self._statement(db, key, body)

    async def __call__(self, key: str, body: bytes) -> bool:
        loop = asyncio.get_running_loop()
        return await loop.run_in_executor(self._threads, self._insert, key, body)


def insert_two(db: Any, key: str, body: bytes) -> bool:
    """Insert by two statements in one transaction."""
    row = delivery_row(key)
    new: bool = db.execute(DELIVERY.format("%s"), row).rowcount == 1
    if new:
        db.execute(PAYLOAD.format("%s"), (row[4], body, HEADERS))
    return new


def insert_one(db: Any, key: str, body: bytes) -> bool:
    """Insert by one statement, which is its own transaction: a single round trip."""
    new: bool = db.execute(BOTH, (*delivery_row(key), body, HEADERS)).rowcount == 1
    return new


@asynccontextmanager
async def sqlite(url: str, options: argparse.Namespace) -> AsyncIterator[load.Accept]:
    """Yield an accept on SQLite."""
    yield SqliteAccept(url.removeprefix("sqlite:///"), options.pool)


@asynccontextmanager
async def postgres_threads(url: str, options: argparse.Namespace) -> AsyncIterator[load.Accept]:
    """Yield an accept on PostgreSQL from threads."""
    single = options.way != "threads-two"
    with psycopg_pool.ConnectionPool(
        url, min_size=options.pool, max_size=options.pool, kwargs={"autocommit": single}
    ) as pool:
        with pool.connection() as db:
            db.execute(SCHEMA.format(blob="BYTEA"))
        yield PostgresThreads(pool, options.pool, insert_one if single else insert_two)


@asynccontextmanager
async def postgres_async(url: str, options: argparse.Namespace) -> AsyncIterator[load.Accept]:
    """Yield an accept on PostgreSQL from the event loop itself."""
    single = options.way != "async-two"
    async with psycopg_pool.AsyncConnectionPool(
        url, min_size=options.pool, max_size=options.pool, kwargs={"autocommit": single}
    ) as pool:
        async with pool.connection() as db:
            await db.execute(SCHEMA.format(blob="BYTEA"))

        async def insert_both(key: str, body: bytes) -> bool:
            async with pool.connection() as db:
                done = await db.execute(BOTH, (*delivery_row(key), body, HEADERS))
                return done.rowcount == 1

        async def insert_each(key: str, body: bytes) -> bool:
            row = delivery_row(key)
            async with pool.connection() as db:
                done = await db.execute(DELIVERY.format("%s"), row)
                if done.rowcount == 1:
                    await db.execute(PAYLOAD.format("%s"), (row[4], body, HEADERS))
                return done.rowcount == 1

        yield insert_both if single else insert_each


def opener(options: argparse.Namespace) -> AbstractAsyncContextManager[load.Accept]:
    """Return the way asked for."""
    if options.url.startswith("sqlite"):
        return sqlite(options.url, options)
    if options.way.startswith("async"):
        return postgres_async(options.url, options)
    return postgres_threads(options.url, options)


async def measure(options: argparse.Namespace) -> float:
    """Return accepts per second."""
    async with opener(options) as accept:
        return await load.rate(accept, seconds=options.seconds)


WAYS = ("threads", "threads-two", "async", "async-two")


def main() -> None:
    """Measure and report."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("url")
    parser.add_argument("--pool", type=int, default=10)
    parser.add_argument("--way", choices=WAYS, default="threads")
    parser.add_argument("--seconds", type=float, default=load.SECONDS)
    options = parser.parse_args()
    per_second = uvloop.run(measure(options))
    load.report(per_second, f"pool of {options.pool}, {options.way}")


if __name__ == "__main__":
    main()
