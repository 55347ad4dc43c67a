"""Interventions: what a person may do, always audited, and never past an effect in doubt."""

import pytest

from oncebox.core import ids
from oncebox.errors import NotFound, StateConflict
from oncebox.ledger.admin import audit
from oncebox.ledger.deliveries import operations
from oncebox.model.deliveries.delivery import ArrivalKind, Delivery, DeliveryOutcome, DeliveryState
from oncebox.model.deliveries.effects import EffectState, Safety
from tests.support.clerk import HOUR, TENANT, Clerk, dead, done

DONE, NOT_DONE = EffectState.DONE, EffectState.NOT_DONE


def _in_doubt(clerk: Clerk) -> Delivery:
    """Return a held delivery whose effect nobody knows."""
    delivery = clerk.accept_and_claim()
    clerk.begin(delivery)
    clerk.finish(delivery, EffectState.UNKNOWN)
    clerk.stop_for_a_person(delivery, "effect 'charge' was started")
    return delivery


def test_a_held_delivery_is_not_claimed_until_released(clerk: Clerk) -> None:
    id_ = clerk.accept_one().id
    clerk.hold(id_)
    facts = clerk.facts(id_)
    assert (facts.state, facts.hold_reason, facts.held_at) == (
        DeliveryState.HELD,
        "operator",
        clerk.now,
    )
    clerk.now += HOUR
    assert clerk.claim() == []

    clerk.release(id_)

    facts = clerk.facts(id_)
    assert (facts.hold_reason, facts.held_at, facts.policy) == (None, None, None)
    assert clerk.claim_one().policy is None


def test_a_dropped_delivery_is_done_and_never_runs(clerk: Clerk) -> None:
    id_ = clerk.accept_one(hold_reason="late").id
    clerk.now += HOUR

    clerk.run(operations.drop, id_, clerk.deed("a test of theirs"), {})

    facts = clerk.facts(id_)
    assert (facts.state, facts.outcome) == (DeliveryState.DONE, DeliveryOutcome.DROPPED)
    assert (facts.hold_reason, facts.held_at, facts.due_at) == (None, None, None)
    assert (facts.ended_at, facts.fence) == (clerk.now, 0)
    (deed,) = clerk.inspect(id_).audit
    assert (deed.action, deed.who, deed.why) == ("drop", "eve", "a test of theirs")
    clerk.now += HOUR
    assert clerk.claim() == []


def test_a_redelivery_of_a_dropped_delivery_is_a_duplicate_of_it(clerk: Clerk) -> None:
    delivery = clerk.accept_and_claim()
    clerk.stop_for_a_person(delivery, "policy: too large")
    clerk.drop(delivery.id)

    again = clerk.accept_one()

    assert (again.id, again.arrival) == (delivery.id, ArrivalKind.DUPLICATE)
    assert clerk.state(delivery.id) is DeliveryState.DONE
    assert clerk.claim() == []


def test_a_dropped_delivery_can_be_replayed_and_its_policy_is_not_asked_again(clerk: Clerk) -> None:
    delivery = clerk.accept_and_claim()
    clerk.stop_for_a_person(delivery, "policy: too large")
    clerk.drop(delivery.id)

    clerk.replay(delivery.id)

    again = clerk.claim_one()
    assert (again.id, again.policy, again.tries) == (delivery.id, "released", 1)
    assert [each.action for each in clerk.inspect(delivery.id).audit] == ["drop", "replay"]


@pytest.mark.parametrize("word", [DONE, NOT_DONE])
def test_a_drop_records_a_persons_word_on_an_unknown_effect(
    clerk: Clerk, word: EffectState
) -> None:
    delivery = _in_doubt(clerk)

    clerk.drop(delivery.id, charge=word)

    assert clerk.state(delivery.id) is DeliveryState.DONE
    assert clerk.journal(delivery.id)["charge"].state is word
    (deed,) = clerk.inspect(delivery.id).audit
    assert (deed.action, deed.detail, deed.who) == ("drop", f"charge={word}", "eve")


@pytest.mark.parametrize("late", [done, dead])
def test_no_late_word_of_a_worker_changes_a_dropped_delivery(clerk: Clerk, late: object) -> None:
    assert callable(late)
    delivery = clerk.accept_and_claim()
    clerk.stop_for_a_person(delivery, "policy: too large")
    clerk.drop(delivery.id)
    before = clerk.facts(delivery.id)

    clerk.settle(late(delivery))

    assert clerk.facts(delivery.id) == before


def test_a_replayed_delivery_has_fresh_tries_and_time(clerk: Clerk) -> None:
    delivery = clerk.accept_and_claim()
    clerk.complete(delivery)
    clerk.now += HOUR

    clerk.replay(delivery.id)

    facts = clerk.facts(delivery.id)
    assert (facts.state, facts.tries, facts.late) == (DeliveryState.RECEIVED, 0, True)
    assert (facts.outcome, facts.ended_at, facts.give_up_at) == (None, None, None)
    again = clerk.claim_one()
    assert (again.tries, again.fence, again.give_up_at) == (1, 2, clerk.now + clerk.budget)


def test_the_end_before_a_replay_stays_on_record(clerk: Clerk) -> None:
    delivery = clerk.accept_and_claim()
    clerk.complete(delivery)
    ended_at = clerk.now
    clerk.now += HOUR

    clerk.replay(delivery.id)

    (tried,) = clerk.inspect(delivery.id).tries
    assert (tried.fence, tried.outcome, tried.ended_at) == (1, "handled", ended_at)


