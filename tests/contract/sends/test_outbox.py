"""The outbox: intents as people say them become one send each."""

import asyncio
import threading

import pytest
from msgspec.structs import replace

from oncebox.core.metrics import Telemetry
from oncebox.db.database import Database
from oncebox.errors import InputRefused, KeyInvalid, NotFound
from oncebox.errors.sends import (
    EmailInvalid,
    RecipientMissing,
    SendKeyConflict,
    SendTooLate,
    VariableMissing,
)
from oncebox.ledger.sends import lifecycle, sends, submission
from oncebox.ledger.sends.outbox import MailComposer, Outbox
from oncebox.ledger.transactions import Ledger
from oncebox.mail.compose import mime_writer
from oncebox.mail.compose.replies import is_automatic, reply_headers
from oncebox.mail.compose.templates import Template, fill_template
from oncebox.model.sends.email import Attachment, Email
from oncebox.model.sends.intent import Intent, SendOrigin, intent_key
from oncebox.model.sends.send import (
    AnswerStatus,
    IntentAccepted,
    OnUnknown,
    Retention,
    Send,
    SendReport,
    SendState,
)
from oncebox.settings import SendSettings
from tests.support.clerk import TENANT, Clerk
from tests.support.mailer import BOX, TAKEN

ME = SendOrigin(tenant=TENANT, key="key_1")
RECEIPT = Template(name="receipt", subject="Paid: {{ number }}", text="Thank you for {{ number }}.")
MAIL = Email(sender="shop@example.com", to="ann@example.org", subject="Paid", text="Thank you.")
ORDER = Intent(email=MAIL, event_type="order.confirmation", entity_id="order_4821")


#: the threads in which templates were filled in
FILLED_IN: list[threading.Thread] = []


def _fill(email: Email) -> Email:
    FILLED_IN.append(threading.current_thread())
    return fill_template(email, RECEIPT)


SCRIBE = MailComposer(
    fill=_fill,
    compose=mime_writer.compose,
    is_automatic=is_automatic,
    reply_headers=reply_headers,
)


class Desk:
    """An outbox, and the desk it stands on."""

    def __init__(self, database: Database) -> None:
        self.database = database
        self.telemetry = Telemetry()
        self.ledger = Ledger(database)
        self.outbox = Outbox(self.ledger, BOX, lambda: SCRIBE, SendSettings(), self.telemetry)

    async def sent(self, send: Send) -> None:
        """Settle a send by proof from outside."""
        word = SendReport(tenant=TENANT, id=send.id, fence=0, outcome=TAKEN)
        await self.ledger.submit(lifecycle.settle, word)


@pytest.fixture
def desk(clerk: Clerk, database: Database) -> Desk:
    del clerk  # it makes the tenant
    return Desk(database)


async def test_the_key_of_a_send_is_the_published_one(desk: Desk) -> None:
    told = await desk.outbox.send(ME, ORDER)

    assert told.created
    assert told.status is AnswerStatus.IN_FLIGHT
    assert told.send.key.hex() == intent_key(
        "order.confirmation", "order_4821", "ann@example.org", 1
    )


async def test_a_published_key_given_by_hand_is_the_same_send(desk: Desk) -> None:
    first = await desk.outbox.send(ME, ORDER)
    published = intent_key("order.confirmation", "order_4821", "ann@example.org", 1)
    again = await desk.outbox.send(ME, Intent(email=MAIL, key=published))

    assert (again.created, again.send.id) == (False, first.send.id)


async def test_all_callers_get_one_message_id(desk: Desk) -> None:
    told = await asyncio.gather(*(desk.outbox.send(ME, ORDER) for _ in range(20)))

    assert len({each.send.message_id for each in told}) == 1
    assert sum(each.created for each in told) == 1


async def test_other_prose_is_the_duplicate_it_is(desk: Desk) -> None:
    first = await desk.outbox.send(ME, ORDER)
    await desk.sent(first.send)
    other = replace(ORDER, email=replace(MAIL, subject="Your order is paid"))
    again = await desk.outbox.send(ME, other)

    assert (again.status, again.drift) == (AnswerStatus.DUPLICATE, True)
    assert again.send.message_id == first.send.message_id
    with pytest.raises(SendKeyConflict):
        await desk.outbox.send(ME, replace(other, strict=True))
    found = desk.telemetry.scrape()
    assert 'oncebox_duplicates_total{class="drift",layer="send"} 2.0' in found


