"""Answers: a mail that answers a message of an inbox says so, and answers no program."""

from typing import Any

import pytest
from msgspec.structs import replace

from oncebox.core.metrics import Telemetry
from oncebox.db.database import Database, Transaction
from oncebox.errors import KeyInvalid, NotFound, StateConflict
from oncebox.errors.sends import RepliesToAutomaticMail, SendBudgetSpent, SendCoolingDown
from oncebox.ledger.sends.outbox import Outbox
from oncebox.ledger.transactions import Ledger
from oncebox.model.inboxes.message import new_message
from oncebox.model.inboxes.received_mail import ParsedMail, ParseStatus
from oncebox.model.sends.intent import Intent, SendOrigin
from oncebox.settings import SendSettings
from tests.contract.sends.test_outbox import MAIL, ORDER, SCRIBE
from tests.support.clerk import TENANT, VAULT, Clerk
from tests.support.letters import FILE, Mailroom, mail
from tests.support.mailer import BOX

OPERATOR = SendOrigin(tenant=TENANT, key="key_0")
AGENT = SendOrigin(tenant=TENANT, key="key_1", is_agent=True)


class Office:
    """An outbox beside inboxes with mail in them."""

    def __init__(self, clerk: Clerk, database: Database, **settings: Any) -> None:
        self.room = Mailroom(clerk)
        self.database = database
        telemetry, ledger = Telemetry(), Ledger(database)
        self.outbox = Outbox(
            ledger,
            BOX,
            lambda: SCRIBE,
            SendSettings(**settings),
            telemetry,
            mail_cipher=VAULT,
        )

    def receive(self, raw: bytes, inbox: str = "inb_1", **change: Any) -> str:
        """File a mail; return the id of its message."""
        (delivery,) = self.room.claimed(raw, inbox)
        filed = self.room.filing(delivery, lambda parsed: replace(parsed, **change))
        (told,) = self.room.clerk.run(FILE, [filed], self.room.clerk.now)
        return told.message_id

    async def answer(self, message_id: str, origin: SendOrigin = OPERATOR) -> bytes:
        """Answer a message; return the answer as it will be sent."""
        told = await self.outbox.send(origin, replace(ORDER, answers=message_id))
        assert told.created

        def read(tx: Transaction) -> bytes:
            ((sealed,),) = tx.execute("SELECT message FROM oncebox_send_bodies")
            return bytes(sealed)

        return BOX.decrypt_field("message", TENANT, told.send.id, await self.database.read(read))


@pytest.fixture
def office(clerk: Clerk, database: Database) -> Office:
    return Office(clerk, database)


async def test_an_answer_says_what_it_answers_and_that_a_program_wrote_it(office: Office) -> None:
    id_ = office.receive(mail(more=["References: <0@example.com>"]))
    message = await office.answer(id_)

    assert b"In-Reply-To: <1@example.com>\r\n" in message
    assert b"References: <0@example.com> <1@example.com>\r\n" in message
    assert b"Auto-Submitted: auto-replied\r\n" in message


async def test_an_answer_to_a_mail_without_an_id_is_sent_without_one(office: Office) -> None:
    message = await office.answer(office.receive(mail(message_id=None)))

    assert b"In-Reply-To" not in message


@pytest.mark.parametrize(
    "field", ["Auto-Submitted: auto-replied", "Precedence: bulk", "List-Id: <a.example.com>"]
)
async def test_what_a_program_sent_is_not_answered(office: Office, field: str) -> None:
    id_ = office.receive(mail(more=[field]))

    with pytest.raises(RepliesToAutomaticMail):
        await office.answer(id_)
    with pytest.raises(RepliesToAutomaticMail):
        await office.outbox.send_batch(OPERATOR, None, [replace(ORDER, answers=id_)])
    assert (await office.outbox.send(OPERATOR, ORDER)).created


@pytest.mark.parametrize(
    "change", [{"status": ParseStatus.UNPARSED, "headers": ()}, {"warnings": ("header_limit",)}]
)
async def test_what_nobody_can_read_is_taken_for_a_program(
    office: Office, change: dict[str, Any]
) -> None:
    id_ = office.receive(mail(), **change)

    with pytest.raises(RepliesToAutomaticMail):
        await office.answer(id_)


