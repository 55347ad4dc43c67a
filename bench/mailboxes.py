"""The rows of mailboxes: read and stored against fetched and dropped; idle ones; the wait."""

from __future__ import annotations

from bench.rows import Database, Probe, Row

PART = "mailboxes"
DATABASES: tuple[Database, ...] = ("sqlite", "postgres")


def rows() -> list[Row]:
    """Return every comparison of this part."""
    return [row for database in DATABASES for row in _rows(database)]


def _rows(database: Database) -> list[Row]:
    singly = _peer("imap-tools, keeps nothing", "imap-tools")
    in_bulk = _peer("imap-tools in bulk, keeps nothing", "imap-tools", "--bulk", "100")
    bare = _peer("a bare IDLE, until EXISTS", "bare-idle")
    few = _ours("a hundred idle mailboxes", database, "idle", "--mailboxes", "100")
    return [
        Row(PART, "imap-fetch-vs-imap-tools", _ours("ours", database, "fetch"), (singly, in_bulk)),
        Row(PART, "idle-mailboxes", _ours("a thousand idle mailboxes", database, "idle"), (few,)),
        Row(PART, "idle-to-answer", _ours("until the grant", database, "answer"), (bare,)),
    ]


def _ours(name: str, database: Database, *options: str) -> Probe:
    return Probe(name, database, "bench.our_mailboxes", options, ours=True)


def _peer(name: str, *options: str) -> Probe:
    # The server is started by our own interpreter; whatever the database, the peers are the same.
    return Probe(name, "sqlite", "bench.our_mailboxes", options, ours=True)