@pytest.mark.parametrize(
    "other",
    [
        replace(MAIL, sender="eve@example.com"),
        replace(MAIL, cc="bob@example.org"),
        replace(MAIL, attachments=[Attachment(name="a.txt", content=b"a")]),
    ],
)
async def test_a_repeat_with_other_protected_fields_is_refused(desk: Desk, other: Email) -> None:
    await desk.outbox.send(ME, ORDER)

    with pytest.raises(SendKeyConflict):
        await desk.outbox.send(ME, replace(ORDER, email=other))


async def test_another_audience_under_a_key_of_ones_own_is_refused(desk: Desk) -> None:
    await desk.outbox.send(ME, Intent(email=MAIL, key="mine"))

    with pytest.raises(SendKeyConflict):
        await desk.outbox.send(ME, Intent(email=replace(MAIL, to="bob@example.org"), key="mine"))


async def test_who_waits_hears_of_the_end(desk: Desk) -> None:
    told = await desk.outbox.send(ME, ORDER)
    waiting = [asyncio.create_task(desk.outbox.outcomes.wait(told.send, 30)) for _ in range(3)]
    await asyncio.sleep(0)
    await desk.sent(told.send)

    assert {(await each).state for each in waiting} == {SendState.SENT}


async def test_who_waits_hears_of_an_end_that_another_process_brought(
    desk: Desk, clerk: Clerk
) -> None:
    told = await desk.outbox.send(ME, ORDER)
    waiting = asyncio.create_task(desk.outbox.outcomes.wait(told.send, 30))
    await asyncio.sleep(0)
    word = SendReport(tenant=TENANT, id=told.send.id, fence=0, outcome=TAKEN)
    await asyncio.to_thread(clerk.run, lifecycle.settle, [word], desk.database.clock())

    assert (await waiting).state is SendState.SENT


async def test_who_waits_long_enough_hears_how_it_stands(desk: Desk) -> None:
    told = await desk.outbox.send(ME, ORDER)

    assert (await desk.outbox.outcomes.wait(told.send, 0.01)).state is SendState.PENDING


async def test_what_is_frozen_is_what_was_meant(desk: Desk) -> None:
    filled_in = Email(sender=MAIL.sender, to=MAIL.to, template="receipt", variables={"number": 7})
    new = desk.outbox.compose(ME, replace(ORDER, email=filled_in))

    message = BOX.decrypt_field("message", TENANT, new.id, new.message)
    assert b"Subject: Paid: 7\r\n" in message
    assert new.message_id.encode() in message


async def test_nobody_waits_while_a_template_is_filled_in(desk: Desk) -> None:
    filled_in = Email(sender=MAIL.sender, to=MAIL.to, template="receipt", variables={"number": 7})
    order = replace(ORDER, email=filled_in)
    FILLED_IN.clear()
    await desk.outbox.send(ME, order)
    await desk.outbox.send_batch(ME, None, [order, replace(order, version=2)])

    assert len(FILLED_IN) == 3
    assert threading.current_thread() not in FILLED_IN


async def test_a_missing_variable_is_refused_and_nothing_is_stored(desk: Desk) -> None:
    lacking = Email(sender=MAIL.sender, to=MAIL.to, template="receipt")

    with pytest.raises(VariableMissing):
        await desk.outbox.send(ME, replace(ORDER, email=lacking))
    assert (await desk.outbox.send(ME, ORDER)).created


async def test_an_intent_can_be_written_in_a_commit_of_ones_own(desk: Desk) -> None:
    new = desk.outbox.compose(ME, ORDER)
    (told,) = await desk.database.write(submission.store_intents, [new], desk.database.clock())

    assert isinstance(told, IntentAccepted)
    assert told.created
    assert not (await desk.outbox.send(ME, ORDER)).created