async def test_a_bounce_is_not_answered(office: Office, monkeypatch: pytest.MonkeyPatch) -> None:
    """It says so in its envelope alone."""
    monkeypatch.setattr(
        "tests.support.letters.new_message", _from_nobody
    )  # as the SMTP edge stores MAIL FROM:<>
    id_ = office.receive(mail())

    with pytest.raises(RepliesToAutomaticMail):
        await office.answer(id_)


def _from_nobody(
    delivery: Any, recipient: Any, said: Any, *, parsed: ParsedMail, **more: Any
) -> Any:
    return new_message(delivery, recipient, replace(said, sender=""), parsed=parsed, **more)


async def test_a_message_that_is_not_there_is_not_found(office: Office) -> None:
    office.room.add_inbox("inb_other", tenant="globex")
    with pytest.raises(NotFound):
        await office.answer("msg_unknown")
    with pytest.raises(NotFound):
        await office.outbox.send(
            SendOrigin(tenant="globex"), replace(ORDER, answers=office.receive(mail()))
        )


async def test_an_agent_answers_only_what_came_to_its_own_inboxes(office: Office) -> None:
    office.room.add_inbox("inb_2", owner="key_1")
    theirs, own = office.receive(mail()), office.receive(mail(), "inb_2")

    with pytest.raises(NotFound):
        await office.answer(theirs, AGENT)
    assert await office.answer(own, AGENT)


async def test_a_message_whose_words_are_gone_is_not_answered(office: Office) -> None:
    id_ = office.receive(mail())
    mark = "?" if office.room.clerk.place.kind == "sqlite" else "%s"

    def purge(tx: Transaction) -> None:
        tx.execute(f"UPDATE oncebox_messages SET document = {mark}", [b""])  # noqa: S608 - ours

    office.room.clerk.run(purge)
    with pytest.raises(StateConflict):
        await office.answer(id_)


async def test_an_answer_is_not_written_in_a_transaction(office: Office) -> None:
    with pytest.raises(KeyInvalid):
        office.outbox.compose(OPERATOR, replace(ORDER, answers="msg_1"))


# the guards, as callers meet them


def _mail(number: int, to: str = "ann@example.org") -> Intent:
    return replace(ORDER, entity_id=f"order_{number}", email=replace(MAIL, to=to))


async def test_a_replanned_mail_is_refused_with_the_earlier_one(
    clerk: Clerk, database: Database
) -> None:
    outbox = Office(clerk, database, cool_down=600.0).outbox
    first = await outbox.send(OPERATOR, _mail(1))
    with pytest.raises(SendCoolingDown, match="do not send it again under a new key") as caught:
        await outbox.send(AGENT, _mail(2))

    assert caught.value.send_id == first.send.id
    assert first.send.id in str(caught.value)
    assert 0 < (caught.value.retry_after or 0) <= 600


async def test_budgets_are_for_agents(clerk: Clerk, database: Database) -> None:
    outbox = Office(clerk, database, per_key=2, per_recipient=0).outbox
    for number in range(2):
        await outbox.send(AGENT, _mail(number))
    with pytest.raises(SendBudgetSpent) as caught:
        await outbox.send(AGENT, _mail(2))

    assert 3_500 < (caught.value.retry_after or 0) <= 3_600
    assert not (await outbox.send(AGENT, _mail(0))).created
    assert (await outbox.send(OPERATOR, _mail(3))).created


async def test_recipients_have_a_budget_of_what_agents_send(
    clerk: Clerk, database: Database
) -> None:
    outbox = Office(clerk, database, per_recipient=1).outbox
    await outbox.send(AGENT, _mail(1))
    with pytest.raises(SendBudgetSpent):
        await outbox.send(SendOrigin(tenant=TENANT, key="key_2", is_agent=True), _mail(2))

    assert (await outbox.send(AGENT, _mail(3, to="bob@example.org"))).created
