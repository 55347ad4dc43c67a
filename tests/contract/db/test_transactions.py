"""Transactions: all or nothing, one hop, and what each driver must promise for that."""

import time
from collections.abc import Iterator
from itertools import count

import pytest

from oncebox.db import sqlite
from oncebox.db.database import Database, Transaction
from oncebox.db.sqlite import SqliteDatabase, SqliteSession
from oncebox.errors import RowRefused
from tests.support.clerk import Clerk
from tests.support.databases import Place

HOUR_NS = 3_600 * 1_000_000_000


def _put(tx: Transaction, name: str, value: str = "x") -> None:
    tx.execute(f"INSERT INTO oncebox_meta (name, value) VALUES ('{name}', '{value}')")  # noqa: S608


def _names(tx: Transaction) -> list[str]:
    return [str(name) for (name,) in tx.execute("SELECT name FROM oncebox_meta ORDER BY name")]


async def test_a_failing_verb_leaves_nothing(database: Database) -> None:
    def verb(tx: Transaction) -> None:
        _put(tx, "a")
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        await database.write(verb)

    assert await database.read(_names) == []


async def test_verbs_compose_in_one_commit(database: Database) -> None:
    def both(tx: Transaction) -> None:
        _put(tx, "a")
        _put(tx, "b")
        assert _names(tx) == ["a", "b"]
        _put(tx, "a")

    with pytest.raises(RowRefused):
        await database.write(both)

    assert await database.read(_names) == []


async def test_a_write_is_seen_by_the_next_read(database: Database) -> None:
    for number in range(20):
        await database.write(_put, f"{number:02}")
        assert len(await database.read(_names)) == number + 1


async def test_a_refused_value_does_not_break_the_connection(database: Database) -> None:
    for number in range(10):
        with pytest.raises(RowRefused):
            await database.write(_put, "lone \ud800 surrogate")
        await database.write(_put, str(number))

    assert len(await database.read(_names)) == 10


def test_a_bulk_query_over_no_rows_does_nothing(clerk: Clerk) -> None:
    assert clerk.accept() == []
    assert clerk.settle() == []
    assert clerk.renew() == set()
    assert clerk.allow() == []


@pytest.mark.parametrize("kind", ["sqlite"])
async def test_readers_of_a_file_cannot_write(database: Database) -> None:
    with pytest.raises(Exception, match=r"readonly|read-only|cannot be written"):
        await database.read(_put, "a")


@pytest.mark.parametrize("kind", ["sqlite"])
def test_a_file_is_opened_for_durability(clerk: Clerk) -> None:
    def pragma(name: str) -> object:
        return clerk.session.run(lambda tx: tx.execute(f"PRAGMA {name}"))[0][0]

    pragmas = {name: pragma(name) for name in ("journal_mode", "synchronous", "wal_autocheckpoint")}

    assert (pragmas["journal_mode"], pragmas["synchronous"]) == ("wal", 2)
    assert pragmas["wal_autocheckpoint"] == 0


# checkpoints


async def _writes_until_the_log_starts_anew(database: Database, number: Iterator[int]) -> int:
    """Write again and again; return after how many writes the log was shorter than before."""
    assert isinstance(database, SqliteDatabase)
    before = 0
    for writes in range(1, 3_000):
        await database.write(_put, str(next(number)), "x" * 100_000)
        pages = database._writer.wal_pages
        if pages < before:
            return writes
        before = pages
    raise AssertionError("the log grew and grew")


@pytest.mark.parametrize("kind", ["sqlite"])
async def test_the_log_does_not_grow_for_ever(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sqlite, "_CHECKPOINT_PAGES", 100)
    database, number = place.open(), count()

    for _ in range(3):
        assert await _writes_until_the_log_starts_anew(database, number) > 1
    await database.close()


@pytest.mark.parametrize("kind", ["sqlite"])
async def test_the_log_does_not_grow_because_another_process_rests(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whoever copied last may never write again; the next must be able to copy."""
    monkeypatch.setattr(sqlite, "_CHECKPOINT_PAGES", 100)
    resting, writing, number = place.open(), place.open(), count()
    await _writes_until_the_log_starts_anew(resting, number)

    assert await _writes_until_the_log_starts_anew(writing, number) > 1
    await writing.close()
    await resting.close()


@pytest.mark.parametrize("kind", ["sqlite"])
async def test_a_commit_is_not_called_failed_because_the_log_cannot_be_copied(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sqlite, "_CHECKPOINT_PAGES", 10)
    (place.path.parent / f"{place.path.name}-checkpoint").mkdir()
    database = place.open()

    for number in range(5):
        await database.write(_put, str(number), "x" * 100_000)

    assert len(await database.read(_names)) == 5
    await database.close()


@pytest.mark.parametrize("kind", ["sqlite"])
def test_a_copy_that_fails_is_left_to_the_next(place: Place) -> None:
    session = SqliteSession(place.path, writable=True)
    session.close()

    sqlite.checkpoint(session.connection)


# the clock


@pytest.mark.parametrize("kind", ["sqlite"])
async def test_the_clock_of_a_file_is_the_hosts(place: Place) -> None:
    database = place.open(now=lambda: 1234)

    assert database.clock() == 1234
    await database.close()


@pytest.mark.parametrize("kind", ["postgres"])
@pytest.mark.parametrize("wrong_by", [-HOUR_NS, 0, HOUR_NS], ids=["slow", "right", "fast"])
async def test_the_clock_of_a_server_is_the_servers(
    place: Place, monkeypatch: pytest.MonkeyPatch, wrong_by: int
) -> None:
    right = time.time_ns
    monkeypatch.setattr(time, "time_ns", lambda: right() + wrong_by)

    database = place.open()

    assert abs(database.clock() - right() // 1_000_000) < 60_000
    await database.close()


@pytest.mark.parametrize("kind", ["postgres"])
async def test_statements_of_users_are_planned_as_the_server_is_configured(
    database: Database,
) -> None:
    def shown(tx: Transaction) -> object:
        return tx.execute("SHOW enable_seqscan")[0][0]

    assert await database.write_alone(shown) == "on"
    assert await database.write(shown) == "off"
