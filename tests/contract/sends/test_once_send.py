"""Handlers that send: one mail however often they run, and none from what was undone."""

from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from oncebox.errors import KeyInvalid, NotFound, Transient
from oncebox.errors.sends import RecipientMissing, SendKeyConflict
from oncebox.ledger.sends import sends
from oncebox.model.deliveries.delivery import Delivery, DeliveryState
from oncebox.model.sends import intent
from oncebox.model.sends.email import Attachment, Email
from oncebox.model.sends.send import AnswerStatus, OnUnknown, Retention, Send, SendState
from oncebox.schemas.sends import SendAnswer
from oncebox.workers.deliveries.once import Once, SyncOnce
from tests.support.clerk import TENANT
from tests.support.databases import Place
from tests.support.program import SOURCE, Program

MAIL = Email(sender="shop@example.com", to="ann@example.org", subject="Paid", text="Thank you.")
ABOUT: Any = {"event_type": "invoice.receipt", "entity_id": "in_1"}


async def _run(
    place: Place, handler: Callable[[Delivery, Any], Any]
) -> tuple[DeliveryState, list[Send]]:
    program = Program(place)
    program.box.on(SOURCE)(handler)
    async with program.running():
        seen = await program.handled()
        wanted = sends.SendFilter(TENANT)
        found: list[Send] = await program.box.components.database.read(sends.newest, wanted)
        for each in found:
            await program.box.components.outbox.outcomes.wait(each, 30)
        found = await program.box.components.database.read(sends.newest, wanted)
    return seen.delivery.state, found


async def test_a_handler_that_is_repeated_sends_once_and_says_where_from(place: Place) -> None:
    told: list[SendAnswer] = []
    delivered: list[str] = []

    async def handler(delivery: Delivery, once: Once) -> None:
        delivered.append(delivery.id)
        told.append(await once.send(MAIL, **ABOUT, wait=30))
        if delivery.tries < 3:
            raise Transient

    state, (send,) = await _run(place, handler)

    assert state is DeliveryState.DONE
    assert [each.created for each in told] == [True, False, False]
    assert {each.message_id for each in told} == {send.message_id}
    assert send.key.hex() == intent.intent_key("invoice.receipt", "in_1", "ann@example.org", 1)
    assert (send.delivery_id, send.effect) == (delivered[0], "invoice.receipt")
    assert send.state is SendState.LOGGED


async def test_a_plain_handler_sends_as_well(place: Place) -> None:
    told: list[SendAnswer] = []

    def handler(_delivery: Delivery, once: SyncOnce) -> None:
        told.append(once.send(MAIL, name="receipt", wait=30, **ABOUT))

    _, (send,) = await _run(place, handler)

    assert [each.status for each in told] == [AnswerStatus.LOGGED]
    assert send.effect == "receipt"


async def test_a_mail_is_sent_with_the_transaction_that_wrote_it(place: Place) -> None:
    told: list[SendAnswer] = []

    async def handler(delivery: Delivery, once: Once) -> None:
        def work(tx: Any) -> str:
            told.append(once.enqueue(tx, MAIL, **ABOUT))
            return told[-1].id

        id_ = await once.transaction("pay", work)
        assert id_ == told[0].id
        if delivery.tries < 3:
            raise Transient

    state, (send,) = await _run(place, handler)

    assert state is DeliveryState.DONE
    assert [(each.created, each.id) for each in told] == [(True, send.id)]
    assert send.state is SendState.LOGGED


async def test_a_transaction_that_is_undone_sends_nothing(place: Place) -> None:
    async def handler(delivery: Delivery, once: Once) -> None:
        def work(tx: Any) -> None:
            once.enqueue(tx, MAIL, **ABOUT)
            raise Transient

        if delivery.tries < 2:
            await once.transaction("pay", work)

    assert await _run(place, handler) == (DeliveryState.DONE, [])


@pytest.mark.parametrize(
    ("email", "options", "refused"),
    [
        (Email(sender="a@example.com", text="x"), ABOUT, RecipientMissing),
        (MAIL, {}, KeyInvalid),
        (MAIL, {**ABOUT, "transport": "fax"}, NotFound),
        (MAIL, {**ABOUT, "on_unknown": "guess"}, KeyInvalid),
        (MAIL, {**ABOUT, "send_at": datetime(2026, 1, 1)}, KeyInvalid),  # noqa: DTZ001 - its fault
    ],
)
async def test_what_cannot_be_sent_is_refused_and_stores_nothing(
    place: Place, email: Email, options: Any, refused: type[Exception]
) -> None:
    program = Program(place)
    async with program.box:
        with pytest.raises(refused):
            await program.box.send(email, **options)
        wanted = sends.SendFilter(TENANT)
        assert await program.box.components.database.read(sends.newest, wanted) == []


async def test_a_repeat_with_another_attachment_is_refused(place: Place) -> None:
    program = Program(place)
    other = Email(
        sender=MAIL.sender, to=MAIL.to, text="x", attachments=[Attachment(name="a", content=b"a")]
    )
    async with program.box:
        await program.box.send(MAIL, **ABOUT)
        with pytest.raises(SendKeyConflict):
            await program.box.send(other, **ABOUT)


def test_moments_and_words_are_said_as_python_says_them() -> None:
    at = datetime(2026, 11, 16, 12, tzinfo=UTC)
    found = intent.intent_from_options(
        MAIL,
        key="k",
        send_at=at,
        valid_until=int((at + timedelta(hours=1)).timestamp() * 1000),
        on_unknown="resend",
        retention="scheduled",
        interval=3600,
    )
    assert found.valid_until is not None
    assert found.send_at == found.valid_until - 3_600_000
    assert (found.on_unknown, found.retention) == (OnUnknown.RESEND, Retention.SCHEDULED)
    assert found.interval == 3_600_000
