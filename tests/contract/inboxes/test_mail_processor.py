"""The worker for mail: what SMTP took becomes messages, of all tenants, whatever the mail is."""

import asyncio
from collections.abc import AsyncIterator, Callable, Sequence
from functools import partial
from typing import Any, Self

import msgspec
import pytest

from oncebox.box import Oncebox
from oncebox.db.database import Transaction
from oncebox.errors import DatabaseUnreachable
from oncebox.ledger.admin.api_keys import Requester
from oncebox.ledger.artifacts import artifacts
from oncebox.ledger.artifacts.claims import claimant_of
from oncebox.ledger.deliveries import deduplication, inspections, leases, settlements
from oncebox.ledger.deliveries.settlements import default_retry_rules
from oncebox.ledger.inboxes import messages
from oncebox.ledger.notifications import DUE
from oncebox.mail.limits import ParseLimits
from oncebox.mail.parser import parse
from oncebox.model.deliveries.delivery import Delivery
from oncebox.model.inboxes.inbox import InboxPolicy
from oncebox.model.inboxes.message import Message
from oncebox.model.inboxes.received_mail import (
    MAIL_SOURCE,
    AuthResult,
    Extraction,
    ParsedMail,
    SenderVerdict,
)
from oncebox.workers.deliveries.delivery_worker import InFlightDeliveries
from oncebox.workers.mail import mail_processor
from oncebox.workers.mail.fair_queue import MailFlow, ParsingDeferred
from oncebox.workers.mail.mail_processor import MailProcessor, MailTargets
from tests.support.clerk import TENANT
from tests.support.databases import Place
from tests.support.http import until
from tests.support.letters import add_inbox, envelope, mail, posted
from tests.support.program import settings


class Reads:
    """Reads mail in this process, unless told otherwise."""

    def __init__(self) -> None:
        self.entered = 0
        self.busy = 0
        self.most_busy = 0
        self.instead: Callable[[bytes], Any] | None = None

    async def parse(self, raw: bytes, flow: MailFlow) -> ParsedMail:
        self.busy += 1
        self.most_busy = max(self.most_busy, self.busy)
        try:
            await asyncio.sleep(0)
            found: ParsedMail | None = self.instead(raw) if self.instead is not None else None
            return found or parse(raw, ParseLimits())
        finally:
            self.busy -= 1

    async def check(self, raw: bytes, answers: Any, flow: MailFlow) -> Any:
        return []

    async def __aenter__(self) -> Self:
        self.entered += 1
        return self

    async def __aexit__(self, *error: object) -> None:
        self.entered -= 1


class House:
    """An opened box with one inbox, and what reads its mail."""

    def __init__(self, place: Place, **reading_: Any) -> None:
        found = settings(place, retry={"tries": 8})
        found = msgspec.structs.replace(
            found, reading=msgspec.structs.replace(found.reading, **reading_)
        )
        self.place = place
        self.box = Oncebox(settings=found)
        self.reads = Reads()
        self.heavy_reads = Reads()
        self.verdict: Callable[[], SenderVerdict] = SenderVerdict

    async def open(self) -> None:
        await self.box.open()
        await self.add_inbox("inb_1")

    async def add_inbox(self, inbox_id: str, **rest: Any) -> None:
        postgres = self.place.kind == "postgres"
        await self.database.write(add_inbox, inbox_id, postgres=postgres, **rest)

    @property
    def database(self) -> Any:
        return self.box.components.database

    async def post(
        self, *raws: bytes, inbox: str = "inb_1", more: Sequence[str] = (), tenant: str = TENANT
    ) -> list[str]:
        """Take mails in as the SMTP edge does, for one inbox or several."""
        now = self.database.clock()
        new = [each for raw in raws for each in posted(raw, inbox, *more, now=now, tenant=tenant)]
        accepted = await self.database.write(deduplication.accept, new, now)
        self.box.components.ledger.notify(DUE)
        return [each.id for each in accepted]

    def work(self, *, warm_up: bool = False) -> None:
        """Begin to work, with what reads for the test."""
        self.box._start_workers(warm_up=warm_up)
        readers = [each._processor for each in self.box._workers]
        reader, heavy = [each for each in readers if isinstance(each, MailProcessor)]
        reader._parser, reader._authenticate = self.reads, self._judge
        heavy._parser, heavy._authenticate = self.heavy_reads, self._judge

    async def _judge(self, *_args: object) -> SenderVerdict:
        return self.verdict()

    async def messages(self, inbox: str = "inb_1", tenant: str = TENANT) -> list[Message]:
        page: messages.MessagePage = await self.database.read(
            messages.page, tenant, inbox, most=1000
        )
        return page.messages

    async def filed(self, count: int, inbox: str = "inb_1", tenant: str = TENANT) -> list[Message]:
        """Wait until an inbox has so many messages."""
        async with asyncio.timeout(30):
            while len(found := await self.messages(inbox, tenant)) < count:  # noqa: ASYNC110
                await asyncio.sleep(0.01)
        return found

    async def state(self, id_: str, tenant: str = TENANT) -> str:
        facts = await self.database.read(inspections.read_facts, tenant, id_)
        return str(facts.state)

    async def settled(self, *ids: str, tenant: str = TENANT) -> list[str]:
        """Wait until deliveries have ended."""
        async with asyncio.timeout(30):
            while True:
                states = [await self.state(id_, tenant) for id_ in ids]
                if set(states) <= {"done", "dead", "held"}:
                    return states
                await asyncio.sleep(0.01)