@pytest.mark.parametrize(
    ("wrong", "error"),
    [
        (replace(ORDER, email=Email(sender="a@example.com", text="x")), RecipientMissing),
        (replace(ORDER, email=replace(MAIL, subject="a\r\nBcc: b@example.org")), EmailInvalid),
        (replace(ORDER, valid_until=1), SendTooLate),
        (replace(ORDER, send_at=10**14), SendTooLate),
        (replace(ORDER, event_type=""), KeyInvalid),
        (replace(ORDER, key="k" * 10_000), KeyInvalid),
        (replace(ORDER, retention=Retention.SCHEDULED), KeyInvalid),
        (replace(ORDER, transport="relay", failover_group="main"), KeyInvalid),
        (replace(ORDER, transport="nowhere"), NotFound),
    ],
)
async def test_bad_input_is_refused_and_costs_nothing(
    desk: Desk, wrong: Intent, error: type[Exception]
) -> None:
    with pytest.raises(error):
        await desk.outbox.send(ME, wrong)

    assert (await desk.outbox.send(ME, ORDER)).created


async def test_what_was_sent_is_a_duplicate_though_its_time_is_over(desk: Desk) -> None:
    timed = replace(ORDER, valid_until=desk.database.clock() + 60_000)
    await desk.sent((await desk.outbox.send(ME, timed)).send)

    assert (
        await desk.outbox.send(ME, replace(ORDER, valid_until=1))
    ).status is AnswerStatus.DUPLICATE


async def test_a_batch_is_retried_as_a_whole(desk: Desk) -> None:
    wanted = [replace(ORDER, entity_id=f"order_{n}") for n in range(5)]
    first = await desk.outbox.send_batch(ME, "run-1", wanted)
    again = await desk.outbox.send_batch(ME, "run-1", wanted)

    assert [told.created for told in first.answers] == [True] * 5
    assert [told.created for told in again.answers] == [False] * 5
    assert first.batch.id == again.batch.id
    with pytest.raises(SendKeyConflict):
        await desk.outbox.send_batch(ME, "run-1", wanted[:4])


async def test_a_batch_that_was_sent_is_a_duplicate_though_its_time_is_over(desk: Desk) -> None:
    until = desk.database.clock() + 60_000
    wanted = [replace(ORDER, entity_id=f"order_{n}", valid_until=until) for n in range(2)]
    for told in (await desk.outbox.send_batch(ME, "run-1", wanted)).answers:
        await desk.sent(told.send)
    late = [replace(each, valid_until=1) for each in wanted]
    again = await desk.outbox.send_batch(ME, "run-1", late)

    assert [told.status for told in again.answers] == [AnswerStatus.DUPLICATE] * 2
    with pytest.raises(SendTooLate):
        await desk.outbox.send_batch(ME, "run-2", [*late, replace(late[0], version=2)])


async def test_one_wrong_send_leaves_nothing_of_its_batch(desk: Desk) -> None:
    wrong = replace(ORDER, email=replace(MAIL, to="nobody"))
    with pytest.raises(InputRefused, match="send 2 of the batch"):
        await desk.outbox.send_batch(ME, None, [ORDER, wrong])

    assert (await desk.outbox.send(ME, ORDER)).created
    with pytest.raises(KeyInvalid, match="the same mail"):
        await desk.outbox.send_batch(ME, None, [ORDER, ORDER])
    with pytest.raises(KeyInvalid):
        await desk.outbox.send_batch(ME, None, [])


async def test_a_send_tells_what_was_chosen(desk: Desk) -> None:
    chosen = replace(ORDER, on_unknown=OnUnknown.RESEND, attempt_id="signup-1")
    told = await desk.outbox.send(replace(ME, delivery_id="dlv_1", effect="receipt"), chosen)

    assert (told.send.on_unknown, told.send.attempt_id) == (OnUnknown.RESEND, "signup-1")
    assert (told.send.owner, told.send.delivery_id) == ("key_1", "dlv_1")
    assert (told.send.effect, told.send.transport) == ("receipt", "log")


async def test_the_answer_about_a_new_send_is_what_is_stored(desk: Desk) -> None:
    timed = replace(ORDER, valid_until=desk.database.clock() + 60_000, attempt_id="signup-1")
    told = await desk.outbox.send(ME, timed)
    (stored,) = (await desk.database.read(sends.by_ids, [(TENANT, told.send.id)])).values()

    assert told.send == stored
