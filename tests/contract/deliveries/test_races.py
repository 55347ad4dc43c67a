"""Transactions at the same time: whoever is second sees what the first did, or waits for it."""

import threading
from collections import defaultdict
from threading import Barrier, Event, Thread

import msgspec
import pytest

from oncebox.ledger.deliveries import deduplication, effects, leases, operations, settlements
from oncebox.model.deliveries.delivery import ArrivalKind, Delivery, DeliveryState
from oncebox.model.deliveries.effects import EffectState, Safety
from tests.support.clerk import HOUR, LEASE, Clerk, dead, done, failed
from tests.support.databases import Place
from tests.support.interleaved import Running, Slow, interleave, wait_for_a_lock

LANE = "order-1"


def _head(clerk: Clerk, *others: str) -> Delivery:
    """Claim the first of a lane, with others behind it."""
    clerk.accept(*(clerk.arrival(key, lane=LANE) for key in ("head", *others)))
    (head,) = clerk.claim()
    return head


# one key


@pytest.mark.parametrize("body", [b"{}", b"other"])
def test_two_arrivals_of_one_key_at_once_are_one_new(clerk: Clerk, body: bytes) -> None:
    one, two = clerk.arrival("1"), clerk.arrival("1", body)

    (first,), (second,) = interleave(
        clerk.place,
        lambda tx: deduplication.accept(tx, [one], clerk.now),
        lambda tx: deduplication.accept(tx, [two], clerk.now),
    )

    assert first.arrival is ArrivalKind.NEW
    same = body == b"{}"
    assert second.arrival is (ArrivalKind.DUPLICATE if same else ArrivalKind.CONFLICT)
    assert len(clerk.all()) == (1 if same else 2)


def test_batches_in_crossed_order_do_not_block_each_other_for_ever(clerk: Clerk) -> None:
    keys = [str(number) for number in range(20)]
    forward = [clerk.arrival(key) for key in keys]
    backward = [clerk.arrival(key) for key in reversed(keys)]

    first, second = interleave(
        clerk.place,
        lambda tx: deduplication.accept(tx, forward, clerk.now),
        lambda tx: deduplication.accept(tx, backward, clerk.now),
    )

    assert {each.arrival for each in first} == {ArrivalKind.NEW}
    assert {each.arrival for each in second} == {ArrivalKind.DUPLICATE}


# one lease


def test_two_claims_at_once_share_nothing(clerk: Clerk) -> None:
    clerk.accept(*(clerk.arrival(str(number)) for number in range(10)))
    ann, ben = clerk.claimant("ann"), clerk.claimant("ben")

    first, second = interleave(
        clerk.place,
        lambda tx: leases.claim(tx, ann, 6, clerk.now),
        lambda tx: leases.claim(tx, ben, 6, clerk.now),
    )

    assert len(first) == 6
    assert not {each.id for each in first} & {each.id for each in second}
    rest = clerk.claim()
    assert len(first) + len(second) + len(rest) == 10


def test_two_takeovers_at_once_are_one(clerk: Clerk) -> None:
    clerk.accept_and_claim()
    clerk.now += LEASE
    ann, ben = clerk.claimant("ann"), clerk.claimant("ben")

    taken = interleave(
        clerk.place,
        lambda tx: leases.claim_expired(tx, ann, clerk.now),
        lambda tx: leases.claim_expired(tx, ben, clerk.now),
    )

    assert [each is not None for each in taken] == [True, False]
    assert clerk.all()[0].fence == 2


def test_a_settlement_and_a_takeover_at_once_have_one_winner(clerk: Clerk) -> None:
    delivery = clerk.accept_and_claim()
    clerk.now += LEASE
    ben = clerk.claimant("ben")

    counts, taken = interleave(
        clerk.place,
        lambda tx: settlements.settle(tx, [done(delivery)], clerk.now),
        lambda tx: leases.claim_expired(tx, ben, clerk.now),
    )

    assert (counts, taken) == ([True], None)
    assert clerk.state(delivery.id) is DeliveryState.DONE


def test_a_takeover_and_a_settlement_at_once_have_one_winner(clerk: Clerk) -> None:
    delivery = clerk.accept_and_claim()
    clerk.now += LEASE
    ben = clerk.claimant("ben")

    taken, counts = interleave(
        clerk.place,
        lambda tx: leases.claim_expired(tx, ben, clerk.now),
        lambda tx: settlements.settle(tx, [done(delivery)], clerk.now),
    )

    assert taken is not None
    assert counts == [False]
    assert clerk.facts(delivery.id).fence == taken.fence