@pytest.fixture
async def house(place: Place) -> AsyncIterator[House]:
    """An opened box with one inbox."""
    house = House(place)
    await house.open()
    yield house
    await house.box.close()


async def test_mail_becomes_messages_without_any_handler(house: House) -> None:
    house.work()
    raws = [mail(message_id=f"<{number}@x>") for number in range(50)]
    ids = await house.post(*raws)
    found = await house.filed(50)

    assert [each.sequence for each in found] == list(range(1, 51))
    assert {each.delivery_id for each in found} == set(ids)
    assert set(await house.settled(*ids)) == {"done"}
    # They are counted after the commit, which others see first.
    await until(lambda: 'oncebox_messages_total{status="parsed"} 50.0' in house.box.metrics())


async def test_mail_of_every_tenant_is_read(house: House) -> None:
    for number in range(4):
        await house.add_inbox(f"inb_t{number}", tenant=f"tenant{number}")
        await house.post(mail(), inbox=f"inb_t{number}", tenant=f"tenant{number}")
    house.work()

    for number in range(4):
        assert len(await house.filed(1, f"inb_t{number}", f"tenant{number}")) == 1


async def test_a_mail_to_many_inboxes_is_parsed_and_judged_once(house: House) -> None:
    parsed: list[bytes] = []
    judged: list[SenderVerdict] = []

    def judge() -> SenderVerdict:
        judged.append(SenderVerdict())
        return judged[-1]

    others = [f"inb_m{number}" for number in range(40)]
    for each in others:
        await house.add_inbox(each)
    house.reads.instead = parsed.append
    house.verdict = judge
    await house.post(mail(), more=others)
    house.work()

    for each in ("inb_1", *others):
        assert len(await house.filed(1, each)) == 1
    assert (len(parsed), len(judged)) == (1, 1)


async def test_nothing_is_begun_that_reads_before_there_is_mail(house: House) -> None:
    house.work()
    await asyncio.sleep(0.1)
    before = house.reads.entered
    await house.post(mail())
    await house.filed(1)
    during = house.reads.entered
    await house.box.close()

    assert (before, during, house.reads.entered) == (0, 1, 0)


