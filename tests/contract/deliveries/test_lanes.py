"""Lanes: deliveries with the same order key run one at a time, earliest first."""

import pytest

from oncebox.model.deliveries.delivery import Delivery, DeliveryState
from tests.support.clerk import HOUR, LEASE, Clerk, done


def _fill(clerk: Clerk, count: int, lane: str = "order-1") -> list[str]:
    new = [clerk.arrival(f"{lane}.{number}", lane=lane) for number in range(count)]
    return [each.id for each in clerk.accept(*new)]


def _only(clerk: Clerk) -> Delivery:
    (delivery,) = clerk.claim()
    return delivery


def test_a_lane_runs_one_at_a_time_earliest_first(clerk: Clerk) -> None:
    ids = _fill(clerk, 5)
    ran = []
    while due := clerk.claim():
        assert len(due) == 1
        assert clerk.claim() == []
        ran.append(due[0].id)
        clerk.complete(due[0])

    assert ran == ids


def test_lanes_run_beside_each_other_and_beside_the_rest(clerk: Clerk) -> None:
    a = _fill(clerk, 2, "a")
    b = _fill(clerk, 2, "b")
    free = clerk.accept_one("free").id

    assert {each.id for each in clerk.claim()} == {a[0], b[0], free}


def test_the_same_order_key_in_two_sources_is_two_lanes(clerk: Clerk) -> None:
    shop = clerk.accept(clerk.arrival("1", lane="x", source="shop"))[0].id
    bank = clerk.accept(clerk.arrival("2", lane="x", source="bank"))[0].id

    assert [each.id for each in clerk.claim(source="shop")] == [shop]
    assert [each.id for each in clerk.claim(source="bank")] == [bank]


def test_positions_are_numbered_in_the_order_of_acceptance(clerk: Clerk) -> None:
    ids = _fill(clerk, 3)
    later = clerk.accept_one("later", lane="order-1").id

    positions = [clerk.facts(id_).lane_position for id_ in (*ids, later)]
    assert positions == [1, 2, 3, 4]


def test_only_the_first_of_a_lane_is_due(clerk: Clerk) -> None:
    ids = _fill(clerk, 3)

    assert [clerk.facts(id_).due_at for id_ in ids] == [clerk.now, None, None]


def test_a_duplicate_takes_no_place_in_its_lane(clerk: Clerk) -> None:
    first, second = _fill(clerk, 2)
    clerk.accept_one("order-1.0", lane="order-1")
    clerk.accept_one("order-1.1", lane="order-1")

    assert [clerk.facts(id_).lane_position for id_ in (first, second)] == [1, 2]
    clerk.complete(_only(clerk))
    assert _only(clerk).id == second


def test_a_failed_delivery_blocks_its_lane_until_it_is_done(clerk: Clerk) -> None:
    first, second = _fill(clerk, 2)
    clerk.fail(_only(clerk), wait=HOUR)

    clerk.now += HOUR - 1
    assert clerk.claim() == []
    clerk.now += 1
    again = _only(clerk)
    assert again.id == first
    clerk.complete(again)
    assert _only(clerk).id == second


def test_a_dead_delivery_leaves_its_lane(clerk: Clerk) -> None:
    _, second = _fill(clerk, 2)

    clerk.give_up(_only(clerk))

    assert _only(clerk).id == second


def test_a_buried_delivery_leaves_its_lane(clerk: Clerk) -> None:
    clerk.tries = 1
    first, second = _fill(clerk, 2)
    clerk.claim()
    clerk.now += LEASE

    assert clerk.bury() == 1

    assert clerk.state(first) is DeliveryState.DEAD
    assert _only(clerk).id == second


def test_a_lost_delivery_keeps_its_lane(clerk: Clerk) -> None:
    first, second = _fill(clerk, 2)
    clerk.claim()
    clerk.now += LEASE

    assert clerk.claim() == []
    taken = clerk.claim_expired()
    assert taken is not None
    assert taken.id == first
    assert clerk.claim() == []
    clerk.complete(taken)
    assert _only(clerk).id == second


def test_a_delivery_given_back_keeps_its_place(clerk: Clerk) -> None:
    first, _second = _fill(clerk, 2)

    clerk.give_back(_only(clerk))

    assert _only(clerk).id == first


def test_a_held_delivery_blocks_its_lane(clerk: Clerk) -> None:
    first, second = _fill(clerk, 2)
    clerk.stop_for_a_person(_only(clerk))
    assert clerk.claim() == []
    clerk.accept_one("third", lane="order-1")
    assert clerk.claim() == []

    clerk.release(first)

    again = _only(clerk)
    assert (again.id, again.late) == (first, False)
    clerk.complete(again)
    assert _only(clerk).id == second


def test_a_lane_goes_on_when_its_held_head_is_dropped(clerk: Clerk) -> None:
    ids = _fill(clerk, 3)
    clerk.stop_for_a_person(_only(clerk))
    assert clerk.claim() == []

    clerk.drop(ids[0])

    assert _only(clerk).id == ids[1]


def test_a_drop_behind_the_head_gives_nobody_the_turn(clerk: Clerk) -> None:
    ids = _fill(clerk, 3)
    clerk.hold(ids[1])
    head = _only(clerk)

    clerk.drop(ids[1])

    assert clerk.claim() == []
    clerk.complete(head)
    assert _only(clerk).id == ids[2]


