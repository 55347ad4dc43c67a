"""Unsigned ids: a body counts once; a fresh id over a known one is stored, and never just run."""

from typing import Any

import msgspec
import pytest

from oncebox.ledger.deliveries import deduplication, inspections
from oncebox.model.deliveries.delivery import (
    Accepted,
    ArrivalKind,
    DeliveryOutcome,
    DeliveryState,
    NewDelivery,
)
from oncebox.model.deliveries.duplicates import DuplicateClass
from tests.support.clerk import HOUR, TENANT, VAULT, Clerk, accept_new
from tests.support.interleaved import interleave

BODY = b'{"amount": 5}'


def _unsigned(clerk: Clerk, key: str, body: bytes = BODY, **more: Any) -> NewDelivery:
    return clerk.arrival(key, body, unsigned=True, **more)


def _accept(clerk: Clerk, key: str, body: bytes = BODY, **more: Any) -> Accepted:
    return clerk.accept(_unsigned(clerk, key, body, **more))[0]


def test_a_new_body_under_a_new_unsigned_key_is_new(clerk: Clerk) -> None:
    one, two = _accept(clerk, "1"), _accept(clerk, "2", b"other")

    assert [each.arrival for each in (one, two)] == [ArrivalKind.NEW, ArrivalKind.NEW]
    assert {each.id for each in clerk.claim()} == {one.id, two.id}


def test_a_retry_with_the_same_unsigned_key_is_a_plain_duplicate(clerk: Clerk) -> None:
    first = _accept(clerk, "1")
    again = _accept(clerk, "1")

    assert (again.id, again.arrival, again.duplicate_class) == (
        first.id,
        ArrivalKind.DUPLICATE,
        DuplicateClass.PROVIDER_RETRY,
    )
    assert len(clerk.all()) == 1


def test_a_known_body_under_a_fresh_unsigned_key_is_held_as_a_suspicious_replay(
    clerk: Clerk,
) -> None:
    first = _accept(clerk, "1")
    replay = _accept(clerk, "2")

    assert (replay.arrival, replay.state, replay.duplicate_class) == (
        ArrivalKind.SUSPICIOUS_REPLAY,
        DeliveryState.HELD,
        DuplicateClass.SUSPICIOUS_REPLAY,
    )
    facts = clerk.facts(replay.id)
    assert (facts.hold_reason, facts.held_at, facts.replay_of) == (
        "suspicious_replay",
        clerk.now,
        first.id,
    )
    assert clerk.run(inspections.payload, VAULT, TENANT, replay.id)[1] == BODY
    assert clerk.sightings(first.id) == {DuplicateClass.SUSPICIOUS_REPLAY: 1}
    assert [each.id for each in clerk.claim()] == [first.id]


def test_a_replay_of_done_work_is_still_suspicious(clerk: Clerk) -> None:
    _accept(clerk, "1")
    clerk.complete(clerk.claim_one())

    assert _accept(clerk, "2").arrival is ArrivalKind.SUSPICIOUS_REPLAY
    assert clerk.claim() == []


def test_a_source_may_let_replays_run(clerk: Clerk) -> None:
    first = _accept(clerk, "1")
    replay = _accept(clerk, "2", on_replay="run")

    assert (replay.arrival, replay.state) == (ArrivalKind.SUSPICIOUS_REPLAY, DeliveryState.RECEIVED)
    assert {each.id for each in clerk.claim()} == {first.id, replay.id}


def test_a_source_may_drop_replays(clerk: Clerk) -> None:
    first = _accept(clerk, "1")
    replay = _accept(clerk, "2", on_replay="drop")

    assert (replay.arrival, replay.state) == (ArrivalKind.SUSPICIOUS_REPLAY, DeliveryState.DONE)
    facts = clerk.facts(replay.id)
    assert (facts.outcome, facts.ended_at) == (DeliveryOutcome.DROPPED, clerk.now)
    assert [each.id for each in clerk.claim()] == [first.id]


def test_a_released_replay_runs(clerk: Clerk) -> None:
    _accept(clerk, "1")
    clerk.complete(clerk.claim_one())
    replay = _accept(clerk, "2")

    clerk.release(replay.id)

    assert [each.id for each in clerk.claim()] == [replay.id]


def test_a_repeat_of_a_replay_is_a_duplicate_of_it(clerk: Clerk) -> None:
    _accept(clerk, "1")
    replay = _accept(clerk, "2")
    again = _accept(clerk, "2")

    assert (again.id, again.arrival, again.duplicate_class) == (
        replay.id,
        ArrivalKind.DUPLICATE,
        DuplicateClass.SUSPICIOUS_REPLAY,
    )
    assert len(clerk.all()) == 2


def test_a_replay_never_brings_work_forward_or_back(clerk: Clerk) -> None:
    _accept(clerk, "1")
    clerk.give_up(clerk.claim_one())
    failed = _accept(clerk, "2", b"other")
    clerk.fail(clerk.claim_one(), wait=HOUR)

    _accept(clerk, "3")
    _accept(clerk, "4", b"other")

    assert clerk.claim() == []
    assert clerk.state(failed.id) is DeliveryState.FAILED


def test_a_dead_replay_is_never_brought_back_and_a_failed_one_not_forward(clerk: Clerk) -> None:
    _accept(clerk, "1")
    clerk.complete(clerk.claim_one())
    dead = _accept(clerk, "2", on_replay="run")
    clerk.give_up(clerk.claim_one())
    failed = _accept(clerk, "3", on_replay="run")
    clerk.fail(clerk.claim_one(), wait=HOUR)

    _accept(clerk, "2", on_replay="run")
    _accept(clerk, "3", on_replay="run")

    assert clerk.claim() == []
    assert (clerk.state(dead.id), clerk.state(failed.id)) == (
        DeliveryState.DEAD,
        DeliveryState.FAILED,
    )


