"""Mail by webhook and by SMTP: one message, whichever comes first."""

import asyncio
from collections.abc import AsyncIterator
from itertools import permutations

import pytest

from oncebox.db.database import Transaction
from oncebox.ledger.inboxes.mail_intake import MailIntake
from oncebox.model.deliveries.delivery import ArrivalKind
from tests.contract.inboxes.test_mail_processor import House
from tests.support.clerk import TENANT
from tests.support.databases import Place
from tests.support.letters import envelope, mail

RAW = mail(text="your code is 123456")


@pytest.fixture
async def house(place: Place) -> AsyncIterator[House]:
    house = House(place)
    await house.open()
    yield house
    await house.box.close()


def traced(way: str, raw: bytes = RAW) -> bytes:
    """Return a mail with the header that its way adds."""
    return f"Received: from {way}.example by mx.example; now\r\n".encode() + raw


async def arrive(intake: MailIntake, way: str, raw: bytes = RAW, *, id_: str = "id-1") -> None:
    """Let a mail arrive by SMTP, or by the webhook of a source."""
    to = envelope("inb_1")
    if way == "smtp":
        await intake.store(to, traced(way, raw))
        return
    new = intake.webhook_mail(TENANT, way, to, traced(way, raw), "" if way == "raw" else id_)
    await intake.store_webhook(new)


async def all_done(house: House) -> None:
    """Wait until every mail has been worked on."""

    def open_(tx: Transaction) -> int:
        statement = "SELECT count(*) FROM oncebox_deliveries WHERE state <> 'done'"
        return int(tx.execute(statement)[0][0])

    async with asyncio.timeout(30):
        while await house.database.read(open_):  # noqa: ASYNC110 - it ends by itself
            await asyncio.sleep(0.01)


@pytest.mark.parametrize("order", list(permutations(["smtp", "postmark", "raw"])), ids="-".join)
async def test_a_mail_by_smtp_and_by_webhooks_is_one_message_whichever_comes_first(
    house: House, order: tuple[str, ...]
) -> None:
    intake = house.box.components.mail_intake
    house.work()

    for way in order:
        await arrive(intake, way)
        await all_done(house)

    assert len(await house.messages()) == 1


async def test_a_mail_that_arrives_by_all_ways_at_once_is_one_message(house: House) -> None:
    intake = house.box.components.mail_intake
    house.work()
    ways = ["smtp", "postmark", "ses", "raw"] * 3

    await asyncio.gather(*(arrive(intake, way) for way in ways))
    await all_done(house)

    assert len(await house.messages()) == 1


async def test_a_provider_s_id_is_a_key_that_no_mail_can_have(house: House) -> None:
    """Whoever sends the bytes of the key by SMTP does not suppress the mail of that id."""
    intake = house.box.components.mail_intake
    new = intake.webhook_mail(TENANT, "postmark", envelope("inb_1"), RAW, "id-1")
    for forged in (b"postmark\0id-1", b"id-1"):
        await intake.store(envelope("inb_1"), forged)

    (accepted,) = await intake.store_webhook(new)

    assert accepted.arrival is ArrivalKind.NEW


async def test_mails_of_many_webhooks_share_a_commit_and_each_is_answered_for_itself(
    house: House,
) -> None:
    intake = house.box.components.mail_intake
    mails = [
        intake.webhook_mail(TENANT, "ses", envelope("inb_1"), mail(text=str(n)), f"id-{n % 20}")
        for n in range(40)
    ]

    answers = await asyncio.gather(*(intake.store_webhook(each) for each in mails))

    kinds = [each.arrival for (each,) in answers]
    assert kinds.count(ArrivalKind.NEW) == 20
    assert kinds.count(ArrivalKind.DUPLICATE) == 20
