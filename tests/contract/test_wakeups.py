"""Wake-ups: whoever waits hears a ring, from this process or another, and never waits for ever."""

import asyncio

from oncebox.store.database import Database, Transaction
from tests.support.databases import Place

#: far longer than any wake-up takes; only a lost one reaches it
LONG = 20.0
CHANNEL = "due"


def _change(tx: Transaction) -> None:
    tx.execute("INSERT INTO oncebox_meta (name, value) VALUES ('woke', 'up')")


async def _woken(database: Database, within: float = LONG) -> bool:
    """Say whether a wait ended before its time."""
    waiting = asyncio.create_task(database.wait(CHANNEL, within))
    done, _ = await asyncio.wait([waiting], timeout=within * 0.8)
    await waiting
    return bool(done)


async def test_a_ring_wakes_whoever_waits_here(database: Database) -> None:
    waiting = asyncio.create_task(_woken(database))
    await asyncio.sleep(0.01)

    database.ring(CHANNEL)

    assert await waiting


async def test_a_ring_before_the_wait_is_not_lost(database: Database) -> None:
    database.ring(CHANNEL)

    assert await _woken(database)


async def test_a_wait_without_a_ring_ends_by_itself(database: Database) -> None:
    await database.wait(CHANNEL, 0.2)
    waited = asyncio.create_task(database.wait(CHANNEL, 0.2))

    await asyncio.wait_for(waited, LONG)


async def test_a_ring_and_a_commit_wake_another_process(place: Place) -> None:
    here, there = place.open(), place.open()
    await there.wait(CHANNEL, 0.3)  # it listens from here on
    for _ in range(3):
        waiting = asyncio.create_task(_woken(there))
        await asyncio.sleep(0.05)
        await here.write(lambda tx: tx.execute("DELETE FROM oncebox_meta"))
        await here.write(_change)
        here.ring(CHANNEL)

        assert await waiting
    await here.close()
    await there.close()


async def test_a_storm_of_rings_does_no_harm(place: Place) -> None:
    here, there = place.open(), place.open()
    await there.wait(CHANNEL, 0.3)
    waiting = asyncio.create_task(_woken(there))
    await asyncio.sleep(0.05)
    for _ in range(1_000):
        here.ring(CHANNEL)
    await here.write(_change)

    assert await waiting
    await here.close()
    await there.close()


async def test_closing_while_rings_are_under_way_is_quiet(place: Place) -> None:
    for _ in range(5):
        database = place.open()
        database.ring(CHANNEL)
        await asyncio.sleep(0.011)
        database.ring(CHANNEL)
        await database.close()
    await asyncio.sleep(0.05)
