"""The lobby: nobody who waits misses anything, and however many they are, they look together."""

import asyncio
from collections.abc import AsyncIterator, Callable
from typing import Any

import pytest

from oncebox import errors
from oncebox.core.metrics import Telemetry
from oncebox.db import notify
from oncebox.errors.http import TooManyRequests
from oncebox.ledger.inboxes import longpoll
from oncebox.ledger.inboxes.longpoll import InboxPosition, LongPollHub, Waiter
from oncebox.ledger.transactions import Ledger
from oncebox.settings import WaitSettings
from tests.support.api import Api, calling
from tests.support.databases import Place
from tests.support.finds import bring, code
from tests.support.letters import mail
from tests.support.sorter import Sorter

FAR = 3_600.0


@pytest.fixture
async def api(place: Place) -> AsyncIterator[Api]:
    """A box without work of its own."""
    async with calling(place) as opened:
        yield opened


@pytest.fixture
async def desk(api: Api) -> Sorter:
    """A box with two inboxes."""
    desk = Sorter(api.box)
    await desk.add_inbox("inb_1")
    await desk.add_inbox("inb_2")
    return desk


class Counting:
    """A database that counts the readings, and lets a test come in between."""

    def __init__(self, database: Any) -> None:
        self._database = database
        self.reads = 0
        self.before: Callable[[], Any] | None = None

    def __getattr__(self, name: str) -> Any:
        return getattr(self._database, name)

    async def read(self, verb: Any, *args: Any) -> Any:
        """Read, and count it."""
        self.reads += 1
        if self.before is not None:
            await self.before()
        return await self._database.read(verb, *args)


@pytest.fixture
async def room(desk: Sorter) -> AsyncIterator[LongPollHub]:
    """A lobby of its own, over a database that counts."""
    opened = LongPollHub(
        Ledger(Counting(desk.database)),  # type: ignore[arg-type]
        desk.box.components.mail_cipher,
        Telemetry(),
        WaitSettings(per_key=2_000),
    )
    yield opened
    await opened.close()


def enter(room: LongPollHub, desk: Sorter, *inboxes: str, key: str = "key_1") -> Waiter:
    """Come in."""
    return room.join(desk.box.settings.tenant, inboxes or ("inb_1",), key)


async def settled(visitor: Waiter) -> None:
    """Wait until the lobby has looked at a visitor's inboxes."""
    visitor.snapshot()
    await visitor.wait(5)
    visitor.snapshot()


async def test_who_waits_is_woken_by_a_message_of_its_inbox(
    room: LongPollHub, desk: Sorter
) -> None:
    visitor = enter(room, desk)
    await settled(visitor)
    resting = asyncio.create_task(visitor.wait(30))
    await desk.file("inb_1", mail())

    assert await asyncio.wait_for(resting, 5)


async def test_who_waits_sleeps_through_messages_of_others(room: LongPollHub, desk: Sorter) -> None:
    visitor = enter(room, desk)
    await settled(visitor)
    resting = asyncio.create_task(visitor.wait(1.5))
    await desk.file("inb_2", mail())

    assert not await resting


async def test_what_is_filed_between_the_look_and_the_rest_is_not_missed(
    room: LongPollHub, desk: Sorter
) -> None:
    """The classic: one looks, finds nothing, is overtaken, and only then lies down."""
    visitor = enter(room, desk)
    await settled(visitor)
    visitor.snapshot()
    await desk.file("inb_1", mail())
    await asyncio.sleep(0.3)  # the ring is long over

    assert await asyncio.wait_for(visitor.wait(FAR), 5)


async def test_what_is_filed_while_the_lobby_itself_looks_is_not_missed(
    room: LongPollHub, desk: Sorter
) -> None:
    visitor = enter(room, desk)
    await settled(visitor)
    filed = asyncio.Event()

    async def overtaken() -> None:
        if not filed.is_set():
            filed.set()
            await desk.file("inb_1", mail(text="second"))

    room._ledger._database.before = overtaken  # type: ignore[attr-defined]
    visitor.snapshot()
    await desk.file("inb_1", mail())
    assert await asyncio.wait_for(visitor.wait(FAR), 5)
    visitor.snapshot()
    found = await desk.database.read(longpoll.read_positions, visitor.inboxes)

    # Either it knew of both when it was woken, or it is woken again.
    (inbox,) = visitor.inboxes
    if room.position(inbox) != found[inbox]:
        assert await asyncio.wait_for(visitor.wait(FAR), 5)


async def test_a_thousand_who_wait_for_one_inbox_cost_one_look_per_wake(
    room: LongPollHub, desk: Sorter
) -> None:
    crowd = [enter(room, desk) for _ in range(1_000)]
    await settled(crowd[0])
    for each in crowd:
        each.snapshot()
    resting = [asyncio.create_task(each.wait(30)) for each in crowd]
    await asyncio.sleep(0)
    before = room._ledger._database.reads  # type: ignore[attr-defined]
    await desk.file("inb_1", mail())
    woken = await asyncio.wait_for(asyncio.gather(*resting), 20)

    assert all(woken)
    assert room._ledger._database.reads - before <= 4  # type: ignore[attr-defined]


