"""Wake-ups inside one process."""

import asyncio

from oncebox.store.bell import Bell


async def test_a_ring_wakes_everybody_who_waits() -> None:
    bell = Bell()
    waiting = [asyncio.create_task(bell.wait("due", 10)) for _ in range(3)]
    await asyncio.sleep(0)

    bell.ring("due")

    assert await asyncio.gather(*waiting) == [True] * 3


async def test_a_ring_while_nobody_waits_is_heard_once() -> None:
    bell = Bell()
    bell.ring("due")

    assert await bell.wait("due", 10)
    assert not await bell.wait("due", 0)


async def test_a_ring_on_another_channel_is_not_heard() -> None:
    bell = Bell()
    bell.ring("other")

    assert not await bell.wait("due", 0.001)


async def test_a_ring_on_all_channels_is_heard_on_each() -> None:
    bell = Bell()
    waiting = [asyncio.create_task(bell.wait(channel, 10)) for channel in ("a", "b")]
    await asyncio.sleep(0)

    bell.ring_all()

    assert await asyncio.gather(*waiting) == [True, True]


async def test_each_ear_hears_a_ring_once_in_its_own_time() -> None:
    bell = Bell()
    first, second = bell.ear("due"), bell.ear("due")
    bell.ring("due")

    assert [await first.wait(0), await first.wait(0)] == [True, False]
    assert [await second.wait(0), await second.wait(0)] == [True, False]


async def test_an_ear_does_not_hear_what_rang_before_it() -> None:
    bell = Bell()
    bell.ring("due")

    assert not await bell.ear("due").wait(0)


async def test_the_bell_knows_whether_anybody_waits() -> None:
    bell = Bell()
    before = bell.is_awaited
    waiting = asyncio.create_task(bell.ear("due").wait(10))
    await asyncio.sleep(0)
    during = bell.is_awaited

    bell.ring_all()

    assert await waiting
    assert [before, during, bell.is_awaited] == [False, True, False]
