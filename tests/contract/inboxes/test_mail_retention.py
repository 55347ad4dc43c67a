"""Retention of mail: raw bytes, what was read, and journals go in that order; keys stay."""

import pytest

from oncebox.errors import NotFound
from oncebox.ledger import maintenance
from oncebox.ledger import maintenance as emptying
from oncebox.ledger.deliveries import operations
from oncebox.ledger.inboxes import messages
from oncebox.model.deliveries.delivery import (
    ArrivalKind,
    CommitHook,
    Delivery,
    DeliveryOutcome,
    DeliveryState,
    Settlement,
)
from oncebox.model.deliveries.effects import EffectState
from oncebox.model.inboxes.received_mail import MAIL_SOURCE
from tests.support.clerk import DAY, TENANT, VAULT, Clerk
from tests.support.letters import FILE, Mailroom, mail, posted


@pytest.fixture
def room(clerk: Clerk) -> Mailroom:
    """A ledger with one inbox."""
    return Mailroom(clerk)


def _filed(room: Mailroom, raw: bytes) -> tuple[Delivery, str]:
    (delivery,) = room.claimed(raw)
    filing = room.filing(delivery)
    ending = Settlement(
        delivery=delivery,
        state=DeliveryState.DONE,
        outcome=DeliveryOutcome.HANDLED,
        commit_hook=CommitHook(FILE, filing),
    )
    room.clerk.settle(ending)
    return delivery, filing.message_id


def _purge_raw(clerk: Clerk, days: int) -> int:
    cutoffs = {(maintenance.ANY_TENANT, MAIL_SOURCE): clerk.now - days * DAY}
    return clerk.purge_bodies(cutoffs)


def _empty(clerk: Clerk, days: int, after: str = "", most: int = 500) -> emptying.EmptiedMessages:
    return clerk.run(emptying.empty_messages, clerk.now - days * DAY, clerk.now, after, most)


def test_raw_mail_goes_after_its_time_and_its_key_stays(room: Mailroom) -> None:
    raw = mail()
    _delivery, message = _filed(room, raw)
    room.clerk.now += 30 * DAY - 1
    assert _purge_raw(room.clerk, 30) == 0

    room.clerk.now += 1
    assert _purge_raw(room.clerk, 30) == 1
    with pytest.raises(NotFound, match="no longer kept"):
        room.clerk.run(messages.raw, VAULT, TENANT, message)
    (again,) = room.clerk.accept(*posted(raw, "inb_1"))
    assert again.arrival is ArrivalKind.DUPLICATE
    assert room.clerk.run(messages.get, VAULT, TENANT, message).document is not None


def test_what_was_read_goes_after_its_time_and_the_message_stays(room: Mailroom) -> None:
    _delivery, message = _filed(room, mail())
    room.clerk.now += 90 * DAY - 1
    assert _empty(room.clerk, 90).documents == 0

    room.clerk.now += 1
    assert _empty(room.clerk, 90).documents == 1
    whole = room.clerk.run(messages.get, VAULT, TENANT, message)
    assert (whole.document, whole.message.document_size, whole.message.sequence) == (None, 0, 1)


def test_a_copy_of_a_message_that_is_empty_is_still_a_copy(room: Mailroom) -> None:
    _delivery, message = _filed(room, mail())
    room.clerk.now += 90 * DAY
    _empty(room.clerk, 90)
    _filed(room, mail(more=["Received: late"]))

    whole = room.clerk.run(messages.get, VAULT, TENANT, message)
    assert (whole.message.duplicates, [each.differs for each in whole.copies]) == (1, [(), ()])


def test_emptying_goes_on_where_it_stopped(room: Mailroom) -> None:
    for number in range(5):
        _filed(room, mail(message_id=f"<{number}@x>"))
    room.clerk.now += DAY
    _filed(room, mail(message_id="<young@x>"))
    first = _empty(room.clerk, 1, most=3)
    second = _empty(room.clerk, 1, first.after, most=3)
    third = _empty(room.clerk, 1, second.after, most=3)

    assert [(each.documents, each.has_more) for each in (first, second, third)] == [
        (3, True),
        (2, False),
        (0, False),
    ]


def test_a_message_whose_delivery_is_held_keeps_everything(room: Mailroom) -> None:
    delivery, _message = _filed(room, mail())
    room.clerk.replay(delivery.id)
    room.clerk.hold(delivery.id)
    room.clerk.now += 900 * DAY

    assert _purge_raw(room.clerk, 30) == 0
    assert _empty(room.clerk, 30).documents == 0


def test_dead_mail_is_kept_until_a_person_has_seen_it(room: Mailroom) -> None:
    (delivery,) = room.claimed(mail())
    room.clerk.give_up(delivery)
    room.clerk.now += 900 * DAY
    assert _purge_raw(room.clerk, 30) == 0

    room.clerk.run(operations.mark_seen, delivery.id, room.clerk.deed())
    assert _purge_raw(room.clerk, 30) == 1


# journals


def _journals(clerk: Clerk, days: int) -> int:
    return clerk.run(maintenance.purge_journals, clerk.now - days * DAY).rows


def _done(clerk: Clerk, state: EffectState = EffectState.DONE) -> Delivery:
    delivery = clerk.accept_and_claim()
    clerk.fail(delivery, wait=0)
    (delivery,) = clerk.claim()
    clerk.begin(delivery)
    clerk.finish(delivery, state)
    clerk.complete(delivery)
    return delivery


def test_a_journal_is_never_gone_before_its_body(clerk: Clerk) -> None:
    delivery = _done(clerk)
    clerk.now += 900 * DAY
    assert _journals(clerk, 30) == 0
    assert set(clerk.journal(delivery.id)) == {"charge"}

    clerk.purge_bodies({(TENANT, delivery.source): clerk.now})
    assert _journals(clerk, 30) == 2
    assert clerk.journal(delivery.id) == {}
    assert clerk.inspect(delivery.id).tries == []
    assert clerk.state(delivery.id) is DeliveryState.DONE


def test_a_journal_stays_for_its_time(clerk: Clerk) -> None:
    delivery = _done(clerk)
    clerk.now += 10 * DAY
    clerk.purge_bodies({(TENANT, delivery.source): clerk.now})

    assert _journals(clerk, 30) == 0


def test_the_journal_of_an_effect_in_doubt_stays(clerk: Clerk) -> None:
    delivery = _done(clerk, EffectState.UNKNOWN)
    clerk.now += 900 * DAY
    clerk.purge_bodies({(TENANT, delivery.source): clerk.now})

    assert _journals(clerk, 30) == 0
    assert clerk.journal(delivery.id)["charge"].state is EffectState.UNKNOWN
