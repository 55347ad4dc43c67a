"""Carelessness planted on purpose: each way must be seen to break a promise."""

from typing import Any, Final

from oncebox.db.sqlite import SqliteSession

#: Nothing, or SQLite commits that are not flushed.
WAYS: Final = ("", "unflushed")


def apply(way: str) -> None:
    """Make this process careless in the given way."""
    if way == "unflushed":
        _commit_without_flushing()


def _commit_without_flushing() -> None:
    prepare = SqliteSession._configure

    def careless(self: SqliteSession, **given: Any) -> None:
        prepare(self, **given)
        self.connection.execute("PRAGMA synchronous = NORMAL")

    SqliteSession._configure = careless  # type: ignore[method-assign]
