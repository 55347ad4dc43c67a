"""What heals by itself: a restarted server, a locked file, a lost notification channel."""

import asyncio
import subprocess
import sys
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import asynccontextmanager
from pathlib import Path

import psycopg
import pytest

from oncebox.box import Oncebox
from oncebox.db import sqlite
from oncebox.errors import DatabaseBusy, StoreUnavailable
from oncebox.ledger.deliveries import inspections
from oncebox.model.deliveries.delivery import ArrivalKind, Delivery, DeliveryState
from oncebox.settings_loading import load_settings
from oncebox.workers.deliveries.once import Once
from tests.support.databases import FAST
from tests.support.postgres import PostgresServer
from tests.torture.ledger.boxes import MASTER_KEY
from tests.torture.ledger.waiting import until_told

#: Longer than any test: whoever wakes earlier was woken.
NEVER = 600.0
PATIENCE = 20.0
HOLD_THE_FILE = """
import sys, time, apsw
connection = apsw.Connection(sys.argv[1])
connection.execute("BEGIN IMMEDIATE")
print("locked", flush=True)
time.sleep(float(sys.argv[2]))
"""


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[PostgresServer]:
    """A server of our own, because it is going to suffer."""
    with PostgresServer.start(tmp_path_factory.mktemp("suffering"), settings=FAST) as server:
        yield server


@pytest.fixture
def url(server: PostgresServer, request: pytest.FixtureRequest) -> str:
    return server.create_database(f"db{abs(hash(request.node.name))}")


def new_box(url: str, *, poll: float = 0.2) -> Oncebox:
    worker = {"poll": poll, "lease": 5.0, "stop_within": 2.0}
    settings = load_settings({}, database_url=url, master_key=MASTER_KEY, worker=worker)
    return Oncebox(settings=settings, migrate=True)


async def eventually(holds: Callable[[], Awaitable[bool]]) -> None:
    """Wait until something is so."""
    async with asyncio.timeout(PATIENCE):
        await until_told(holds)


async def state_of(box: Oncebox, id_: str) -> DeliveryState:
    facts = await box.components.database.read(inspections.read_facts, box.settings.tenant, id_)
    return facts.state


@asynccontextmanager
async def working(box: Oncebox) -> AsyncIterator[None]:
    """Let a box work beside the test."""
    async with asyncio.TaskGroup() as tasks:
        tasks.create_task(box.work())
        yield
        box.stop_working()


async def test_an_idle_box_does_not_notice_a_restart_of_its_server(
    server: PostgresServer, url: str
) -> None:
    async with new_box(url) as box:
        before = await box.accept("shop", key="before")
        await asyncio.to_thread(server.restart, "immediate")

        after = await box.accept("shop", key="after")
        again = await box.accept("shop", key="before")

    assert (before.arrival, after.arrival) == (ArrivalKind.NEW, ArrivalKind.NEW)
    assert (again.arrival, again.id) == (ArrivalKind.DUPLICATE, before.id)


async def test_a_working_box_goes_on_after_a_restart_of_its_server(
    server: PostgresServer, url: str
) -> None:
    box = new_box(url)
    entered, calls = asyncio.Event(), []

    @box.on("shop")
    async def handle(delivery: Delivery, once: Once) -> None:
        async def call(idempotency_key: str) -> None:
            calls.append(idempotency_key)

        entered.set()
        await once.do("first", call, timeout=3)
        await asyncio.to_thread(server.restart, "immediate")
        await once.do("second", call, timeout=3)

    await box.open()
    async with working(box):
        id_ = (await box.accept("shop", key="1")).id
        await entered.wait()
        await eventually(lambda: _is(box, id_, DeliveryState.DONE))
    await box.close()

    assert len(calls) == len(set(calls)) == 2


