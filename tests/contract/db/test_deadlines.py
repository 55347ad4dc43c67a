"""Deadlines: a database that hangs keeps nobody waiting, and nothing is claimed that may fail."""

import asyncio
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress

import psycopg
import pytest

from oncebox.core.metrics import Telemetry
from oncebox.db import startup
from oncebox.db.database import Database, Transaction
from oncebox.db.group_commit import GroupCommit, SharedRead
from oncebox.db.session_pool import SessionPool
from oncebox.errors import (
    CommitOverdue,
    DatabaseOverdue,
    DiskFull,
    StoreFailed,
    StoreUnavailable,
)
from oncebox.ledger import transactions
from oncebox.ledger.transactions import Ledger
from tests.support.databases import Place

#: short, and far from what a healthy database takes
DEADLINE = 0.3
#: longer than all deadlines of a test together
PATIENCE = 20.0


class Gate:
    """Holds transactions up until it is opened."""

    def __init__(self) -> None:
        self.is_open = threading.Event()
        self.held = 0

    def open(self, database: Database) -> None:
        """Let all through, and give later calls as long as a busy machine takes."""
        database.deadline = PATIENCE
        self.is_open.set()

    def pass_(self) -> None:
        self.held += 1
        assert self.is_open.wait(PATIENCE)

    def look(self, _tx: Transaction, wanted: Sequence[str]) -> list[str]:
        """Answer, after the gate was opened."""
        self.pass_()
        return list(wanted)

    def store(self, tx: Transaction, names: Sequence[str], _now: int = 0) -> list[str]:
        """Store facts, after the gate was opened."""
        self.pass_()
        for name in names:
            tx.run(startup._sql.keep_fact, name=name, value="x")
        return list(names)


@pytest.fixture
def gate() -> Iterator[Gate]:
    gate = Gate()
    yield gate
    gate.is_open.set()


@pytest.fixture
async def hasty(database: Database) -> Database:
    """A database that answers every caller in time."""
    database.deadline = DEADLINE
    return database


def _facts(tx: Transaction) -> set[str]:
    return {name for (name,) in tx.execute("SELECT name FROM oncebox_meta")}


async def _until(holds: Callable[[], bool]) -> None:
    async with asyncio.timeout(PATIENCE):
        while not holds():  # noqa: ASYNC110 - it has no event
            await asyncio.sleep(0.01)


async def _held_up(database: Database, gate: Gate) -> None:
    """Let every connection that writes wait at the gate."""
    for number in range(4):
        with suppress(StoreUnavailable):
            await database.write(gate.store, [f"held-{number}"])


async def test_a_caller_is_told_in_time_that_its_write_may_still_be_committed(
    hasty: Database, gate: Gate
) -> None:
    with pytest.raises(CommitOverdue):
        await hasty.write(gate.store, ["late"])
    assert hasty.overdue == 1

    gate.open(hasty)
    await _until(lambda: hasty.overdue == 0)

    assert "late" in await hasty.read(_facts)


async def test_what_has_not_begun_by_the_deadline_never_happens(
    hasty: Database, gate: Gate
) -> None:
    await _held_up(hasty, gate)
    held = gate.held

    with pytest.raises(DatabaseOverdue):
        await hasty.write(gate.store, ["never"])
    gate.open(hasty)
    await _until(lambda: hasty.overdue == 0)
    await hasty.write(gate.store, ["after"])

    assert gate.held == held + 1
    assert {"never", "after"} & await hasty.read(_facts) == {"after"}


async def test_reads_are_answered_while_every_write_hangs(hasty: Database, gate: Gate) -> None:
    await _held_up(hasty, gate)
    hasty.deadline = PATIENCE

    assert "held-0" not in await hasty.read(_facts)


async def test_a_read_that_hangs_is_answered_in_time(hasty: Database, gate: Gate) -> None:
    read: SharedRead[str, str] = SharedRead(hasty, gate.look)

    with pytest.raises(DatabaseOverdue):
        await read.read("first")

    held = gate.held
    trial = asyncio.create_task(read.read("trial"))
    await asyncio.sleep(0)
    with pytest.raises(DatabaseOverdue):
        await read.read("refused at once")
    gate.open(hasty)
    await trial
    await read.read("after")
    assert gate.held == held + 2


