"""Arrivals: written once, however often they come; every repeat counted and classed."""

import msgspec
import pytest

from oncebox.errors import RowRefused
from oncebox.ledger.deliveries import inspections
from oncebox.model.deliveries.delivery import ArrivalKind, DeliveryState
from oncebox.model.deliveries.duplicates import ACK_TIMEOUT_MS, RETRY_SPAN_MS, DuplicateClass
from oncebox.model.deliveries.effects import EffectState
from tests.support.clerk import HOUR, MINUTE, TENANT, VAULT, Clerk


def test_a_new_arrival_is_received_and_due_at_once(clerk: Clerk) -> None:
    accepted = clerk.accept_one("order-1")

    assert (accepted.arrival, accepted.state) == (ArrivalKind.NEW, DeliveryState.RECEIVED)
    assert accepted.duplicate_class is None
    facts = clerk.facts(accepted.id)
    assert (facts.key, facts.variant, facts.due_at) == ("order-1", "", clerk.now)
    assert (facts.tries, facts.fence, facts.give_up_at) == (0, 0, None)


def test_headers_and_body_are_kept_byte_for_byte(clerk: Clerk) -> None:
    headers = (("X-A", "1"), ("x-a", "2"), ("X-A", "ü\u00ff"))
    body = bytes(range(256))
    (accepted,) = clerk.accept(clerk.arrival(body=body, headers=headers))

    assert clerk.run(inspections.payload, VAULT, TENANT, accepted.id) == (headers, body)
    delivery = clerk.claim_one()
    assert (delivery.headers, delivery.body) == (headers, body)


def test_a_duplicate_is_answered_with_the_first_and_its_state(clerk: Clerk) -> None:
    first = clerk.accept_one("order-1")
    delivery = clerk.claim_one()
    during = clerk.accept_one("order-1")
    clerk.complete(delivery)
    after = clerk.accept_one("order-1")

    assert (during.id, during.arrival, during.state) == (
        first.id,
        ArrivalKind.DUPLICATE,
        DeliveryState.PROCESSING,
    )
    assert (after.id, after.arrival, after.state) == (
        first.id,
        ArrivalKind.DUPLICATE,
        DeliveryState.DONE,
    )
    assert len(clerk.all()) == 1


def test_a_redelivery_of_done_work_runs_nothing(clerk: Clerk) -> None:
    clerk.complete(clerk.accept_and_claim())

    clerk.accept_one()

    assert clerk.claim() == []
    assert clerk.all()[0].state is DeliveryState.DONE


def test_duplicates_in_one_batch_are_one_delivery(clerk: Clerk) -> None:
    answers = clerk.accept(*(clerk.arrival("order-1") for _ in range(5)))

    assert [each.arrival for each in answers] == [ArrivalKind.NEW, *[ArrivalKind.DUPLICATE] * 4]
    assert {each.id for each in answers} == {answers[0].id}
    assert clerk.sightings(answers[0].id) == {DuplicateClass.PROVIDER_RETRY: 4}


def test_answers_come_in_the_order_of_the_arrivals(clerk: Clerk) -> None:
    clerk.accept_one("b")
    new = [clerk.arrival(key) for key in ("c", "b", "a", "b", "d")]

    answers = clerk.accept(*new)

    kinds = [each.arrival for each in answers]
    assert kinds == ["new", "duplicate", "new", "duplicate", "new"]
    assert [answers[n].id for n in (0, 2, 4)] == [new[n].id for n in (0, 2, 4)]


def test_every_repeat_is_counted(clerk: Clerk) -> None:
    first = clerk.accept_one()
    for _ in range(3):
        clerk.accept_one()
    clerk.accept(*(clerk.arrival() for _ in range(4)))
    clerk.accept_one(road="poll")

    assert clerk.sightings(first.id) == {
        DuplicateClass.PROVIDER_RETRY: 7,
        DuplicateClass.CROSS_PATH: 1,
    }


def test_a_sighting_keeps_its_first_and_last_time(clerk: Clerk) -> None:
    first = clerk.accept_one()
    clerk.now += 1_000
    clerk.accept_one()
    clerk.now += 1_000
    clerk.accept_one()

    (seen,) = clerk.inspect(first.id).duplicates
    assert (seen.first_at, seen.last_at) == (clerk.now - 1_000, clerk.now)


def test_a_late_acknowledgement_is_seen_as_our_own_fault(clerk: Clerk) -> None:
    clerk.accept(clerk.arrival(received_at=clerk.now - ACK_TIMEOUT_MS))

    assert clerk.accept_one().duplicate_class == DuplicateClass.ACK_TIMEOUT


def test_a_repeat_after_the_providers_retries_is_a_redelivery(clerk: Clerk) -> None:
    clerk.accept_one()
    clerk.now += RETRY_SPAN_MS + 1

    assert clerk.accept_one().duplicate_class == DuplicateClass.REDELIVERY


