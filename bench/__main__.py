"""Measure: `python -m bench [part]`, side by side, the median of interleaved rounds."""

from __future__ import annotations

import argparse
import json
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path

from bench import artifacts, extract, hooks, ledger, mail, mailboxes, sends, smtp, start, waits
from bench.environment import ROOT, peers_python
from bench.rows import Probe, Reading, Row, probes, result, save, table
from bench.servers import Stand, stand

PARTS: dict[str, Callable[[], list[Row]]] = {
    ledger.PART: ledger.rows,
    hooks.PART: hooks.rows,
    smtp.PART: lambda: [*smtp.rows(), *mail.rows()],
    sends.PART: sends.rows,
    start.PART: start.rows,
    mailboxes.PART: mailboxes.rows,
    artifacts.PART: lambda: [*extract.rows(), *artifacts.rows(), *waits.rows()],
}
RESULTS = Path(__file__).with_name("results.json")
# A database with more rows than this is made once a run and lent again.
KEEP_FROM = 1_000_000
LONGEST = 300


def main() -> None:
    """Run what was asked for, print the table, write the file."""
    options = _options()
    # A terminated run clears its servers and files away like any other.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(128 + signal.SIGTERM))
    rows = _chosen(options)
    with stand(_fill) as place:
        readings = _measure(probes(rows), options.rounds, place)
    results = [result(row, readings) for row in rows if row.ours in readings]
    print(f"\n{table(results)}")
    if not options.dry:
        save(RESULTS, results)
        print(f"\nwritten to {RESULTS.relative_to(ROOT)}")


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m bench", description=__doc__)
    parser.add_argument("part", nargs="?", choices=sorted(PARTS), help="default: every part")
    parser.add_argument("--row", help="only rows whose name holds this word")
    parser.add_argument("--database", choices=("sqlite", "postgres"), help="only this database")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--dry", action="store_true", help="do not write the results")
    return parser.parse_args()


def _chosen(options: argparse.Namespace) -> list[Row]:
    names = [options.part] if options.part else sorted(PARTS)
    rows = [
        row
        for name in names
        for row in PARTS[name]()
        if (not options.row or options.row in row.name)
        and (not options.database or options.database == row.ours.database)
    ]
    return rows or sys.exit("no row has that name")


def _measure(every: Sequence[Probe], rounds: int, place: Stand) -> dict[Probe, list[Reading]]:
    """Run all probes once a round, each round the other way round, so drift cancels out."""
    readings: dict[Probe, list[Reading]] = {probe: [] for probe in every}
    for number in range(rounds):
        for probe in every if number % 2 == 0 else reversed(every):
            with place.database(
                probe.database, probe.stored, keep=probe.stored >= KEEP_FROM
            ) as url:
                reading = _run(probe, url)
            readings[probe].append(reading)
            _say(number, probe, reading)
    return readings


def _run(probe: Probe, url: str) -> Reading:
    python = Path(sys.executable) if probe.ours else peers_python()
    words = [str(python), "-m", probe.program, url, *probe.options]
    done = subprocess.run(
        words, check=False, cwd=ROOT, capture_output=True, text=True, timeout=LONGEST
    )
    lines = [line for line in done.stdout.splitlines() if line.startswith('{"rate"')]
    if done.returncode or not lines:
        raise SystemExit(f"{' '.join(words)}\n{done.stdout[-2000:]}\n{done.stderr[-4000:]}")
    told = json.loads(lines[-1])
    return Reading(**told)


def _fill(url: str, stored: int) -> None:
    """Store our own rows beforehand."""
    began = time.monotonic()
    words = [sys.executable, "-m", "bench.ours", url, "fill", "--rows", str(stored)]
    subprocess.run(words, check=True, cwd=ROOT)
    if stored >= KEEP_FROM:
        print(f"stored {stored:,} rows in {time.monotonic() - began:.0f} s", flush=True)


def _say(number: int, probe: Probe, reading: Reading) -> None:
    words = f"{probe.database:8}  {probe.name} ({reading.setting})"
    print(f"round {number + 1}  {reading.rate:>9,.0f}/s  {words}", flush=True)


if __name__ == "__main__":
    main()
