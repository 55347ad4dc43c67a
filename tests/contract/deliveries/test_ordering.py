"""Ordering inside a lane: by number, and one type after another, with bounded waits."""

import threading
from collections import defaultdict
from collections.abc import Callable
from random import Random
from threading import Barrier, Event, Thread

import msgspec
import pytest

from oncebox.ledger.deliveries import deduplication, leases, operations, settlements
from oncebox.model.deliveries.delivery import (
    Delivery,
    DeliveryOutcome,
    DeliveryState,
    LaneRules,
    NewDelivery,
)
from tests.support.clerk import HOUR, LEASE, MINUTE, Clerk, done
from tests.support.databases import Place
from tests.support.interleaved import Running, Slow, interleave, wait_for_a_lock

LANE = "order-1"
SKIP = LaneRules(stale="skip", gap_wait=MINUTE)
RUN = LaneRules(stale="run", gap_wait=MINUTE)
AFTER = LaneRules(after={"job.completed": "job.started"}, after_wait=MINUTE)


def _number(clerk: Clerk, number: int | None, rules: LaneRules = SKIP) -> NewDelivery:
    return clerk.numbered(f"n{number}", number, rules=rules, lane=LANE)


def _accept(clerk: Clerk, *numbers: int, rules: LaneRules = SKIP) -> list[str]:
    return [clerk.accept(_number(clerk, number, rules))[0].id for number in numbers]


def _type(clerk: Clerk, type_: str, key: str | None = None, rules: LaneRules = AFTER) -> str:
    new = clerk.numbered(key or type_, None, rules=rules, lane=LANE, type_=type_)
    return clerk.accept(new)[0].id


def _ran(clerk: Clerk) -> list[str]:
    """Complete whatever is due, one after the other; return the keys."""
    ran = []
    while due := clerk.claim():
        assert len(due) == 1
        ran.append(due[0].key)
        clerk.complete(due[0])
    return ran


def _only(clerk: Clerk) -> Delivery:
    (delivery,) = clerk.claim()
    return delivery


# numbers


def test_numbers_run_from_the_lowest_up_whatever_order_they_come_in(clerk: Clerk) -> None:
    _accept(clerk, 3, 1, 2)

    assert _ran(clerk) == ["n1", "n2", "n3"]


def test_numbers_that_come_together_run_from_the_lowest_up(clerk: Clerk) -> None:
    clerk.accept(*(_number(clerk, number) for number in (4, 2, 3, 1)))

    assert _ran(clerk) == ["n1", "n2", "n3", "n4"]


def test_a_gap_is_waited_for_and_says_so(clerk: Clerk) -> None:
    _accept(clerk, 1)
    _ran(clerk)
    (third,) = _accept(clerk, 3)

    assert clerk.claim() == []
    facts = clerk.facts(third)
    assert (facts.waits_for, facts.due_at) == ("number 2", clerk.now + MINUTE)
    assert clerk.inspect(third).next_action.startswith("wait for number 2:")


def test_a_gap_that_is_filled_is_over(clerk: Clerk) -> None:
    _accept(clerk, 1)
    _ran(clerk)
    _accept(clerk, 3, 2)

    assert _ran(clerk) == ["n2", "n3"]


def test_a_gap_is_waited_for_no_longer_than_its_bound(clerk: Clerk) -> None:
    _accept(clerk, 1)
    _ran(clerk)
    (third,) = _accept(clerk, 3)

    clerk.now += MINUTE - 1
    assert clerk.claim() == []
    clerk.now += 1
    assert _only(clerk).id == third


def test_without_a_bound_a_gap_is_not_waited_for(clerk: Clerk) -> None:
    _accept(clerk, 1, 5, rules=LaneRules())

    assert _ran(clerk) == ["n1", "n5"]


def test_a_lane_of_which_nothing_is_known_begins_at_one(clerk: Clerk) -> None:
    (second,) = _accept(clerk, 2)

    assert clerk.facts(second).waits_for == "number 1"
    clerk.now += MINUTE
    assert _only(clerk).id == second


