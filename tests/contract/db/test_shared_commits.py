"""What waits while a commit is under way shares the next one, and harms nobody in it."""

import asyncio
import threading

import pytest

from oncebox.db.database import Database, Transaction
from oncebox.errors import RowRefused

WAITING = 6


@pytest.fixture(autouse=True)
async def _table(database: Database) -> None:
    def make(tx: Transaction) -> None:
        tx.execute("CREATE TABLE shared (name TEXT PRIMARY KEY)")

    await database.write_alone(make)


def _add(tx: Transaction, name: str) -> str:
    tx.execute(f"INSERT INTO shared VALUES ('{name}')")  # noqa: S608 - names of ours
    return name


def _names(tx: Transaction) -> list[str]:
    return [row[0] for row in tx.execute("SELECT name FROM shared ORDER BY name")]


def _counted(database: Database, monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Return how many jobs each commit will have had."""
    commits: list[int] = []
    writer = type(database._writer)  # type: ignore[attr-defined]
    run = writer.run_jobs

    def counted(self: object, session: object, jobs: list[object]) -> object:
        commits.append(len(jobs))
        return run(self, session, jobs)

    monkeypatch.setattr(writer, "run_jobs", counted)
    return commits


class Gate:
    """Keeps the writer busy until it is opened."""

    def __init__(self) -> None:
        self.entered, self._opened = threading.Event(), threading.Event()

    def hold(self, _tx: Transaction) -> None:
        self.entered.set()
        assert self._opened.wait(30)

    def open(self) -> None:
        self._opened.set()


async def _behind(database: Database, *works: object) -> list[object]:
    """Let works wait behind a commit that is under way; return what became of each."""
    gate = Gate()
    holding = asyncio.create_task(database.write_alone(gate.hold))
    await asyncio.to_thread(gate.entered.wait, 30)
    tasks = [asyncio.ensure_future(each) for each in works]  # type: ignore[call-overload]
    await asyncio.sleep(0)
    gate.open()
    await holding
    return list(await asyncio.gather(*tasks, return_exceptions=True))


@pytest.mark.parametrize("kind", ["sqlite"])
async def test_what_waits_shares_one_commit(
    database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    commits = _counted(database, monkeypatch)
    names = [f"name {n}" for n in range(WAITING)]

    told = await _behind(database, *(database.write(_add, name) for name in names))

    assert told == names
    assert commits == [1, WAITING]
    assert await database.read(_names) == names


async def test_who_raises_undoes_only_its_own_work(database: Database) -> None:
    def half(tx: Transaction) -> None:
        _add(tx, "half")
        raise ValueError

    told = await _behind(
        database,
        database.write(_add, "first"),
        database.write(half),
        database.write(_add, "first"),
        database.write(_add, "last"),
    )

    first, undone, second, last = (type(each) for each in told)
    assert (undone, last) == (ValueError, str)
    # With several writers, nobody knows which of the two is the first.
    assert {first, second} == {str, RowRefused}
    assert await database.read(_names) == ["first", "last"]


@pytest.mark.parametrize("kind", ["sqlite"])
async def test_a_commit_that_fails_is_told_to_all_who_shared_it(database: Database) -> None:
    def wreck(tx: Transaction) -> None:
        tx.execute("ROLLBACK")

    told = await _behind(
        database, database.write(_add, "first"), database.write(wreck), database.write(_add, "last")
    )

    assert [type(each) for each in told].count(str) == 0
    assert await database.read(_names) == []
    assert await database.write(_add, "again") == "again"


@pytest.mark.parametrize("kind", ["sqlite"])
async def test_a_users_transaction_is_alone(
    database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    commits = _counted(database, monkeypatch)

    await _behind(
        database,
        database.write(_add, "a"),
        database.write(_add, "b"),
        database.write_alone(_add, "c"),
        database.write(_add, "d"),
        database.write(_add, "e"),
    )

    assert commits == [1, 2, 1, 2]
    assert await database.read(_names) == ["a", "b", "c", "d", "e"]
