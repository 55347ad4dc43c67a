"""The ledger's rows as they are in the database, read by the driver alone."""

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import apsw
import psycopg

from tests.torture.ledger.handlers import MARKS

Rows = list[tuple[Any, ...]]
Ask = Callable[[str], Rows]

_DELIVERIES = """
SELECT id, source, key, variant, type, state, lane, lane_position, tries, fence, outcome,
    due_at, ended_at, hold_reason, last_error, rearms
FROM oncebox_deliveries ORDER BY id
"""
_EFFECTS = "SELECT delivery_id, name, state, safe, fence FROM oncebox_effects"
_TRIES = "SELECT delivery_id, fence, outcome FROM oncebox_tries"
_SIGHTINGS = "SELECT delivery_id, class, count FROM oncebox_sightings"
_OPEN = """
SELECT COUNT(*) FROM oncebox_deliveries WHERE state IN ('received', 'processing', 'failed')
"""
_UNDER_WAY = """
SELECT 1 FROM pg_stat_activity
WHERE datname = current_database() AND pid <> pg_backend_pid() AND xact_start IS NOT NULL
"""
#: Questions to which a sound ledger has no answer.
_STRANGE = {
    "a delivery without its payload": """
        SELECT id FROM oncebox_deliveries
        WHERE payload_id NOT IN (SELECT id FROM oncebox_payloads)""",
    "a payload without its delivery": """
        SELECT id FROM oncebox_payloads
        WHERE id NOT IN (SELECT payload_id FROM oncebox_deliveries)""",
    "an effect without its delivery": """
        SELECT delivery_id FROM oncebox_effects
        WHERE delivery_id NOT IN (SELECT id FROM oncebox_deliveries)""",
    "an end without its time": """
        SELECT id FROM oncebox_deliveries
        WHERE state IN ('done', 'dead') AND (ended_at IS NULL OR due_at IS NOT NULL)""",
    "a lane position twice": """
        SELECT MIN(id) FROM oncebox_deliveries WHERE lane_position IS NOT NULL
        GROUP BY tenant, source, lane, lane_position HAVING COUNT(*) > 1""",
    "a claim without a fence": """
        SELECT id FROM oncebox_deliveries WHERE fence < tries OR (state <> 'received' AND fence = 0
            AND hold_reason IS NULL)""",
}


@dataclass(frozen=True, slots=True)
class Row:
    """One delivery."""

    id: str
    source: str
    key: str
    variant: str
    type: str
    state: str
    lane: str | None
    lane_position: int | None
    tries: int
    fence: int
    outcome: str | None
    due_at: int | None
    ended_at: int | None
    hold_reason: str | None
    last_error: str | None
    rearms: int


@dataclass(frozen=True, slots=True)
class Journalled:
    """One effect in the journal."""

    delivery: str
    name: str
    state: str
    safe: str
    fence: int


@dataclass(frozen=True, slots=True)
class Books:
    """Everything in the database that the promises speak of."""

    rows: list[Row]
    journal: list[Journalled]
    #: Delivery, fence and outcome of the tries that were kept.
    tries: list[tuple[str, int, str]]
    #: How often each delivery committed its own effect in our own table.
    marks: Counter[str]
    #: What an integrity check complains of.
    faults: list[str]
    #: How often each delivery was seen again, by class.
    sightings: dict[str, Counter[str]] = field(default_factory=dict)

    @property
    def keys(self) -> list[str]:
        """The keys of all deliveries that are no conflicts."""
        return [row.key for row in self.rows if row.variant == ""]


def read_books(url: str) -> Books:
    """Read the whole ledger; nobody writes to it now."""
    if url.startswith("sqlite:///"):
        return _read_sqlite(Path(url.removeprefix("sqlite://")))
    return _read_postgres(url)


def count_open(url: str) -> int:
    """Return how many deliveries are still to be worked."""
    return int(ask_once(url, _OPEN)[0][0])


def prepare_marks(url: str) -> None:
    """Make the table of our own beside the ledger's, where it is missing."""
    ask_once(url, MARKS)


def is_locked(url: str) -> bool:
    """Tell whether somebody is in the middle of a transaction that changes something."""
    if url.startswith("sqlite:///"):
        connection = apsw.Connection(url.removeprefix("sqlite://"))
        try:
            connection.execute("BEGIN IMMEDIATE; ROLLBACK")
        except apsw.BusyError:
            return True
        finally:
            connection.close()
        return False
    with psycopg.connect(url) as asking:
        return bool(asking.execute(_UNDER_WAY).fetchall())


def ask_once(url: str, text: str) -> Rows:
    """Run one statement on a connection of its own."""
    if url.startswith("sqlite:///"):
        connection = apsw.Connection(url.removeprefix("sqlite://"))
        try:
            connection.set_busy_timeout(5_000)
            return connection.execute(text).fetchall()
        finally:
            connection.close()
    with psycopg.connect(url) as asking:
        done = asking.execute(text.encode())
        return done.fetchall() if done.description else []


def _read_sqlite(path: Path) -> Books:
    connection = apsw.Connection(str(path))
    try:
        connection.set_busy_timeout(5_000)
        checked = [str(row[0]) for row in connection.execute("PRAGMA integrity_check")]
        return _read(lambda text: connection.execute(text).fetchall(), checked)
    finally:
        connection.close()


def _read_postgres(url: str) -> Books:
    with psycopg.connect(url) as connection:

        def ask(text: str) -> Rows:
            return connection.execute(text.encode()).fetchall()

        return _read(ask, _compare_indexes(ask))


def _compare_indexes(ask: Ask) -> list[str]:
    """Read the hot table with and without its indexes; every page read checks its checksum."""
    found = []
    for columns in ("id", "tenant, source, key, variant"):
        question = f"SELECT {columns} FROM oncebox_deliveries ORDER BY {columns}"  # noqa: S608 - our own words
        ask("SELECT set_config('enable_seqscan', 'off', false)")
        by_index = ask(question)
        ask("SELECT set_config('enable_seqscan', 'on', false)")
        ask("SELECT set_config('enable_indexscan', 'off', false)")
        ask("SELECT set_config('enable_indexonlyscan', 'off', false)")
        if by_index != ask(question):
            found.append(f"the index on ({columns}) differs from its table")
    return found or ["ok"]


def _read(ask: Ask, checked: list[str]) -> Books:
    faults = [] if checked == ["ok"] else checked
    for what, question in _STRANGE.items():
        faults += [f"{what}: {row[0]}" for row in ask(question)]
    return Books(
        rows=[Row(*row) for row in ask(_DELIVERIES)],
        journal=[Journalled(*row) for row in ask(_EFFECTS)],
        tries=[(str(id_), int(fence), str(outcome)) for id_, fence, outcome in ask(_TRIES)],
        marks=Counter(str(row[0]) for row in ask("SELECT delivery FROM torture_marks")),
        faults=faults,
        sightings=_sightings(ask(_SIGHTINGS)),
    )


def _sightings(rows: Rows) -> dict[str, Counter[str]]:
    found: dict[str, Counter[str]] = {}
    for id_, kind, count in rows:
        found.setdefault(str(id_), Counter())[str(kind)] += int(count)
    return found
