"""Missing statistics of PostgreSQL are seen and made, and old transactions are warned of."""

from collections.abc import Iterator
from contextlib import contextmanager

import psycopg
import pytest

from oncebox.cli.checks import CheckStatus
from oncebox.cli.checks.database import _check_old_transactions
from oncebox.core import clock
from oncebox.db.database import Transaction
from oncebox.ledger import maintenance
from oncebox.workers.maintenance.sweeper import Sweeper
from tests.contract.plans import tables
from tests.support import databases, run_server
from tests.support.api import calling
from tests.support.databases import Place
from tests.support.postgres import Postgres

ROWS = 2_000


@pytest.fixture
def restored(postgres: Postgres) -> Iterator[Place]:
    """Tables with rows that nobody has analysed, as a dump leaves them."""
    name = f"statistics_{run_server.worker()}"
    place = databases.migrated(databases.empty_postgres(postgres, name))
    with psycopg.connect(place.url, autocommit=True) as connection:
        for table in ("oncebox_audit", "oncebox_claims"):
            connection.execute(f"ALTER TABLE {table} SET (autovacuum_enabled = false)".encode())
            connection.execute(tables.statement("postgres", table, ROWS).encode())
    yield place
    postgres.drop_database(name)


def _without_statistics(place: Place) -> list[str]:
    session = place.session()
    try:
        return session.run(maintenance.tables_without_statistics)
    finally:
        session.close()


def _execute(place: Place, statement: str) -> None:
    with psycopg.connect(place.url, autocommit=True) as connection:
        connection.execute(statement.encode())


async def test_a_sweep_analyses_the_tables_that_a_restore_left_without_statistics(
    restored: Place,
) -> None:
    assert _without_statistics(restored) == ["oncebox_audit", "oncebox_claims"]

    async with calling(restored) as api:
        rooms = api.box.components
        await Sweeper(
            rooms.ledger, rooms.sources, rooms.telemetry, events=rooms.settings.events
        ).sweep()

    assert _without_statistics(restored) == []


def test_rebuilt_indexes_do_not_pass_for_statistics(restored: Place) -> None:
    """A restore makes indexes after the rows, and they count the rows."""
    _execute(restored, "REINDEX TABLE oncebox_audit")

    assert "oncebox_audit" in _without_statistics(restored)


def test_a_table_that_has_grown_to_ten_times_its_size_is_analysed_again(restored: Place) -> None:
    _execute(restored, "ANALYZE")
    assert _without_statistics(restored) == []

    _execute(
        restored,
        "INSERT INTO oncebox_claims SELECT 'b' || i, request_key, worker, sources, asked_at, answer"
        " FROM oncebox_claims, generate_series(1, 11) AS i; SELECT pg_stat_force_next_flush()",
    )

    assert _without_statistics(restored) == ["oncebox_claims"]


def test_the_doctor_warns_of_a_transaction_that_is_open_for_long(restored: Place) -> None:
    with _open_transaction(restored) as pid:
        session = restored.session()

        def check(tx: Transaction, later: int) -> tuple[CheckStatus, str]:
            found = _check_old_transactions(tx, clock.system() + later)
            return found.status, found.message

        try:
            fresh = session.run(lambda tx: check(tx, 0))
            old = session.run(lambda tx: check(tx, 6 * 60_000))
        finally:
            session.close()

    assert fresh == (CheckStatus.OK, "none")
    assert old[0] is CheckStatus.WARN
    assert f"session {pid} of a backup" in old[1]


@contextmanager
def _open_transaction(place: Place) -> Iterator[int]:
    with psycopg.connect(place.url, application_name="a backup") as connection:
        connection.execute("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ")
        row = connection.execute("SELECT pg_backend_pid()").fetchone()
        assert row is not None
        yield row[0]
        connection.rollback()