def test_a_number_below_the_highest_done_is_skipped_as_stale(clerk: Clerk) -> None:
    _accept(clerk, 1)
    _ran(clerk)
    (third,) = _accept(clerk, 3)
    clerk.now += MINUTE
    clerk.complete(_only(clerk))

    (answer,) = clerk.accept(_number(clerk, 2))

    assert answer.state is DeliveryState.DONE
    facts = clerk.facts(answer.id)
    assert (facts.state, facts.outcome, facts.ended_at) == (DeliveryState.DONE, "stale", clerk.now)
    assert facts.tries == 0
    assert clerk.claim() == []
    assert clerk.state(third) is DeliveryState.DONE


def test_a_stale_number_runs_where_the_source_says_so_and_is_marked_late(clerk: Clerk) -> None:
    _accept(clerk, 5, rules=LaneRules(stale="run"))
    _ran(clerk)

    _accept(clerk, 4, rules=LaneRules(stale="run"))

    stale = _only(clerk)
    assert (stale.key, stale.sequence, stale.late) == ("n4", 4, True)


def test_the_same_number_twice_is_not_stale(clerk: Clerk) -> None:
    _accept(clerk, 1)
    _ran(clerk)
    again = msgspec.structs.replace(_number(clerk, 1), key="again")
    clerk.accept(again)

    assert _ran(clerk) == ["again"]


def test_what_was_begun_is_not_overtaken(clerk: Clerk) -> None:
    _accept(clerk, 1)
    _ran(clerk)
    (third,) = _accept(clerk, 3)
    clerk.now += MINUTE
    begun = _only(clerk)

    (second,) = _accept(clerk, 2)
    assert clerk.claim() == []
    clerk.fail(begun, wait=HOUR)
    assert clerk.claim() == []
    clerk.now += HOUR
    assert _only(clerk).id == third
    assert clerk.state(second) is DeliveryState.RECEIVED


@pytest.mark.parametrize("end", [Clerk.give_back, Clerk.stop_for_a_person])
def test_what_is_given_back_or_held_lets_a_lower_number_go_first(
    clerk: Clerk, end: Callable[[Clerk, Delivery], bool]
) -> None:
    _accept(clerk, 2, rules=LaneRules())
    begun = _only(clerk)
    _accept(clerk, 1, rules=LaneRules())

    assert end(clerk, begun)

    assert _only(clerk).key == "n1"


def test_what_is_due_but_not_begun_is_overtaken(clerk: Clerk) -> None:
    _accept(clerk, 2, rules=LaneRules())
    _accept(clerk, 1, rules=LaneRules())

    assert _ran(clerk) == ["n1", "n2"]


def test_the_waiting_go_on_when_one_before_them_dies(clerk: Clerk) -> None:
    """A dead number is not done, so what comes after it waits out its gap."""
    _accept(clerk, 1, 2)
    clerk.give_up(_only(clerk))

    clerk.now += MINUTE
    assert _ran(clerk) == ["n2"]


def test_a_dead_number_that_comes_back_too_late_is_stale(clerk: Clerk) -> None:
    first, _second = _accept(clerk, 1, 2)
    clerk.give_up(_only(clerk))
    clerk.now += MINUTE
    _ran(clerk)

    clerk.accept(_number(clerk, 1))

    facts = clerk.facts(first)
    assert (facts.state, facts.outcome, facts.rearms) == (DeliveryState.DONE, "stale", 1)


def test_a_person_runs_what_is_stale(clerk: Clerk) -> None:
    _accept(clerk, 5, rules=LaneRules(stale="skip"))
    _ran(clerk)
    (stale,) = _accept(clerk, 4)
    assert clerk.state(stale) is DeliveryState.DONE

    clerk.replay(stale)

    assert _only(clerk).id == stale


def test_a_held_number_holds_those_above_it(clerk: Clerk) -> None:
    first, _second = _accept(clerk, 1, 2)
    clerk.hold(first)
    assert clerk.claim() == []

    clerk.release(first)
    assert _ran(clerk) == ["n1", "n2"]


