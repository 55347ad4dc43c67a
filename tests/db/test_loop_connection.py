"""Bulk statements on the event loop: committed when answered, and no answer is no claim."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import suppress
from functools import partial
from typing import Any

import msgspec
import psycopg
import pytest

from oncebox.db.database import Row, Value
from oncebox.db.loop_connection import LoopConnection, LoopConnections
from oncebox.db.postgres import PostgresDatabase, connect
from oncebox.db.postgres_transaction import pack_column
from oncebox.db.queries import Query, _parse_query
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

    async def run(self, query: Query, *rows: Row, **shared: Value) -> list[Row]:
        return await self.connection.run_bulk(query, rows, shared)

    async def count(self, id_: str) -> list[Row]:
        row = (id_, "provider_retry", TENANT, 2, "api")
        return await self.run(deduplication._sql.count, row, now=START)

    def keys(self) -> set[str]:
        found = self.beside.execute("SELECT key FROM oncebox_deliveries").fetchall()
        self.beside.rollback()
        return {key for (key,) in found}

    def terminate(self) -> None:
        with psycopg.connect(self.beside.info.dsn, autocommit=True) as third:
            third.execute("SELECT pg_terminate_backend(%s, 5000)", (self.pid,))

    def hold_count(self, id_: str) -> None:
        """Count a duplicate in a transaction that stays open."""
        self.beside.execute(
            "INSERT INTO oncebox_sightings"
            " (delivery_id, class, tenant, count, first_at, last_at, road)"
            " VALUES (%s, 'provider_retry', %s, 1, 1, 1, 'api')",
            (id_, TENANT),
        )

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


TYPES = _parse_query("""types
-- bulk: word text, number bigint, blob bytea
-- Every type of a column, and values that all rows share.
SELECT :word, CAST(:word AS VARCHAR), :number, CAST(:number AS INTEGER), :blob,
    CAST(:shared_word AS TEXT), CAST(:shared_number AS BIGINT), CAST(:shared_blob AS BYTEA)
FROM /* rows */;
""")


@pytest.mark.parametrize(
    "shared",
    [
        {"shared_word": "w ü", "shared_number": -(2**63), "shared_blob": b"\x00\xff"},
        {"shared_word": None, "shared_number": None, "shared_blob": None},
    ],
    ids=["values", "nulls"],
)
async def test_values_of_every_type_come_back_as_they_were_given(
    loop: Inserting, shared: dict[str, Value]
) -> None:
    rows = [
        ("", 0, b""),
        ("ü ' \u2028", 2**31 - 1, bytes(range(256))),
        (None, None, None),
        ("null", -1, b"\\x00"),
    ]

    found = await loop.run(TYPES, *rows, **shared)

    assert found == [(w, w, n, n, b, *shared.values()) for w, n, b in rows]


async def test_no_row_is_missing_from_a_result_larger_than_any_socket_buffer(
    loop: Inserting,
) -> None:
    rows = [(str(number), number, b"x" * 500) for number in range(20_000)]

    found = await loop.run(TYPES, *rows, shared_word="", shared_number=1, shared_blob=b"")

    assert [each[0] for each in found] == [each[0] for each in rows]


async def test_a_statement_without_a_result_returns_no_rows(place: Place, loop: Inserting) -> None:
    example = ("dlv_1", "provider_retry", 1, TENANT, "api", "", None, b"[]")

    assert await loop.run(deduplication._sql.keep, example, now=START) == []

    database = place.open()
    for number in range(20):  # by a session, and by the loop once it is connected
        row = (*example[:2], number, *example[3:])
        assert await database.run_bulk(deduplication._sql.keep, [row], now=START) == []
        await asyncio.sleep(0.01)
    await database.close()
    loop.beside.rollback()
    assert loop.beside.execute("SELECT count(*) FROM oncebox_examples").fetchone() == (20,)


async def test_queries_with_the_same_name_are_different_statements(loop: Inserting) -> None:
    one, two = (
        _parse_query(f"same\n-- bulk: number bigint\nSELECT :number + {each} FROM /* rows */;")
        for each in (1, 2)
    )

    for _ in range(2):
        assert await loop.run(one, (1,)) == [(2,)]
        assert await loop.run(two, (1,)) == [(3,)]


async def test_a_change_is_committed_when_its_rows_return(loop: Inserting) -> None:
    await loop.count("dlv_1")
    assert await loop.count("dlv_1") == [("dlv_1", "provider_retry", 4)]

    found = loop.beside.execute("SELECT delivery_id, count FROM oncebox_sightings").fetchall()
    assert found == [("dlv_1", 4)]


async def test_a_refused_value_refuses_its_statement_only(loop: Inserting) -> None:
    with pytest.raises(psycopg.DataError):
        await loop.count("\0")

    assert await loop.count("dlv_1") == [("dlv_1", "provider_retry", 2)]


async def test_rows_that_were_not_received_leave_the_commit_unknown(loop: Inserting) -> None:
    loop.hold_count("dlv_1")
    waiting = asyncio.create_task(loop.count("dlv_1"))
    await asyncio.sleep(0.1)
    assert not waiting.done()

    await asyncio.to_thread(loop.terminate)

    with pytest.raises(CommitUnknown):
        await asyncio.wait_for(waiting, 5)
    assert loop.connection.broken


async def test_rows_that_nobody_waits_for_are_given_up_with_their_connection(
    loop: Inserting,
) -> None:
    loop.hold_count("dlv_1")
    waiting = asyncio.create_task(loop.count("dlv_1"))
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
        with pytest.raises(RowRefused):
            await database.run_bulk(deduplication._sql.known, [(b"", "", "", "\0", "")])
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
