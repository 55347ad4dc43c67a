"""The worker for mailboxes: pages become messages, whatever a server does, by one process each."""

import asyncio
from collections.abc import AsyncIterator, Callable
from functools import partial
from typing import Any

import msgspec
import pytest

from oncebox import Oncebox
from oncebox.core import faults, ids
from oncebox.db.database import Transaction
from oncebox.ledger.admin.api_keys import Requester
from oncebox.ledger.admin.audit import AuditEntry
from oncebox.ledger.inboxes import messages
from oncebox.ledger.inboxes.recipient_directory import RecipientRoute, RecipientStatus
from oncebox.ledger.mailboxes import mailboxes
from oncebox.ledger.transactions import Ledger
from oncebox.mailboxes.mailbox_config import MailboxConfig, encode_config
from oncebox.mailboxes.reader import (
    FetchedMail,
    MailboxFailure,
    MailboxPage,
    MailboxProbe,
    PageLimits,
    ResyncReason,
)
from oncebox.model.inboxes.inbox import Inbox, InboxOptions
from oncebox.model.mailboxes.mailbox import Mailbox, MailboxKind, MailboxLease, NewMailbox
from oncebox.settings import MailboxWorkerSettings
from oncebox.testing.imap import ScriptedImap
from oncebox.workers.mailboxes import mailbox_worker
from oncebox.workers.mailboxes.mailbox_worker import MailboxWorker
from oncebox.workers.mailboxes.routing import MailboxRouter, open_mailbox
from tests.mailboxes.imap_box import config as imap_config
from tests.mailboxes.imap_box import mail as imap_mail
from tests.support.clerk import TENANT
from tests.support.databases import Place
from tests.support.http import until
from tests.support.letters import mail
from tests.support.program import settings

Fault = Callable[[], MailboxPage | None]


class Server:
    """A mailbox elsewhere: a list of mails, and faults that happen instead of an answer."""

    def __init__(self) -> None:
        self.mails: list[bytes] = []
        self.faults: list[Fault] = []
        self.most = 2
        self.fetches = 0
        self.open = 0
        self.arrived = asyncio.Event()

    def deliver(self, *raws: bytes) -> None:
        """Receive mail."""
        self.mails += raws
        self.arrived.set()


class Reader:
    """Reads a ``Server``; the cursor is how many mails were read."""

    def __init__(self, server: Server) -> None:
        self._server = server
        server.open += 1

    async def fetch(self, cursor: str | None, limits: PageLimits) -> MailboxPage:
        """Return the next mails."""
        server = self._server
        server.fetches += 1
        server.arrived.clear()
        if server.faults:
            page = server.faults.pop(0)()
            if page is not None:
                return page
        begin = int(cursor or 0)
        some = server.mails[begin : begin + server.most]
        end = begin + len(some)
        return MailboxPage(
            mails=tuple(
                FetchedMail(provider_id=f"uid:{begin + number}", raw=raw)
                for number, raw in enumerate(some)
            ),
            cursor=str(end),
            has_more=end < len(server.mails),
            resync=ResyncReason.FIRST if cursor is None else None,
        )

    async def wait(self, seconds: float) -> bool:
        """Wait for mail."""
        try:
            await asyncio.wait_for(self._server.arrived.wait(), seconds)
        except TimeoutError:
            return False
        return True

    async def probe(self) -> MailboxProbe:
        """Say nothing."""
        return MailboxProbe()

    async def close(self) -> None:
        """Close."""
        self._server.open -= 1


