"""What the stand-ins write to: a store with one row per key."""

from typing import Protocol

#: With the unique key a repeat is recognised; the mutant has none.
TABLE = "CREATE TABLE IF NOT EXISTS row_ (id {serial}, key TEXT NOT NULL {unique})"


class Unsure(Exception):
    """The store did not answer: the row may be there or not."""


class Store(Protocol):
    """What a stand-in writes to."""

    def write(self, key: str) -> str:
        """Commit a row for this key, or find the one that is there, and return its id."""

    def rows(self) -> list[tuple[str, str]]:
        """Return id and key of every row."""

    def faults(self) -> list[str]:
        """Return what an integrity check complains of."""
