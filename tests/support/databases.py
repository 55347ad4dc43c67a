"""Databases for tests: SQLite in a temporary folder, PostgreSQL on a server of our own."""

import atexit
import functools
import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol, TypeVar

import psycopg

from oncebox.core import clock
from oncebox.db import migrate, startup
from oncebox.db.database import Database, Transaction
from oncebox.db.postgres import PostgresSession
from oncebox.db.sqlite import SqliteSession
from tests.support.postgres import Postgres

T = TypeVar("T")

_connections: dict[str, psycopg.Connection] = {}

KINDS = ("sqlite", "postgres")
#: a test server may forget everything when it crashes, and is much faster for it
FAST = {"fsync": "off", "full_page_writes": "off"}
_NAME = "ledger"
_CLEAN = """
DO $$ DECLARE name TEXT; BEGIN
    FOR name IN SELECT tablename FROM pg_tables
        WHERE schemaname = 'public' AND tablename <> 'oncebox_migrations'
    LOOP EXECUTE 'DELETE FROM ' || quote_ident(name); END LOOP;
END $$;
DELETE FROM oncebox_migrations WHERE number > {newest}
"""


class Session(Protocol):
    """One connection on which verbs run, one after another."""

    def run(self, work: Callable[[Transaction], T]) -> T:
        """Run a function in one transaction."""

    def close(self) -> None:
        """Let go of the connection."""


@dataclass(frozen=True)
class Place:
    """Where one test's database is."""

    kind: str
    url: str

    def session(self) -> Session:
        """Connect for verbs that are called by hand."""
        if self.kind == "sqlite":
            return SqliteSession(self.path, writable=True)
        return PostgresSession(self.url)

    def open(self, now: clock.Clock = clock.system) -> Database:
        """Open the database as a process would; only inside a running loop."""
        return startup.connect(self.url, now=now)

    @property
    def path(self) -> Path:
        """The file of a SQLite database."""
        return startup.sqlite_path(self.url)


def empty_sqlite(folder: Path) -> Place:
    """Return a file that does not exist yet."""
    return Place("sqlite", f"sqlite:///{folder / 'oncebox.db'}")


def fresh_sqlite(folder: Path) -> Place:
    """Make a new migrated file: a copy of one that was migrated once in this process."""
    place = empty_sqlite(folder)
    place.path.touch(mode=0o600)
    place.path.write_bytes(_migrated_file())
    return place


def empty_postgres(server: Postgres, name: str) -> Place:
    """Make a new database without any table."""
    server.drop_database(name)
    return Place("postgres", server.create_database(name))


def fresh_postgres(server: Postgres, name: str = _NAME) -> Place:
    """Return the migrated database of this process with nothing in it.

    Deleting rows takes a millisecond, a database of its own would take a hundred.
    """
    place = Place("postgres", server.url(name))
    try:
        connection = _kept(place.url)
    except psycopg.OperationalError:
        server.create_database(name)
        return migrated(place)
    connection.execute(_cleaning())
    return place


def _kept(url: str) -> psycopg.Connection:
    """Return a connection that is kept: a new one costs more than what it is for."""
    if url not in _connections or _connections[url].closed:
        _connections[url] = psycopg.connect(url, autocommit=True)
        atexit.register(_connections[url].close)
    return _connections[url]


@functools.cache
def _cleaning() -> str:
    """Return what removes every row, and every migration of a version that is not yet."""
    newest = migrate.shipped_migrations("postgres")[-1].number
    return _CLEAN.format(newest=newest)


@functools.cache
def _migrated_file() -> bytes:
    """Return what a migrated file consists of; closing it has moved its log into it."""
    with tempfile.TemporaryDirectory() as folder:
        return migrated(empty_sqlite(Path(folder))).path.read_bytes()


def migrated(place: Place) -> Place:
    """Apply every migration to a database without any table."""
    session = place.session()
    try:
        session.run(lambda tx: migrate._apply_pending(tx, place.kind, 0))
    finally:
        session.close()
    return place