def test_a_conflicting_body_is_stored_held(clerk: Clerk) -> None:
    first = clerk.accept_one(body=b"one")
    other = clerk.accept_one(body=b"two")

    assert (other.arrival, other.state, other.duplicate_class) == (
        ArrivalKind.CONFLICT,
        DeliveryState.HELD,
        DuplicateClass.CONFLICT,
    )
    assert other.id != first.id
    facts = clerk.facts(other.id)
    assert (facts.state, facts.hold_reason, facts.held_at) == (
        DeliveryState.HELD,
        "conflict",
        clerk.now,
    )
    assert clerk.run(inspections.payload, VAULT, TENANT, other.id)[1] == b"two"
    assert [each.id for each in clerk.claim()] == [first.id]


def test_a_repeated_conflict_is_a_duplicate_of_the_conflict(clerk: Clerk) -> None:
    first = clerk.accept_one(body=b"one")
    other = clerk.accept_one(body=b"two")
    again = clerk.accept_one(body=b"two")
    back = clerk.accept_one(body=b"one")

    assert (again.id, again.arrival, again.state) == (
        other.id,
        ArrivalKind.DUPLICATE,
        DeliveryState.HELD,
    )
    assert (back.id, back.arrival) == (first.id, ArrivalKind.DUPLICATE)
    assert clerk.sightings(first.id) == {
        DuplicateClass.CONFLICT: 2,
        DuplicateClass.PROVIDER_RETRY: 1,
    }
    assert len(clerk.all()) == 2


def test_a_conflict_inside_one_batch_is_stored_held(clerk: Clerk) -> None:
    one, two, two_again, one_again = clerk.accept(
        *(clerk.arrival(body=body) for body in (b"one", b"two", b"two", b"one"))
    )

    assert [each.arrival for each in (one, two, two_again, one_again)] == [
        ArrivalKind.NEW,
        ArrivalKind.CONFLICT,
        ArrivalKind.DUPLICATE,
        ArrivalKind.DUPLICATE,
    ]
    assert (two_again.id, one_again.id) == (two.id, one.id)
    assert {each.id: each.state for each in clerk.all()} == {
        one.id: DeliveryState.RECEIVED,
        two.id: DeliveryState.HELD,
    }


def test_a_released_conflict_runs_beside_the_first(clerk: Clerk) -> None:
    first = clerk.accept_one(body=b"one")
    other = clerk.accept_one(body=b"two")

    clerk.release(other.id)

    assert {each.id: each.body for each in clerk.claim()} == {first.id: b"one", other.id: b"two"}


def test_the_same_key_of_another_source_is_another_delivery(clerk: Clerk) -> None:
    first = clerk.accept_one("1", source="shop")
    other = clerk.accept_one("1", source="bank")

    assert (first.arrival, other.arrival) == (ArrivalKind.NEW, ArrivalKind.NEW)


def test_the_same_key_of_another_tenant_is_another_delivery(clerk: Clerk) -> None:
    mine = clerk.arrival("1")
    theirs = msgspec.structs.replace(clerk.arrival("1"), tenant="other")

    answers = clerk.accept(mine, theirs)

    assert [each.arrival for each in answers] == [ArrivalKind.NEW, ArrivalKind.NEW]
    assert [each.id for each in clerk.claim()] == [mine.id]


def test_keys_are_compared_exactly(clerk: Clerk) -> None:
    keys = ["a", "A", "a ", "ä", "a\u0308", "ß", "ss", "1", "01", "%", "_", "%s", "'", '"', "\\"]

    answers = clerk.accept(*(clerk.arrival(key) for key in keys))

    assert {each.arrival for each in answers} == {ArrivalKind.NEW}
    assert sorted(each.key for each in clerk.all()) == sorted(keys)


def test_a_refused_row_leaves_nothing_of_its_batch(clerk: Clerk) -> None:
    """Halving the batch is the group's work; the verb itself is all or nothing."""
    with pytest.raises(RowRefused):
        clerk.accept(clerk.arrival("good"), clerk.arrival("x" * 513))

    assert clerk.all() == []
    assert clerk.accept_one("good").arrival is ArrivalKind.NEW


# redelivery of failed work


def _fail_for_an_hour(clerk: Clerk, not_before: int | None = None) -> str:
    delivery = clerk.accept_and_claim()
    clerk.fail(delivery, wait=HOUR, not_before=not_before)
    return delivery.id


def test_a_redelivery_brings_failed_work_forward(clerk: Clerk) -> None:
    id_ = _fail_for_an_hour(clerk)

    assert clerk.accept_one().state is DeliveryState.FAILED

    assert [each.id for each in clerk.claim()] == [id_]


