"""Sending in the usual way: three transactions by hand for every mail.

INSERT … ON CONFLICT DO NOTHING for the intent, UPDATE … for the mark before the hand-over, UPDATE
… for the result: the same driver and the same durability as ours, a table of the same shape,
called from asyncio through threads with a connection each. The mail is written by the standard
library, and handed to nobody.
"""

from __future__ import annotations

import argparse
import asyncio
import hashlib
import json
import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from email.message import EmailMessage
from typing import Any

import apsw
import psycopg
import uvloop

from bench import load

SCHEMA = """
CREATE TABLE send (
    id TEXT PRIMARY KEY, tenant TEXT NOT NULL, key {blob} NOT NULL, state TEXT NOT NULL,
    event_type TEXT NOT NULL, entity_id TEXT NOT NULL, recipient TEXT NOT NULL,
    message_id TEXT NOT NULL, message {blob} NOT NULL, fence BIGINT NOT NULL,
    lease_until BIGINT, created_at BIGINT NOT NULL, marked_at BIGINT, ended_at BIGINT,
    UNIQUE (tenant, key)
)
"""
INTEND = """
INSERT INTO send (id, tenant, key, state, event_type, entity_id, recipient, message_id, message,
    fence, lease_until, created_at)
VALUES ({0}, 'main', {0}, 'claimed', 'order.confirmation', {0}, {0}, {0}, {0}, 1, {0}, {0})
ON CONFLICT DO NOTHING
"""
MARK = """
UPDATE send SET state = 'sending', marked_at = {0}, lease_until = {0}
WHERE id = {0} AND fence = 1 AND state = 'claimed'
"""
SETTLE = "UPDATE send SET state = 'logged', ended_at = {0} WHERE id = {0} AND fence = 1"
_LEASE = 30_000


class Sqlite:
    """BEGIN IMMEDIATE, synchronous=FULL, a connection for each thread."""

    place = "?"

    def __init__(self, url: str) -> None:
        self._file = url.removeprefix("sqlite:///")

    def make(self) -> None:
        """Make the table."""
        self.connect().execute(SCHEMA.format(blob="BLOB"))

    def connect(self) -> apsw.Connection:
        """Return a connection."""
        db = apsw.Connection(self._file)
        db.set_busy_timeout(30_000)
        db.execute("PRAGMA journal_mode=WAL")
        db.execute("PRAGMA synchronous=FULL")
        db.wal_autocheckpoint(4_000)
        return db

    def run(self, db: Any, query: str, values: tuple[Any, ...]) -> None:
        """Run one statement in its own transaction."""
        db.execute("BEGIN IMMEDIATE")
        db.execute(query.format(self.place), values)
        assert db.changes() == 1
        db.execute("COMMIT")


class Postgres:
    """Synchronous psycopg, a connection for each thread."""

    place = "%s"

    def __init__(self, url: str) -> None:
        self._url = url

    def make(self) -> None:
        """Make the table."""
        self.connect().execute(SCHEMA.format(blob="BYTEA"))

    def connect(self) -> psycopg.Connection[Any]:
        """Return a connection."""
        return psycopg.connect(self._url, autocommit=True)

    def run(self, db: Any, query: str, values: tuple[Any, ...]) -> None:
        """Run one statement in its own transaction."""
        with db.transaction():
            assert db.execute(query.format(self.place), values).rowcount == 1


def send(store: Sqlite | Postgres, db: Any, entity: str, text: str) -> None:
    """Send one mail, three commits."""
    to = "ann@example.org"
    named = {"type": "order.confirmation", "entity": entity, "to": to, "v": 1}
    key = hashlib.sha256(json.dumps(named, sort_keys=True).encode()).digest()
    message_id = f"<{key.hex()[:32]}@example.com>"
    mail = EmailMessage()
    mail["From"], mail["To"], mail["Subject"] = "shop@example.com", to, "Your order"
    mail["Message-ID"] = message_id
    mail.set_content(text)
    now, id_ = time.time_ns() // 1_000_000, f"snd_{key.hex()[:26]}"
    made = (id_, key, entity, to, message_id, mail.as_bytes(), now + _LEASE, now)
    store.run(db, INTEND, made)
    store.run(db, MARK, (now, now + _LEASE, id_))
    store.run(db, SETTLE, (now, id_))


def sending(store: Sqlite | Postgres, pool: int) -> load.Accept:
    """Return what sends the next one."""
    threads, local = ThreadPoolExecutor(pool), threading.local()

    def work(entity: str, text: str) -> None:
        if not hasattr(local, "db"):
            local.db = store.connect()
        send(store, local.db, entity, text)

    async def call(key: str, body: bytes) -> None:
        loop = asyncio.get_running_loop()
        await loop.run_in_executor(threads, work, key, body.decode())

    return call


def main() -> None:
    """Measure and report."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("url")
    parser.add_argument("--pool", type=int, default=10)
    parser.add_argument("--seconds", type=float, default=load.SECONDS)
    options = parser.parse_args()
    kind: Callable[[str], Sqlite | Postgres] = (
        Sqlite if options.url.startswith("sqlite") else Postgres
    )
    store = kind(options.url)
    store.make()
    timed = load.Timed(sending(store, options.pool))
    per_second = uvloop.run(load.rate(timed, seconds=options.seconds))
    load.report(per_second, f"pool of {options.pool}", **timed.waits())


if __name__ == "__main__":
    main()