def test_a_renewal_and_a_burial_at_once_have_one_winner(clerk: Clerk) -> None:
    clerk.tries = 1
    delivery = clerk.accept_and_claim()
    clerk.now += LEASE
    who = clerk.claimant()

    ours, buried = interleave(
        clerk.place,
        lambda tx: leases.renew(tx, [(delivery.id, delivery.fence)], clerk.now + LEASE),
        lambda tx: leases.dead_letter_exhausted(tx, who, clerk.now),
    )

    assert (ours, buried) == ({delivery.id}, [])
    assert clerk.complete(delivery)


def test_a_hold_and_a_claim_at_once_have_one_winner(clerk: Clerk) -> None:
    id_ = clerk.accept_one().id
    deed, who = clerk.deed(), clerk.claimant()

    _, claimed = interleave(
        clerk.place,
        lambda tx: operations.hold(tx, id_, deed),
        lambda tx: leases.claim(tx, who, 10, clerk.now),
    )

    assert claimed == []
    assert clerk.state(id_) is DeliveryState.HELD


# one effect


@pytest.mark.parametrize("kind", ["postgres"])
def test_an_effect_begun_anew_by_a_slow_zombie_is_not_begun_anew_beside_it(clerk: Clerk) -> None:
    """The zombie's lease was good when its statement began, and gone when it committed.

    SQLite has one writer at a time, so that this cannot come about there.
    """
    first = clerk.accept_and_claim()
    clerk.begin(first)
    clerk.finish(first, EffectState.NOT_DONE)
    clerk.fail(first, wait=0)
    zombie = clerk.claim_one()
    wish = msgspec.structs.replace(clerk.wish(zombie), known_fence=first.fence)
    lock = Slow(clerk.place, lambda tx: tx.execute("SELECT 1 FROM oncebox_effects FOR UPDATE"))
    slow = Running(clerk.place, lambda tx: effects.begin_again(tx, [wish], clerk.now))
    wait_for_a_lock()

    second = clerk.take_over()
    (begun,) = clerk.run(effects.begin, [clerk.wish(second)], clerk.now)
    assert begun.before is not None
    assert (begun.before.state, begun.before.fence) == (EffectState.NOT_DONE, first.fence)
    lock.commit()
    assert slow.answer() == [True]

    again = msgspec.structs.replace(clerk.wish(second), known_fence=begun.before.fence)
    assert clerk.run(effects.begin_again, [again], clerk.now) == [False]


def test_two_workers_that_begin_one_effect_at_once_are_told_apart(clerk: Clerk) -> None:
    delivery = clerk.accept_and_claim()
    mail, charge = clerk.wish(delivery, "mail"), clerk.wish(delivery, "charge")
    zombie = msgspec.structs.replace(mail, fence=0)

    first, second = interleave(
        clerk.place,
        lambda tx: effects.begin(tx, [mail, charge], clerk.now),
        lambda tx: effects.begin(tx, [zombie], clerk.now),
    )

    assert [each.go for each in (*first, *second)] == [True, True, False]


def test_a_late_success_and_a_new_start_at_once_leave_no_second_call(clerk: Clerk) -> None:
    first = clerk.accept_and_claim()
    clerk.begin(first, safe=Safety.IDEMPOTENT)
    second = clerk.take_over()
    again = msgspec.structs.replace(clerk.wish(second), known_fence=first.fence)
    ending = clerk.ending(first)

    _, went = interleave(
        clerk.place,
        lambda tx: effects.finish(tx, [ending], clerk.now),
        lambda tx: effects.begin_again(tx, [again], clerk.now),
    )

    assert went == [False]
    assert clerk.journal(first.id)["charge"].state is EffectState.DONE


# one lane: no turn is ever missed


def test_an_arrival_while_the_lane_empties_gets_its_turn(clerk: Clerk) -> None:
    head = _head(clerk)
    new = clerk.arrival("new", lane=LANE)

    interleave(
        clerk.place,
        lambda tx: settlements.settle(tx, [done(head)], clerk.now),
        lambda tx: deduplication.accept(tx, [new], clerk.now),
    )

    assert [each.id for each in clerk.claim()] == [new.id]


def test_a_lane_that_empties_while_something_arrives_moves_on(clerk: Clerk) -> None:
    head = _head(clerk)
    new = clerk.arrival("new", lane=LANE)

    interleave(
        clerk.place,
        lambda tx: deduplication.accept(tx, [new], clerk.now),
        lambda tx: settlements.settle(tx, [done(head)], clerk.now),
    )

    assert [each.id for each in clerk.claim()] == [new.id]


