"""Every query reads about as much as it returns, however large the tables are.

Statistics make no difference, nor does the planner's choice between a plan for these values and one
for all. The long form: `ONCEBOX_PLAN_ROWS=1000000 python -m pytest --timeout=3000
tests/contract/plans`.
"""

import os
from collections.abc import Callable, Iterator
from pathlib import Path

import apsw
import psycopg
import pytest

from oncebox.db.postgres import connect
from oncebox.db.queries import Query
from tests.contract.plans import measure, tables, values
from tests.support import databases, run_server
from tests.support.databases import Place
from tests.support.postgres import Postgres

ROWS = int(os.environ.get("ONCEBOX_PLAN_ROWS", "30000"))
#: rows given to a bulk query
BULK = 20
#: what a query may read by itself, and for each row of its result
_ROWS, _ROWS_EACH = 600, 10
_BUFFERS, _BUFFERS_EACH = 800, 120
_STEPS, _STEPS_EACH = 20_000, 3_000
#: so many times as much may be read by what is bounded otherwise
_SLACK = 16

#: queries that are not measured, and why
NOT_MEASURED = {
    "db/migrate.create_table": "it makes a table",
    "sends/transports.lock_sends": "it reads nothing",
    "ledger/maintenance.void_deliveries": "after a restore every open row is changed",
    "ledger/maintenance.void_sends": "after a restore every open row is changed",
    "ledger/maintenance.void_actions": "after a restore every open row is changed",
    "ledger/maintenance.void_duties": "after a restore every open row is changed",
}
#: queries that read more, and what bounds it
BOUNDED_OTHERWISE = {
    "attempts/attempts.batch": "the attempts of the batch",
    "attempts/attempts.batch_states": "the actions of the batch",
    "attempts/actions.doubtful": "the actions in progress",
    "attempts/actions.newest_open": "the actions that are not done",
    "deliveries/backlog.due": "the 1,000 that are counted",
    "deliveries/backlog.processing": "the 1,000 that are counted",
    "deliveries/backlog.in_lanes": "the 1,000 that are counted",
    "deliveries/backlog.held": "the 1,000 that are counted",
    "deliveries/backlog.dead": "the 1,000 that are counted",
    "deliveries/leases.hopeless": "the deliveries in progress",
    "deliveries/leases.in_work": "the deliveries in progress",
    "deliveries/leases.leased_to": "the deliveries in progress",
    "deliveries/leases.lost_once": "the deliveries in progress",
    "deliveries/inspections.attention": "what it counts",
    "deliveries/lanes.of_type": "the open deliveries of one lane",
    "inboxes/allocation.add": "the domains of the installation",
    "ledger/lookup.artifact": "the ids that begin with what was typed",
    "ledger/lookup.delivery": "the ids that begin with what was typed",
    "ledger/lookup.message": "the ids that begin with what was typed",
    "ledger/lookup.request": "the ids that begin with what was typed",
    "ledger/lookup.secret": "the ids that begin with what was typed",
    "deliveries/quarantine.trim_source": "the limits of the quarantine",
    "deliveries/quarantine.trim_all": "the limits of the quarantine",
    "events/event_log.read": "the window of 2,000 numbers",
    "endpoints/endpoints.busy": "the endpoints of the installation",
    "endpoints/endpoints.behind": "the tenants with endpoints",
    "ledger/maintenance.unanalysed": "the tables of the database",
    "sends/sends.count_doubtful": "what it counts",
    "sends/transports.count_needing": "what it counts, the sends in progress and the unknown ones",
    "sends/transports.remove": "the sends in progress and the unknown ones",
}

Measure = Callable[[Query, list[object], dict[str, object]], measure.Work]


