"""Leases: work is claimed for a while, tries are counted, and the fence decides who owns it."""

import msgspec
import pytest

from oncebox.ledger.deliveries import leases
from oncebox.model.deliveries.delivery import DeliveryOutcome, DeliveryState
from tests.support.clerk import DAY, HOUR, LEASE, Clerk, stale


def test_tries_are_counted_when_claimed(clerk: Clerk) -> None:
    id_ = clerk.accept_one().id

    first = clerk.claim_one()
    assert (first.tries, clerk.facts(id_).tries) == (1, 1)

    second = clerk.take_over()
    assert (second.tries, clerk.facts(id_).tries) == (2, 2)


def test_the_fence_rises_with_every_claim(clerk: Clerk) -> None:
    clerk.accept_one()
    fences = [clerk.claim_one().fence]
    fences.append(clerk.take_over().fence)
    taken = clerk.take_over()
    fences.append(taken.fence)
    clerk.fail(taken, wait=0)
    fences.append(clerk.claim_one().fence)

    assert fences == [1, 2, 3, 4]


def test_a_claimed_delivery_is_not_claimed_twice(clerk: Clerk) -> None:
    clerk.accept_one()
    clerk.claim_one()

    assert clerk.claim(worker="ben") == []
    assert clerk.claim_expired() is None


def test_a_claim_records_worker_and_end_of_the_lease(clerk: Clerk) -> None:
    id_ = clerk.accept_one().id
    clerk.claim(worker="cay")

    facts = clerk.facts(id_)
    assert (facts.state, facts.worker, facts.claimed_at) == (
        DeliveryState.PROCESSING,
        "cay",
        clerk.now,
    )
    assert facts.due_at == clerk.now + LEASE


def test_the_oldest_due_is_claimed_first(clerk: Clerk) -> None:
    ids = []
    for number in range(5):
        ids.append(clerk.accept_one(str(number)).id)
        clerk.now += 1

    assert [each.id for each in clerk.claim(most=1)] == [ids[0]]
    assert sorted(each.id for each in clerk.claim(most=2)) == ids[1:3]


def test_a_claim_takes_no_more_than_asked_for(clerk: Clerk) -> None:
    clerk.accept(*(clerk.arrival(str(number)) for number in range(10)))

    assert [len(clerk.claim(most=most)) for most in (3, 0, 4, 100)] == [3, 0, 4, 3]


