"""Wake-ups inside one process."""

import asyncio

from oncebox.db.notify import Notifier


async def test_a_ring_wakes_everybody_who_waits() -> None:
    bell = Notifier()
    waiting = [asyncio.create_task(bell.wait("due", 10)) for _ in range(3)]
    await asyncio.sleep(0)

    bell.notify("due")

    assert await asyncio.gather(*waiting) == [True] * 3


async def test_a_ring_while_nobody_waits_is_heard_once() -> None:
    bell = Notifier()
    bell.notify("due")

    assert await bell.wait("due", 10)
    assert not await bell.wait("due", 0)


async def test_a_ring_on_another_channel_is_not_heard() -> None:
    bell = Notifier()
    bell.notify("other")

    assert not await bell.wait("due", 0.001)


async def test_a_ring_on_all_channels_is_heard_on_each() -> None:
    bell = Notifier()
    waiting = [asyncio.create_task(bell.wait(channel, 10)) for channel in ("a", "b")]
    await asyncio.sleep(0)

    bell.notify_all()

    assert await asyncio.gather(*waiting) == [True, True]


async def test_each_ear_hears_a_ring_once_in_its_own_time() -> None:
    bell = Notifier()
    first, second = bell.subscribe("due"), bell.subscribe("due")
    bell.notify("due")

    assert [await first.wait(0), await first.wait(0)] == [True, False]
    assert [await second.wait(0), await second.wait(0)] == [True, False]


async def test_an_ear_does_not_hear_what_rang_before_it() -> None:
    bell = Notifier()
    bell.notify("due")

    assert not await bell.subscribe("due").wait(0)


async def test_the_bell_knows_whether_anybody_waits() -> None:
    bell = Notifier()
    before = bell.has_waiters
    waiting = asyncio.create_task(bell.subscribe("due").wait(10))
    await asyncio.sleep(0)
    during = bell.has_waiters

    bell.notify_all()

    assert await waiting
    assert [before, during, bell.has_waiters] == [False, True, False]
