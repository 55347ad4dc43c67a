"""The usual loop: ask for mail since a time, remember what was seen in memory, keep the time.

It is tortured as Oncebox is, at the same moments, and must be seen to fail.
"""

import argparse
import asyncio
import json
import sqlite3
import sys
import urllib.parse
import urllib.request
from collections.abc import Iterator, Sequence
from contextlib import closing
from pathlib import Path

from oncebox.core import faults
from oncebox.testing.inbox_apis import INBOX
from tests.torture.mailboxes.mails import key_in

_POLL_EVERY = 0.05
_TABLES = """
CREATE TABLE IF NOT EXISTS messages (key TEXT NOT NULL);
CREATE TABLE IF NOT EXISTS position (since TEXT NOT NULL);
"""
_HEADERS = {"x-api-key": "key"}


async def main(given: argparse.Namespace) -> None:
    """Poll until killed."""
    seen: set[str] = set()
    with closing(sqlite3.connect(given.file, isolation_level=None)) as store:
        store.executescript(_TABLES)
        (since,) = store.execute("SELECT MAX(since) FROM position").fetchone()
        sys.stdout.write("ready\n")
        sys.stdout.flush()
        while True:
            since = poll(given.url, store, seen, since)
            await asyncio.sleep(_POLL_EVERY)


def poll(url: str, store: sqlite3.Connection, seen: set[str], since: str | None) -> str | None:
    """Store what was not seen; return the time of the newest mail."""
    listed = [(id_, at) for id_, at in _list(url, since) if id_ not in seen]
    if not listed:
        return since
    faults.point("mailboxes.fetched")
    for id_, _ in listed:
        raw = _get(f"{url}/emails/{id_}/raw")
        store.execute("INSERT INTO messages VALUES (?)", (key_in(raw),))
        seen.add(id_)
    faults.point("mailboxes.mails-written")
    newest = max(at for _, at in listed)
    store.execute("INSERT INTO position VALUES (?)", (newest,))
    faults.point("mailboxes.cursor-written")
    faults.point("mailboxes.stored")
    return newest


def _list(url: str, since: str | None) -> Iterator[tuple[str, str]]:
    for page in range(1_000):
        query = {"sort": "ASC", "size": "100", "page": str(page), "since": since or ""}
        found = json.loads(
            _get(f"{url}/inboxes/{INBOX}/emails/paginated?{urllib.parse.urlencode(query)}")
        )
        yield from ((each["id"], each["createdAt"]) for each in found["content"])
        if found["last"]:
            return


def _get(url: str) -> bytes:
    request = urllib.request.Request(url, headers=_HEADERS)  # noqa: S310 - a server of our own
    with urllib.request.urlopen(request, timeout=10) as answer:  # noqa: S310
        data: bytes = answer.read()
    return data


def options(arguments: Sequence[str]) -> argparse.Namespace:
    """Read the command line."""
    parser = argparse.ArgumentParser()
    parser.add_argument("url")
    parser.add_argument("file", type=Path)
    return parser.parse_args(arguments)
