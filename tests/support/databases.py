"""Databases for tests: SQLite in a temporary folder, PostgreSQL on a server of our own."""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Protocol, TypeVar

import psycopg

from oncebox import clock
from oncebox.store import migrate, opening
from oncebox.store.database import Database, Transaction
from oncebox.store.postgres_session import PostgresSession
from oncebox.store.sqlite import SqliteSession

if TYPE_CHECKING:  # it brings pytest along, which a process of its own can do without
    from tests.support.postgres import PostgresServer

T = TypeVar("T")

KINDS = ("sqlite", "postgres")
#: a test server may forget everything when it crashes, and is much faster for it
FAST = {"fsync": "off", "full_page_writes": "off"}
_NAME = "ledger"
_CLEAN = """
DO $$ DECLARE name TEXT; BEGIN
    FOR name IN SELECT tablename FROM pg_tables
        WHERE schemaname = 'public' AND tablename <> 'oncebox_migrations'
    LOOP EXECUTE 'DELETE FROM ' || quote_ident(name); END LOOP;
END $$
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
        return opening.connect(self.url, now=now)

    @property
    def path(self) -> Path:
        """The file of a SQLite database."""
        return opening.sqlite_path(self.url)


def empty_sqlite(folder: Path) -> Place:
    """Return a file that does not exist yet."""
    return Place("sqlite", f"sqlite:///{folder / 'oncebox.db'}")


def fresh_sqlite(folder: Path) -> Place:
    """Make a new migrated file."""
    return migrated(empty_sqlite(folder))


def empty_postgres(server: "PostgresServer", name: str) -> Place:
    """Make a new database without any table."""
    server.drop_database(name)
    return Place("postgres", server.create_database(name))


def fresh_postgres(server: "PostgresServer") -> Place:
    """Return the server's one migrated database with nothing in it.

    Deleting rows takes a millisecond, a database of its own would take a hundred.
    """
    place = Place("postgres", server.url(_NAME))
    try:
        with psycopg.connect(place.url, autocommit=True) as connection:
            connection.execute(_CLEAN)
    except psycopg.OperationalError:
        server.create_database(_NAME)
        migrated(place)
    return place


def migrated(place: Place) -> Place:
    session = place.session()
    try:
        session.run(lambda tx: migrate._apply(tx, place.kind, 0))
    finally:
        session.close()
    return place
