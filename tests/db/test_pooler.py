"""A pooler in front of PostgreSQL: named where it cannot work, and used where it can."""

import asyncio
from collections.abc import Iterator
from contextlib import closing
from urllib.parse import urlsplit

import psycopg
import pytest

from oncebox.db.postgres import PostgresDatabase, PostgresReader, connect
from oncebox.errors import PoolerUnsupported
from tests.contract.db.test_group_commit import _arrival, _count, _insert
from tests.support.databases import Place
from tests.support.pgbouncer import PgBouncer
from tests.support.postgres import Postgres

pytestmark = pytest.mark.parametrize("kind", ["postgres"])
_LEFT_BEHIND = "SELECT count(*) FROM pg_settings WHERE name = 'enable_seqscan' AND setting = 'off'"


@pytest.fixture
def pooled(place: Place, postgres: Postgres, request: pytest.FixtureRequest) -> Iterator[str]:
    """The URL of the database behind a pooler."""
    with PgBouncer(postgres, request.param) as pooler:
        yield pooler.url(urlsplit(place.url).path.removeprefix("/"))


@pytest.mark.parametrize("pooled", ["transaction", "statement"], indirect=True)
def test_a_pooler_that_changes_connections_between_transactions_is_refused_by_name(
    pooled: str,
) -> None:
    for open_ in (PostgresDatabase, PostgresReader):
        with pytest.raises(PoolerUnsupported, match="pool_mode = session"):
            open_(pooled)
    with psycopg.connect(pooled, autocommit=True) as other:  # nothing was set for other programs
        assert other.execute(_LEFT_BEHIND.encode()).fetchone() == (0,)


@pytest.mark.parametrize("pooled", ["transaction"], indirect=True)
def test_a_pooler_is_recognised_while_other_programs_use_it(pooled: str) -> None:
    with psycopg.connect(pooled, autocommit=True), psycopg.connect(pooled) as busy:
        busy.execute("SELECT 1")
        with pytest.raises(PoolerUnsupported):
            PostgresDatabase(pooled)


@pytest.mark.parametrize("pooled", ["session"], indirect=True)
async def test_a_pooler_that_keeps_connections_is_like_the_server_itself(pooled: str) -> None:
    database = PostgresDatabase(pooled)
    for number in range(20):
        await _insert(database, [_arrival(str(number))])
        await asyncio.sleep(0.005)

    assert await _count(database) == 20
    await database.close()
    with closing(PostgresReader(pooled)) as reader:
        assert reader.clock()


def test_the_server_itself_is_no_pooler(place: Place) -> None:
    connect(place.url).close()
    with closing(PostgresReader(place.url)) as reader:
        assert reader.read(lambda tx: tx.execute("SELECT 1")) == [(1,)]