async def test_callers_hear_not_now_while_the_server_is_down_and_are_served_when_it_is_back(
    server: PostgresServer, url: str
) -> None:
    async with new_box(url) as box:
        await box.accept("shop", key="before")
        await asyncio.to_thread(server.stop, "immediate")
        with pytest.raises(StoreUnavailable) as refused:
            await box.accept("shop", key="1")
        await asyncio.to_thread(server.restart)

        accepted = await box.accept("shop", key="1")

    assert refused.value.retry_safe
    assert accepted.arrival is ArrivalKind.NEW


async def test_a_worker_whose_server_is_down_waits_for_it(server: PostgresServer, url: str) -> None:
    box = new_box(url)

    @box.on("shop")
    async def handle(delivery: Delivery, once: Once) -> None:
        pass

    await box.open()
    async with working(box):
        await box.accept("shop", key="1")
        await asyncio.to_thread(server.stop, "immediate")
        await asyncio.sleep(1.0)
        await asyncio.to_thread(server.restart)

        id_ = (await box.accept("shop", key="2")).id
        await eventually(lambda: _is(box, id_, DeliveryState.DONE))
    await box.close()


async def test_a_lost_notification_channel_is_opened_again(
    server: PostgresServer, url: str
) -> None:
    handled = asyncio.Event()
    deaf, other = new_box(url, poll=NEVER), new_box(url)

    @deaf.on("shop")
    async def handle(delivery: Delivery, once: Once) -> None:
        handled.set()

    await deaf.open()
    await other.open()
    async with working(deaf):
        await eventually(lambda: asyncio.to_thread(_end_listeners, url))

        began = time.monotonic()
        await other.accept("shop", key="1")
        async with asyncio.timeout(PATIENCE):
            await handled.wait()
    assert time.monotonic() - began < PATIENCE < NEVER
    await deaf.close()
    await other.close()


async def test_a_file_locked_for_a_while_only_delays(tmp_path: Path) -> None:
    path = tmp_path / "oncebox.db"
    async with new_box(f"sqlite:///{path}") as box:
        with _holding(path, seconds=1.0):
            began = time.monotonic()
            accepted = await box.accept("shop", key="1")
            waited = time.monotonic() - began

    assert accepted.arrival is ArrivalKind.NEW
    assert waited > 0.3


async def test_a_file_locked_for_too_long_is_refused_and_taken_again_when_free(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sqlite, "_BUSY_TIMEOUT_MS", 200)
    path = tmp_path / "oncebox.db"
    box = new_box(f"sqlite:///{path}")

    @box.on("shop")
    async def handle(delivery: Delivery, once: Once) -> None:
        pass

    await box.open()
    async with working(box):
        with _holding(path, seconds=NEVER), pytest.raises(DatabaseBusy) as refused:
            await box.accept("shop", key="1")

        id_ = (await box.accept("shop", key="1")).id
        await eventually(lambda: _is(box, id_, DeliveryState.DONE))
    await box.close()

    assert refused.value.retry_safe


async def _is(box: Oncebox, id_: str, state: DeliveryState) -> bool:
    try:
        return await state_of(box, id_) is state
    except StoreUnavailable:
        return False


def _end_listeners(url: str) -> bool:
    """End the connections that listen; say whether there were any."""
    with psycopg.connect(url, autocommit=True) as connection:
        found = connection.execute(
            "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE query LIKE 'LISTEN%'"
        ).fetchall()
    return bool(found)


class _holding:  # noqa: N801 - reads as a word of the test
    """Lets another process hold the write lock of a file."""

    def __init__(self, path: Path, *, seconds: float) -> None:
        command = [sys.executable, "-c", HOLD_THE_FILE, str(path), str(seconds)]
        self._process = subprocess.Popen(command, stdout=subprocess.PIPE)

    def __enter__(self) -> None:
        assert self._process.stdout is not None
        assert self._process.stdout.readline() == b"locked\n"

    def __exit__(self, *exception: object) -> None:
        self._process.kill()
        self._process.communicate()
