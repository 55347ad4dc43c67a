"""Rates at growing numbers of stored rows: `python -m bench.scaling --rows 10000 1000000`.

A database is filled with as many deliveries, messages, artifacts and sends; then intake, claims,
lists, waits and sends are measured on it. The figures go to `scaling.json`; `--write` puts them
into the documentation, as a table and a plot.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from statistics import median

import apsw
import psycopg

from bench import our_artifacts, our_mail, our_sends, preload, scaling_page
from bench.environment import ROOT
from bench.ours import new_box
from bench.rows import Database
from bench.servers import stand

DATABASES: tuple[Database, ...] = ("sqlite", "postgres")
#: what is measured, and the program that does it
PROBES = {
    "intake": ("bench.ours", "accept"),
    "claim": ("bench.ours", "work"),
    "list": ("bench.our_scaling",),
    "wait": ("bench.our_waits", "wait"),
    "send": ("bench.our_sends", "send"),
}
RESULTS = Path(__file__).with_name("scaling.json")
LONGEST = 600
INBOX = "inb_stored"

#: columns of a stored row that differ from those of the row it is a copy of
_COPIES: dict[str, dict[str, str]] = {
    "oncebox_messages": {
        "id": "text", "inbox_id": "inbox", "sequence": "number", "identity": "digest",
        "message_mark": "digest", "delivery_id": "text", "payload_id": "text",
    },
    "oncebox_artifacts": {
        "id": "text", "inbox_id": "inbox", "message_id": "text", "sequence": "number",
        "mark": "digest",
    },
    "oncebox_sends": {"id": "text", "key": "digest", "message_id": "text", "body_id": "text"},
}  # fmt: skip
_EXPRESSIONS: dict[str, dict[str, str]] = {
    "sqlite": {
        "text": "printf('%032d', n)", "number": "n", "digest": "randomblob(32)",
        "inbox": f"'{INBOX}'",
    },
    "postgres": {
        "text": "lpad(n::text, 32, '0')", "number": "n", "digest": "sha256(n::text::bytea)",
        "inbox": f"'{INBOX}'",
    },
}  # fmt: skip
_SERIES = {
    "sqlite": "WITH RECURSIVE series(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM series"
    " WHERE n < {0})",
    "postgres": "WITH series AS (SELECT generate_series(1, {0}) AS n)",
}


def fill(url: str, rows: int) -> None:
    """Store deliveries, messages, artifacts and sends."""
    asyncio.run(_store_examples(url))
    preload.fill(url, rows)
    kind = "sqlite" if url.startswith("sqlite") else "postgres"
    if kind == "sqlite":
        connection = apsw.Connection(url.removeprefix("sqlite:///"))
        for pragma in ("synchronous = OFF", "cache_size = -2000000"):
            connection.execute(f"PRAGMA {pragma}")
        for table in _COPIES:
            columns = [str(row[1]) for row in connection.execute(f"PRAGMA table_info({table})")]
            connection.execute(_copy_statement(kind, table, columns, rows))
        connection.close()
        return
    with psycopg.connect(url, autocommit=True) as server:
        for table in _COPIES:
            found = server.execute(f"SELECT * FROM {table} LIMIT 0")  # noqa: S608 - a constant
            columns = [column.name for column in found.description or ()]
            server.execute(_copy_statement(kind, table, columns, rows).encode())
            server.execute(f"VACUUM (ANALYZE) {table}".encode())


def _copy_statement(kind: str, table: str, columns: list[str], rows: int) -> str:
    changed = _COPIES[table]
    values = (_EXPRESSIONS[kind][changed[each]] if each in changed else each for each in columns)
    return (
        f"INSERT INTO {table} ({', '.join(columns)}) {_SERIES[kind].format(rows)}"  # noqa: S608
        f" SELECT {', '.join(values)} FROM series,"
        f" (SELECT * FROM {table} LIMIT 1) AS example"
    )


async def _store_examples(url: str) -> None:
    """Store one message, one artifact and one send, to be copied."""
    box = new_box(argparse.Namespace(url=url))
    async with box:
        await our_artifacts._filled(box, 1)  # noqa: SLF001 - the same bench
        await box.components.database.write(our_mail._store, box, 1)  # noqa: SLF001
        mail = our_sends._mail("Thank you.")  # noqa: SLF001
        await box.send(mail, event_type=our_sends.TYPE, entity_id="example", wait=30)
        table = "oncebox_inboxes"
        await box.components.database.write(lambda tx: tx.execute(f"DELETE FROM {table}"))  # noqa: S608


def measure(rows: list[int], databases: list[Database], rounds: int) -> dict[str, list[float]]:
    """Return the figures of each probe and database, one for each number of rows."""
    figures: dict[str, list[float]] = {}
    with stand(fill) as place:
        for kind in databases:
            for count in rows:
                with place.database(kind, count, keep=False) as url:
                    for name, program in PROBES.items():
                        found = [_run(program, url) for _ in range(rounds)]
                        key = "p99" if name == "wait" else "rate"
                        figure = median(float(each[key]) for each in found)
                        figures.setdefault(f"{name} {kind}", []).append(figure)
                        print(f"{kind:9} {count:>10,} {name:7} {figure:,.1f}", flush=True)
    return figures


def _run(program: tuple[str, ...], url: str) -> Mapping[str, float]:
    words = [sys.executable, "-m", program[0], url, *program[1:]]
    output = subprocess.run(
        words, cwd=ROOT, check=True, capture_output=True, text=True, timeout=LONGEST
    ).stdout
    found: Mapping[str, float] = json.loads(output.splitlines()[-1])
    return found


def main() -> None:
    """Measure, print, and write if asked to."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, nargs="+", default=[10_000, 1_000_000, 10_000_000])
    parser.add_argument("--database", choices=DATABASES)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--write", action="store_true", help="write the page, measure nothing")
    options = parser.parse_args()
    if options.write:
        stored = json.loads(RESULTS.read_text())
        scaling_page.write(stored["rows"], stored["figures"])
        return
    databases = [options.database] if options.database else list(DATABASES)
    stored = json.loads(RESULTS.read_text()) if RESULTS.exists() else {"rows": [], "figures": {}}
    figures = stored["figures"] | measure(options.rows, databases, options.rounds)
    rows = max(stored["rows"], options.rows, key=len)
    RESULTS.write_text(json.dumps({"rows": rows, "figures": figures}, indent=1) + "\n")


if __name__ == "__main__":
    main()
