"""Granting in the usual way: BEGIN, SELECT, UPDATE, COMMIT by hand for every claim.

The same driver and the same durability as ours, a table of the same shape, called from asyncio
through threads with a connection each; only the merging of concurrent claims is missing. What a
row says is handed out as it is, without being sealed.
"""

from __future__ import annotations

import argparse
import asyncio
import itertools
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import apsw
import psycopg
import uvloop

from bench import load

SCHEMA = """
CREATE TABLE artifact (
    id TEXT PRIMARY KEY, tenant TEXT NOT NULL, inbox TEXT NOT NULL, kind TEXT NOT NULL,
    mark {blob} NOT NULL, value {blob} NOT NULL, state TEXT NOT NULL, sender TEXT NOT NULL,
    received_at BIGINT NOT NULL, claimed_by TEXT, claim_key TEXT, claimed_at BIGINT,
    UNIQUE (inbox, kind, mark)
)
"""
INSERT = """
INSERT INTO artifact (id, tenant, inbox, kind, mark, value, state, sender, received_at)
VALUES ({0}, 'main', 'inbox', 'code', {0}, {0}, 'available', 'no-reply@shop.example', 1)
"""
SELECT = "SELECT value, state, claimed_by, claim_key FROM artifact WHERE id = {0} AND tenant = {0}"
UPDATE = """
UPDATE artifact SET state = 'claimed', claimed_by = {0}, claim_key = {0}, claimed_at = {0}
WHERE id = {0} AND tenant = {0} AND state = 'available'
"""


class Sqlite:
    """BEGIN IMMEDIATE, synchronous=FULL, a connection for each thread."""

    def __init__(self, url: str) -> None:
        self._file = url.removeprefix("sqlite:///")

    def connect(self) -> apsw.Connection:
        """Return a connection."""
        db = apsw.Connection(self._file)
        db.set_busy_timeout(30_000)
        db.execute("PRAGMA journal_mode=WAL")
        db.execute("PRAGMA synchronous=FULL")
        db.wal_autocheckpoint(4_000)
        return db

    def fill(self, rows: list[tuple[str, bytes, bytes]]) -> None:
        """Store what will be granted."""
        db = self.connect()
        db.execute(SCHEMA.format(blob="BLOB"))
        with db:
            db.executemany(INSERT.format("?"), rows)

    def grant(self, db: Any, id_: str) -> bytes:
        """Grant one."""
        db.execute("BEGIN IMMEDIATE")
        value, state, _by, _key = db.execute(SELECT.format("?"), (id_, "main")).fetchone()
        assert state == "available"
        now = time.time_ns() // 1_000_000
        db.execute(UPDATE.format("?"), ("key", "claim", now, id_, "main"))
        assert db.changes() == 1
        db.execute("COMMIT")
        return bytes(value)


class Postgres:
    """Synchronous psycopg, a connection for each thread."""

    def __init__(self, url: str) -> None:
        self._url = url

    def connect(self) -> psycopg.Connection[Any]:
        """Return a connection."""
        return psycopg.connect(self._url, autocommit=True)

    def fill(self, rows: list[tuple[str, bytes, bytes]]) -> None:
        """Store what will be granted."""
        with psycopg.connect(self._url) as db, db.cursor() as cursor:
            cursor.execute(SCHEMA.format(blob="BYTEA"))
            cursor.executemany(INSERT.format("%s"), rows)

    def grant(self, db: Any, id_: str) -> bytes:
        """Grant one."""
        with db.transaction():
            found = db.execute(SELECT.format("%s") + " FOR UPDATE", (id_, "main")).fetchone()
            value, state, _by, _key = found
            assert state == "available"
            now = time.time_ns() // 1_000_000
            done = db.execute(UPDATE.format("%s"), ("key", "claim", now, id_, "main"))
            assert done.rowcount == 1
        return bytes(value)


def granting(store: Sqlite | Postgres, pool: int, wanted: Iterator[str]) -> load.Accept:
    """Return what grants the next one."""
    threads, local = ThreadPoolExecutor(pool), threading.local()

    def grant(id_: str) -> bytes:
        if not hasattr(local, "db"):
            local.db = store.connect()
        return store.grant(local.db, id_)

    async def call(_key: str, _body: bytes) -> bytes:
        loop = asyncio.get_running_loop()
        return await loop.run_in_executor(threads, grant, next(wanted))

    return call


def main() -> None:
    """Measure and report."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("url")
    parser.add_argument("--pool", type=int, default=10)
    parser.add_argument("--artifacts", type=int, default=250_000)
    parser.add_argument("--seconds", type=float, default=load.SECONDS)
    options = parser.parse_args()
    kind: Callable[[str], Sqlite | Postgres] = (
        Sqlite if options.url.startswith("sqlite") else Postgres
    )
    store = kind(options.url)
    names = [f"art_{number:026}" for number in range(options.artifacts)]
    store.fill([(id_, id_.encode(), id_.encode() * 3) for id_ in names])
    call = granting(store, options.pool, itertools.chain(names))
    per_second = uvloop.run(load.rate(call, seconds=options.seconds))
    load.report(per_second, f"pool of {options.pool}")


if __name__ == "__main__":
    main()