def test_another_body_under_a_known_unsigned_key_is_a_conflict(clerk: Clerk) -> None:
    _accept(clerk, "1")
    conflict = _accept(clerk, "1", b"other")

    assert (conflict.arrival, conflict.state) == (ArrivalKind.CONFLICT, DeliveryState.HELD)


def test_the_body_of_a_conflict_is_known_too(clerk: Clerk) -> None:
    """Whoever alters the id again does not get past the hold."""
    _accept(clerk, "1")
    _accept(clerk, "1", b"other")

    assert _accept(clerk, "2", b"other").arrival is ArrivalKind.SUSPICIOUS_REPLAY


def test_a_conflict_over_a_body_known_under_another_key_is_a_conflict(clerk: Clerk) -> None:
    _accept(clerk, "1")
    _accept(clerk, "2", b"other")
    conflict = _accept(clerk, "1", b"other")

    assert (conflict.arrival, conflict.state) == (ArrivalKind.CONFLICT, DeliveryState.HELD)
    assert len(clerk.all()) == 3


def test_what_is_signed_may_carry_a_known_body(clerk: Clerk) -> None:
    answers = [clerk.accept_one(key, BODY) for key in "123"]

    assert {each.arrival for each in answers} == {ArrivalKind.NEW}


def test_the_same_body_of_another_source_or_tenant_is_no_replay(clerk: Clerk) -> None:
    first = _unsigned(clerk, "1")
    other = _unsigned(clerk, "2", source="bank")
    theirs = msgspec.structs.replace(_unsigned(clerk, "3"), tenant="other")

    answers = clerk.accept(first, other, theirs)

    assert [each.arrival for each in answers] == [ArrivalKind.NEW] * 3


def test_replays_inside_one_batch_are_told_from_retries(clerk: Clerk) -> None:
    answers = clerk.accept(*(_unsigned(clerk, key) for key in ("1", "2", "1", "2", "3")))

    assert [each.arrival for each in answers] == [
        ArrivalKind.NEW,
        ArrivalKind.SUSPICIOUS_REPLAY,
        ArrivalKind.DUPLICATE,
        ArrivalKind.DUPLICATE,
        ArrivalKind.SUSPICIOUS_REPLAY,
    ]
    assert answers[3].id == answers[1].id
    assert len(clerk.all()) == 3


def test_a_replay_that_runs_enters_its_lane_and_one_that_is_held_does_not(clerk: Clerk) -> None:
    first = _accept(clerk, "1", lane="a")
    held = _accept(clerk, "2", lane="a")
    runs = _accept(clerk, "3", lane="a", on_replay="run")

    assert clerk.facts(held.id).lane_position is None
    clerk.complete(clerk.claim_one())
    assert [each.id for each in clerk.claim()] == [runs.id]
    assert clerk.state(first.id) is DeliveryState.DONE


# races


@pytest.mark.parametrize("keys", [("1", "2"), ("1", "1")])
def test_of_two_unsigned_arrivals_of_one_body_at_once_one_is_new(
    clerk: Clerk, keys: tuple[str, str]
) -> None:
    one, two = (_unsigned(clerk, key) for key in keys)

    (first,), (second,) = interleave(
        clerk.place,
        lambda tx: deduplication.accept(tx, [one], clerk.now),
        lambda tx: deduplication.accept(tx, [two], clerk.now),
    )

    assert first.arrival is ArrivalKind.NEW
    assert second.arrival is (
        ArrivalKind.SUSPICIOUS_REPLAY if keys == ("1", "2") else ArrivalKind.DUPLICATE
    )
    assert [each.id for each in clerk.claim()] == [one.id]


@pytest.mark.parametrize("kind", ["postgres"])
def test_a_replay_that_races_the_shortcut_is_not_run(clerk: Clerk) -> None:
    """The shortcut writes nothing for the loser; the long way then finds out what it is."""
    one, two = _unsigned(clerk, "1"), _unsigned(clerk, "2")

    (first,), second = interleave(
        clerk.place,
        lambda tx: deduplication.accept(tx, [one], clerk.now),
        lambda tx: accept_new(tx, [two], clerk.now),
    )

    assert (first.arrival, second) == (ArrivalKind.NEW, None)
    (told,) = clerk.run(deduplication.accept, [two], clerk.now, look_first=True)
    assert told.arrival is ArrivalKind.SUSPICIOUS_REPLAY
    assert [each.id for each in clerk.claim()] == [one.id]


def test_batches_of_replays_in_crossed_order_both_end(clerk: Clerk) -> None:
    bodies = [f"body {number}".encode() for number in range(12)]
    forward = [_unsigned(clerk, f"a{n}", body) for n, body in enumerate(bodies)]
    backward = [_unsigned(clerk, f"b{n}", body) for n, body in enumerate(reversed(bodies))]

    first, second = interleave(
        clerk.place,
        lambda tx: deduplication.accept(tx, forward, clerk.now),
        lambda tx: deduplication.accept(tx, backward, clerk.now),
    )

    assert {each.arrival for each in first} == {ArrivalKind.NEW}
    assert {each.arrival for each in second} == {ArrivalKind.SUSPICIOUS_REPLAY}
    assert len(clerk.claim()) == len(bodies)
