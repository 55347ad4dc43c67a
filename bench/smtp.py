"""The rows of mail: on disk before the 250, against servers that keep it and some that do not."""

from __future__ import annotations

from bench.rows import Database, Probe, Row

PART = "smtp"
DATABASES: tuple[Database, ...] = ("sqlite", "postgres")


def rows() -> list[Row]:
    """Return every comparison of this part."""
    return [row for database in DATABASES for row in _rows(database)]


def _rows(database: Database) -> list[Row]:
    ours = Probe("ours", database, "bench.our_smtp", ours=True)
    nothing = _peer("aiosmtpd, keeps nothing", "bench.peers.aiosmtpd_mail")
    stored = _peer("aiosmtpd + SQLite", "bench.peers.aiosmtpd_mail", "--store")
    npm = _peer("npm smtp-server, keeps nothing", "bench.peers.npm_mail")
    postfix = _peer("Postfix", "bench.peers.postfix_mail")
    return [
        Row(PART, "smtp-vs-aiosmtpd-noop", ours, (nothing,)),
        Row(PART, "smtp-vs-aiosmtpd-sqlite", ours, (stored,)),
        Row(PART, "smtp-vs-npm-smtp-server-noop", ours, (npm,)),
        Row(PART, "smtp-vs-postfix", ours, (postfix,)),
    ]


def _peer(name: str, program: str, *options: str) -> Probe:
    # Whatever the database, the peers are the same; they run with our own interpreter, where
    # aiosmtpd is for the tests already.
    return Probe(name, "sqlite", program, options, ours=True)
