"""The directory: finds who an address leads to, asks little, and is never wrong for long."""

import asyncio
from collections.abc import AsyncIterator, Sequence

import pytest

from oncebox.db.database import Database
from oncebox.errors import DatabaseUnreachable, StoreUnavailable
from oncebox.ledger.inboxes import recipient_directory
from oncebox.ledger.inboxes.recipient_directory import (
    ROUTE_CACHE_SECONDS,
    RecipientDirectory,
    RecipientRoute,
    RecipientStatus,
    StorageLimits,
)
from oncebox.model.inboxes.inbox import Inbox
from tests.support.clerk import MINUTE, TENANT, Clerk
from tests.support.mailroom import DRAINING, LIFETIME, MailRoom

UNKNOWN, CLOSED = RecipientRoute(RecipientStatus.UNKNOWN), RecipientRoute(RecipientStatus.CLOSED)
NOT_OURS = RecipientRoute(RecipientStatus.NOT_OURS)


class Bench:
    """A directory, the mail room beside it, and both their clocks."""

    deadline: float | None = None

    def __init__(self, room: MailRoom, database: Database) -> None:
        self.room = room
        self.database = database
        self.seconds = 0.0
        self.looks: list[int] = []
        self.down = False
        self.looked = asyncio.Event()
        #: keeps answers back
        self.gate: asyncio.Event | None = None
        self.directory = RecipientDirectory(
            self,  # type: ignore[arg-type]
            default="oncebox.test",
            draining=room.postmaster.draining,
            steady=lambda: self.seconds,
        )

    def clock(self) -> int:
        return self.room.clerk.now

    async def read(
        self, _verb: object, addresses: Sequence[str], draining: int, _limits: StorageLimits
    ) -> dict[str, recipient_directory._Lookup]:
        if self.down:
            raise DatabaseUnreachable("down")
        self.looks.append(len(addresses))
        found = await self.database.read(recipient_directory.look_up, addresses, draining)
        self.looked.set()
        if self.gate is not None:
            await self.gate.wait()
        return found

    async def find(self, email: str) -> RecipientRoute:
        local, _, domain = email.rpartition("@")
        return await self.directory.find(local, domain)

    def find_cached(self, email: str) -> RecipientRoute | None:
        local, _, domain = email.rpartition("@")
        return self.directory.find_cached(local, domain)


@pytest.fixture
async def bench(clerk: Clerk, database: Database) -> AsyncIterator[Bench]:
    bench = Bench(MailRoom(clerk), database)
    yield bench
    await bench.directory.close()


def at(inbox: Inbox) -> RecipientRoute:
    return RecipientRoute(RecipientStatus.OPEN, inbox.id, inbox.tenant)


async def test_an_inbox_is_found_by_every_spelling_of_its_address(bench: Bench) -> None:
    inbox = bench.room.make()
    local = inbox.email.partition("@")[0]

    for spelling in (inbox.email, inbox.email.upper(), f"{local}+tag@OnceBox.test"):
        assert await bench.find(spelling) == at(inbox)
    assert len(bench.looks) == 1
    assert bench.find_cached(inbox.email) == at(inbox)


async def test_what_is_unknown_ended_or_elsewhere_is_told_apart(bench: Bench) -> None:
    bench.room.add_domain("mine.test")
    closed = bench.room.make()
    bench.room.close(closed.id, 0)
    draining = bench.room.make()
    bench.room.close(draining.id)

    assert await bench.find("nobody@oncebox.test") == UNKNOWN
    assert await bench.find("nobody@mine.test") == UNKNOWN
    assert await bench.find("nobody@example.com") == NOT_OURS
    assert await bench.find(closed.email) == CLOSED
    assert await bench.find(draining.email) == at(draining)


async def test_the_default_domain_is_ours_before_its_first_inbox(bench: Bench) -> None:
    assert await bench.find("nobody@oncebox.test") == UNKNOWN


@pytest.mark.parametrize(
    "email", ["", "@oncebox.test", "a\x00b@oncebox.test", "u%evil@oncebox.test", "a@[127.0.0.1]"]
)
async def test_what_is_no_address_is_unknown_without_a_question(bench: Bench, email: str) -> None:
    assert await bench.find(email) == UNKNOWN
    assert bench.find_cached(email) == UNKNOWN
    assert bench.looks == []


async def test_only_open_inboxes_are_remembered(bench: Bench) -> None:
    closed = bench.room.make()
    bench.room.close(closed.id, 0)
    for email in (closed.email, "nobody@oncebox.test", "nobody@example.com"):
        await bench.find(email)
        assert bench.find_cached(email) is None

    assert bench.looks == [1, 1, 1]


async def test_an_inbox_that_was_just_made_is_found_at_once(bench: Bench) -> None:
    assert await bench.find("support@oncebox.test") == UNKNOWN
    inbox = bench.room.make(local="support")

    assert await bench.find("support@oncebox.test") == at(inbox)


async def test_a_close_elsewhere_is_seen_within_the_bound(bench: Bench) -> None:
    inbox = bench.room.make()
    await bench.find(inbox.email)
    bench.room.close(inbox.id, 0)
    bench.seconds += ROUTE_CACHE_SECONDS

    assert bench.find_cached(inbox.email) is None
    assert await bench.find(inbox.email) == CLOSED


async def test_a_close_in_this_process_is_seen_at_once(bench: Bench) -> None:
    inbox, other = bench.room.make(), bench.room.make()
    await bench.find(inbox.email)
    await bench.find(other.email)
    bench.room.close(inbox.id, 0)
    bench.directory.invalidate(inbox.id)

    assert bench.find_cached(inbox.email) is None
    assert await bench.find(inbox.email) == CLOSED
    assert bench.find_cached(other.email) == at(other)