def test_a_conflict_without_a_place_in_its_lane_can_be_dropped(clerk: Clerk) -> None:
    _fill(clerk, 2)
    conflict = clerk.accept_one("order-1.0", body=b"other", lane="order-1").id
    alone = clerk.accept_one("late", lane="nobody else", hold_reason="late").id
    head = _only(clerk)

    clerk.drop(conflict)
    clerk.drop(alone)

    assert clerk.state(conflict) is clerk.state(alone) is DeliveryState.DONE
    assert clerk.state(head.id) is DeliveryState.PROCESSING
    assert clerk.claim() == []


def test_a_release_keeps_the_place(clerk: Clerk) -> None:
    first, second, third = _fill(clerk, 3)
    clerk.hold(second)
    clerk.complete(_only(clerk))
    assert clerk.claim() == []

    clerk.release(second)

    again = _only(clerk)
    assert (again.id, again.late) == (second, False)
    clerk.complete(again)
    assert _only(clerk).id == third
    assert clerk.state(first) is DeliveryState.DONE


def test_a_release_out_of_turn_waits_for_its_turn(clerk: Clerk) -> None:
    first, second = _fill(clerk, 2)
    clerk.hold(second)
    clerk.release(second)

    assert clerk.facts(second).due_at is None
    assert _only(clerk).id == first


def test_a_head_held_by_a_person_blocks_its_lane(clerk: Clerk) -> None:
    first, second = _fill(clerk, 2)

    clerk.hold(first)

    assert clerk.claim() == []
    clerk.release(first)
    clerk.complete(_only(clerk))
    assert _only(clerk).id == second


def test_re_armed_work_re_enters_last_and_is_marked_late(clerk: Clerk) -> None:
    first, second, third = _fill(clerk, 3)
    clerk.give_up(_only(clerk))

    clerk.accept_one("order-1.0", lane="order-1")

    assert (clerk.facts(first).lane_position, clerk.facts(first).late) == (4, True)
    ran = []
    while due := clerk.claim():
        ran.append((due[0].id, due[0].late))
        clerk.complete(due[0])
    assert ran == [(second, False), (third, False), (first, True)]


@pytest.mark.parametrize("end", [Clerk.complete, Clerk.give_up])
def test_replayed_work_re_enters_last_and_is_marked_late(clerk: Clerk, end: object) -> None:
    assert callable(end)
    first, second = _fill(clerk, 2)
    end(clerk, _only(clerk))

    clerk.replay(first)

    ran = []
    while due := clerk.claim():
        ran.append((due[0].id, due[0].late))
        clerk.complete(due[0])
    assert ran == [(second, False), (first, True)]


def test_re_armed_work_runs_at_once_in_an_empty_lane(clerk: Clerk) -> None:
    (first,) = _fill(clerk, 1)
    clerk.give_up(_only(clerk))

    clerk.accept_one("order-1.0", lane="order-1")

    assert _only(clerk).id == first


def test_a_released_conflict_enters_its_lane_last(clerk: Clerk) -> None:
    first, second = _fill(clerk, 2)
    other = clerk.accept(clerk.arrival("order-1.0", b"other", lane="order-1"))[0].id
    assert clerk.facts(other).lane_position is None

    clerk.release(other)

    ran = []
    while due := clerk.claim():
        assert len(due) == 1
        ran.append(due[0].id)
        clerk.complete(due[0])
    assert ran == [first, second, other]


def test_a_held_conflict_does_not_block_its_lane(clerk: Clerk) -> None:
    first, second = _fill(clerk, 2)
    clerk.accept_one("order-1.0", b"other", lane="order-1")

    clerk.complete(_only(clerk))
    assert clerk.state(first) is DeliveryState.DONE
    assert _only(clerk).id == second


def test_a_settlement_repeated_after_a_lost_reply_skips_nobody(clerk: Clerk) -> None:
    ids = _fill(clerk, 4)
    ran = []
    while due := clerk.claim():
        ran.append(due[0].id)
        assert clerk.complete(due[0])
        assert clerk.complete(due[0])

    assert ran == ids


def test_a_stale_settlement_moves_no_lane_on(clerk: Clerk) -> None:
    first, _second = _fill(clerk, 2)
    lost = _only(clerk)
    taken = clerk.take_over()

    assert not clerk.complete(lost)

    assert clerk.claim() == []
    assert taken.id == first


def test_hundreds_in_many_lanes_run_in_order(clerk: Clerk) -> None:
    lanes = [f"lane-{number % 40}" for number in range(400)]
    keys = [f"{number:04}" for number in range(400)]
    clerk.accept(*(clerk.arrival(k, lane=ln) for k, ln in zip(keys, lanes, strict=True)))
    ran: dict[str | None, list[str]] = {}
    rounds = 0
    while due := clerk.claim(most=500):
        rounds += 1
        assert len({each.lane for each in due}) == len(due) == 40
        for each in due:
            ran.setdefault(each.lane, []).append(each.key)
        assert all(clerk.settle(*map(done, due)))

    assert rounds == 10
    assert all(keys_of_lane == sorted(keys_of_lane) for keys_of_lane in ran.values())
    assert sum(map(len, ran.values())) == 400
