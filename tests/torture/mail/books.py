"""What stands in the database about events, read past everything that is under test."""

from collections.abc import Iterator
from contextlib import contextmanager

from oncebox.db.database import Row
from oncebox.db.postgres import PostgresSession
from oncebox.db.sqlite import SqliteSession
from oncebox.db.startup import sqlite_path
from tests.support.databases import Session

_NUMBERED = "SELECT id, number FROM oncebox_events WHERE number > {} ORDER BY number"
_WAITING = "SELECT COUNT(*) FROM oncebox_events WHERE number IS NULL"


@contextmanager
def session_of(url: str, *, writable: bool = False) -> Iterator[Session]:
    """Connect for verbs that are called by hand."""
    session: Session = (
        SqliteSession(sqlite_path(url), writable=writable)
        if url.startswith("sqlite:")
        else PostgresSession(url)
    )
    try:
        yield session
    finally:
        session.close()


def numbered_after(session: Session, number: int) -> list[Row]:
    """Return the ids and numbers of events after a number."""
    return session.run(lambda tx: tx.execute(_NUMBERED.format(number)))


def numbered(url: str) -> list[str]:
    """Return the ids of numbered events in the order of their numbers, which have no gaps."""
    with session_of(url) as session:
        rows = numbered_after(session, 0)
    numbers = [number for _, number in rows]
    assert numbers == list(range(1, len(numbers) + 1)), "the numbers have gaps"
    return [id_ for id_, _ in rows]


def waiting(url: str) -> int:
    """Return how many events have no number yet."""
    with session_of(url) as session:
        return int(session.run(lambda tx: tx.execute(_WAITING))[0][0])