async def test_a_service_begins_what_reads_before_there_is_mail(
    house: House, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(mail_processor, "_WARM_UP_AFTER", 0)
    house.work(warm_up=True)
    async with asyncio.timeout(30):
        while not house.reads.entered:  # noqa: ASYNC110
            await asyncio.sleep(0)
    await house.post(mail())
    await house.filed(1)

    assert house.reads.entered == 1


async def test_mail_that_arrives_right_after_a_look_is_found_at_once(
    house: House, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(mail_processor, "_POLL_EVERY", 3_600.0)
    components, rules = house.box.components, default_retry_rules(house.box.settings.retry)
    targets = MailTargets(components.ledger, worker="w", lease=30.0, rules=rules)
    assert await targets.list_targets() == []
    await components.mail_intake.store(envelope("inb_1"), mail())

    async with asyncio.timeout(30):
        assert [each.tenant for each in await targets.list_targets()] == [TENANT]


async def test_a_mail_that_cannot_be_read_is_still_a_message(house: House) -> None:
    """What reads dies of it, again and again; its neighbours do not wait."""

    def dies(raw: bytes) -> None:
        if b"poison" in raw:
            raise RuntimeError("the child is gone")

    house.reads.instead = dies
    house.work()
    await house.post(mail(text="poison"), mail(text="fine", message_id="<2@x>"))
    found = await house.filed(2)

    assert {each.status: each.warnings for each in found} == {
        "parsed": (),
        "unparsed": ("not_readable",),
    }


async def lose_worker(house: House, id_: str, *, begun: bool) -> None:
    """Lease a mail, and let its worker be killed before or after its turn."""
    who = leases.DeliveryClaimant(TENANT, MAIL_SOURCE, "killed", 1, 1_000, 3_600_000)
    now = house.database.clock()
    claimed = await house.database.write(leases.claim, who, 1, now)
    lost = claimed or [await house.database.write(leases.claim_expired, who, now)]
    assert [each.id for each in lost] == [id_]
    if begun:
        await house.database.write(settlements.begin, lost, now)
    await until(lambda: house.database.clock() > now + 1)


async def test_a_mail_that_only_waited_in_killed_workers_is_parsed(house: House) -> None:
    """However often they are killed: its parsing never began, so it is not to blame."""
    (id_,) = await house.post(mail())
    for _ in range(20):
        await lose_worker(house, id_, begun=False)
    house.work()

    assert (await house.filed(1))[0].status == "parsed"
    assert await house.settled(id_) == ["done"]


async def test_a_mail_whose_parsing_killed_three_workers_is_filed_unparsed(house: House) -> None:
    parsed: list[bytes] = []
    house.reads.instead = parsed.append
    (id_,) = await house.post(mail())
    for begun in (False, False, True, True, True):
        await lose_worker(house, id_, begun=begun)
    house.work()

    assert (await house.filed(1))[0].status == "unparsed"
    assert parsed == []
    seen = await house.database.read(inspections.inspect, TENANT, id_, 0)
    assert [each.outcome for each in seen.tries] == ["lost"] * 5


async def test_mail_that_nobody_can_read_just_now_waits_and_is_read(
    house: House, monkeypatch: pytest.MonkeyPatch
) -> None:
    """However often: it is no fault of the mail, so it uses up no try."""
    monkeypatch.setattr("oncebox.workers.mail.mail_processor._RETRY_AFTER_MS", 1)
    asked = 0

    def away(raw: bytes) -> None:
        nonlocal asked
        asked += 1
        if asked <= 12:
            raise DatabaseUnreachable("nobody is there")

    house.reads.instead = away
    house.work()
    await house.post(mail())

    assert (await house.filed(1))[0].status == "parsed"
    assert asked == 13


async def test_text_that_no_json_can_say_does_not_lose_the_mail(house: House) -> None:
    house.reads.instead = lambda raw: msgspec.structs.replace(
        parse(raw, ParseLimits()), subject="\ud800"
    )
    house.work()
    await house.post(mail())

    assert (await house.filed(1))[0].status == "unparsed"


async def test_a_sender_that_cannot_be_judged_is_in_doubt(house: House) -> None:
    def breaks() -> SenderVerdict:
        raise RuntimeError("odd answers")

    house.verdict = breaks
    house.work()
    await house.post(mail())

    assert (await house.filed(1))[0].sender_verdict == "temperror"


async def test_what_an_inbox_does_not_expect_is_kept_but_does_not_match(house: House) -> None:
    await house.add_inbox("inb_2", policy=InboxPolicy(senders=("bank.example",)))
    house.verdict = lambda: SenderVerdict(dmarc=AuthResult.PASS, domain="example.com")
    house.work()
    await house.post(mail(), inbox="inb_2")
    (found,) = await house.filed(1, "inb_2")
    whole = await house.database.read(
        messages.get, house.box.components.mail_cipher, TENANT, found.id
    )

    assert (found.matched, found.sender_verdict) == (False, "pass")
    assert whole.document.mismatch == "sender_not_allowed"


async def test_mail_for_an_inbox_that_is_gone_is_dead_and_says_so(house: House) -> None:
    house.work()
    (id_,) = await house.post(mail(), inbox="inb_gone")

    assert await house.settled(id_) == ["dead"]
    facts = await house.database.read(inspections.read_facts, TENANT, id_)
    assert "no such inbox" in facts.last_error


async def test_an_error_does_not_quote_the_mail(house: House) -> None:
    """What fails may say what it failed on; the ledger keeps only what kind of error it was."""

    def quotes(raw: bytes) -> None:
        raise RuntimeError(raw.decode())

    house.reads.instead = quotes
    house.work()
    (id_,) = await house.post(mail(text="code 7QX2ZK93"))
    await house.filed(1)
    seen = await house.database.read(inspections.inspect, TENANT, id_, 0)

    assert [each.error for each in seen.tries] == ["RuntimeError"] * 3
    assert "7QX2ZK93" not in str(seen)


async def test_a_refused_row_costs_its_neighbours_nothing(
    house: House, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The batch is halved until it is alone; then it is filed without what was refused."""
    real = messages._message_row

    def refused(filing: Any, *rest: Any) -> Any:
        row = list(real(filing, *rest))
        if filing.filing.document.parsed.subject == "guilty":
            row[3] = 2**70
        return tuple(row)

    monkeypatch.setattr(messages, "_message_row", refused)
    lease = msgspec.structs.replace(house.box.settings.worker, lease=0.3)
    house.box.settings = msgspec.structs.replace(house.box.settings, worker=lease)
    raws = [mail(message_id=f"<{number}@x>") for number in range(20)]
    await house.post(*raws, mail("guilty", message_id="<guilty@x>"))
    house.work()

    found = await house.filed(21)
    assert sorted(each.status for each in found) == ["parsed"] * 20 + ["unparsed"]


async def test_nothing_new_is_begun_while_much_raw_mail_is_in_memory(house: House) -> None:
    (new,) = posted(mail(text="x" * 1000), "inb_1")
    held = Delivery(
        new.id, TENANT, MAIL_SOURCE, new.key, "", new.type, None, False, None,
        1, 1, 0, 0, b"[]", new.body
    )  # fmt: skip
    rooms = house.box.components
    running = InFlightDeliveries(rooms.ledger, rooms.telemetry, lease=30, most_bytes=1000)
    before = await running.wait_for_capacity(10, 0.01)
    running.start(held, asyncio.sleep(0), 30)
    full = await running.wait_for_capacity(10, 0.01)
    running.remove(held)

    assert (before, full, await running.wait_for_capacity(10, 0.01)) == (10, 0, 10)


async def test_two_workers_file_each_mail_once(place: Place) -> None:
    one, two = House(place), House(place)
    await one.open()
    await two.box.open()
    ids = await one.post(*(mail(message_id=f"<{number}@x>") for number in range(200)))
    one.work()
    two.work()
    found = await one.filed(200)
    states = await one.settled(*ids)
    await one.box.close()
    await two.box.close()

    assert sorted(each.sequence for each in found) == list(range(1, 201))
    assert {each.delivery_id for each in found} == set(ids)
    assert set(states) == {"done"}


async def test_a_mail_that_is_deferred_is_read_with_the_heavy_ones_and_costs_no_try(
    house: House,
) -> None:
    def defers(raw: bytes) -> None:
        raise ParsingDeferred("slow")

    house.reads.instead = defers
    house.work()
    (id_,) = await house.post(mail())
    (found,) = await house.filed(1)
    seen = await house.database.read(inspections.inspect, TENANT, id_, 0)

    assert (found.status, found.delivery_id) == ("parsed", id_)
    assert [each.outcome for each in seen.tries] == ["given_back"]
    assert (await house.database.read(inspections.read_facts, TENANT, id_)).tries == 1
    assert (house.reads.most_busy, house.heavy_reads.most_busy) == (1, 1)
    assert 'oncebox_mail_deferred_total{why="slow"} 1.0' in house.box.metrics()


async def test_small_mail_does_not_wait_for_large_mail(house: House) -> None:
    """Of one inbox, and with every place for large mail taken by mails that never end."""
    never = asyncio.Event()

    async def stuck(raw: bytes, flow: MailFlow) -> ParsedMail:
        await never.wait()
        raise AssertionError

    house.heavy_reads.parse = stuck  # type: ignore[method-assign]
    house.work()
    large = b"x" * house.box.settings.reading.heavy_from
    for number in range(20):
        body = mail(message_id=f"<large{number}@x>") + large
        await house.box.components.mail_intake.store(envelope("inb_1"), body)
    await house.box.components.mail_intake.store(envelope("inb_1"), mail(message_id="<code@x>"))
    (found,) = await house.filed(1)

    assert found.size < len(large)


async def test_a_lost_worker_of_one_queue_is_recovered_by_that_queue(house: House) -> None:
    """A heavy mail that killed its parser is not tried again beside quick ones."""
    claimant = partial(leases.DeliveryClaimant, TENANT, MAIL_SOURCE, "w", 1, 8, 1_000_000)
    store = house.box.components.mail_intake.store
    await store(envelope("inb_1"), mail() + b"x" * house.box.settings.reading.heavy_from)
    await store(envelope("inb_1"), mail(message_id="<2@x>"))
    now = house.database.clock()
    claimed = {
        heavy: await house.database.write(leases.claim, claimant(heavy=heavy), 10, now)
        for heavy in (0, 1)
    }
    lost = {
        heavy: await house.database.write(
            leases.claim_lost_once, claimant(heavy=heavy), 10, now + 1000
        )
        for heavy in (0, 1)
    }

    assert [len(each) for each in claimed.values()] == [1, 1]
    assert [[each.id for each in found] for found in lost.values()] == [
        [each.id for each in found] for found in claimed.values()
    ]


async def test_the_source_of_mail_is_nobody_elses(house: House) -> None:
    assert MAIL_SOURCE == "@mail"
    with pytest.raises(Exception, match="source"):
        house.box.on(MAIL_SOURCE)(lambda delivery, once: None)


async def test_what_makes_a_message_the_same_does_not_let_its_text_be_guessed(
    house: House,
) -> None:
    raw = mail("Sign in", "Your verification code is 481920.")
    said = parse(raw).identity
    house.work()
    await house.post(raw, raw + b"\r\n")
    await house.filed(1)

    def identities(tx: Transaction) -> list[bytes]:
        return [bytes(row[0]) for row in tx.execute("SELECT identity FROM oncebox_messages")]

    (kept,) = await house.database.read(identities)
    assert said not in kept
    assert kept.endswith(house.box.components.mail_cipher.message_fingerprint(said))


async def test_a_code_in_a_mail_becomes_an_artifact_and_is_not_kept_in_the_open(
    house: House,
) -> None:
    """With the signed date of a proven sender; what was found is not in the document."""
    details = ("dkim_aligned", "signed_date")
    house.verdict = lambda: SenderVerdict(
        dkim=AuthResult.PASS, domain="example.com", details=details
    )
    house.work()
    date = "Date: Mon, 16 Nov 2026 04:00:00 +0000"
    await house.post(mail("Sign in", "Your verification code is 481920.", more=[date]))
    (message,) = await house.filed(1)
    (artifact,) = await house.database.read(artifacts.page, Requester(tenant=TENANT), "inb_1")
    granted = await house.box.components.grants.claim(
        claimant_of(Requester(tenant=TENANT)), artifact.id
    )
    whole = await house.database.read(
        messages.get, house.box.components.mail_cipher, TENANT, message.id
    )

    assert (artifact.message_id, artifact.sender_verdict) == (message.id, "pass")
    assert artifact.signed_at == 1_794_801_600_000
    assert granted.value.value == "481920"
    assert whole.document.parsed.found == Extraction()
    scraped = house.box.metrics()
    assert 'oncebox_artifacts_total{end="available",kind="code"} 1.0' in scraped