def test_a_dropped_number_counts_as_done_for_those_above_it(clerk: Clerk) -> None:
    (first, _second) = _accept(clerk, 1, 2)
    clerk.hold(first)

    clerk.drop(first)

    assert _ran(clerk) == ["n2"]


def test_a_dropped_predecessor_is_not_waited_for(clerk: Clerk) -> None:
    started = _type(clerk, "job.started")
    clerk.hold(started)
    _type(clerk, "job.completed")

    clerk.drop(started)

    assert _ran(clerk) == ["job.completed"]


def test_a_lane_without_numbers_goes_by_arrival_even_beside_numbers(clerk: Clerk) -> None:
    _accept(clerk, 1)
    clerk.accept(clerk.arrival("plain", b"plain", lane=LANE))
    _accept(clerk, 2)

    assert _ran(clerk) == ["n1", "plain", "n2"]


def test_a_lane_that_only_went_by_arrival_may_get_rules(clerk: Clerk) -> None:
    clerk.accept(*(clerk.arrival(key, key.encode(), lane=LANE) for key in ("a", "b")))
    begun = _only(clerk)
    _accept(clerk, 1)

    assert clerk.claim() == []
    clerk.complete(begun)
    assert _ran(clerk) == ["b", "n1"]


def test_lanes_with_numbers_do_not_wait_for_each_other(clerk: Clerk) -> None:
    clerk.accept(clerk.numbered("a2", 2, rules=SKIP, lane="a"))
    clerk.accept(clerk.numbered("b1", 1, rules=SKIP, lane="b"))

    assert [each.key for each in clerk.claim()] == ["b1"]


def test_a_lost_number_is_taken_over_and_keeps_its_turn(clerk: Clerk) -> None:
    _accept(clerk, 2, rules=LaneRules())
    clerk.claim()
    _accept(clerk, 1, rules=LaneRules())
    clerk.now += LEASE

    taken = clerk.claim_expired()

    assert taken is not None
    assert taken.key == "n2"
    assert clerk.claim() == []


def test_a_duplicate_of_a_waiting_number_changes_nothing(clerk: Clerk) -> None:
    (second,) = _accept(clerk, 2)
    before = clerk.facts(second)

    clerk.accept(_number(clerk, 2))

    assert clerk.facts(second) == before


# one type after another


def test_a_type_waits_for_its_predecessor(clerk: Clerk) -> None:
    completed = _type(clerk, "job.completed")
    assert clerk.claim() == []
    assert clerk.facts(completed).waits_for == "job.started"

    _type(clerk, "job.started")

    assert _ran(clerk) == ["job.started", "job.completed"]


def test_a_type_does_not_wait_when_its_predecessor_is_done(clerk: Clerk) -> None:
    _type(clerk, "job.started")
    _ran(clerk)
    _type(clerk, "job.completed")

    assert _ran(clerk) == ["job.completed"]


def test_a_type_waits_for_its_predecessor_no_longer_than_its_bound(clerk: Clerk) -> None:
    completed = _type(clerk, "job.completed")
    clerk.now += MINUTE - 1
    assert clerk.claim() == []
    clerk.now += 1
    assert _only(clerk).id == completed


def test_only_the_predecessor_goes_first(clerk: Clerk) -> None:
    _type(clerk, "job.completed")
    _type(clerk, "job.noted")
    assert clerk.claim() == []
    _type(clerk, "job.started")

    assert _ran(clerk) == ["job.started", "job.completed", "job.noted"]


def test_predecessors_have_predecessors(clerk: Clerk) -> None:
    rules = LaneRules(after={"c": "b", "b": "a"}, after_wait=MINUTE)
    for type_ in "cba":
        _type(clerk, type_, rules=rules)

    assert _ran(clerk) == ["a", "b", "c"]


def test_types_that_wait_for_each_other_run_after_their_bound(clerk: Clerk) -> None:
    rules = LaneRules(after={"a": "b", "b": "a"}, after_wait=MINUTE)
    for type_ in "ab":
        _type(clerk, type_, rules=rules)
    assert clerk.claim() == []

    clerk.now += MINUTE
    assert sorted(_ran(clerk)) == ["a", "b"]