class House:
    """An opened box with one inbox, and mailboxes elsewhere."""

    def __init__(self, place: Place) -> None:
        self.place = place
        self.box = Oncebox(settings=settings(place))
        self.servers: dict[str, Server] = {}
        self.inbox: Inbox
        self.workers: list[tuple[MailboxWorker, asyncio.Task[None]]] = []

    async def add(self, name: str = "support", inbox: str | None = "", **more: Any) -> Server:
        """Add a mailbox, and its server."""
        self.servers[name] = Server()
        database = self.box.components.database
        entry = AuditEntry(
            id=ids.new("aud"), tenant=TENANT, at=database.clock(), who="ann", why="because"
        )
        new = NewMailbox(
            name=name,
            kind=MailboxKind.IMAP,
            account=name,
            config=b"x",
            inbox_id=self.inbox.id if inbox == "" else inbox,
            **more,
        )
        await database.write(mailboxes.add, ids.new("mbx"), new, entry)
        return self.servers[name]

    def make_worker(self, name: str = "w1", **changes: Any) -> MailboxWorker:
        """Return a worker that does not read yet."""
        components = self.box.components
        router = MailboxRouter(
            components.ledger, components.recipients, components.mail_intake, components.telemetry
        )
        return MailboxWorker(
            components.ledger,
            lambda mailbox: Reader(self.servers[mailbox.name]),
            router,
            components.telemetry,
            MailboxWorkerSettings(**{"poll": 0.02, "lease": 2.0, **changes}),
            name=name,
            random=lambda: 0.0,
        )

    def start(self, worker: MailboxWorker) -> MailboxWorker:
        """Begin to read mailboxes."""
        self.workers.append((worker, asyncio.create_task(worker.run())))
        return worker

    def work(self, name: str = "w1", **changes: Any) -> MailboxWorker:
        """Make a worker that begins to read mailboxes."""
        return self.start(self.make_worker(name, **changes))

    async def stored(self, name: str = "support") -> Mailbox:
        """Return a mailbox as it is stored."""
        return await self.box.components.database.read(mailboxes.get, TENANT, name)

    async def becomes(self, holds: Callable[[Mailbox], bool], name: str = "support") -> Mailbox:
        """Wait until something holds of a mailbox."""
        async with asyncio.timeout(10):
            while not holds(found := await self.stored(name)):  # noqa: ASYNC110
                await asyncio.sleep(0.01)
        return found

    async def reads(self, count: int, name: str = "support") -> Mailbox:
        """Wait until so many mails of a mailbox are stored."""
        return await self.becomes(lambda found: found.figures.messages >= count, name)

    async def pause(self, name: str = "support") -> None:
        """Stop reading a mailbox, as an operator does."""
        database = self.box.components.database
        entry = AuditEntry(
            id=ids.new("aud"), tenant=TENANT, at=database.clock(), who="ann", why="because"
        )
        await database.write(mailboxes.pause, name, entry)

    async def stop(self) -> None:
        """Stop all workers."""
        while self.workers:
            worker, task = self.workers.pop()
            worker.stop()
            await task

    async def close(self) -> None:
        """Stop everything."""
        await self.stop()
        await self.box.close()


@pytest.fixture
async def house(place: Place) -> AsyncIterator[House]:
    """An opened box with one inbox."""
    house = House(place)
    await house.box.open()
    components = house.box.components
    requester, now = Requester(tenant=TENANT), components.database.clock()
    (made,) = await components.database.write(
        components.inboxes.allocate, requester, [InboxOptions()], now
    )
    house.inbox = made.inbox
    yield house
    await house.close()


def letters(count: int, first: int = 0) -> list[bytes]:
    return [mail(message_id=f"<{number}@x>") for number in range(first, first + count)]


def failing(code: str, **more: Any) -> Fault:
    def fail() -> None:
        raise MailboxFailure(code, **more)

    return fail


async def test_the_mails_of_a_mailbox_become_messages_of_its_inbox(house: House) -> None:
    server = await house.add()
    server.deliver(*letters(5))
    house.work()
    await house.reads(5)
    house.box._start_workers()  # what parses mail

    async with asyncio.timeout(30):
        while True:
            page = await house.box.components.database.read(
                messages.page, TENANT, house.inbox.id, most=100
            )
            if len(page.messages) == 5:
                break
            await asyncio.sleep(0.02)
    assert {each.sender for each in page.messages} == {"ann@example.com"}


async def test_a_mail_that_arrives_while_the_worker_waits_is_read_by_the_same_connection(
    house: House,
) -> None:
    server = await house.add()
    house.work()
    await until(lambda: server.fetches == 1)
    server.deliver(*letters(1))
    await house.reads(1)

    assert server.open == 1


