"""What every test may ask for: databases of both kinds, and a clerk who works them by hand."""

import os
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings

from oncebox.store.database import Database
from tests.support import databases
from tests.support.clerk import Clerk
from tests.support.databases import Place
from tests.support.postgres import PostgresServer, start_or_skip

# A busy machine is no reason to fail; under CI Hypothesis is as patient by itself.
settings.register_profile("patient", deadline=None, suppress_health_check=[HealthCheck.too_slow])
if not os.environ.get("CI"):
    settings.load_profile("patient")


@pytest.fixture(scope="session")
def postgres(tmp_path_factory: pytest.TempPathFactory) -> Iterator[PostgresServer]:
    """One server for all tests of this process; without one, skip, but fail under CI."""
    with start_or_skip(tmp_path_factory.mktemp("postgres"), settings=databases.FAST) as server:
        yield server


@pytest.fixture(params=databases.KINDS)
def kind(request: pytest.FixtureRequest) -> str:
    """Both databases, one after the other."""
    return str(request.param)


@pytest.fixture
def place(kind: str, request: pytest.FixtureRequest, tmp_path: Path) -> Place:
    """A migrated database with nothing in it."""
    if kind == "sqlite":
        return databases.fresh_sqlite(tmp_path)
    return databases.fresh_postgres(request.getfixturevalue("postgres"))


@pytest.fixture
def empty_place(kind: str, request: pytest.FixtureRequest, tmp_path: Path) -> Place:
    """A database without any table."""
    if kind == "sqlite":
        return databases.empty_sqlite(tmp_path)
    return databases.empty_postgres(request.getfixturevalue("postgres"), "empty")


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