def test_a_predecessor_that_is_held_is_waited_for_no_longer_than_the_bound(clerk: Clerk) -> None:
    completed = _type(clerk, "job.completed")
    started = _type(clerk, "job.started")
    clerk.hold(started)
    clerk.accept(clerk.arrival("another", b"another", lane=LANE))
    assert clerk.claim() == []

    clerk.now += MINUTE
    assert _only(clerk).id == completed


def test_a_predecessor_that_is_released_in_time_goes_first(clerk: Clerk) -> None:
    _type(clerk, "job.completed")
    started = _type(clerk, "job.started")
    clerk.hold(started)

    clerk.release(started)

    assert _ran(clerk) == ["job.started", "job.completed"]


def test_a_dead_predecessor_is_waited_for_no_longer_than_the_bound(clerk: Clerk) -> None:
    completed = _type(clerk, "job.completed")
    _type(clerk, "job.started")
    clerk.give_up(_only(clerk))
    assert clerk.claim() == []

    clerk.now += MINUTE
    assert _only(clerk).id == completed


def test_a_person_may_hold_one_that_waits(clerk: Clerk) -> None:
    completed = _type(clerk, "job.completed")
    clerk.hold(completed)
    _type(clerk, "job.started")

    assert _ran(clerk) == ["job.started"]
    clerk.release(completed)
    assert _ran(clerk) == ["job.completed"]


def test_a_predecessor_of_another_lane_does_not_count(clerk: Clerk) -> None:
    clerk.accept(
        clerk.numbered("s", None, rules=AFTER, lane="other", type_="job.started"),
    )
    _ran(clerk)
    _type(clerk, "job.completed")

    assert clerk.claim() == []


def test_a_long_type_can_be_waited_for(clerk: Clerk) -> None:
    long = "\U0001f4e8" * 512
    rules = LaneRules(after={"short": long}, after_wait=MINUTE)
    _type(clerk, "short", rules=rules)
    _type(clerk, long, "long", rules=rules)

    assert _ran(clerk) == ["long", "short"]


def test_what_is_ignored_or_stale_counts_as_done_for_those_who_wait(clerk: Clerk) -> None:
    _type(clerk, "job.completed")
    _type(clerk, "job.started")
    clerk.settle(done(_only(clerk), DeliveryOutcome.IGNORED))

    assert _ran(clerk) == ["job.completed"]


# races


def test_a_lower_number_that_comes_while_the_higher_is_claimed_waits(clerk: Clerk) -> None:
    _accept(clerk, 2, rules=LaneRules())
    who, lower = clerk.claimant(), _number(clerk, 1, LaneRules())

    claimed, _ = interleave(
        clerk.place,
        lambda tx: leases.claim(tx, who, 10, clerk.now),
        lambda tx: deduplication.accept(tx, [lower], clerk.now),
    )

    assert [each.key for each in claimed] == ["n2"]
    assert clerk.claim() == []
    clerk.complete(claimed[0])
    assert _ran(clerk) == ["n1"]


def test_a_claim_while_a_lower_number_comes_gets_the_lower_or_nothing(clerk: Clerk) -> None:
    _accept(clerk, 2, rules=LaneRules())
    who, lower = clerk.claimant(), _number(clerk, 1, LaneRules())

    _, claimed = interleave(
        clerk.place,
        lambda tx: deduplication.accept(tx, [lower], clerk.now),
        lambda tx: leases.claim(tx, who, 10, clerk.now),
    )

    assert [each.key for each in claimed] in (["n1"], [])
    for each in claimed:
        clerk.complete(each)
    assert _ran(clerk) == (["n2"] if claimed else ["n1", "n2"])


