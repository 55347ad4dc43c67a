"""Bulk inserts on the event loop: committed when answered, and no answer is no claim."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import suppress
from functools import partial
from typing import Any

import msgspec
import psycopg
import pytest

from oncebox.db.database import Row
from oncebox.db.loop_connection import LoopConnection, LoopConnections
from oncebox.db.postgres import PostgresDatabase, connect, pack_column
from oncebox.errors import CommitUnknown, DatabaseUnreachable, RowRefused
from oncebox.ledger.deliveries import deduplication
from oncebox.model.deliveries.delivery import NewDelivery
from oncebox.model.validation import key_digest
from tests.contract.db.test_group_commit import TOO_LONG, _arrival
from tests.support.clerk import START, TENANT
from tests.support.databases import Place

pytestmark = pytest.mark.parametrize("kind", ["postgres"])


def _rows(*arrivals: NewDelivery) -> list[Row]:
    return [row for row in map(deduplication.insert_new.row, arrivals) if row is not None]


class Inserting:
    """A connection on the loop, and one beside it that looks and interferes."""

    def __init__(self, place: Place) -> None:
        raw = connect(place.url)
        self.pid = raw.info.backend_pid
        self.connection = LoopConnection(raw, pack_column)
        self.beside: psycopg.Connection[Any] = psycopg.connect(place.url)

    async def insert(self, *arrivals: NewDelivery) -> int:
        rows = _rows(*arrivals)
        assert rows is not None
        return await self.connection.insert(
            deduplication.insert_new.query("postgres"), rows, {"now": START}
        )

    def keys(self) -> set[str]:
        found = self.beside.execute("SELECT key FROM oncebox_deliveries").fetchall()
        self.beside.rollback()
        return {key for (key,) in found}

    def terminate(self) -> None:
        with psycopg.connect(self.beside.info.dsn, autocommit=True) as third:
            third.execute("SELECT pg_terminate_backend(%s, 5000)", (self.pid,))

    def hold(self, key: str) -> None:
        """Insert the key in a transaction that stays open."""
        self.beside.execute(
            "INSERT INTO oncebox_deliveries (id, tenant, source, key, variant, key_digest, type,"
            " road, fingerprint, payload_id, size, state, received_at, accepted_at)"
            " SELECT 'dlv_held', tenant, source, %s, '', %s, type, road, fingerprint, 'p', size,"
            " state, received_at, accepted_at FROM oncebox_deliveries LIMIT 1",
            (key, key_digest(TENANT, "shop", key)),
        )


@pytest.fixture
async def loop(place: Place) -> AsyncIterator[Inserting]:
    inserting = Inserting(place)
    yield inserting
    inserting.connection.close()
    inserting.beside.close()


async def test_rows_are_committed_when_the_count_returns(loop: Inserting) -> None:
    assert await loop.insert(_arrival("a"), _arrival("b")) == 2
    assert loop.keys() == {"a", "b"}

    assert await loop.insert(_arrival("b"), _arrival("c")) == 1
    assert loop.keys() == {"a", "b", "c"}


async def test_rows_larger_than_any_socket_buffer_arrive_whole(loop: Inserting) -> None:
    body = bytes(range(256)) * 100_000
    large = msgspec.structs.replace(_arrival("large"), body=body)

    assert await loop.insert(large, _arrival("small")) == 2

    found = loop.beside.execute("SELECT body FROM oncebox_payloads WHERE id = %s", (large.id,))
    assert found.fetchone() == (body,)


async def test_a_refused_row_refuses_its_statement_only(loop: Inserting) -> None:
    with pytest.raises(psycopg.IntegrityError):
        await loop.insert(_arrival("a"), _arrival(TOO_LONG))

    assert loop.keys() == set()
    assert await loop.insert(_arrival("a")) == 1


async def test_a_connection_that_breaks_before_the_answer_leaves_the_commit_unknown(
    loop: Inserting,
) -> None:
    await loop.insert(_arrival("first"))
    loop.hold("a")
    waiting = asyncio.create_task(loop.insert(_arrival("a")))
    await asyncio.sleep(0.1)
    assert not waiting.done()

    await asyncio.to_thread(loop.terminate)

    with pytest.raises(CommitUnknown):
        await asyncio.wait_for(waiting, 5)
    assert loop.connection.broken


async def test_a_connection_that_breaks_while_idle_is_known_to_be_broken(loop: Inserting) -> None:
    await loop.insert(_arrival("a"))

    await asyncio.to_thread(loop.terminate)
    await asyncio.sleep(0.1)

    assert loop.connection.broken


async def test_a_caller_that_gives_up_takes_its_connection_along(loop: Inserting) -> None:
    """The next statement would read the answer to this one."""
    await loop.insert(_arrival("first"))
    loop.hold("a")
    waiting = asyncio.create_task(loop.insert(_arrival("a")))
    await asyncio.sleep(0.1)

    waiting.cancel()
    with pytest.raises(asyncio.CancelledError):
        await waiting

    assert loop.connection.broken


async def test_broken_connections_are_replaced(place: Place) -> None:
    database = place.open()
    assert isinstance(database, PostgresDatabase)
    query = deduplication.insert_new.query("postgres")
    with psycopg.connect(place.url, autocommit=True) as beside:
        for number in range(60):
            with suppress(CommitUnknown):  # the end of a connection is noticed a moment later
                await database.insert(query, partial(_rows, _arrival(str(number))))
            await database.insert(query, partial(_rows, _arrival(str(number))))
            if number % 20 == 10:
                beside.execute(
                    "SELECT pg_terminate_backend(pid, 5000) FROM pg_stat_activity"
                    " WHERE application_name = 'oncebox' AND datname = current_database()"
                    " AND query LIKE '%oncebox_deliveries%'"
                )
                await asyncio.sleep(0.05)
        found = beside.execute("SELECT key FROM oncebox_deliveries").fetchall()
    await database.close()

    # A statement that the test before has given up may still be executed.
    assert sorted(key for (key,) in found if key.isdigit()) == sorted(map(str, range(60)))


async def test_errors_of_the_loop_are_those_of_the_sessions(place: Place) -> None:
    database = place.open()
    query = deduplication.insert_new.query("postgres")
    refused = _rows(_arrival(TOO_LONG))
    for _ in range(20):  # by a session, and by the loop once it is connected
        with pytest.raises(RowRefused):
            await database.insert(query, lambda: refused)
        await asyncio.sleep(0.01)
    await database.close()


async def test_a_server_that_shuts_down_in_a_statement_leaves_the_commit_unknown(
    place: Place,
) -> None:
    """By the loop as by the sessions: it may have committed before it says so."""
    database = place.open()
    assert isinstance(database, PostgresDatabase)
    query = deduplication.insert_new.query("postgres")
    with psycopg.connect(place.url, autocommit=True) as beside:
        beside.execute(
            "CREATE FUNCTION shut_down() RETURNS trigger LANGUAGE plpgsql AS"
            " $$BEGIN RAISE SQLSTATE '57P01'; END$$;"
            "CREATE TRIGGER shut_down BEFORE INSERT ON oncebox_payloads"
            " EXECUTE FUNCTION shut_down()"
        )
        try:
            for number in range(20):
                with pytest.raises(CommitUnknown):
                    await database.insert(query, partial(_rows, _arrival(str(number))))
                await asyncio.sleep(0.02)
        finally:
            beside.execute("DROP TRIGGER shut_down ON oncebox_payloads; DROP FUNCTION shut_down")
            await database.close()


async def test_a_server_that_cannot_be_reached_is_not_asked_again_at_once(kind: str) -> None:
    tries = []

    def refuse() -> psycopg.Connection[Any]:
        tries.append(kind)
        raise DatabaseUnreachable

    connections = LoopConnections(refuse, pack_column)
    for _ in range(50):
        assert connections.take() is None
        await asyncio.sleep(0.005)
    await connections.close()

    assert len(tries) <= 4
