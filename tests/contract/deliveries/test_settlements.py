"""Settlements: how tries end. A stale worker changes nothing; it may only add proof."""

import msgspec
import pytest

from oncebox.errors import RowRefused
from oncebox.model.deliveries.delivery import DeliveryOutcome, DeliveryState, Settlement
from tests.support.clerk import HOUR, Clerk, dead, done, failed, given_back, held, stale


def test_a_completed_delivery_is_done(clerk: Clerk) -> None:
    delivery = clerk.accept_and_claim()
    clerk.now += 5

    assert clerk.complete(delivery)

    facts = clerk.facts(delivery.id)
    assert (facts.state, facts.outcome, facts.ended_at) == (
        DeliveryState.DONE,
        "handled",
        clerk.now,
    )
    assert (facts.due_at, facts.fence, facts.tries) == (None, 1, 1)
    assert clerk.claim() == []


@pytest.mark.parametrize(
    "outcome", [DeliveryOutcome.HANDLED, DeliveryOutcome.IGNORED, DeliveryOutcome.DROPPED]
)
def test_a_good_end_says_which_it_was(clerk: Clerk, outcome: DeliveryOutcome) -> None:
    delivery = clerk.accept_and_claim()

    assert clerk.settle(done(delivery, outcome)) == [True]

    assert clerk.facts(delivery.id).outcome == outcome


def test_a_failed_try_waits_and_is_on_record(clerk: Clerk) -> None:
    delivery = clerk.accept_and_claim()

    assert clerk.settle(failed(delivery, clerk.now + 700, not_before=clerk.now + 500)) == [True]

    facts = clerk.facts(delivery.id)
    assert (facts.state, facts.due_at, facts.last_error) == (
        DeliveryState.FAILED,
        clerk.now + 700,
        "boom",
    )
    assert facts.not_before == clerk.now + 500
    (tried,) = clerk.inspect(delivery.id).tries
    assert (tried.fence, tried.outcome, tried.error, tried.worker) == (1, "failed", "boom", "ann")


def test_a_try_given_up_ends_the_delivery(clerk: Clerk) -> None:
    delivery = clerk.accept_and_claim()

    assert clerk.settle(dead(delivery, DeliveryOutcome.TRIES_USED_UP)) == [True]

    facts = clerk.facts(delivery.id)
    assert (facts.state, facts.outcome, facts.ended_at) == (
        DeliveryState.DEAD,
        "tries_used_up",
        clerk.now,
    )
    assert (facts.due_at, facts.last_error) == (None, "hopeless")


def test_a_held_try_says_why(clerk: Clerk) -> None:
    delivery = clerk.accept_and_claim()

    assert clerk.settle(held(delivery, "policy: too much money")) == [True]

    facts = clerk.facts(delivery.id)
    assert (facts.state, facts.hold_reason) == (DeliveryState.HELD, "policy: too much money")
    assert (facts.held_at, facts.due_at, facts.ended_at) == (clerk.now, None, None)


def test_a_delivery_cannot_be_held_without_a_reason(clerk: Clerk) -> None:
    delivery = clerk.accept_and_claim()
    silent = Settlement(delivery=delivery, state=DeliveryState.HELD, outcome=DeliveryOutcome.HELD)

    with pytest.raises(RowRefused):
        clerk.settle(silent)

    assert clerk.state(delivery.id) is DeliveryState.PROCESSING


def test_the_reason_of_a_drop_stays_on_record(clerk: Clerk) -> None:
    delivery = clerk.accept_and_claim()
    dropped = Settlement(
        delivery=delivery,
        state=DeliveryState.DONE,
        outcome=DeliveryOutcome.DROPPED,
        error="policy: spam",
    )

    assert clerk.settle(dropped) == [True]

    facts = clerk.facts(delivery.id)
    assert (facts.state, facts.outcome, facts.last_error) == (
        DeliveryState.DONE,
        "dropped",
        "policy: spam",
    )
    assert facts.ended_at == clerk.now


def test_a_later_end_forgets_the_hold_of_an_earlier_one(clerk: Clerk) -> None:
    delivery = clerk.accept_and_claim()
    clerk.stop_for_a_person(delivery)
    clerk.release(delivery.id)
    clerk.complete(clerk.claim_one())

    facts = clerk.facts(delivery.id)
    assert (facts.hold_reason, facts.held_at) == (None, None)


# the fence


@pytest.mark.parametrize("end", [done, dead, held])
def test_a_stale_worker_cannot_settle(clerk: Clerk, end: object) -> None:
    first = clerk.accept_and_claim()
    second = clerk.take_over()
    before = clerk.facts(first.id)

    assert callable(end)
    assert clerk.settle(end(first)) == [False]
    assert clerk.facts(first.id) == before
    assert clerk.complete(second)


def test_a_stale_worker_cannot_fail_or_give_back(clerk: Clerk) -> None:
    first = clerk.accept_and_claim()
    clerk.take_over()
    before = clerk.facts(first.id)

    assert clerk.settle(failed(first, clerk.now)) == [False]
    assert clerk.settle(given_back(first, clerk.now)) == [False]
    assert clerk.facts(first.id) == before