def test_a_claim_takes_only_what_fits_into_memory(
    clerk: Clerk, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(leases, "_MOST_BYTES", 100)
    for number in range(4):
        clerk.accept(clerk.arrival(str(number), body=bytes(60)))
        clerk.now += 1
    clerk.accept(clerk.arrival("huge", body=bytes(500)))

    assert [len(clerk.claim()) for _ in range(6)] == [1, 1, 1, 1, 1, 0]


def test_a_claim_takes_only_its_own_source(clerk: Clerk) -> None:
    clerk.accept_one("1", source="shop")
    bank = clerk.accept_one("2", source="bank")

    assert [each.id for each in clerk.claim(source="bank")] == [bank.id]


def test_what_is_due_later_is_not_claimed(clerk: Clerk) -> None:
    delivery = clerk.accept_and_claim()
    clerk.fail(delivery, wait=1_000)

    clerk.now += 999
    assert clerk.claim() == []
    clerk.now += 1
    assert clerk.claim_one().id == delivery.id


def test_a_floor_is_only_a_hint(clerk: Clerk) -> None:
    id_ = clerk.accept_one().id
    who = clerk.claimant()

    assert clerk.run(leases.claim_from, who, 10, clerk.now, clerk.now + 1) == ([], True)
    assert [
        each.id for each in clerk.run(leases.claim_from, who, 10, clerk.now, clerk.now).deliveries
    ] == [id_]


def test_a_large_body_is_claimed_whole(clerk: Clerk) -> None:
    bodies = {str(size): bytes([size % 251]) * size for size in (65_535, 65_536, 65_537, 300_000)}
    clerk.accept(*(clerk.arrival(key, body) for key, body in bodies.items()))

    assert {each.key: each.body for each in clerk.claim()} == bodies
    clerk.now += LEASE
    taken = [clerk.claim_expired() for _ in bodies]
    assert {each.key: each.body for each in taken if each} == bodies


def test_a_worker_that_heard_no_answer_finds_what_it_claimed(clerk: Clerk) -> None:
    """The reply to the commit may be lost; the claim must not be."""
    clerk.accept(*(clerk.arrival(str(number), bytes(number * 30_000)) for number in range(4)))
    claimed = clerk.claim(most=3)
    clerk.claim(worker="ben")
    clerk.complete(claimed[0])

    found = clerk.run(leases.leased_to, clerk.claimant())

    assert sorted(found, key=lambda each: each.id) == sorted(claimed[1:], key=lambda each: each.id)
    clerk.now += LEASE
    taken = clerk.claim_expired("cay")
    assert clerk.run(leases.leased_to, clerk.claimant("cay")) == [taken]
    assert clerk.run(leases.leased_to, clerk.claimant("dan")) == []


# renewal


def test_a_renewed_lease_does_not_run_out(clerk: Clerk) -> None:
    delivery = clerk.accept_and_claim()
    clerk.now += LEASE - 1
    assert clerk.renew(delivery) == {delivery.id}

    clerk.now += LEASE - 1
    assert not clerk.has_expired()
    assert clerk.claim_expired() is None


def test_a_lease_that_ran_out_unnoticed_can_still_be_renewed(clerk: Clerk) -> None:
    """Expiry alone never decides ownership; the fence does."""
    delivery = clerk.accept_and_claim()
    clerk.now += 10 * LEASE

    assert clerk.renew(delivery) == {delivery.id}
    assert clerk.claim_expired() is None
    assert clerk.complete(delivery)


def test_a_stale_worker_cannot_renew(clerk: Clerk) -> None:
    first = clerk.accept_and_claim()
    second = clerk.take_over()
    until = clerk.facts(first.id).due_at
    clerk.now += 1

    assert clerk.renew(first) == set()
    assert clerk.facts(first.id).due_at == until
    assert clerk.renew(second) == {first.id}


def test_a_settled_delivery_cannot_be_renewed(clerk: Clerk) -> None:
    delivery = clerk.accept_and_claim()
    clerk.complete(delivery)

    assert clerk.renew(delivery) == set()
    assert clerk.facts(delivery.id).due_at is None


def test_only_the_lost_leases_of_many_are_missing_after_renewal(clerk: Clerk) -> None:
    clerk.accept(*(clerk.arrival(str(number)) for number in range(4)))
    held = clerk.claim()
    clerk.complete(held[1])

    assert clerk.renew(*held) == {held[n].id for n in (0, 2, 3)}


# expiry


def test_an_expired_delivery_is_claimed_alone(clerk: Clerk) -> None:
    clerk.accept(*(clerk.arrival(str(number)) for number in range(3)))
    lost = {each.id for each in clerk.claim()}
    clerk.now += LEASE
    clerk.accept_one("fresh")

    assert [each.key for each in clerk.claim()] == ["fresh"]
    taken = [clerk.claim_expired() for _ in range(4)]

    assert {each.id for each in taken if each} == lost
    assert taken[3] is None


def test_what_was_lost_once_is_claimed_together_and_what_was_lost_twice_is_not(
    clerk: Clerk,
) -> None:
    clerk.accept(*(clerk.arrival(str(number)) for number in range(3)))
    clerk.claim()
    clerk.now += LEASE
    again = clerk.claim_expired()
    clerk.now += LEASE
    clerk.accept_one("fresh")

    together = clerk.claim_lost_once()

    assert again is not None
    assert {each.key for each in together} == {"0", "1", "2"} - {again.key}
    assert [(each.tries, each.fence) for each in together] == [(2, 2)] * 2
    assert clerk.claim_lost_once() == []
    assert clerk.claim_expired() == msgspec.structs.replace(again, fence=3, tries=3)


def test_what_has_one_try_left_is_never_claimed_with_others(clerk: Clerk) -> None:
    """A killer among them would be the end of all."""
    clerk.tries = 2
    clerk.accept(*(clerk.arrival(str(number)) for number in range(3)))
    clerk.claim()
    clerk.now += LEASE

    assert clerk.claim_lost_once() == []
    assert clerk.claim_expired() is not None


def test_no_more_of_what_was_lost_is_claimed_than_there_is_room_for(clerk: Clerk) -> None:
    clerk.accept(*(clerk.arrival(str(number)) for number in range(5)))
    clerk.claim()
    clerk.now += LEASE

    assert len(clerk.claim_lost_once(2)) == 2
    assert len(clerk.claim_lost_once(9)) == 3


def test_a_lease_runs_out_exactly_at_its_end(clerk: Clerk) -> None:
    clerk.accept_and_claim()

    clerk.now += LEASE - 1
    assert (clerk.has_expired(), clerk.claim_expired()) == (False, None)
    clerk.now += 1
    assert clerk.has_expired()
    assert clerk.claim_expired() is not None
    assert not clerk.has_expired()


def test_a_lost_try_stays_on_record(clerk: Clerk) -> None:
    delivery = clerk.accept_and_claim()
    clerk.take_over()
    clerk.take_over("cay")

    tries = clerk.inspect(delivery.id).tries
    assert [(each.fence, each.worker, each.outcome) for each in tries] == [
        (1, "ann", DeliveryOutcome.LOST),
        (2, "ben", DeliveryOutcome.LOST),
    ]


# the last try


def test_work_lost_on_its_last_try_is_buried(clerk: Clerk) -> None:
    clerk.tries = 2
    delivery = clerk.accept_and_claim()
    clerk.take_over()
    clerk.now += LEASE

    assert not clerk.has_expired()
    assert clerk.claim_expired() is None
    assert clerk.bury() == 1

    facts = clerk.facts(delivery.id)
    assert (facts.state, facts.outcome) == (DeliveryState.DEAD, DeliveryOutcome.TRIES_USED_UP)
    assert (facts.due_at, facts.ended_at, facts.tries) == (None, clerk.now, 2)
    assert facts.last_error == "the worker died or froze while handling it"
    lost = [(each.fence, each.outcome) for each in clerk.inspect(delivery.id).tries]
    assert lost == [(1, "lost"), (2, "lost")]
    assert clerk.bury() == 0


def test_a_last_try_under_way_is_not_buried(clerk: Clerk) -> None:
    clerk.tries = 1
    delivery = clerk.accept_and_claim()

    clerk.now += LEASE - 1
    assert clerk.bury() == 0
    clerk.renew(delivery)
    clerk.now += LEASE - 1
    assert clerk.bury() == 0
    assert clerk.complete(delivery)


def test_a_buried_delivery_cannot_be_settled_by_its_worker(clerk: Clerk) -> None:
    clerk.tries = 1
    delivery = clerk.accept_and_claim()
    clerk.now += LEASE
    clerk.bury()

    assert not clerk.complete(delivery)
    assert clerk.state(delivery.id) is DeliveryState.DEAD
    assert (1, "proof") in [(t.fence, t.outcome) for t in clerk.inspect(delivery.id).tries]


def test_many_are_buried_in_bounded_bites(clerk: Clerk, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(leases, "_MOST_DEAD_LETTERED", 4)
    clerk.tries = 1
    clerk.accept(*(clerk.arrival(str(number)) for number in range(10)))
    clerk.claim()
    clerk.now += LEASE

    assert [clerk.bury() for _ in range(4)] == [4, 4, 2, 0]


# the guards


def test_every_claim_is_guarded_by_its_own_statement(clerk: Clerk) -> None:
    """What PostgreSQL locks makes claims faster; what makes them right stands in the update."""
    sql = leases._sql
    lost = clerk.accept_and_claim("lost")
    later = {"worker": "ben", "now": clerk.now, "until": clerk.now + LEASE}

    def run(name: str, row: tuple[object, ...], **shared: object) -> int:
        return clerk.session.run(lambda tx: tx.run_many(getattr(sql, name), [row], **shared))  # type: ignore[arg-type]

    assert run("lease", (lost.id, lost.fence, 0), **later) == 0
    assert run("lease", (lost.id, lost.fence - 1, 0), **later) == 0
    clerk.fail(lost, wait=HOUR)
    assert run("lease", (lost.id, lost.fence, 0), **later) == 0
    clerk.now += HOUR
    later |= {"now": clerk.now, "until": clerk.now + LEASE}
    assert run("lease", (lost.id, lost.fence - 1, 0), **later) == 0
    assert run("lease", (lost.id, lost.fence, 0), **later) == 1
    assert run("bury", (lost.id, lost.fence + 1, "x"), now=clerk.now) == 0
    clerk.now += 2 * HOUR
    assert run("bury", (lost.id, lost.fence, "x"), now=clerk.now) == 0
    assert run("bury", (lost.id, lost.fence + 1, "x"), now=clerk.now) == 1


# the budget of time


def test_the_time_budget_counts_from_the_first_claim(clerk: Clerk) -> None:
    clerk.accept_one()
    clerk.now += 30 * DAY

    delivery = clerk.claim_one()

    assert delivery.give_up_at == clerk.now + clerk.budget


def test_the_time_budget_runs_while_a_failed_try_waits_for_its_turn(clerk: Clerk) -> None:
    delivery = clerk.accept_and_claim()
    clerk.fail(delivery, wait=HOUR)
    clerk.now += HOUR

    assert clerk.claim_one().give_up_at == delivery.give_up_at


def test_the_time_budget_stands_still_while_queued(clerk: Clerk) -> None:
    delivery = clerk.accept_and_claim()
    clerk.fail(delivery, wait=HOUR)
    clerk.now += HOUR + 10 * DAY

    assert clerk.claim_one().give_up_at == delivery.give_up_at + 10 * DAY


def test_the_time_budget_stands_still_while_nobody_works(clerk: Clerk) -> None:
    """A crash, then days without any worker: the time after the lease is nobody's try."""
    delivery = clerk.accept_and_claim()
    clerk.now += LEASE + 10 * DAY

    assert clerk.bury() == 0
    taken = clerk.claim_expired()
    assert taken is not None
    assert taken.give_up_at == delivery.give_up_at + 10 * DAY


def test_work_lost_after_its_time_is_buried(clerk: Clerk) -> None:
    clerk.budget = HOUR
    delivery = clerk.accept_and_claim()
    for _ in range(HOUR // LEASE):
        clerk.now += LEASE - 1
        clerk.renew(delivery)
    clerk.now += LEASE

    assert clerk.claim_expired() is None
    assert clerk.bury() == 1
    assert clerk.facts(delivery.id).outcome == DeliveryOutcome.TIME_USED_UP


def test_the_time_budget_stands_still_while_held_by_a_policy(clerk: Clerk) -> None:
    delivery = clerk.accept_and_claim()
    clerk.now += 1_000
    clerk.stop_for_a_person(delivery)
    clerk.now += 30 * DAY
    clerk.release(delivery.id)

    assert clerk.claim_one().give_up_at == delivery.give_up_at + 30 * DAY


def test_the_time_budget_stands_still_while_held_by_a_person(clerk: Clerk) -> None:
    delivery = clerk.accept_and_claim()
    clerk.fail(delivery, wait=HOUR)
    clerk.now += 1_000
    clerk.hold(delivery.id)
    clerk.now += 30 * DAY
    clerk.release(delivery.id)

    assert clerk.claim_one().give_up_at == delivery.give_up_at + 30 * DAY


def test_the_time_budget_stands_still_while_queued_and_then_held(clerk: Clerk) -> None:
    delivery = clerk.accept_and_claim()
    clerk.fail(delivery, wait=HOUR)
    clerk.now += HOUR + 2 * DAY
    clerk.hold(delivery.id)
    clerk.now += 3 * DAY
    clerk.release(delivery.id)
    clerk.now += 4 * DAY

    assert clerk.claim_one().give_up_at == delivery.give_up_at + 9 * DAY


def test_a_delivery_given_back_uses_up_no_try_and_no_time(clerk: Clerk) -> None:
    delivery = clerk.accept_and_claim()
    assert clerk.give_back(delivery)
    facts = clerk.facts(delivery.id)
    assert (facts.state, facts.tries, facts.due_at) == (DeliveryState.RECEIVED, 0, clerk.now)

    clerk.now += 5 * DAY
    again = clerk.claim_one()
    assert (again.tries, again.fence) == (1, 2)
    assert again.give_up_at == delivery.give_up_at + 5 * DAY


def test_nothing_dies_untried(clerk: Clerk) -> None:
    """Whatever time passes before a first claim, burying never reaches the unclaimed."""
    clerk.tries = 1
    clerk.budget = 1
    clerk.accept(*(clerk.arrival(str(number)) for number in range(3)))
    held = clerk.accept_one("held").id
    clerk.hold(held)

    clerk.now += 3650 * DAY

    assert clerk.bury() == 0
    clerk.release(held)
    assert [each.tries for each in clerk.claim()] == [1, 1, 1, 1]


def test_a_jump_of_the_clock_buries_nothing_that_has_tries_left(clerk: Clerk) -> None:
    clerk.accept(*(clerk.arrival(str(number)) for number in range(5)))
    clerk.claim()

    clerk.now += 3650 * DAY

    assert clerk.bury() == 0
    assert sum(clerk.claim_expired() is not None for _ in range(6)) == 5


def test_a_fence_from_before_cannot_claim_its_way_back(clerk: Clerk) -> None:
    first = clerk.accept_and_claim()
    second = clerk.take_over()

    assert clerk.allow(first, second) == [False, True]
    assert clerk.allow(stale(second)) == [False]