async def test_an_answer_from_before_a_close_is_not_remembered_after_it(bench: Bench) -> None:
    inbox = bench.room.make()
    bench.gate = asyncio.Event()
    asking = asyncio.create_task(bench.find(inbox.email))
    await bench.looked.wait()
    bench.room.close(inbox.id, 0)
    bench.directory.invalidate(inbox.id)
    bench.gate.set()
    await asking

    assert bench.find_cached(inbox.email) is None


async def test_an_inbox_expires_on_time_though_nobody_swept_and_it_is_remembered(
    bench: Bench,
) -> None:
    inbox = bench.room.make()
    bench.room.clerk.now += (LIFETIME + DRAINING) * 1000 - 1
    before = await bench.find(inbox.email)
    bench.room.clerk.now += 1

    assert before == at(inbox)
    assert bench.find_cached(inbox.email) is None
    assert await bench.find(inbox.email) == CLOSED


async def test_a_draining_inbox_ends_on_time_though_it_is_remembered(bench: Bench) -> None:
    inbox = bench.room.make()
    bench.room.close(inbox.id, MINUTE)
    before = await bench.find(inbox.email)
    bench.room.clerk.now += MINUTE

    assert before == at(inbox)
    assert bench.find_cached(inbox.email) is None
    assert await bench.find(inbox.email) == CLOSED


# the rest of a domain


async def test_a_catch_all_gets_what_no_inbox_has(bench: Bench) -> None:
    domain = bench.room.add_domain("mine.test", catch_all=True)
    own = bench.room.make(domain="mine.test")
    ended = bench.room.make(domain="mine.test")
    bench.room.close(ended.id, 0)
    rest = RecipientRoute(RecipientStatus.OPEN, domain.catch_all or "", TENANT)

    assert await bench.find("anybody+x@mine.test") == rest
    assert bench.find_cached("anybody@mine.test") == rest
    assert await bench.find(own.email) == at(own)
    assert await bench.find(ended.email) == CLOSED
    assert await bench.find("u%evil@mine.test") == UNKNOWN


async def test_a_catch_all_that_has_ended_is_as_good_as_none(bench: Bench) -> None:
    domain = bench.room.add_domain("mine.test", catch_all=True)
    bench.room.close(domain.catch_all or "", MINUTE)
    draining = await bench.find("anybody@mine.test")
    bench.room.clerk.now += MINUTE

    assert draining.status is RecipientStatus.OPEN
    assert await bench.find("anybody@mine.test") == UNKNOWN


# whose


async def test_mail_for_a_domain_that_changed_hands_never_reaches_its_old_inboxes(
    bench: Bench,
) -> None:
    bench.room.add_domain("mine.test")
    inbox = bench.room.make(domain="mine.test")
    bench.room.remove_domain("mine.test")
    gone = await bench.find(inbox.email)
    bench.room.add_domain("mine.test", "default")
    theirs = await bench.find(inbox.email)
    bench.room.remove_domain("mine.test", "default")
    bench.room.add_domain("mine.test")
    back = await bench.find(inbox.email)

    assert (gone, theirs, back) == (NOT_OURS, UNKNOWN, at(inbox))


# asking


async def test_many_at_once_share_few_reads(bench: Bench) -> None:
    made = [bench.room.make() for _ in range(20)]
    emails = [each.email for each in made] * 5 + ["nobody@oncebox.test"]

    found = await asyncio.gather(*map(bench.find, emails))

    assert list(found) == [at(each) for each in made] * 5 + [UNKNOWN]
    assert sum(bench.looks) == 21
    assert len(bench.looks) == 1


async def test_who_asks_during_a_look_is_served_by_the_next(bench: Bench) -> None:
    one, two = bench.room.make(), bench.room.make()
    bench.gate = asyncio.Event()
    first = asyncio.create_task(bench.find(one.email))
    await bench.looked.wait()
    second = asyncio.create_task(bench.find(two.email))
    await asyncio.sleep(0)
    bench.gate.set()

    assert [await first, await second] == [at(one), at(two)]
    assert bench.looks == [1, 1]


async def test_one_who_gives_up_takes_nobody_along(bench: Bench) -> None:
    inbox = bench.room.make()
    bench.gate = asyncio.Event()
    hasty = asyncio.create_task(bench.find(inbox.email))
    patient = asyncio.create_task(bench.find(inbox.email))
    await bench.looked.wait()
    hasty.cancel()
    await asyncio.sleep(0)
    bench.gate.set()

    assert await patient == at(inbox)
    assert hasty.cancelled()


async def test_a_store_that_is_down_is_said_and_what_is_remembered_still_holds(
    bench: Bench,
) -> None:
    known, other = bench.room.make(), bench.room.make()
    await bench.find(known.email)
    bench.down = True

    assert bench.find_cached(known.email) == at(known)
    with pytest.raises(StoreUnavailable):
        await bench.find(other.email)
    bench.down = False
    assert await bench.find(other.email) == at(other)


async def test_the_memory_is_bounded(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(recipient_directory, "_MAX_CACHED", 10)
    bench.room.add_domain("mine.test", catch_all=True)
    for number in range(30):
        await bench.find(f"a{number}@mine.test")

    assert len(bench.directory._cached) == 10
    assert bench.find_cached("a29@mine.test") is not None
    assert bench.find_cached("a0@mine.test") is None


async def test_the_queue_is_bounded(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(recipient_directory, "_MAX_WAITING", 5)
    found = await asyncio.gather(
        *(bench.find(f"a{number}@oncebox.test") for number in range(8)), return_exceptions=True
    )

    assert [isinstance(each, StoreUnavailable) for each in found].count(True) == 3