async def test_a_message_of_another_process_is_heard(desk: Sorter, room: LongPollHub) -> None:
    """Without any ring at all: there is always a look behind it."""
    visitor = enter(room, desk)
    await settled(visitor)
    desk.box.components.ledger.notify = lambda *_topics: None  # type: ignore[method-assign]
    await desk.file("inb_1", mail())

    assert await asyncio.wait_for(visitor.wait(FAR), 10)


async def test_closing_an_inbox_wakes_who_waits_for_it(
    room: LongPollHub, desk: Sorter, api: Api
) -> None:
    visitor = enter(room, desk)
    await settled(visitor)
    answer = await api.call("POST", "/v1/inboxes/inb_1/close", {"drain": 0})

    assert answer.status_code == 200
    assert await asyncio.wait_for(visitor.wait(FAR), 5)


async def test_what_was_taken_back_wakes_who_waits(
    room: LongPollHub, desk: Sorter, api: Api
) -> None:
    (artifact,) = await bring(api.box, "inb_1", code("123456"))
    await api.call("POST", f"/v1/artifacts/{artifact}/claim", {})
    visitor = enter(room, desk)
    await settled(visitor)
    released = await api.call("POST", f"/v1/artifacts/{artifact}/release", {"why": "it died"})

    assert released.status_code == 200
    assert await asyncio.wait_for(visitor.wait(FAR), 5)


async def test_who_is_called_rests_no_more(room: LongPollHub, desk: Sorter) -> None:
    visitor = enter(room, desk)
    await settled(visitor)
    resting = asyncio.create_task(visitor.wait(FAR))
    await asyncio.sleep(0.05)
    visitor.cancel()

    assert not await asyncio.wait_for(resting, 5)
    assert not await visitor.wait(FAR)


async def test_seats_are_counted_by_key_and_given_back(desk: Sorter) -> None:
    room = LongPollHub(
        Ledger(desk.database),
        desk.box.components.mail_cipher,
        Telemetry(),
        WaitSettings(per_key=2, most=3),
    )
    first, _second = enter(room, desk), enter(room, desk)
    with pytest.raises(TooManyRequests) as refused:
        enter(room, desk)
    other = enter(room, desk, key="key_2")
    with pytest.raises(TooManyRequests):
        enter(room, desk, key="key_3")
    first.leave()
    enter(room, desk, "inb_1", "inb_2")

    assert refused.value.retry_after
    assert room.waiters == 3
    other.leave()
    await room.close()


async def test_nothing_is_read_when_nobody_waits(room: LongPollHub, desk: Sorter) -> None:
    visitor = enter(room, desk)
    await settled(visitor)
    visitor.leave()
    await asyncio.sleep(notify._POLL_SECONDS * 1.5)
    before = room._ledger._database.reads  # type: ignore[attr-defined]
    await desk.file("inb_1", mail())
    await asyncio.sleep(notify._POLL_SECONDS * 1.5)

    assert room._ledger._database.reads == before  # type: ignore[attr-defined]
    assert room.waiters == 0


async def test_a_database_in_trouble_is_looked_at_again(room: LongPollHub, desk: Sorter) -> None:
    visitor = enter(room, desk)
    await settled(visitor)
    troubles = iter([errors.DatabaseBusy("busy"), RuntimeError("odd")])

    async def trouble() -> None:
        for each in troubles:
            raise each

    room._ledger._database.before = trouble  # type: ignore[attr-defined]
    await desk.file("inb_1", mail())

    assert await asyncio.wait_for(visitor.wait(FAR), 10)


def test_any_part_of_a_mark_moves_it() -> None:
    mark = InboxPosition(3, 1, 0)

    assert not mark.is_after(mark)
    assert all(
        each.is_after(mark)
        for each in (InboxPosition(4, 0, 0), InboxPosition(0, 2, 0), InboxPosition(0, 0, 1))
    )
    assert not InboxPosition(2, 1, 0).is_after(mark)


async def test_a_message_filed_here_wakes_at_once_without_a_read(
    room: LongPollHub, desk: Sorter
) -> None:
    visitor = enter(room, desk)
    await settled(visitor)
    room._ledger._database.before = asyncio.Event().wait  # type: ignore[attr-defined]
    resting = asyncio.create_task(visitor.wait(FAR))
    await asyncio.sleep(0)
    room.message_filed(("inb_1", desk.box.settings.tenant), 1)

    assert await asyncio.wait_for(resting, 5)


async def test_an_older_read_does_not_take_back_a_message_filed_here(
    room: LongPollHub, desk: Sorter
) -> None:
    inbox = ("inb_1", desk.box.settings.tenant)
    visitor = enter(room, desk)
    await settled(visitor)
    room.message_filed(inbox, 7)
    room._advance(inbox, InboxPosition(6, 1, 0))  # read before the message, after a release

    assert room.position(inbox) == InboxPosition(7, 1, 0)


async def test_a_message_for_an_inbox_without_waiters_is_no_matter(
    room: LongPollHub, desk: Sorter
) -> None:
    room.message_filed(("inb_1", desk.box.settings.tenant), 1)

    assert room.waiters == 0
