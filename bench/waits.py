"""The row of waiting: from the 250 to the answer of a client that waits, against one that polls."""

from __future__ import annotations

from bench.rows import Database, Probe, Row

PART = "artifacts"
DATABASES: tuple[Database, ...] = ("sqlite", "postgres")


def rows() -> list[Row]:
    """Return every comparison of waiting."""
    return [_row(database) for database in DATABASES]


def _row(database: Database) -> Row:
    ours = Probe("ours", database, "bench.our_waits", ("wait",), ours=True)
    # The same service, asked as services without a wait are.
    polling = Probe("polling every 250 ms", database, "bench.our_waits", ("poll",), ours=True)
    return Row(PART, "250-to-answer-vs-polling", ours, (polling,))
