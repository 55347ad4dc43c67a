"""The proxy makes exactly the faults it is told to make."""

import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from concurrent.futures import TimeoutError as TooSlow

import psycopg
import pytest

from tests.support.postgres import PostgresServer
from tests.torture.proxy import FaultProxy, Moment


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[PostgresServer]:
    with PostgresServer.start(tmp_path_factory.mktemp("postgres")) as server:
        yield server


@pytest.fixture
def proxy(server: PostgresServer) -> Iterator[FaultProxy]:
    with psycopg.connect(server.url()) as connection:
        connection.execute("DROP TABLE IF EXISTS seen")
        connection.execute("CREATE TABLE seen (key TEXT)")
    with FaultProxy(server.url()) as proxy:
        yield proxy


def insert(url: str, key: str) -> None:
    with psycopg.connect(url, connect_timeout=5) as connection:
        connection.execute("INSERT INTO seen VALUES (%s)", (key,))


def keys(server: PostgresServer) -> set[str]:
    with psycopg.connect(server.url()) as connection:
        return {row[0] for row in connection.execute("SELECT key FROM seen")}


def test_without_faults_it_only_forwards(server: PostgresServer, proxy: FaultProxy) -> None:
    insert(proxy.url(), "a")

    assert keys(server) == {"a"}
    assert proxy.seen(Moment.COMMIT_REPLY) == 1
    assert proxy.lost_commits == 0


def test_a_lost_reply_hides_a_commit_that_happened(
    server: PostgresServer, proxy: FaultProxy
) -> None:
    proxy.lose_commit_replies(times=1)

    with pytest.raises(psycopg.OperationalError):
        insert(proxy.url(), "lost")
    insert(proxy.url(), "told")

    assert keys(server) == {"lost", "told"}
    assert proxy.lost_commits == 1


def test_a_commit_in_the_extended_protocol_is_lost_too(
    server: PostgresServer, proxy: FaultProxy
) -> None:
    proxy.lose_commit_replies(times=1)

    with (
        pytest.raises(psycopg.OperationalError),
        psycopg.connect(proxy.url()) as connection,
        connection.pipeline(),
        connection.transaction(),
    ):
        connection.execute("INSERT INTO seen VALUES ('piped')")

    assert keys(server) == {"piped"}
    assert proxy.lost_commits == 1


def test_a_cut_before_the_commit_rolls_back(server: PostgresServer, proxy: FaultProxy) -> None:
    proxy.cut_before_commits(times=1)

    with pytest.raises(psycopg.OperationalError):
        insert(proxy.url(), "never")
    insert(proxy.url(), "told")

    assert keys(server) == {"told"}
    assert proxy.struck(Moment.COMMIT_REQUEST) == 1


def test_a_hanging_reply_leaves_the_client_waiting_until_it_is_cut(
    server: PostgresServer, proxy: FaultProxy
) -> None:
    proxy.lose_commit_replies(times=1, hang=True)

    with ThreadPoolExecutor(1) as pool:
        answer = pool.submit(insert, proxy.url(), "silent")
        with pytest.raises(TooSlow):
            answer.result(timeout=0.5)
        proxy.cut_all()
        with pytest.raises(psycopg.OperationalError):
            answer.result(timeout=5)

    assert keys(server) == {"silent"}


def test_a_delay_holds_back_every_statement(proxy: FaultProxy) -> None:
    with psycopg.connect(proxy.url(), autocommit=True) as connection:
        proxy.delay(0.2)
        begun = time.monotonic()
        connection.execute("SELECT 1")
        slow = time.monotonic() - begun
        proxy.heal()

    assert slow >= 0.2


def test_the_same_seed_loses_the_same_replies(server: PostgresServer, proxy: FaultProxy) -> None:
    def losses() -> list[int]:
        proxy.lose_commit_replies(probability=0.5, seed=7)
        return [number for number in range(12) if not told(number)]

    def told(number: int) -> bool:
        try:
            insert(proxy.url(), str(number))
        except psycopg.OperationalError:
            return False
        return True

    first = losses()

    assert 0 < len(first) < 12
    assert losses() == first


def test_a_server_that_is_down_cuts_the_client_off() -> None:
    with (
        FaultProxy("postgresql://postgres@127.0.0.1:1/postgres") as proxy,
        pytest.raises(psycopg.OperationalError),
    ):
        psycopg.connect(proxy.url(), connect_timeout=5)


def test_the_url_keeps_user_database_and_options() -> None:
    proxy = FaultProxy("postgresql://me:pw@db:5/box?sslmode=require&application_name=x")

    assert proxy.url() == "postgresql://me:pw@127.0.0.1:0/box?application_name=x"