async def test_two_processes_read_a_mailbox_one_at_a_time(house: House) -> None:
    server = await house.add()
    house.work("w1")
    house.work("w2")
    server.deliver(*letters(3))
    await house.reads(3)

    assert server.open == 1
    assert (await house.stored()).figures.replays == 0


async def test_a_worker_that_stops_gives_its_mailboxes_back_at_once(house: House) -> None:
    server = await house.add()
    first = house.work("w1", lease=600.0)
    await until(lambda: server.fetches == 1)
    first.stop()
    await house.workers[0][1]
    server.deliver(*letters(1))
    house.work("w2")

    await house.reads(1)
    assert (await house.stored()).figures.lease_conflicts == 0


async def test_a_mailbox_that_fails_is_tried_again_and_delays_no_other(house: House) -> None:
    broken, healthy = await house.add("broken"), await house.add("healthy")
    broken.faults = [failing("connect_failed")]
    healthy.deliver(*letters(2))
    broken.deliver(*letters(1, first=10))
    house.work()

    await house.reads(2, "healthy")
    found = await house.reads(1, "broken")
    assert (found.failures, found.failure) == (0, None)
    metric = 'oncebox_mailbox_failures_total{kind="imap"} 1.0'
    assert metric in house.box.metrics()


async def test_a_mailbox_that_is_read_again_after_a_failure_is_logged_once(
    house: House, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("INFO", "oncebox")
    server = await house.add()
    server.faults = [failing("connect_failed")]
    server.deliver(*letters(5))
    house.work()

    await house.reads(5)
    assert sum("mailbox_recovered" in each.message for each in caplog.records) == 1


async def test_a_wrong_password_is_tried_three_times_and_then_waits_for_an_operator(
    house: House,
) -> None:
    server = await house.add()
    server.faults = [failing("login_refused", needs_operator=True)] * 10
    house.work()

    found = await house.becomes(lambda found: found.paused is not None)
    assert (found.paused, found.failures, server.fetches) == ("login_refused", 3, 3)
    await until(lambda: server.open == 0)


async def test_a_mail_that_its_server_never_gives_is_skipped_in_the_end(house: House) -> None:
    await house.add()
    components = house.box.components
    found = await house.stored()
    lease = MailboxLease(id=found.id, tenant=TENANT, fence=found.fence)
    with ScriptedImap() as imap:
        for number in range(2):
            imap.add(imap_mail(number))
        plain = encode_config(MailboxConfig(reader=imap_config(imap)))
        config = components.mailbox_cipher.encrypt(TENANT, "support", plain)
        write = components.database.write
        await write(mailboxes.store_config, lease, config, found.changed_at)
        await write(_refused_often)
        imap.script(*["no@body"] * 2)
        worker = house.make_worker()
        worker._open_reader = partial(open_mailbox, components.ledger, components.mailbox_cipher)
        house.start(worker)
        after = await house.reads(1)
        await house.stop()

    assert (after.figures.skipped, after.failures) == (1, 0)


def _refused_often(tx: Transaction) -> None:
    tx.execute("UPDATE oncebox_mailboxes SET failures = 11, failure = 'mail_refused'")


async def test_a_server_that_gives_the_same_page_for_ever_is_not_followed(house: House) -> None:
    server = await house.add()
    server.faults = [lambda: MailboxPage(cursor="7", has_more=True)] * 100
    house.work()

    await house.becomes(lambda found: found.failure == "no_progress")
    assert server.fetches < 10


async def test_a_reader_that_raises_something_unexpected_ends_nobody(house: House) -> None:
    server = await house.add()
    server.faults = [lambda: 1 / 0]  # type: ignore[list-item,return-value]
    server.deliver(*letters(1))
    house.work()

    await house.reads(1)


@pytest.mark.parametrize("passes", [1, 2])
@pytest.mark.parametrize(
    "point",
    [
        "mailboxes.fetched",
        "mailboxes.cursor-written",
        "mailboxes.mails-written",
        "mailboxes.stored",
    ],
)
async def test_a_reader_that_fails_anywhere_passes_over_no_mail_and_reads_none_again(
    house: House, point: str, passes: int
) -> None:
    server = await house.add()
    server.deliver(*letters(5))
    faults.arm(f"{point}:{passes}:raise")
    try:
        house.work()
        await house.becomes(lambda found: found.failure is not None)
    finally:
        faults.disarm()
    found = await house.becomes(lambda found: found.cursor == "5")

    assert (found.figures.messages, found.figures.replays) == (5, 0)


async def test_mail_goes_to_the_inbox_of_its_recipient_where_the_mailbox_has_none(
    house: House,
) -> None:
    server = await house.add(inbox=None)
    for_us = mail().replace(b"To: box@oncebox.test", f"To: {house.inbox.email}".encode())
    server.deliver(for_us, mail(message_id="<2@x>"))
    house.work()

    found = await house.becomes(lambda found: found.figures.unrouted == 1)
    assert found.figures.messages == 1


async def test_the_next_page_is_fetched_while_one_is_stored(house: House) -> None:
    server = await house.add()
    server.deliver(*letters(5))
    worker = house.make_worker()
    route = worker._route

    async def route_after_next_fetch(mailbox: Mailbox, mails: Any) -> Any:
        await until(lambda: server.fetches > 1)
        return await route(mailbox, mails)

    worker._route = route_after_next_fetch
    house.start(worker)

    found = await house.reads(5)
    assert (found.figures.replays, found.cursor) == (0, "5")


async def test_a_page_that_was_fetched_ahead_is_dropped_with_the_lease(house: House) -> None:
    server = await house.add()
    server.deliver(*letters(5))
    worker = house.make_worker()
    route, held = worker._route, asyncio.Event()

    async def hold(mailbox: Mailbox, mails: Any) -> Any:
        await held.wait()
        return await route(mailbox, mails)

    worker._route = hold
    house.start(worker)
    await until(lambda: server.fetches == 2)
    await house.pause()
    held.set()
    await until(lambda: server.open == 0)

    found = await house.stored()
    assert (found.figures.messages, found.cursor) == (0, None)


class CountedReads:
    """A ledger that counts its reads."""

    def __init__(self, ledger: Ledger) -> None:
        self._ledger = ledger
        self.count = 0

    async def read(self, *args: Any, **values: Any) -> Any:
        """Count, and read."""
        self.count += 1
        return await self._ledger.read(*args, **values)


async def test_the_inbox_of_a_mailbox_is_read_once_for_all_mails_of_a_page(house: House) -> None:
    components = house.box.components
    await house.add()
    reads: Any = CountedReads(components.ledger)
    router = MailboxRouter(
        reads, components.recipients, components.mail_intake, components.telemetry
    )
    page = [FetchedMail(provider_id=str(n), raw=raw) for n, raw in enumerate(letters(50))]

    routed = await router(await house.stored(), page)

    assert [len(each) for each in routed] == [1] * 50
    assert reads.count == 1
    assert await router(await house.stored(), []) == []


@pytest.mark.parametrize("own", ["bob", "bob@example.com"])
async def test_mail_for_an_inbox_is_found_though_the_server_writes_the_name_of_the_mailbox(
    house: House, own: str
) -> None:
    server = await house.add(inbox=None)
    to_us, inbox = mail(), house.inbox.email.encode()
    for_us = to_us.replace(b"To: box@oncebox.test", b"To: " + inbox)
    hidden = mail(message_id="<2@x>", more=[f"X-Original-To: {house.inbox.email}"])
    server.deliver(*(f"Delivered-To: {own}\r\n".encode() + raw for raw in (for_us, hidden)))
    house.work()

    found = await house.becomes(lambda found: found.figures.polls > 0)
    assert (found.figures.messages, found.figures.unrouted) == (2, 0)


async def test_mail_that_was_delivered_to_one_inbox_is_not_for_the_others_in_its_header(
    house: House,
) -> None:
    components = house.box.components
    now, requester = components.database.clock(), Requester(tenant=TENANT)
    (other,) = await components.database.write(
        components.inboxes.allocate, requester, [InboxOptions()], now
    )
    server = await house.add(inbox=None)
    raw = mail(more=[f"Cc: {other.inbox.email}"])
    server.deliver(f"Delivered-To: {house.inbox.email}\r\n".encode() + raw)
    house.work()
    await house.reads(1)

    rows = await components.database.read(
        lambda tx: tx.execute("SELECT key FROM oncebox_deliveries")
    )
    assert [str(row[0]).partition(":")[0] for row in rows] == [house.inbox.id]


async def test_a_mailbox_whose_inbox_is_closed_waits_for_an_operator(house: House) -> None:
    server = await house.add(inbox="inb_gone")
    server.deliver(*letters(1))
    house.work()

    found = await house.becomes(lambda found: found.paused is not None)
    assert found.paused == "inbox_missing"
    assert found.cursor is None


async def test_a_mailbox_is_not_polled_while_its_webhook_brings_mail(house: House) -> None:
    server = await house.add(push_source="hooks", poll_after=3_600_000)
    database = house.box.components.database
    await database.write(mailboxes.note_push, TENANT, "hooks", database.clock())
    server.deliver(*letters(1))
    worker = house.work()
    await until(lambda: bool(worker._reading))
    await asyncio.sleep(0.1)

    assert server.fetches == 0


async def test_a_mailbox_is_polled_when_its_webhook_has_been_silent(house: House) -> None:
    server = await house.add(push_source="hooks", poll_after=1)
    server.deliver(*letters(1))
    house.work()

    await house.reads(1)


async def test_a_paused_mailbox_is_given_up_by_its_reader(house: House) -> None:
    server = await house.add()
    house.work()
    await until(lambda: server.fetches == 1)
    await house.pause()

    await until(lambda: server.open == 0)
    assert msgspec.structs.asdict(await house.stored())["paused"] == "operator"


async def test_one_refused_login_of_a_mailbox_that_works_does_not_pause_it(house: House) -> None:
    server = await house.add()
    server.faults = [failing("timed_out"), failing("timed_out")]
    server.deliver(*letters(3))
    house.work()
    await house.reads(3)
    server.faults = [failing("login_refused", needs_operator=True)]
    server.deliver(*letters(1, first=10))
    found = await house.reads(4)

    assert (found.paused, server.faults) == (None, [])


async def test_a_webhook_that_is_never_silent_does_not_stop_polling_for_ever(
    house: House, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(mailbox_worker, "_LONGEST_WITHOUT_POLL", 500)
    server = await house.add(push_source="posthook", poll_after=400)
    server.deliver(*letters(1))
    database = house.box.components.database

    async def push() -> None:
        while True:
            await database.write(mailboxes.note_push, TENANT, "posthook", database.clock())
            await database.write(_push_now)
            await asyncio.sleep(0.05)

    def _push_now(tx: Transaction) -> None:
        tx.execute(f"UPDATE oncebox_mailboxes SET pushed_at = {database.clock()}")  # noqa: S608

    pushing = asyncio.create_task(push())
    try:
        await asyncio.sleep(0.1)
        house.work()
        await house.reads(1)
    finally:
        pushing.cancel()


async def test_mail_for_a_full_inbox_does_not_stop_the_mail_of_others(
    house: House, monkeypatch: pytest.MonkeyPatch
) -> None:
    components = house.box.components
    server = await house.add(inbox=None)
    find = components.recipients.find

    async def find_full(local: str, domain: str) -> RecipientRoute:
        if local == "full":
            return RecipientRoute(RecipientStatus.FULL, tenant=TENANT)
        return await find(local, domain)

    monkeypatch.setattr(components.recipients, "find", find_full)
    domain = house.inbox.email.rpartition("@")[2]
    for number, address in enumerate([f"full@{domain}", house.inbox.email]):
        to = b"To: " + address.encode()
        raw = mail(message_id=f"<{number}@x>").replace(b"To: box@oncebox.test", to)
        server.deliver(raw)
    house.work()
    found = await house.reads(1)

    assert (found.failures, found.figures.unrouted) == (0, 1)
