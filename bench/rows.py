"""What a benchmark is made of: probes that measure, rows that compare them."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from typing import Literal, NotRequired, TypedDict

Database = Literal["sqlite", "postgres", "redis"]


#: the ratio that a row should reach, on SQLite and on PostgreSQL
GOALS: dict[str, tuple[float, float]] = {
    "intake-vs-bare": (0.70, 0.75),
    "intake-vs-fastapi-sqlalchemy": (15, 12),
    "storm-vs-distinct": (0.9, 0.9),
    "intake-behind-proxy-vs-intake": (0.9, 0.9),
    "accept-vs-one-transaction": (6, 6),
    "accept-vs-one-statement": (1, 1),
    "accept-vs-sqlalchemy": (20, 13),
    "work-vs-best-durable": (6, 1.3),
    "work-vs-best-volatile": (5, 4),
    "accept-5M-rows-vs-10k": (0.8, 0.8),
    "smtp-vs-aiosmtpd-noop": (2.3, 1.8),
    "smtp-vs-aiosmtpd-sqlite": (5, 4),
    "smtp-vs-npm-smtp-server-noop": (0.6, 0.45),
    "smtp-vs-postfix": (5, 4),
    "parse-vs-stdlib": (1.5, 1.4),
    "list-100k-vs-1k": (0.85, 0.85),
    "extract-vs-stdlib-parse": (0.85, 0.85),
    "extract-1MiB-vs-512KiB": (0.8, 0.8),
    "grant-vs-one-transaction": (6, 4),
    "250-to-answer-vs-polling": (3, 3),
    "send-vs-one-transaction": (4, 4),
    "claim-vs-redis-setnx": (1.2, 1.0),
    "duplicate-answers-vs-redis": (2, 2),
    "imap-fetch-vs-imap-tools": (0.5, 0.5),
    "idle-mailboxes": (0.8, 0.8),
    "idle-to-answer": (0.8, 0.8),
    "serve-first-answer-vs-bare-uvicorn": (0.36, 0.36),
    "cli-help-vs-python": (0.22, 0.22),
}


@dataclass(frozen=True)
class Probe:
    """One program, its options, and the database it is given; it prints a rate.

    `stored` rows lie in our own tables beforehand.
    """

    name: str
    database: Database
    program: str
    options: tuple[str, ...] = ()
    ours: bool = False
    stored: int = 0


@dataclass(frozen=True)
class Reading:
    """What a probe printed; some tell also how many milliseconds a call took."""

    rate: float
    setting: str
    p50: float = 0.0
    p99: float = 0.0
    #: resident memory of the server, in MiB
    mib: float = 0.0


@dataclass(frozen=True)
class Row:
    """Our probe, and those whose best it is compared with."""

    part: str
    name: str
    ours: Probe
    theirs: tuple[Probe, ...]

    @property
    def goal(self) -> float:
        """The ratio it should reach."""
        return GOALS[self.name][self.ours.database == "postgres"]


class Result(TypedDict):
    """A row as `results.json` has it."""

    part: str
    name: str
    database: str
    ours: float
    against: str
    theirs: float
    ratio: float
    goal: float
    #: milliseconds, in rows that measure them
    ours_p50: NotRequired[float]
    ours_p99: NotRequired[float]
    theirs_p50: NotRequired[float]
    theirs_p99: NotRequired[float]
    #: MiB, in rows that measure them
    ours_mib: NotRequired[float]
    theirs_mib: NotRequired[float]


Readings = Mapping[Probe, Sequence[Reading]]


def probes(rows: Iterable[Row]) -> list[Probe]:
    """Return every probe the rows need, once, ours beside theirs."""
    return list(dict.fromkeys(probe for row in rows for probe in (row.ours, *row.theirs)))


def typical(readings: Sequence[Reading]) -> float:
    """Return the median rate."""
    return median(reading.rate for reading in readings)


def result(row: Row, readings: Readings) -> Result:
    """Compare our median with the best of theirs."""
    best = max(row.theirs, key=lambda probe: typical(readings[probe]))
    ours, theirs = typical(readings[row.ours]), typical(readings[best])
    found = Result(
        part=row.part,
        name=row.name,
        database=row.ours.database,
        ours=round(ours, 1),
        against=f"{best.name} ({readings[best][-1].setting})",
        theirs=round(theirs, 1),
        ratio=round(ours / theirs, 2),
        goal=row.goal,
    )
    if readings[row.ours][0].p50:
        found["ours_p50"], found["ours_p99"] = _waits(readings[row.ours])
        found["theirs_p50"], found["theirs_p99"] = _waits(readings[best])
    if readings[row.ours][0].mib:
        found["ours_mib"], found["theirs_mib"] = _mib(readings[row.ours]), _mib(readings[best])
    return found


def _mib(readings: Sequence[Reading]) -> float:
    return round(median(reading.mib for reading in readings), 1)


def _waits(readings: Sequence[Reading]) -> tuple[float, float]:
    """Return the medians of what the rounds showed."""
    return (
        round(median(reading.p50 for reading in readings), 2),
        round(median(reading.p99 for reading in readings), 2),
    )


def table(results: Iterable[Result]) -> str:
    """Return the results as aligned text; waits are p50/p99 in milliseconds, MiB ours/theirs."""
    head = ("name", "database", "ours/s", "theirs/s", "ratio", "goal")
    lines = [(*head, "ours p50/p99", "theirs p50/p99", "MiB", "", "against")]
    for each in results:
        verdict = "met" if each["ratio"] >= each["goal"] else "MISSED"
        lines.append(
            (
                each["name"],
                each["database"],
                f"{each['ours']:,.0f}",
                f"{each['theirs']:,.0f}",
                f"{each['ratio']:.2f}",
                f"{each['goal']:g}",
                _pair(each.get("ours_p50"), each.get("ours_p99")),
                _pair(each.get("theirs_p50"), each.get("theirs_p99")),
                _pair(each.get("ours_mib"), each.get("theirs_mib")),
                verdict,
                each["against"],
            )
        )
    widths = [max(map(len, column)) for column in zip(*lines, strict=True)]
    return "\n".join(_line(cells, widths) for cells in lines)


def _pair(first: float | None, second: float | None) -> str:
    return "" if first is None or second is None else f"{first:.1f}/{second:.1f}"


def _line(cells: Sequence[str], widths: Sequence[int]) -> str:
    """Align numbers to the right and words to the left."""
    aligned = [
        cell.rjust(width) if 2 <= place <= 8 else cell.ljust(width)
        for place, (cell, width) in enumerate(zip(cells, widths, strict=True))
    ]
    return "  ".join(aligned).rstrip()


def save(file: Path, results: Sequence[Result]) -> None:
    """Write the results; rows of the file that were not measured now are kept."""
    kept: list[Result] = json.loads(file.read_text()) if file.exists() else []
    fresh = {_identity(each): each for each in results}
    merged = [fresh.pop(_identity(each), each) for each in kept] + list(fresh.values())
    file.write_text(json.dumps(merged, indent=2) + "\n")


def _identity(each: Result) -> tuple[str, str, str]:
    return each["part"], each["name"], each["database"]