def test_a_burial_while_something_arrives_moves_the_lane_on(clerk: Clerk) -> None:
    clerk.tries = 1
    _head(clerk)
    clerk.now += LEASE
    new, who = clerk.arrival("new", lane=LANE), clerk.claimant()

    interleave(
        clerk.place,
        lambda tx: deduplication.accept(tx, [new], clerk.now),
        lambda tx: leases.dead_letter_exhausted(tx, who, clerk.now),
    )

    assert [each.id for each in clerk.claim()] == [new.id]


def test_a_hold_of_the_next_while_the_head_ends_blocks_the_lane(clerk: Clerk) -> None:
    head = _head(clerk, "next", "third")
    next_id = clerk.find("next")
    deed = clerk.deed()

    interleave(
        clerk.place,
        lambda tx: operations.hold(tx, next_id, deed),
        lambda tx: settlements.settle(tx, [done(head)], clerk.now),
    )

    assert clerk.claim() == []
    clerk.release(next_id)
    assert [each.id for each in clerk.claim()] == [next_id]


def test_a_release_while_the_head_ends_keeps_the_lane_moving(clerk: Clerk) -> None:
    head = _head(clerk, "next", "third")
    next_id = clerk.find("next")
    clerk.hold(next_id)
    deed = clerk.deed()

    interleave(
        clerk.place,
        lambda tx: settlements.settle(tx, [done(head)], clerk.now),
        lambda tx: operations.release(tx, next_id, deed, {}),
    )

    assert [each.id for each in clerk.claim()] == [next_id]


def test_a_redelivery_while_the_lane_empties_gets_its_turn(clerk: Clerk) -> None:
    clerk.give_up(_head(clerk, "next"))
    (head,) = clerk.claim()
    again = clerk.arrival("head", lane=LANE)

    interleave(
        clerk.place,
        lambda tx: deduplication.accept(tx, [again], clerk.now),
        lambda tx: settlements.settle(tx, [done(head)], clerk.now),
    )

    (back,) = clerk.claim()
    assert (back.key, back.late) == ("head", True)


def test_deaths_and_failures_of_two_lanes_in_crossed_order_both_end(clerk: Clerk) -> None:
    clerk.accept(*(clerk.arrival(f"{lane}{n}", lane=lane) for lane in "ab" for n in "12"))
    a, b = sorted(clerk.claim(), key=lambda each: each.key)
    late_a, late_b = clerk.arrival("a3", lane="a"), clerk.arrival("b3", lane="b")

    interleave(
        clerk.place,
        lambda tx: settlements.settle(tx, [dead(b), failed(a, clerk.now + HOUR)], clerk.now),
        lambda tx: deduplication.accept(tx, [late_b, late_a], clerk.now),
    )

    assert [each.key for each in clerk.claim()] == ["b2"]


# many at once


def _feed(place: Place, feeder: int, start: Barrier) -> None:
    clerk = Clerk(place)
    start.wait()
    for number in range(25):
        clerk.accept_one(f"{feeder}-{number:03}", lane=f"lane-{number % 3}")
    clerk.close()


def _work(place: Place, fed: Event, start: Barrier, ran: dict[str, list[int]]) -> None:
    clerk = Clerk(place)
    start.wait()
    while True:
        last_look = fed.is_set()
        claimed = clerk.claim(most=2, worker=threading.current_thread().name)
        for each in claimed:
            position = clerk.facts(each.id).lane_position
            assert each.lane is not None
            assert position is not None
            ran[each.lane].append(position)
            assert clerk.complete(each)
        if last_look and not claimed:
            break
    clerk.close()


def test_no_turn_is_lost_and_none_is_taken_twice_under_load(place: Place) -> None:
    ran: dict[str, list[int]] = defaultdict(list)
    start, fed = Barrier(5), Event()
    feeders = [Thread(target=_feed, args=(place, n, start)) for n in range(2)]
    workers = [Thread(target=_work, args=(place, fed, start, ran)) for _ in range(3)]
    for each in (*feeders, *workers):
        each.start()
    for each in feeders:
        each.join()
    fed.set()
    for each in workers:
        each.join()

    clerk = Clerk(place)
    assert [each.state for each in clerk.all()] == [DeliveryState.DONE] * 50
    clerk.close()
    assert sorted(ran) == ["lane-0", "lane-1", "lane-2"]
    assert all(positions == sorted(set(positions)) for positions in ran.values())
    assert sum(map(len, ran.values())) == 50
