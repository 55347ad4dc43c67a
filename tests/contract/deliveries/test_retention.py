"""Retention: bodies go after their time; keys, journals and everything unsettled stay."""

import pytest

from oncebox.errors import NotFound, StateConflict
from oncebox.ledger import maintenance
from oncebox.ledger.deliveries import deduplication, inspections, operations
from oncebox.model.deliveries.delivery import ArrivalKind, DeliveryState
from oncebox.model.deliveries.effects import EffectState
from tests.support.clerk import DAY, HOUR, SOURCE, TENANT, VAULT, Clerk
from tests.support.interleaved import interleave

BATCH = b"aabb"


def _purge(clerk: Clerk, days: int = 30, source: str = SOURCE) -> int:
    cutoffs = {(TENANT, source): clerk.now - days * DAY}
    bodies, after = 0, ""
    while True:
        found = clerk.run(maintenance.find_purgeable_bodies, cutoffs, after, most=2)
        bodies += clerk.run(maintenance.purge_bodies, found, clerk.now)
        if found.after is None:
            return bodies
        after = found.after


def _found(clerk: Clerk) -> maintenance.PurgeableBodies:
    return clerk.run(maintenance.find_purgeable_bodies, {(TENANT, SOURCE): clerk.now})


def _has_body(clerk: Clerk, id_: str) -> bool:
    try:
        clerk.run(inspections.payload, VAULT, TENANT, id_)
    except NotFound:
        return False
    return True


def _done(clerk: Clerk, key: str = "key") -> str:
    delivery = clerk.accept_and_claim(key)
    clerk.complete(delivery)
    return delivery.id


def test_the_body_of_done_work_goes_after_its_time(clerk: Clerk) -> None:
    id_ = _done(clerk)
    clerk.now += 30 * DAY - 1
    assert _purge(clerk) == 0

    clerk.now += 1
    assert _purge(clerk) == 1
    assert not _has_body(clerk, id_)
    assert clerk.facts(id_).purged_at == clerk.now


def test_keys_and_journals_outlive_bodies(clerk: Clerk) -> None:
    delivery = clerk.accept_and_claim()
    clerk.begin(delivery)
    clerk.finish(delivery)
    clerk.complete(delivery)
    clerk.now += 30 * DAY
    _purge(clerk)

    again = clerk.accept_one()
    assert (again.id, again.arrival, again.state) == (
        delivery.id,
        ArrivalKind.DUPLICATE,
        DeliveryState.DONE,
    )
    assert clerk.journal(delivery.id)["charge"].state is EffectState.DONE


def test_what_has_not_ended_keeps_its_body(clerk: Clerk) -> None:
    received = clerk.accept_one("1").id
    held = clerk.accept_one("2").id
    clerk.hold(held)
    failed = clerk.accept_one("3").id
    clerk.fail(next(each for each in clerk.claim() if each.id == failed), wait=HOUR)
    clerk.now += 300 * DAY

    assert _purge(clerk) == 0
    assert all(_has_body(clerk, id_) for id_ in (received, held, failed))


def test_dead_work_keeps_its_body_until_a_person_has_seen_it(clerk: Clerk) -> None:
    delivery = clerk.accept_and_claim()
    clerk.give_up(delivery)
    clerk.now += 300 * DAY
    assert _purge(clerk) == 0

    clerk.run(operations.mark_seen, delivery.id, clerk.deed())
    assert _purge(clerk) == 1
    assert [each.action for each in clerk.inspect(delivery.id).audit] == ["see"]


def test_dead_work_that_came_back_must_be_seen_anew(clerk: Clerk) -> None:
    delivery = clerk.accept_and_claim()
    clerk.give_up(delivery)
    clerk.run(operations.mark_seen, delivery.id, clerk.deed())
    clerk.accept_one()
    clerk.give_up(clerk.claim_one())
    clerk.now += 300 * DAY

    assert _purge(clerk) == 0


def test_only_dead_work_can_be_seen(clerk: Clerk) -> None:
    id_ = _done(clerk)

    with pytest.raises(StateConflict, match="only dead ones"):
        clerk.run(operations.mark_seen, id_, clerk.deed())