def test_failed_work_is_brought_forward_at_most_once_a_minute(clerk: Clerk) -> None:
    id_ = _fail_for_an_hour(clerk)
    clerk.accept_one()
    clerk.fail(clerk.claim_one(), wait=HOUR)

    clerk.now += MINUTE - 1
    clerk.accept_one()
    assert clerk.claim() == []

    clerk.now += 1
    clerk.accept_one()
    assert [each.id for each in clerk.claim()] == [id_]


def test_failed_work_is_never_brought_before_what_its_failure_asked_for(clerk: Clerk) -> None:
    id_ = _fail_for_an_hour(clerk, not_before=clerk.now + 10 * MINUTE)

    clerk.now += 10 * MINUTE - 1
    clerk.accept_one()
    assert clerk.claim() == []

    clerk.now += 1
    clerk.accept_one()
    assert [each.id for each in clerk.claim()] == [id_]


def test_a_redelivery_never_puts_failed_work_off(clerk: Clerk) -> None:
    delivery = clerk.accept_and_claim()
    clerk.fail(delivery, wait=1_000)
    due_at = clerk.now + 1_000
    clerk.now += 5_000

    clerk.accept_one()

    assert clerk.facts(delivery.id).due_at == due_at


def test_a_source_may_only_count_redeliveries(clerk: Clerk) -> None:
    failed = clerk.accept_and_claim("failed")
    clerk.fail(failed, wait=HOUR)
    dead = clerk.accept_and_claim("dead")
    clerk.give_up(dead)

    clerk.accept_one("failed", redelivery="count")
    clerk.accept_one("dead", redelivery="count")

    assert clerk.claim() == []
    assert clerk.state(dead.id) is DeliveryState.DEAD
    assert clerk.sightings(failed.id) == {DuplicateClass.PROVIDER_RETRY: 1}
    assert clerk.sightings(dead.id) == {DuplicateClass.REDELIVERY: 1}


def test_a_conflicting_body_brings_no_work_forward_or_back(clerk: Clerk) -> None:
    failed = clerk.accept_and_claim("failed")
    clerk.fail(failed, wait=HOUR)
    dead = clerk.accept_and_claim("dead")
    clerk.give_up(dead)

    clerk.accept_one("failed", b"other")
    clerk.accept_one("dead", b"other")

    assert clerk.claim() == []
    assert clerk.state(dead.id) is DeliveryState.DEAD


# redelivery of dead work


def test_a_redelivery_brings_dead_work_back_with_fresh_tries(clerk: Clerk) -> None:
    delivery = clerk.accept_and_claim()
    clerk.give_up(delivery)

    answer = clerk.accept_one()

    assert (answer.state, answer.duplicate_class) == (DeliveryState.DEAD, DuplicateClass.REDELIVERY)
    facts = clerk.facts(delivery.id)
    assert (facts.state, facts.tries, facts.rearms, facts.late) == (
        DeliveryState.RECEIVED,
        0,
        1,
        True,
    )
    assert (facts.give_up_at, facts.ended_at, facts.outcome) == (None, None, None)
    again = clerk.claim_one()
    assert (again.id, again.tries, again.fence) == (delivery.id, 1, delivery.fence + 1)


def test_dead_work_is_brought_back_at_most_three_times(clerk: Clerk) -> None:
    id_ = clerk.accept_one().id
    rounds = []
    for _ in range(10):
        due = clerk.claim()
        rounds.append(len(due))
        if due:
            clerk.give_up(due[0])
            clerk.accept_one()

    assert rounds == [1] * 4 + [0] * 6
    assert (clerk.state(id_), clerk.facts(id_).rearms) == (DeliveryState.DEAD, 3)


def test_a_dead_conflict_is_never_brought_back(clerk: Clerk) -> None:
    clerk.complete(clerk.accept_and_claim())
    other = clerk.accept_one(body=b"other")
    clerk.release(other.id)
    clerk.give_up(clerk.claim_one())

    clerk.accept_one(body=b"other")

    assert clerk.state(other.id) is DeliveryState.DEAD


def test_dead_work_is_never_rearmed_past_an_unknown_effect(clerk: Clerk) -> None:
    delivery = clerk.accept_and_claim()
    clerk.begin(delivery)
    clerk.finish(delivery, EffectState.UNKNOWN)
    clerk.give_up(delivery)

    clerk.accept_one()

    assert clerk.state(delivery.id) is DeliveryState.DEAD


def test_the_try_before_a_redelivery_stays_on_record(clerk: Clerk) -> None:
    delivery = clerk.accept_and_claim()
    clerk.give_up(delivery)

    clerk.accept_one()

    assert [(each.fence, each.outcome) for each in clerk.inspect(delivery.id).tries] == [
        (1, "permanent")
    ]