def test_a_done_effect_stays_done_through_a_replay(clerk: Clerk) -> None:
    delivery = clerk.accept_and_claim()
    clerk.begin(delivery)
    clerk.finish(delivery, result=b"7")
    clerk.complete(delivery)

    clerk.replay(delivery.id)

    assert not clerk.begin(clerk.claim_one())
    assert clerk.journal(delivery.id)["charge"].result == b"7"


def test_a_replay_goes_on_where_redeliveries_end(clerk: Clerk) -> None:
    id_ = clerk.accept_one().id
    while due := clerk.claim():
        clerk.give_up(due[0])
        clerk.accept_one()

    clerk.replay(id_)

    assert clerk.claim_one().id == id_


@pytest.mark.parametrize("act", [Clerk.release, Clerk.drop, Clerk.replay])
def test_nothing_runs_past_an_unknown_effect(clerk: Clerk, act: object) -> None:
    assert callable(act)
    delivery = _in_doubt(clerk)

    with pytest.raises(StateConflict, match="--effect charge=done or --effect charge=not-done"):
        act(clerk, delivery.id)

    assert clerk.state(delivery.id) is DeliveryState.HELD
    assert clerk.inspect(delivery.id).audit == []


def test_a_started_effect_that_may_happen_once_is_in_doubt(clerk: Clerk) -> None:
    delivery = clerk.accept_and_claim()
    clerk.begin(delivery, safe=Safety.ONCE)
    clerk.give_up(delivery)

    with pytest.raises(StateConflict):
        clerk.replay(delivery.id)

    clerk.replay(delivery.id, charge=DONE)
    assert not clerk.begin(clerk.claim_one())


@pytest.mark.parametrize("safe", [Safety.IDEMPOTENT, Safety.VERIFY])
def test_a_started_effect_that_can_be_asked_or_repeated_needs_no_person(
    clerk: Clerk, safe: Safety
) -> None:
    delivery = clerk.accept_and_claim()
    clerk.begin(delivery, safe=safe)
    clerk.give_up(delivery)

    clerk.replay(delivery.id)

    assert clerk.state(delivery.id) is DeliveryState.RECEIVED


@pytest.mark.parametrize("word", [DONE, NOT_DONE])
def test_a_persons_word_resolves_the_doubt_and_is_audited(clerk: Clerk, word: EffectState) -> None:
    delivery = _in_doubt(clerk)

    clerk.release(delivery.id, charge=word)

    assert clerk.state(delivery.id) is DeliveryState.RECEIVED
    assert clerk.journal(delivery.id)["charge"].state is word
    (deed,) = clerk.inspect(delivery.id).audit
    assert (deed.action, deed.detail, deed.who) == ("release", f"charge={word}", "eve")


def test_a_word_on_an_effect_that_is_not_in_doubt_is_refused(clerk: Clerk) -> None:
    delivery = _in_doubt(clerk)

    with pytest.raises(NotFound, match="refund"):
        clerk.release(delivery.id, charge=DONE, refund=DONE)

    assert clerk.journal(delivery.id)["charge"].state is EffectState.UNKNOWN
    assert clerk.state(delivery.id) is DeliveryState.HELD


def test_a_refused_deed_leaves_nothing_half_done(clerk: Clerk) -> None:
    """The word is good, the state is not: neither is kept."""
    delivery = clerk.accept_and_claim()
    clerk.begin(delivery)

    with pytest.raises(StateConflict):
        clerk.release(delivery.id, charge=DONE)

    assert clerk.journal(delivery.id)["charge"].state is EffectState.STARTED
    assert clerk.inspect(delivery.id).audit == []
    assert clerk.inspect(delivery.id).tries == []


def test_every_operator_action_is_audited_with_who_when_and_why(clerk: Clerk) -> None:
    id_ = clerk.accept_one().id
    clerk.run(operations.hold, id_, clerk.deed("looks odd"))
    clerk.now += 1
    clerk.run(operations.release, id_, clerk.deed("it was fine"), {})
    clerk.complete(clerk.claim_one())
    clerk.now += 1
    clerk.run(operations.replay, id_, clerk.deed("once more"), {})

    deeds = [(each.at, each.who, each.action, each.why) for each in clerk.inspect(id_).audit]
    assert deeds == [
        (clerk.now - 2, "eve", "hold", "looks odd"),
        (clerk.now - 1, "eve", "release", "it was fine"),
        (clerk.now, "eve", "replay", "once more"),
    ]


@pytest.mark.parametrize("act", [Clerk.hold, Clerk.release, Clerk.drop, Clerk.replay])
def test_an_unknown_delivery_cannot_be_acted_on(clerk: Clerk, act: object) -> None:
    assert callable(act)
    with pytest.raises(NotFound):
        act(clerk, "dlv_nobody")


def test_another_tenants_delivery_cannot_be_acted_on(clerk: Clerk) -> None:
    id_ = clerk.accept_one().id
    deed = audit.AuditEntry(id=ids.new("aud"), tenant="other", at=clerk.now, who="mallory", why="")

    with pytest.raises(NotFound):
        clerk.run(operations.hold, id_, deed)

    assert clerk.state(id_) is DeliveryState.RECEIVED


def test_the_audit_of_one_thing_is_only_about_it(clerk: Clerk) -> None:
    one, two = clerk.accept(clerk.arrival("1"), clerk.arrival("2"))
    clerk.hold(one.id)
    clerk.hold(two.id)

    assert len(clerk.run(audit.for_target, TENANT, one.id)) == 1
    assert clerk.run(audit.for_target, "other", one.id) == []
