"""Sessions of processes that were paused in the middle of a transaction, and their locks."""

import asyncio
from collections.abc import Iterator
from contextlib import closing
from typing import Any

import psycopg
import pytest

from oncebox.db import postgres
from tests.support.databases import Place

pytestmark = pytest.mark.parametrize("kind", ["postgres"])


@pytest.fixture
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    """Search often, and wait for nobody."""
    monkeypatch.setattr(postgres, "_END_STALLED_EVERY", 0.05)
    monkeypatch.setattr(postgres, "_STALLED_AFTER", 0.5)


@pytest.fixture
def session(place: Place) -> Iterator[psycopg.Connection[Any]]:
    """A session of a process that will be paused."""
    with closing(postgres.connect(place.url)) as connection:
        yield connection


def _lock_in_pipeline(session: psycopg.Connection[Any]) -> None:
    """Take a lock by a statement of a pipeline whose end is not sent."""
    server = session.pgconn
    server.enter_pipeline_mode()
    server.send_query_params(b"BEGIN", None)
    server.send_query_params(b"SELECT pg_advisory_xact_lock(1)", None)
    server.send_flush_request()
    while server.flush():
        pass


async def _until_locked(beside: psycopg.Connection[Any], *, locked: bool) -> None:
    query = "SELECT 1 FROM pg_locks WHERE locktype = 'advisory' AND objid = 1 AND granted"
    async with asyncio.timeout(20):
        while bool(beside.execute(query).fetchall()) is not locked:  # noqa: ASYNC110 - the server knows
            await asyncio.sleep(0.02)


@pytest.mark.usefixtures("impatient")
async def test_a_process_paused_in_the_middle_of_a_pipeline_loses_its_locks(
    place: Place, session: psycopg.Connection[Any]
) -> None:
    database = place.open()
    with closing(psycopg.connect(place.url, autocommit=True)) as beside:
        _lock_in_pipeline(session)
        await _until_locked(beside, locked=True)

        await database.wait("anything", 0)  # from now on it listens

        await _until_locked(beside, locked=False)
    await database.close()


@pytest.mark.usefixtures("impatient")
async def test_a_session_outside_a_transaction_and_those_of_others_are_left_alone(
    place: Place, session: psycopg.Connection[Any]
) -> None:
    database = place.open()
    with (
        closing(psycopg.connect(place.url, autocommit=True)) as beside,
        closing(psycopg.connect(place.url)) as theirs,
        closing(postgres.connect(place.url)) as stalled,
    ):
        theirs.execute("SELECT 1")
        session.execute("SELECT 1")
        _lock_in_pipeline(stalled)
        await _until_locked(beside, locked=True)
        await database.wait("anything", 0)  # from now on it listens
        await _until_locked(beside, locked=False)

        assert theirs.execute("SELECT 2").fetchall() == [(2,)]
        assert session.execute("SELECT 2").fetchall() == [(2,)]
    await database.close()