def test_a_stale_worker_may_only_add_proof(clerk: Clerk) -> None:
    first = clerk.accept_and_claim()
    clerk.take_over()

    assert not clerk.complete(first)

    tries = [(each.fence, each.outcome) for each in clerk.inspect(first.id).tries]
    assert sorted(tries) == [(1, "lost"), (1, "proof")]


def test_proof_is_kept_once_however_often_it_comes(clerk: Clerk) -> None:
    first = clerk.accept_and_claim()
    clerk.take_over()

    assert [clerk.complete(first) for _ in range(3)] == [False] * 3
    assert [each.outcome for each in clerk.inspect(first.id).tries].count("proof") == 1


def test_a_stale_failure_leaves_no_proof(clerk: Clerk) -> None:
    first = clerk.accept_and_claim()
    clerk.take_over()

    clerk.fail(first)
    clerk.give_up(first)

    assert [each.outcome for each in clerk.inspect(first.id).tries] == ["lost"]


def test_a_worker_from_the_future_cannot_settle(clerk: Clerk) -> None:
    delivery = clerk.accept_and_claim()

    assert not clerk.complete(stale(delivery, by=-1))
    assert clerk.state(delivery.id) is DeliveryState.PROCESSING


def test_stale_and_current_settlements_share_a_batch_without_harm(clerk: Clerk) -> None:
    first = clerk.accept_and_claim()
    second = clerk.take_over()

    assert clerk.settle(done(first), failed(second, clerk.now + HOUR)) == [False, True]

    assert clerk.state(first.id) is DeliveryState.FAILED
    assert (1, "proof") in [(t.fence, t.outcome) for t in clerk.inspect(first.id).tries]


def test_a_batch_settles_each_by_its_own_word(clerk: Clerk) -> None:
    clerk.accept(*(clerk.arrival(str(number)) for number in range(6)))
    a, b, c, d, e, f = sorted(clerk.claim(), key=lambda each: each.key)

    answers = clerk.settle(
        done(a),
        failed(b, clerk.now + HOUR),
        dead(c),
        held(d),
        given_back(e, clerk.now),
        done(stale(f)),
    )

    assert answers == [True] * 5 + [False]
    assert [clerk.state(each.id) for each in (a, b, c, d, e, f)] == [
        DeliveryState.DONE,
        DeliveryState.FAILED,
        DeliveryState.DEAD,
        DeliveryState.HELD,
        DeliveryState.RECEIVED,
        DeliveryState.PROCESSING,
    ]


# a lost reply to the commit


def test_a_settlement_repeated_after_a_lost_reply_counts(clerk: Clerk) -> None:
    for end in (done, dead, held, lambda each: failed(each, clerk.now + HOUR)):
        delivery = clerk.accept_and_claim(key=repr(end))
        ending = end(delivery)
        assert clerk.settle(ending) == [True]
        before = clerk.facts(delivery.id)

        assert clerk.settle(ending) == [True]

        assert clerk.facts(delivery.id) == before
        assert len(clerk.inspect(delivery.id).tries) == (
            0 if ending.state is DeliveryState.DONE else 1
        )


def test_a_delivery_given_back_twice_is_counted_back_once(clerk: Clerk) -> None:
    clerk.accept_one()
    clerk.fail(clerk.claim_one(), wait=0)
    delivery = clerk.claim_one()
    assert (clerk.give_back(delivery), clerk.give_back(delivery)) == (True, True)

    assert clerk.facts(delivery.id).tries == 1


def test_another_end_than_the_one_committed_does_not_count(clerk: Clerk) -> None:
    delivery = clerk.accept_and_claim()
    clerk.fail(delivery, wait=HOUR)

    assert not clerk.give_up(delivery)
    assert not clerk.stop_for_a_person(delivery)
    assert clerk.state(delivery.id) is DeliveryState.FAILED
    assert [each.outcome for each in clerk.inspect(delivery.id).tries] == ["failed"]
    assert not clerk.complete(delivery)
    assert clerk.state(delivery.id) is DeliveryState.FAILED


def test_an_end_repeated_after_the_delivery_went_on_changes_nothing(clerk: Clerk) -> None:
    delivery = clerk.accept_and_claim()
    clerk.fail(delivery, wait=0)
    again = clerk.claim_one("ben")

    assert not clerk.fail(delivery, wait=0)
    assert clerk.facts(delivery.id).fence == again.fence
    assert clerk.complete(again)


def test_an_unknown_delivery_cannot_be_settled(clerk: Clerk) -> None:
    delivery = clerk.accept_and_claim()
    ghost = msgspec.structs.replace(delivery, id="dlv_ghost")

    assert clerk.settle(done(ghost), dead(ghost)) == [False, False]


# the policy's word


def test_a_policys_word_is_kept_for_later_tries(clerk: Clerk) -> None:
    delivery = clerk.accept_and_claim()
    assert delivery.policy is None

    assert clerk.allow(delivery) == [True]

    assert clerk.take_over().policy == "allowed"


def test_a_stale_worker_cannot_record_a_policys_word(clerk: Clerk) -> None:
    first = clerk.accept_and_claim()
    second = clerk.take_over()

    assert clerk.allow(first) == [False]
    assert clerk.facts(first.id).policy is None
    assert clerk.allow(first, second) == [False, True]
