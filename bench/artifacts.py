"""The rows of artifacts: granted once, many claims in one commit."""

from __future__ import annotations

from bench.rows import Database, Probe, Row

PART = "artifacts"
DATABASES: tuple[Database, ...] = ("sqlite", "postgres")


def rows() -> list[Row]:
    """Return every comparison of this part."""
    return [_grant(database) for database in DATABASES]


def _grant(database: Database) -> Row:
    ours = Probe("ours", database, "bench.our_artifacts", ("grant",), ours=True)
    return Row(PART, "grant-vs-one-transaction", ours, _by_hand(database))


def _by_hand(database: Database) -> tuple[Probe, ...]:
    """Return the usual way: the same driver, a transaction for each grant."""
    pools = ("1", "10") if database == "sqlite" else ("10", "32")
    program = "bench.peers.one_grant"
    name = "one transaction per grant"
    # In our own environment: it needs nothing but the drivers.
    return tuple(Probe(name, database, program, ("--pool", pool), ours=True) for pool in pools)
