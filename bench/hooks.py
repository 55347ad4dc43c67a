"""The rows of webhooks: verified and committed before the answer, against the usual ways."""

from __future__ import annotations

from bench.rows import Database, Probe, Row

PART = "hooks"
DATABASES: tuple[Database, ...] = ("sqlite", "postgres")


def rows() -> list[Row]:
    """Return every comparison of this part."""
    return [row for database in DATABASES for row in _rows(database)]


def _rows(database: Database) -> list[Row]:
    ours, again = _ours("ours", database), _ours("ours, one event", database, "--storm")
    proxied = _ours("ours, behind a proxy", database, "--proxied")
    bare = Probe("bare ASGI app", database, "bench.peers.bare_hooks")
    return [
        Row(PART, "intake-vs-bare", ours, (bare,)),
        Row(PART, "intake-vs-fastapi-sqlalchemy", ours, _fastapi(database)),
        Row(PART, "storm-vs-distinct", again, (ours,)),
        Row(PART, "intake-behind-proxy-vs-intake", proxied, (ours,)),
    ]


def _ours(name: str, database: Database, *options: str) -> Probe:
    return Probe(name, database, "bench.our_hooks", options, ours=True)


def _fastapi(database: Database) -> tuple[Probe, ...]:
    def peer(*options: str) -> Probe:
        return Probe("FastAPI + SQLAlchemy", database, "bench.peers.fastapi_hooks", options)

    if database == "sqlite":
        return (peer("--pool", "1"),)
    return (peer("--driver", "asyncpg"), peer("--driver", "psycopg"))