def _calls() -> Iterator[tuple[str, str, Query, list[object], dict[str, object]]]:
    number = values.Numbers(ROWS)
    every, known = values.queries(), values.defaults(number)
    usual: Iterator[values.Case] = ((name, "", {}) for name in every)
    for name, case, changed in (*usual, *values.cases(number)):
        query = every[name]
        if (
            name in NOT_MEASURED
            or query.sqlite.startswith(("PRAGMA", "SHOW"))
            or "sqlite_" in query.sqlite
        ):
            continue
        rows, shared = values.bound(known, name, query, changed, BULK)
        yield name, case, query, rows, dict(shared)


def _complaints(work: Measure, kind: str, known: str) -> Iterator[str]:
    slack = _SLACK * max(1, ROWS // 30_000)  # there is more to count
    for name, case, query, rows, shared in _calls():
        if query.only not in {None, kind}:
            continue
        try:
            done = work(query, rows, shared)
        except (apsw.Error, psycopg.Error) as error:
            yield f"{name} ({case}): {error}"
            continue
        if _is_too_much(done, kind, slack=slack if name in BOUNDED_OTHERWISE else 1):
            yield (
                f"{name} {f'({case}) ' if case else ''}{known}: {done.rows} rows and"
                f" {done.buffers} buffers read for {done.result}\n{done.plan}"
            )


@pytest.mark.parametrize("kind", ["sqlite"])
def test_every_table_is_made_large(place: Place) -> None:
    session = place.session()
    found = session.run(
        lambda tx: tx.execute("SELECT name FROM sqlite_schema WHERE type = 'table' ORDER BY name")
    )
    session.close()
    few = {"oncebox_meta", "oncebox_migrations"}

    assert {str(name) for (name,) in found} - few == set(tables.TABLES)


def _is_too_much(done: measure.Work, kind: str, slack: int) -> bool:
    if kind == "sqlite":
        return done.rows > _STEPS * slack + _STEPS_EACH * done.result
    rows, buffers = _ROWS * slack, _BUFFERS * slack
    return (
        done.rows > rows + _ROWS_EACH * done.result
        or done.buffers > buffers + _BUFFERS_EACH * done.result
    )


@pytest.fixture
def large_postgres(postgres: Postgres) -> Iterator[psycopg.Connection]:
    """Large tables that were never analysed."""
    place = databases.empty_postgres(postgres, f"plans_{run_server.worker()}")
    with connect(databases.migrated(place).url) as connection:
        connection.prepare_threshold = None
        for table in tables.TABLES:
            connection.execute(f"ALTER TABLE {table} SET (autovacuum_enabled = false)".encode())
        for statement in tables.statements("postgres", ROWS):
            connection.execute(statement.encode())
        yield connection
    postgres.drop_database(f"plans_{run_server.worker()}")


def test_no_query_reads_much_more_than_it_returns_on_postgresql(
    large_postgres: psycopg.Connection,
) -> None:
    found: list[str] = []
    for analysed in (False, True):
        if analysed:
            large_postgres.execute("ANALYZE")
        for mode in ("force_custom_plan", "force_generic_plan"):
            large_postgres.execute(f"SET plan_cache_mode = {mode}".encode())
            known = f"{'after ANALYZE' if analysed else 'without statistics'}, {mode}"
            found += _complaints(
                lambda *call: measure.on_postgres(large_postgres, *call), "postgres", known
            )

    assert not found, "\n\n".join(found)


def test_no_query_does_much_more_than_it_returns_on_sqlite(tmp_path: Path) -> None:
    place = databases.fresh_sqlite(tmp_path)
    session = place.session()
    connection: apsw.Connection = session.connection  # type: ignore[attr-defined]
    connection.execute("BEGIN")
    for statement in tables.statements("sqlite", ROWS):
        connection.execute(statement)
    connection.execute("COMMIT")

    found = list(
        _complaints(
            lambda *call: measure.on_sqlite(connection, *call), "sqlite", "without statistics"
        )
    )
    connection.execute("ANALYZE")
    found += _complaints(
        lambda *call: measure.on_sqlite(connection, *call), "sqlite", "after ANALYZE"
    )
    session.close()

    assert not found, "\n\n".join(found)
