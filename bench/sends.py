"""The rows of sends: a mail in three commits, a claim, and an answer to who asks again."""

from __future__ import annotations

from bench.rows import Database, Probe, Row

PART = "sends"
DATABASES: tuple[Database, ...] = ("sqlite", "postgres")


def rows() -> list[Row]:
    """Return every comparison of this part."""
    return [
        *(_send(database) for database in DATABASES),
        *(_against_redis(database, "claim", "claim-vs-redis-setnx") for database in DATABASES),
        *(
            _against_redis(database, "duplicate", "duplicate-answers-vs-redis")
            for database in DATABASES
        ),
    ]


def _ours(database: Database, what: str) -> Probe:
    return Probe("ours", database, "bench.our_sends", (what,), ours=True)


def _send(database: Database) -> Row:
    pools = ("1", "10") if database == "sqlite" else ("10", "32")
    name, program = "three transactions per send", "bench.peers.one_send"
    # In our own environment: it needs nothing but the drivers.
    theirs = tuple(Probe(name, database, program, ("--pool", pool), ours=True) for pool in pools)
    return Row(PART, "send-vs-one-transaction", _ours(database, "send"), theirs)


def _against_redis(database: Database, what: str, name: str) -> Row:
    program = "bench.peers.redis_claims"
    theirs = tuple(
        Probe("redis-py", "redis", program, (what, *options))
        for options in ((), ("--pool", "10"), ("--pool", "64"))
    )
    return Row(PART, name, _ours(database, what), theirs)