def test_work_with_an_effect_in_doubt_keeps_its_body(clerk: Clerk) -> None:
    delivery = clerk.accept_and_claim()
    clerk.begin(delivery)
    clerk.finish(delivery, EffectState.UNKNOWN)
    clerk.complete(delivery)
    clerk.now += 300 * DAY

    assert _purge(clerk) == 0
    assert _has_body(clerk, delivery.id)


def test_a_source_without_a_retention_keeps_its_bodies(clerk: Clerk) -> None:
    id_ = _done(clerk)
    clerk.now += 300 * DAY

    assert _purge(clerk, source="bank") == 0
    assert _has_body(clerk, id_)


def test_a_replay_without_a_body_is_refused_clearly(clerk: Clerk) -> None:
    id_ = _done(clerk)
    clerk.now += 30 * DAY
    _purge(clerk)

    with pytest.raises(StateConflict, match="body is no longer kept"):
        clerk.replay(id_)
    assert clerk.state(id_) is DeliveryState.DONE


def test_a_redelivery_does_not_bring_back_what_has_no_body(clerk: Clerk) -> None:
    delivery = clerk.accept_and_claim()
    clerk.give_up(delivery)
    clerk.run(operations.mark_seen, delivery.id, clerk.deed())
    clerk.now += 30 * DAY
    _purge(clerk)

    clerk.accept_one()

    assert clerk.state(delivery.id) is DeliveryState.DEAD


def test_a_batch_goes_when_all_its_elements_may(clerk: Clerk) -> None:
    clerk.accept(*clerk.elements(BATCH, ("1", 0, 2), ("2", 2, 2)))
    one, two = clerk.claim()
    clerk.complete(one)
    clerk.now += 30 * DAY
    assert _purge(clerk) == 0
    assert _has_body(clerk, one.id)

    clerk.complete(two)
    clerk.now += 30 * DAY
    assert _purge(clerk) == 1
    assert not _has_body(clerk, one.id)
    assert not _has_body(clerk, two.id)


def test_purging_twice_does_nothing(clerk: Clerk) -> None:
    for number in range(7):
        _done(clerk, str(number))
    clerk.now += 30 * DAY

    assert _purge(clerk) == 7
    assert _purge(clerk) == 0


# races


def test_a_replay_while_the_body_goes_is_refused(clerk: Clerk) -> None:
    id_ = _done(clerk)
    clerk.now += 30 * DAY
    found, deed = _found(clerk), clerk.deed()

    with pytest.raises(StateConflict):
        interleave(
            clerk.place,
            lambda tx: maintenance.purge_bodies(tx, found, clerk.now),
            lambda tx: operations.replay(tx, id_, deed, {}),
        )

    assert clerk.state(id_) is DeliveryState.DONE


def test_the_body_of_what_is_replayed_at_the_same_time_stays(clerk: Clerk) -> None:
    id_ = _done(clerk)
    clerk.now += 30 * DAY
    found, deed = _found(clerk), clerk.deed()

    interleave(
        clerk.place,
        lambda tx: operations.replay(tx, id_, deed, {}),
        lambda tx: maintenance.purge_bodies(tx, found, clerk.now),
    )

    assert clerk.claim_one().body == b"{}"


def test_what_is_replayed_between_search_and_purge_keeps_its_body(clerk: Clerk) -> None:
    id_ = _done(clerk)
    clerk.now += 30 * DAY
    found = _found(clerk)
    assert found.requests

    clerk.run(operations.replay, id_, clerk.deed(), {})

    assert clerk.run(maintenance.purge_bodies, found, clerk.now) == 0
    assert clerk.claim_one().body == b"{}"


def test_a_redelivery_and_a_purge_at_once_leave_no_work_without_a_body(clerk: Clerk) -> None:
    delivery = clerk.accept_and_claim()
    clerk.give_up(delivery)
    clerk.run(operations.mark_seen, delivery.id, clerk.deed())
    clerk.now += 30 * DAY
    found, again = _found(clerk), clerk.arrival()

    interleave(
        clerk.place,
        lambda tx: maintenance.purge_bodies(tx, found, clerk.now),
        lambda tx: deduplication.accept(tx, [again], clerk.now),
    )

    assert clerk.state(delivery.id) is DeliveryState.DEAD
