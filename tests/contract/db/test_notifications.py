"""Wake-ups: whoever waits hears a ring, from this process or another, and never waits for ever."""

import asyncio

from oncebox.db.database import Database, Transaction
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

    database.notify(CHANNEL)

    assert await waiting


async def test_a_ring_before_the_wait_is_not_lost(database: Database) -> None:
    database.notify(CHANNEL)

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
        here.notify(CHANNEL)

        assert await waiting
    await here.close()
    await there.close()


async def test_a_storm_of_rings_does_no_harm(place: Place) -> None:
    here, there = place.open(), place.open()
    await there.wait(CHANNEL, 0.3)
    waiting = asyncio.create_task(_woken(there))
    await asyncio.sleep(0.05)
    for _ in range(1_000):
        here.notify(CHANNEL)
    await here.write(_change)

    assert await waiting
    await here.close()
    await there.close()


async def test_closing_while_rings_are_under_way_is_quiet(place: Place) -> None:
    for _ in range(5):
        database = place.open()
        database.notify(CHANNEL)
        await asyncio.sleep(0.011)
        database.notify(CHANNEL)
        await database.close()
    await asyncio.sleep(0.05)


async def test_every_one_of_many_waiters_hears_every_ring(database: Database) -> None:
    ears = [database.subscribe(CHANNEL) for _ in range(5)]
    for _ in range(3):
        waiting = [asyncio.create_task(ear.wait(LONG)) for ear in ears]
        await asyncio.sleep(0.02)
        database.notify(CHANNEL)

        assert await asyncio.gather(*waiting) == [True] * 5


async def test_a_ring_while_a_waiter_is_busy_is_kept_for_it_whoever_else_heard_it(
    database: Database,
) -> None:
    busy, idle = database.subscribe(CHANNEL), database.subscribe(CHANNEL)
    database.notify(CHANNEL)

    assert await idle.wait(LONG)
    assert await busy.wait(LONG)


async def test_a_commit_elsewhere_wakes_every_waiter_and_not_only_the_first(place: Place) -> None:
    here, there = place.open(), place.open()
    ears = [there.subscribe(channel) for channel in (CHANNEL, CHANNEL, CHANNEL, "stream")]
    await asyncio.gather(*(ear.wait(0.3) for ear in ears))  # it listens from here on
    for _ in range(3):
        waiting = [asyncio.create_task(ear.wait(LONG)) for ear in ears]
        await asyncio.sleep(0.06)
        await here.write(lambda tx: tx.execute("DELETE FROM oncebox_meta"))
        await here.write(_change)
        here.notify(CHANNEL)
        here.notify("stream")

        assert await asyncio.gather(*waiting) == [True] * 4
    await here.close()
    await there.close()


async def test_a_commit_elsewhere_between_two_waits_is_heard_at_the_second(place: Place) -> None:
    here, there = place.open(), place.open()
    slow, quick = there.subscribe(CHANNEL), there.subscribe(CHANNEL)
    await asyncio.gather(slow.wait(0.3), quick.wait(0.3))
    waiting = asyncio.create_task(quick.wait(LONG))
    await asyncio.sleep(0.06)
    await here.write(_change)
    here.notify(CHANNEL)

    assert await waiting
    assert await slow.wait(LONG)
    await here.close()
    await there.close()


async def test_a_ring_reaches_the_subscribers_here_once(place: Place) -> None:
    """PostgreSQL sends it back to its sender, whose subscribers have seen it already."""
    here, there = place.open(), place.open()
    own, other = here.subscribe(CHANNEL), there.subscribe(CHANNEL)
    await asyncio.gather(own.wait(0.3), other.wait(0.3))  # both listen from here on
    here.notify(CHANNEL)
    if place.kind == "sqlite":
        await here.write(_change)

    assert await own.wait(LONG)
    assert await other.wait(LONG)
    if place.kind == "postgres":
        assert not await own.wait(0.3)
    await here.close()
    await there.close()


async def test_others_are_woken_without_waking_those_here(place: Place) -> None:
    if place.kind == "sqlite":
        return  # every process watches the file
    here, there = place.open(), place.open()
    own, other = here.subscribe(CHANNEL), there.subscribe(CHANNEL)
    await asyncio.gather(own.wait(0.3), other.wait(0.3))
    here.notify_others(CHANNEL)

    assert await other.wait(LONG)
    assert not await own.wait(0.3)
    await here.close()
    await there.close()
