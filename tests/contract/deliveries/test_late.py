"""What was found about an arrival when it came: kept with it, and its policy followed."""

import pytest

from oncebox.ledger.deliveries import inspections
from oncebox.model.deliveries.delivery import ArrivalKind, DeliveryState
from oncebox.model.deliveries.duplicates import DuplicateClass
from tests.support.clerk import MINUTE, VAULT, Clerk


def test_the_verdict_and_the_secret_that_matched_are_kept(clerk: Clerk) -> None:
    id_ = clerk.accept_one(verdict="fresh", secret_id="sec_1").id

    facts = clerk.facts(id_)
    assert (facts.verdict, facts.secret_id, facts.late) == ("fresh", "sec_1", False)
    assert clerk.claim_one().verdict == "fresh"


def test_a_late_arrival_never_seen_before_is_held_with_its_reason(clerk: Clerk) -> None:
    late = clerk.accept_one(verdict="late", hold_reason="late")

    assert (late.arrival, late.state) == (ArrivalKind.NEW, DeliveryState.HELD)
    facts = clerk.facts(late.id)
    assert (facts.hold_reason, facts.held_at, facts.verdict) == ("late", clerk.now, "late")
    assert clerk.claim() == []

    clerk.release(late.id)
    assert clerk.claim_one().late


def test_a_source_may_let_late_arrivals_run(clerk: Clerk) -> None:
    late = clerk.accept_one(verdict="late")

    assert late.state is DeliveryState.RECEIVED
    delivery = clerk.claim_one()
    assert (delivery.verdict, delivery.late) == ("late", True)


def test_a_late_repeat_is_a_stale_sighting_and_holds_nothing(clerk: Clerk) -> None:
    first = clerk.accept_one(verdict="fresh")
    clerk.now += 10 * MINUTE
    again = clerk.accept_one(verdict="late", hold_reason="late")

    assert (again.id, again.arrival, again.duplicate_class) == (
        first.id,
        ArrivalKind.DUPLICATE,
        DuplicateClass.STALE,
    )
    assert [each.id for each in clerk.claim()] == [first.id]


def test_a_late_arrival_that_is_held_does_not_block_its_lane(clerk: Clerk) -> None:
    late = clerk.accept_one("1", lane="a", verdict="late", hold_reason="late").id
    second = clerk.accept_one("2", lane="a").id

    assert [each.id for each in clerk.claim()] == [second]
    clerk.release(late)
    assert clerk.facts(late).lane_position == 2


def test_a_replay_that_is_late_says_first_that_it_is_a_replay(clerk: Clerk) -> None:
    clerk.accept_one("1", unsigned=True)
    held = clerk.accept_one("2", unsigned=True, verdict="late", hold_reason="late")
    runs = clerk.accept_one("3", unsigned=True, hold_reason="late", on_replay="run")

    assert clerk.facts(held.id).hold_reason == "suspicious_replay"
    assert (runs.state, clerk.facts(runs.id).hold_reason) == (DeliveryState.HELD, "late")


# sightings


def test_our_own_forward_that_comes_back_is_an_echo_and_runs_nothing(clerk: Clerk) -> None:
    ours = clerk.accept_one("1")
    echo = clerk.accept_one(ours.id, echo_of=ours.id)

    assert (echo.id, echo.arrival, echo.duplicate_class) == (
        ours.id,
        ArrivalKind.DUPLICATE,
        DuplicateClass.ECHO,
    )
    assert clerk.sightings(ours.id) == {DuplicateClass.ECHO: 1}
    assert len(clerk.all()) == 1


def test_a_mark_that_names_nothing_of_ours_is_no_echo(clerk: Clerk) -> None:
    assert clerk.accept_one("1", echo_of="dlv_somebody_elses").arrival is ArrivalKind.NEW


def test_the_first_repeats_of_each_class_are_kept_as_they_came(clerk: Clerk) -> None:
    first = clerk.accept_one()
    for number in range(5):
        clerk.accept(clerk.arrival(headers=(("X-Try", str(number)),), verdict="fresh"))
    clerk.accept(*(clerk.arrival(road="poll", headers=(("X-Poll", "1"),)) for _ in range(5)))

    examples = clerk.inspect(first.id).examples
    assert [
        each.headers for each in examples if each.duplicate_class == DuplicateClass.PROVIDER_RETRY
    ] == [
        (("X-Try", "0"),),
        (("X-Try", "1"),),
        (("X-Try", "2"),),
    ]
    assert [
        each.road for each in examples if each.duplicate_class == DuplicateClass.CROSS_PATH
    ] == ["poll"] * 3
    assert clerk.sightings(first.id) == {
        DuplicateClass.PROVIDER_RETRY: 5,
        DuplicateClass.CROSS_PATH: 5,
    }


# batches

BATCH = b'[{"id": 1}, {"id": 2}, {"id": 3}]'
PARTS = [("1", 1, 9), ("2", 12, 9), ("3", 23, 9)]


def test_the_elements_of_a_batch_are_deliveries_of_their_own(clerk: Clerk) -> None:
    headers = (("X-Batch", "yes"),)
    answers = clerk.accept(*clerk.elements(BATCH, *PARTS, headers=headers))

    assert {each.arrival for each in answers} == {ArrivalKind.NEW}
    claimed = sorted(clerk.claim(), key=lambda each: each.key)
    assert [each.body for each in claimed] == [b'{"id": 1}', b'{"id": 2}', b'{"id": 3}']
    assert [each.json for each in claimed] == [{"id": 1}, {"id": 2}, {"id": 3}]
    assert {each.headers for each in claimed} == {headers}
    facts = clerk.facts(answers[1].id)
    assert (facts.is_element, facts.start, facts.size) == (True, 12, 9)
    assert clerk.run(inspections.payload, VAULT, "acme", answers[1].id) == (headers, b'{"id": 2}')


def test_a_batch_is_stored_once(clerk: Clerk) -> None:
    clerk.accept(*clerk.elements(BATCH, *PARTS))

    rows = clerk.session.run(lambda tx: tx.execute("SELECT body FROM oncebox_payloads"))
    assert [bytes(body) for (body,) in rows] == [BATCH]


def test_each_element_is_new_or_a_duplicate_by_itself(clerk: Clerk) -> None:
    clerk.accept(*clerk.elements(BATCH, *PARTS[:2]))
    answers = clerk.accept(*clerk.elements(BATCH, *PARTS))

    assert [each.arrival for each in answers] == ["duplicate", "duplicate", "new"]


def test_a_batch_of_duplicates_stores_no_second_request(clerk: Clerk) -> None:
    clerk.accept(*clerk.elements(BATCH, *PARTS))
    clerk.accept(*clerk.elements(BATCH, *PARTS))

    rows = clerk.session.run(lambda tx: tx.execute("SELECT COUNT(*) FROM oncebox_payloads"))
    assert rows == [(1,)]


@pytest.mark.parametrize("size", [10, 100_000])
def test_an_element_of_any_size_is_its_own_part(clerk: Clerk, size: int) -> None:
    body = b"a" * size + b"b" * size
    clerk.accept(*clerk.elements(body, ("1", 0, size), ("2", size, size)))

    one, two = sorted(clerk.claim(), key=lambda each: each.key)
    assert (one.body, two.body) == (b"a" * size, b"b" * size)
    clerk.now += 30_000
    taken = clerk.claim_expired()
    assert taken is not None
    assert len(taken.body) == size
