"""Sent statements: run in order, read later, and part of the transaction like any other."""

from contextlib import suppress
from threading import Event

import pytest

from oncebox.db.database import Database, Transaction
from oncebox.db.queries import load
from oncebox.errors import RowRefused, StoreFailed
from tests.support.clerk import Clerk
from tests.support.databases import Place
from tests.support.interleaved import Running

_events = load("oncebox.ledger.events", "event_log.sql")
_streams = (("a", 1), ("b", 2))
LONG = 20.0


def _ends(tx: Transaction) -> dict[str, int]:
    return dict(tx.many(_events.moved, [("a", 0), ("b", 0)]))


def _advance(tx: Transaction, *rows: tuple[str, int]) -> list[tuple[str, int]]:
    return [(str(tenant), int(last)) for tenant, last in tx.send_many(_events.advance, rows).rows()]


async def test_what_is_sent_is_done_in_order_and_read_later(database: Database) -> None:
    def work(tx: Transaction) -> list[object]:
        first = tx.send_many(_events.advance, [("a", 1)])
        second = tx.send_many(_events.advance, [("a", 2), ("b", 5)])
        seen = tx.send(_events.ends, tenant="a")
        nothing = tx.send_many(_events.advance, [])
        last = tx.many(_events.moved, [("a", 0), ("b", 0)])
        return [first.rows(), sorted(second.rows()), seen.rows(), nothing.rows(), sorted(last)]

    assert await database.write(work) == [
        [("a", 1)], [("a", 3), ("b", 5)], [(3, 4)], [], [("a", 3), ("b", 5)],
    ]  # fmt: skip
    assert await database.read(_ends) == {"a": 3, "b": 5}


async def test_what_is_sent_and_never_read_is_committed(database: Database) -> None:
    def work(tx: Transaction) -> None:
        tx.send_many(_events.advance, _streams)

    await database.write(work)

    assert await database.read(_ends) == {"a": 1, "b": 2}


async def test_the_count_of_what_is_sent_is_the_rows_it_changed(database: Database) -> None:
    def work(tx: Transaction) -> tuple[int, int]:
        changed = tx.send_many(_events.advance, _streams)
        missed = tx.send(_events.keep, name="none", holder="", fence=1, until=0)
        return changed.count(), missed.count()

    assert await database.write(work) == (2, 0)


@pytest.mark.parametrize("read", [True, False])
async def test_an_error_of_what_was_sent_leaves_nothing(database: Database, read: bool) -> None:
    """Also if nobody has read its result, and the commit was sent with it."""

    def work(tx: Transaction) -> None:
        tx.send_many(_events.advance, _streams)
        refused = tx.send_many(_events.advance, [(None, 1)])
        if read:
            refused.rows()

    for _ in range(3):
        with pytest.raises(RowRefused):
            await database.write(work)

    assert await database.read(_ends) == {}
    await database.write(lambda tx: _advance(tx, ("a", 1)))
    assert await database.read(_ends) == {"a": 1}


async def test_an_error_after_statements_were_sent_leaves_nothing(database: Database) -> None:
    def work(tx: Transaction) -> None:
        tx.send_many(_events.advance, _streams)
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        await database.write(work)

    assert await database.read(_ends) == {}


async def test_statements_are_sent_to_read_too(database: Database) -> None:
    await database.write(lambda tx: _advance(tx, *_streams))

    def work(tx: Transaction) -> list[object]:
        found = [tx.send(_events.ends, tenant=each) for each in ("a", "b", "c")]
        return [each.rows() for each in found]

    for _ in range(3):
        assert await database.read(work) == [[(1, 2)], [(2, 3)], []]


async def test_a_users_statement_comes_after_what_was_sent(database: Database) -> None:
    def work(tx: Transaction) -> list[object]:
        tx.send_many(_events.advance, _streams)
        return list(tx.execute("SELECT tenant, last FROM oncebox_streams ORDER BY tenant"))

    assert await database.write_alone(work) == [("a", 1), ("b", 2)]


def test_a_deadlock_with_the_last_statement_is_repeated(clerk: Clerk, place: Place) -> None:
    """The server reports it instead of the commit: nothing was committed, and that is known."""
    if place.kind == "sqlite":
        return  # one transaction writes at a time
    clerk.run(_advance, *_streams)
    locked = [Event(), Event()]
    rounds = [0, 0]

    def crossing(mine: int) -> Running[None]:
        def work(tx: Transaction) -> None:
            rounds[mine] += 1
            names = ("a", "b") if mine == 0 else ("b", "a")
            tx.many(_events.advance, [(names[0], 10)])
            locked[mine].set()
            assert locked[1 - mine].wait(LONG)
            tx.send_many(_events.advance, [(names[1], 10)])

        return Running(place, work)

    for each in [crossing(0), crossing(1)]:
        each.answer()

    assert sorted(rounds) == [1, 2]
    assert clerk.run(_ends) == {"a": 21, "b": 22}


async def test_a_transaction_whose_caller_ignored_an_error_is_never_taken_for_committed(
    database: Database,
) -> None:
    """PostgreSQL answers such a COMMIT by rolling back, without an error."""

    def work(tx: Transaction) -> None:
        tx.run_many(_events.advance, _streams)
        with suppress(Exception):
            tx.run_many(_events.advance, [(None, 1)])

    try:
        await database.write(work)
    except StoreFailed:
        assert await database.read(_ends) == {}
        await database.write(lambda tx: _advance(tx, ("a", 1)))
    else:
        assert await database.read(_ends) == {"a": 1, "b": 2}