async def test_statements_of_users_have_no_deadline(hasty: Database, gate: Gate) -> None:
    writing = asyncio.create_task(hasty.write_alone(gate.store, ["own"]))
    with suppress(TimeoutError):
        await asyncio.wait_for(asyncio.shield(writing), 2 * DEADLINE)
    assert not writing.done()

    gate.open(hasty)

    assert await writing == ["own"]


async def test_nobody_waits_for_a_commit_longer_than_the_deadline(
    hasty: Database, gate: Gate
) -> None:
    group = GroupCommit(hasty, gate.store, in_order=True)
    taken = asyncio.create_task(group.submit("taken"))
    await _until(lambda: gate.held > 0)
    behind = asyncio.create_task(group.submit("behind"))

    answers = await asyncio.gather(taken, behind, return_exceptions=True)

    # Another connection may have begun with the one behind.
    assert isinstance(answers[0], CommitOverdue)
    assert isinstance(answers[1], (CommitOverdue, DatabaseOverdue))
    gate.open(hasty)
    await _until(lambda: hasty.overdue == 0 and group._flushers == 0)
    stored = await hasty.read(_facts)
    assert "taken" in stored
    # Whoever is told that nothing was stored can rely on it.
    assert ("behind" in stored) is isinstance(answers[1], CommitOverdue)


async def test_while_a_commit_is_overdue_one_caller_tries_and_the_others_hear_at_once(
    hasty: Database, gate: Gate
) -> None:
    group = GroupCommit(hasty, gate.store, in_order=True)
    with pytest.raises(CommitOverdue):
        await group.submit("first")
    await _until(lambda: group._flushers == 0)

    trial = asyncio.create_task(group.submit("trial"))
    await asyncio.sleep(0)
    for _ in range(100):
        with pytest.raises(DatabaseOverdue):  # by the call itself, without any wait
            group.enqueue("refused", asyncio.get_running_loop().create_future())

    with pytest.raises(StoreUnavailable):
        await trial
    gate.open(hasty)
    await _until(lambda: hasty.overdue == 0 and group._flushers == 0)
    await group.submit("tried")
    answers = await asyncio.gather(*(group.submit(f"after-{number}") for number in range(20)))
    assert len(answers) == 20
    assert "refused" not in await hasty.read(_facts)


async def test_a_commit_that_is_repeated_until_it_succeeds_has_no_deadline(
    hasty: Database, gate: Gate
) -> None:
    group = GroupCommit(hasty, gate.store, retries=True, in_order=True)
    waiting = asyncio.create_task(group.submit("kept"))
    await _until(lambda: hasty.overdue > 0)
    assert not waiting.done()

    gate.open(hasty)

    # The first try has stored it, and the second finds it there.
    answered = await asyncio.gather(waiting, return_exceptions=True)
    assert answered
    assert "kept" in await hasty.read(_facts)


async def test_a_database_that_hangs_can_be_closed(place: Place, gate: Gate) -> None:
    database = place.open()
    database.deadline = DEADLINE
    with pytest.raises(CommitOverdue):
        await database.write(gate.store, ["late"])

    async with asyncio.timeout(PATIENCE / 2):
        await database.close()


async def test_a_queue_that_closes_answers_those_who_wait() -> None:
    gate = Gate()

    class Session:
        broken = False

        def close(self) -> None: ...

    pool = SessionPool("test", 1, Session)
    pool.deadline = DEADLINE
    calls = [pool.start(lambda _: gate.pass_()) for _ in range(3)]

    await pool.close()

    answers = await asyncio.gather(*calls, return_exceptions=True)
    assert all(isinstance(each, StoreUnavailable) for each in answers)
    gate.is_open.set()


