"""What every test may ask for: databases of both kinds, and a clerk who works them by hand."""

import os
import signal
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings

from oncebox.db.database import Database
from tests.support import databases, run_server
from tests.support.clerk import Clerk
from tests.support.databases import Place
from tests.support.postgres import Postgres
from tests.support.scratch import scratch
from tests.support.timetable import Timetable

# A busy machine is no reason to fail; under CI Hypothesis is as patient by itself.
settings.register_profile("patient", deadline=None, suppress_health_check=[HealthCheck.too_slow])
if not os.environ.get("CI"):
    settings.load_profile("patient")


# Read by pytest when it is first asked for a temporary folder.
os.environ.setdefault("PYTEST_DEBUG_TEMPROOT", str(scratch()))


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add the options that `make test` and `make quick` give."""
    group = parser.getgroup("oncebox's own tests")
    group.addoption("--sqlite-only", action="store_true", help="leave PostgreSQL out")
    group.addoption("--timetable", action="store_true", help="tell where the time goes")


def pytest_configure(config: pytest.Config) -> None:
    """Let ^C be heard, and set up what one process does for all workers."""
    # A shell has its background jobs ignore it, and what they start; some tests send it.
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)
    if hasattr(config, "workerinput"):
        run_server.share_the_cluster(config)
        return
    if not config.option.sqlite_only:
        config.pluginmanager.register(run_server.RunServer())
    if config.option.timetable:
        config.pluginmanager.register(Timetable())


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Leave out what needs PostgreSQL, where that was asked for."""
    if not config.option.sqlite_only:
        return
    left_out = [item for item in items if _needs_postgres(item)]
    items[:] = [item for item in items if not _needs_postgres(item)]
    config.hook.pytest_deselected(items=left_out)


def _needs_postgres(item: pytest.Item) -> bool:
    asked: list[str] = getattr(item, "fixturenames", [])
    chosen = getattr(item, "callspec", None)
    return "postgres" in asked or (chosen is not None and chosen.params.get("kind") == "postgres")


@pytest.fixture(scope="session")
def postgres(request: pytest.FixtureRequest) -> Iterator[Postgres]:
    """One server for all tests; without one they fail."""
    with run_server.of_this_run(request.config) as server:
        yield server


@pytest.fixture(params=databases.KINDS)
def kind(request: pytest.FixtureRequest) -> str:
    """Both databases, one after the other."""
    return str(request.param)


@pytest.fixture
def place(kind: str, request: pytest.FixtureRequest, tmp_path: Path) -> Place:
    """A migrated database with nothing in it."""
    assert kind in databases.KINDS, "a parameter of the test hides the fixture `kind`"
    if kind == "sqlite":
        return databases.fresh_sqlite(tmp_path)
    name = f"ledger_{run_server.worker()}"
    return databases.fresh_postgres(request.getfixturevalue("postgres"), name)


@pytest.fixture
def empty_place(kind: str, request: pytest.FixtureRequest, tmp_path: Path) -> Place:
    """A database without any table."""
    if kind == "sqlite":
        return databases.empty_sqlite(tmp_path)
    name = f"empty_{run_server.worker()}"
    return databases.empty_postgres(request.getfixturevalue("postgres"), name)


@pytest.fixture
def clerk(place: Place) -> Iterator[Clerk]:
    """The verbs by hand, on a fresh database."""
    clerk = Clerk(place)
    yield clerk
    clerk.close()


@pytest.fixture
async def database(place: Place) -> AsyncIterator[Database]:
    """A fresh database as a process opens it."""
    database = place.open()
    yield database
    await database.close()
