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
