"""Mail in the usual way: aiosmtpd on uvloop, which keeps nothing, or one row per transaction."""

from __future__ import annotations

import argparse
import asyncio
import hashlib
import sqlite3
import sys
from typing import Any

import uvloop
from aiosmtpd.smtp import SMTP

from bench import mailload

_TABLE = """
CREATE TABLE mails (
    key TEXT PRIMARY KEY, sender TEXT NOT NULL, recipients TEXT NOT NULL, body BLOB NOT NULL
)
"""


class Nothing:
    """Answers and forgets."""

    async def handle_DATA(self, _server: Any, _session: Any, _envelope: Any) -> str:  # noqa: N802 - aiosmtpd's own way
        return "250 ok"


class Rows:
    """Writes every mail in a transaction of its own, in a thread, and answers after the commit."""

    def __init__(self, path: str) -> None:
        self._database = sqlite3.connect(path, isolation_level=None, check_same_thread=False)
        self._database.execute("PRAGMA journal_mode = WAL")
        self._database.execute("PRAGMA synchronous = FULL")
        self._database.execute(_TABLE)
        self._turn = asyncio.Lock()

    async def handle_DATA(self, _server: Any, _session: Any, envelope: Any) -> str:  # noqa: N802 - aiosmtpd's own way
        body = envelope.content
        row = (
            hashlib.sha256(body).hexdigest(),
            envelope.mail_from,
            ",".join(envelope.rcpt_tos),
            body,
        )
        async with self._turn:
            await asyncio.to_thread(self._write, row)
        return "250 ok"

    def _write(self, row: tuple[Any, ...]) -> None:
        self._database.execute("INSERT OR IGNORE INTO mails VALUES (?, ?, ?, ?)", row)


async def serve(handler: Any) -> None:
    """Serve until stopped; print where."""
    loop = asyncio.get_running_loop()
    server = await loop.create_server(
        lambda: SMTP(handler, hostname="bench.example", enable_SMTPUTF8=True), "127.0.0.1", 0
    )
    print(f"smtp: 127.0.0.1:{server.sockets[0].getsockname()[1]}", flush=True)
    await server.serve_forever()


def main() -> None:
    """Measure and report, or serve."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("url")
    parser.add_argument("--store", action="store_true", help="one SQLite transaction per mail")
    parser.add_argument("--serve", action="store_true")
    parser.add_argument("--seconds", type=float, default=mailload.SECONDS)
    options = parser.parse_args()
    if options.serve:
        path = options.url.removeprefix("sqlite:///")
        uvloop.run(_served(path) if options.store else serve(Nothing()))
        return
    server = [sys.executable, "-m", "bench.peers.aiosmtpd_mail", *sys.argv[1:], "--serve"]
    what = "one transaction per mail" if options.store else "keeps nothing"
    mailload.measure(server, f"uvloop, {what}", seconds=options.seconds)


async def _served(path: str) -> None:
    await serve(Rows(path))


if __name__ == "__main__":
    main()
