"""The ledger's rows: accepting and working, against the usual ways."""

from __future__ import annotations

from bench.rows import Database, Probe, Row

PART = "ledger"
MANY, FEW = 5_000_000, 10_000


def rows() -> list[Row]:
    """Return every comparison of this part."""
    return [
        *_accept_against_one_transaction(),
        *_accept_against_sqlalchemy(),
        *_work_against_durable(),
        *_work_against_volatile(),
        *_accept_with_many_rows(),
    ]


def _our_accept(database: Database, stored: int = 0) -> Probe:
    name = f"ours with {stored:,} rows" if stored else "ours"
    return Probe(name, database, "bench.ours", ("accept",), ours=True, stored=stored)


def _our_work(database: Database) -> Probe:
    # Tuned like the peers; more at a time means fewer commits, and more to hold in memory.
    concurrency = "500" if database == "sqlite" else "2000"
    return Probe("ours", database, "bench.ours", ("work", "--concurrency", concurrency), ours=True)


def _peer(name: str, database: Database, program: str, *options: str) -> Probe:
    return Probe(name, database, f"bench.peers.{program}", options)


def _accept_against_one_transaction() -> list[Row]:
    def peer(database: Database, *options: str) -> Probe:
        return _peer("one transaction per call", database, "one_transaction", *options)

    sqlite = (peer("sqlite", "--pool", "1"), peer("sqlite", "--pool", "10"))
    # BEGIN, two INSERTs and COMMIT on both databases.
    postgres = (peer("postgres", "--way", "threads-two"), peer("postgres", "--way", "async-two"))
    # Tuned by hand: both INSERTs in one statement that needs no BEGIN and no COMMIT.
    tuned = (peer("postgres", "--way", "threads"), peer("postgres", "--way", "async"))
    name = "accept-vs-one-transaction"
    return [
        Row(PART, name, _our_accept("sqlite"), sqlite),
        Row(PART, name, _our_accept("postgres"), postgres),
        Row(PART, "accept-vs-one-statement", _our_accept("postgres"), tuned),
    ]


def _accept_against_sqlalchemy() -> list[Row]:
    def peer(database: Database, *options: str) -> Probe:
        return _peer("SQLAlchemy async session", database, "sqlalchemy_session", *options)

    sqlite = (peer("sqlite", "--pool", "1"),)
    postgres = (peer("postgres", "--driver", "asyncpg"), peer("postgres", "--driver", "psycopg"))
    name = "accept-vs-sqlalchemy"
    return [
        Row(PART, name, _our_accept("sqlite"), sqlite),
        Row(PART, name, _our_accept("postgres"), postgres),
    ]


def _work_against_durable() -> list[Row]:
    sqlite = (_peer("huey", "sqlite", "huey_drain"),)
    postgres = (
        _peer("pgqueuer", "postgres", "pgqueuer_drain", "--batch", "200"),
        _peer("pgqueuer", "postgres", "pgqueuer_drain", "--batch", "1000"),
        _peer("procrastinate", "postgres", "procrastinate_drain"),
        _peer("dbos", "postgres", "dbos_drain"),
    )
    name = "work-vs-best-durable"
    return [
        Row(PART, name, _our_work("sqlite"), sqlite),
        Row(PART, name, _our_work("postgres"), postgres),
    ]


def _work_against_volatile() -> list[Row]:
    redis = (
        _peer("celery on Redis", "redis", "celery_drain"),
        _peer("dramatiq on Redis", "redis", "dramatiq_drain", "--workers", "8"),
        _peer(
            "dramatiq on Redis", "redis", "dramatiq_drain", "--kind", "greenlets", "--workers", "64"
        ),
    )
    name = "work-vs-best-volatile"
    return [
        Row(PART, name, _our_work("sqlite"), redis),
        Row(PART, name, _our_work("postgres"), redis),
    ]


def _accept_with_many_rows() -> list[Row]:
    return [
        Row(
            PART,
            "accept-5M-rows-vs-10k",
            _our_accept(database, MANY),
            (_our_accept(database, FEW),),
        )
        for database in ("sqlite", "postgres")
    ]
