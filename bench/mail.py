"""The rows of mail once it is taken: read and filed, and read again page by page."""

from __future__ import annotations

from bench.rows import Database, Probe, Row

#: mail in is one part, from the socket to the page
PART = "smtp"
DATABASES: tuple[Database, ...] = ("sqlite", "postgres")


def rows() -> list[Row]:
    """Return every comparison of this part."""
    return [row for database in DATABASES for row in _rows(database)]


def _rows(database: Database) -> list[Row]:
    stdlib = Probe("stdlib email, stored nowhere", database, "bench.peers.stdlib_mail", ours=True)
    return [
        Row(PART, "parse-vs-stdlib", _ours("raw mail to message", database, "file"), (stdlib,)),
        Row(
            PART,
            "list-100k-vs-1k",
            _ours("pages of 50 of 100,000", database, "list", "--messages", "100000"),
            (_ours("pages of 50 of 1,000", database, "list", "--messages", "1000"),),
        ),
    ]


def _ours(name: str, database: Database, *options: str) -> Probe:
    return Probe(name, database, "bench.our_mail", options, ours=True)