def test_a_predecessor_that_comes_while_the_lane_moves_on_gets_its_turn(clerk: Clerk) -> None:
    clerk.accept(clerk.numbered("first", None, rules=AFTER, lane=LANE, type_="x"))
    head = _only(clerk)
    _type(clerk, "job.completed")
    started = clerk.numbered("job.started", None, rules=AFTER, lane=LANE, type_="job.started")

    interleave(
        clerk.place,
        lambda tx: settlements.settle(tx, [done(head)], clerk.now),
        lambda tx: deduplication.accept(tx, [started], clerk.now),
    )

    assert _ran(clerk) == ["job.started", "job.completed"]


def test_the_highest_number_done_is_seen_by_an_arrival_at_the_same_time(clerk: Clerk) -> None:
    _accept(clerk, 5, rules=LaneRules())
    head = _only(clerk)
    stale = _number(clerk, 4)

    _, (answer,) = interleave(
        clerk.place,
        lambda tx: settlements.settle(tx, [done(head)], clerk.now),
        lambda tx: deduplication.accept(tx, [stale], clerk.now),
    )

    assert answer.state is DeliveryState.DONE
    assert clerk.facts(stale.id).outcome == "stale"


def test_a_hold_of_what_is_about_to_be_skipped_wins(clerk: Clerk) -> None:
    """Whoever is first: it is either held or skipped, never both, and the lane goes on."""
    _accept(clerk, 5, rules=LaneRules(stale="skip"))
    head = _only(clerk)
    (stale,) = _accept(clerk, 4)
    deed = clerk.deed()
    hold = Slow(clerk.place, lambda tx: operations.hold(tx, stale, deed))
    ending = Running(clerk.place, lambda tx: settlements.settle(tx, [done(head)], clerk.now))
    wait_for_a_lock()
    hold.commit()

    assert ending.answer() == [True]
    assert clerk.state(stale) is DeliveryState.HELD
    clerk.release(stale)
    assert _ran(clerk) == ["n4"]


@pytest.mark.parametrize("seed", range(4))
def test_any_order_of_arrival_ends_in_the_order_of_numbers(clerk: Clerk, seed: int) -> None:
    numbers = [(number * (2 * seed + 3)) % 11 + 1 for number in range(11)]
    _accept(clerk, *numbers)

    assert _ran(clerk) == [f"n{number}" for number in range(1, 12)]


# many at once

LANES, EACH = 3, 15


def _feed(place: Place, numbers: list[tuple[str, int]], start: Barrier) -> None:
    clerk = Clerk(place)
    rules = LaneRules(stale="skip", gap_wait=HOUR)
    start.wait()
    for lane, number in numbers:
        clerk.accept(clerk.numbered(f"{lane}.{number}", number, rules=rules, lane=lane))
    clerk.close()


def _work(place: Place, fed: Event, start: Barrier, ran: dict[str, list[int]]) -> None:
    clerk = Clerk(place)
    start.wait()
    while True:
        last_look = fed.is_set()
        claimed = clerk.claim(most=2, worker=threading.current_thread().name)
        for each in claimed:
            ran[str(each.lane)].append(each.sequence or 0)
            assert clerk.complete(each)
        if last_look and not claimed:
            break
    clerk.close()


def test_numbers_run_in_their_order_whoever_brings_and_takes_them(place: Place) -> None:
    """Two bring them shuffled, three work; a gap is waited for longer than it takes."""
    ran: dict[str, list[int]] = defaultdict(list)
    start, fed = Barrier(5), Event()
    numbers = [(f"lane-{lane}", n) for lane in range(LANES) for n in range(1, EACH + 1)]
    Random(7).shuffle(numbers)
    feeders = [Thread(target=_feed, args=(place, numbers[n::2], start)) for n in range(2)]
    workers = [Thread(target=_work, args=(place, fed, start, ran)) for _ in range(3)]
    for each in (*feeders, *workers):
        each.start()
    for each in feeders:
        each.join()
    fed.set()
    for each in workers:
        each.join()

    clerk = Clerk(place)
    left = _ran(clerk) if clerk.claim(most=1) == [] else ["stuck"]
    clerk.close()
    assert left == []
    assert ran == {f"lane-{lane}": list(range(1, EACH + 1)) for lane in range(LANES)}