async def test_readiness_is_answered_in_time_by_one_check_at_once(
    database: Database, gate: Gate, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(transactions, "_READY_WITHIN", 0.05)
    monkeypatch.setattr(startup, "_write_unchanged", lambda _tx: gate.pass_())
    ledger = Ledger(database)

    for _ in range(5):
        with pytest.raises(DatabaseOverdue):
            await ledger.check_ready()
    assert gate.held == 1

    gate.is_open.set()
    await _until(lambda: ledger._check is None)
    await ledger.check_ready()


async def test_after_a_full_disk_the_service_is_ready_when_there_is_room_for_a_large_mail(
    database: Database, place: Place
) -> None:
    ledger = Ledger(database)
    await ledger.check_ready()

    def grow(_tx: Transaction) -> None:
        raise DiskFull

    with pytest.raises(DiskFull):
        await database.write(grow)

    assert database.disk_full
    _refuse_large_facts(place)
    ledger._ready_until = 0.0
    with pytest.raises((DiskFull, StoreUnavailable)):
        await ledger.check_ready()

    assert database.disk_full
    _allow_large_facts(place)
    await ledger.check_ready()
    found: bool = database.disk_full
    assert not found
    assert "room" not in await database.read(_facts)


def _refuse_large_facts(place: Place) -> None:
    session = place.session()
    if place.kind == "postgres":
        statement = """
        CREATE OR REPLACE FUNCTION no_room() RETURNS trigger LANGUAGE plpgsql AS $$
        BEGIN RAISE EXCEPTION 'full' USING ERRCODE = '53100'; END $$;
        CREATE TRIGGER no_room BEFORE INSERT ON oncebox_meta FOR EACH ROW
        WHEN (length(NEW.value) > 500000) EXECUTE FUNCTION no_room()
        """
    else:  # SQLite has no way to raise it
        statement = """
        CREATE TRIGGER no_room BEFORE INSERT ON oncebox_meta WHEN length(NEW.value) > 500000
        BEGIN SELECT no_such_function(1); END
        """
    session.run(lambda tx: tx.execute(statement))
    session.close()


def _allow_large_facts(place: Place) -> None:
    session = place.session()
    on = " ON oncebox_meta" if place.kind == "postgres" else ""
    session.run(lambda tx: tx.execute(f"DROP TRIGGER no_room{on}"))
    session.close()


def test_a_database_error_is_counted_by_its_path_and_logged_once_in_a_while(
    caplog: pytest.LogCaptureFixture,
) -> None:
    telemetry = Telemetry()
    error = StoreFailed("the database failed")
    error.sqlstate = "26000"

    for _ in range(3):
        telemetry.count_store_error("webhook", error)
    telemetry.count_store_error("smtp", DiskFull())

    text = telemetry.scrape()
    assert 'oncebox_store_errors_total{code="store_failed",path="webhook"} 3.0' in text
    assert 'oncebox_store_errors_total{code="disk_full",path="smtp"} 1.0' in text
    lines = [str(each.msg) for each in caplog.records]
    assert len(lines) == 2
    assert "26000" in lines[0]


@pytest.mark.parametrize("kind", ["postgres"])
async def test_a_statement_on_the_loop_is_answered_in_time_and_its_connection_comes_back(
    place: Place,
) -> None:
    from tests.contract.db.test_group_commit import _arrival, _count, _insert  # noqa: PLC0415

    database = place.open()
    for number in range(20):  # by a session, then by the loop
        await _insert(database, [_arrival(f"before-{number}")])
        await asyncio.sleep(0.01)
    database.deadline = DEADLINE
    with psycopg.connect(place.url) as beside:
        beside.execute("LOCK TABLE oncebox_deliveries IN EXCLUSIVE MODE")
        for number in range(2):
            with pytest.raises(CommitOverdue):
                await _insert(database, [_arrival(f"late-{number}")])
        assert database.overdue == 2
        database.deadline = PATIENCE
        assert await _count(database) == 20

    await _until(lambda: database.overdue == 0)
    stored = await _count(database)  # what was late may be stored or not
    for number in range(4):
        assert await _insert(database, [_arrival(f"after-{number}")]) == 1
    assert await _count(database) == stored + 4
    await database.close()


@pytest.mark.parametrize("kind", ["sqlite"])
async def test_an_item_that_was_given_up_is_in_no_later_commit(hasty: Database, gate: Gate) -> None:
    hasty.deadline = None
    group = GroupCommit(hasty, gate.store)
    holding = asyncio.create_task(hasty.write_alone(gate.store, ["own"]))
    await _until(lambda: gate.held > 0)

    hasty.deadline = DEADLINE
    with pytest.raises(DatabaseOverdue):
        await group.submit("given up")
    gate.open(hasty)
    await holding
    await _until(lambda: group._flushers == 0)
    await group.submit("after")

    assert {"given up", "after"} & await hasty.read(_facts) == {"after"}
