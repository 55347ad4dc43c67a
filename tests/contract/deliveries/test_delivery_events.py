"""Notices: a delivery that dies or is held is told of, once, in the commit that ends it."""

import pytest

from oncebox.db.database import Transaction
from oncebox.ledger.deliveries import settlements
from oncebox.model.deliveries.delivery import DeliveryOutcome, DeliveryState, Settlement
from oncebox.model.events import Event
from tests.support import clerk as by_hand
from tests.support import events
from tests.support.clerk import Clerk


def _told(clerk: Clerk) -> list[Event]:
    clerk.run(events.number_all)
    return clerk.run(events.read)


def test_a_delivery_that_dies_is_told_of_with_typed_fields_only(clerk: Clerk) -> None:
    delivery = clerk.accept_and_claim()
    clerk.give_up(delivery)

    (told,) = _told(clerk)

    assert (told.type, told.subject_id, told.at) == ("delivery.dead", delivery.id, clerk.now)
    assert told.data == {"source": "shop", "outcome": "permanent", "tries": 1}
    assert told.inbox_id is None


def test_a_delivery_that_is_held_is_told_of_without_the_reason_somebody_wrote(
    clerk: Clerk,
) -> None:
    delivery = clerk.accept_and_claim()
    clerk.stop_for_a_person(delivery, "the customer wrote: ignore all rules")

    (told,) = _told(clerk)

    assert (told.type, told.subject_id) == ("delivery.held", delivery.id)
    assert told.data == {"source": "shop", "outcome": "held", "tries": 1}


def test_deliveries_that_end_otherwise_are_not_told_of(clerk: Clerk) -> None:
    for key, end in (("1", clerk.complete), ("2", clerk.fail), ("3", clerk.give_back)):
        delivery = clerk.accept_and_claim(key)
        end(delivery)
        if key != "1":
            clerk.now += by_hand.HOUR
            clerk.complete(clerk.claim_one())

    assert _told(clerk) == []


def test_a_stale_worker_tells_nothing(clerk: Clerk) -> None:
    delivery = clerk.accept_and_claim()
    clerk.take_over()

    assert not clerk.give_up(delivery)
    assert _told(clerk) == []


def test_a_settlement_that_is_repeated_after_a_lost_reply_tells_nothing_twice(
    clerk: Clerk,
) -> None:
    delivery = clerk.accept_and_claim()

    assert clerk.give_up(delivery)
    assert clerk.give_up(delivery)
    assert len(_told(clerk)) == 1


def test_a_delivery_that_was_lost_on_its_last_try_is_told_of(clerk: Clerk) -> None:
    clerk.tries = 1
    delivery = clerk.accept_and_claim()
    clerk.now += by_hand.LEASE

    assert clerk.bury() == 1
    (told,) = _told(clerk)
    assert (told.type, told.subject_id) == ("delivery.dead", delivery.id)
    assert told.data["outcome"] == DeliveryOutcome.TRIES_USED_UP


def test_the_end_and_the_notice_are_one_commit(clerk: Clerk) -> None:
    delivery = clerk.accept_and_claim()

    def interrupted(tx: Transaction) -> None:
        ending = Settlement(
            delivery=delivery, state=DeliveryState.DEAD, outcome=DeliveryOutcome.PERMANENT
        )
        settlements.settle(tx, [ending], clerk.now)
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        clerk.run(interrupted)

    assert clerk.state(delivery.id) is DeliveryState.PROCESSING
    assert _told(clerk) == []


def test_a_delivery_held_on_arrival_is_told_of_once(clerk: Clerk) -> None:
    clerk.accept_one("1", b"first")
    clerk.accept_one("2", b"unsigned", unsigned=True)

    conflict = clerk.accept_one("1", b"other").id
    replay = clerk.accept_one("3", b"unsigned", unsigned=True).id
    late = clerk.accept_one("4", b"late", hold_reason="late", verdict="late").id
    clerk.accept_one("1", b"other")
    clerk.accept_one("4", b"late", hold_reason="late", verdict="late")
    told = _told(clerk)

    assert [(each.type, each.subject_id) for each in told] == [
        ("delivery.held", id_) for id_ in (conflict, replay, late)
    ]
    assert [each.data for each in told] == [
        {"source": "shop", "outcome": "held", "tries": 0} for _ in told
    ]


def test_a_replay_that_may_run_or_is_dropped_is_not_told_of_as_held(clerk: Clerk) -> None:
    clerk.accept_one("1", b"unsigned", unsigned=True)
    for key, policy in (("2", "run"), ("3", "drop")):
        clerk.accept_one(key, b"unsigned", unsigned=True, on_replay=policy)

    assert _told(clerk) == []
