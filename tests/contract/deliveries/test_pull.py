"""Pull: workers elsewhere claim, renew and settle by call, and may repeat every call."""

from typing import Any

import pytest

from oncebox.db.database import Transaction
from oncebox.errors import LeaseLost, NotFound, RequestKeyReused
from oncebox.ledger.deliveries import leases, pull
from oncebox.ledger.deliveries.pull import (
    BeginEffectAnswer,
    ClaimRequest,
    LeaseRef,
    SettleResult,
    WorkerCaller,
)
from oncebox.model.deliveries.delivery import Delivery, DeliveryOutcome, DeliveryState
from oncebox.model.deliveries.effects import EffectState, Safety
from oncebox.model.deliveries.retry import RetryRules, TryFailure
from tests.support.clerk import DAY, HOUR, LEASE, SOURCE, TENANT, Clerk
from tests.support.interleaved import interleave

ME = WorkerCaller(tenant=TENANT)
RULES = RetryRules(tries=3, first_wait=1_000)


def _ask(clerk: Clerk, key: str = "r1", worker: str = "ann", **more: Any) -> ClaimRequest:
    sources = more.pop("sources", (SOURCE,))
    claimants = tuple(clerk.claimant(worker, source)._replace(**more) for source in sources)
    return ClaimRequest(tenant=TENANT, worker=worker, request_key=key, claimants=claimants, most=5)


def _claim(clerk: Clerk, key: str = "r1", worker: str = "ann", **more: Any) -> list[Delivery]:
    return clerk.run(pull.claim, _ask(clerk, key, worker, **more), clerk.now).claimed


def _one(clerk: Clerk, key: str = "k") -> LeaseRef:
    clerk.accept_one(key)
    (delivery,) = _claim(clerk, f"for {key}")
    return LeaseRef(delivery.id, delivery.fence)


def _fail(clerk: Clerk, lease: LeaseRef, failure: TryFailure) -> SettleResult:
    return clerk.run(pull.fail, ME, lease, failure, RULES, now=clerk.now, random=lambda: 1.0)


def _begin(
    clerk: Clerk, lease: LeaseRef, safe: Safety = Safety.ONCE, name: str = "charge"
) -> BeginEffectAnswer:
    return clerk.run(
        pull.begin_effect, ME, lease, name, safe, timeout=5_000, window=HOUR, now=clerk.now
    )


def _finish(clerk: Clerk, lease: LeaseRef, state: EffectState, **more: Any) -> None:
    clerk.run(pull.finish_effect, ME, lease, "charge", state, now=clerk.now, **more)


# claims


def test_a_repeated_claim_gets_the_same_leases(clerk: Clerk) -> None:
    clerk.accept(*(clerk.arrival(str(number), b"%d" % number) for number in range(8)))
    first = _claim(clerk)

    assert len(first) == 5
    assert _claim(clerk) == first
    assert len(_claim(clerk, "r2")) == 3


def test_a_repeated_claim_is_told_the_same_whatever_became_of_it(clerk: Clerk) -> None:
    clerk.accept(clerk.arrival("1"), clerk.arrival("2"))
    first = _claim(clerk)
    clerk.complete(first[0])
    clerk.now += LEASE
    clerk.take_over()

    assert _claim(clerk) == first


def test_a_claim_that_finds_nothing_may_be_asked_again(clerk: Clerk) -> None:
    assert _claim(clerk) == []
    id_ = clerk.accept_one().id

    assert [each.id for each in _claim(clerk)] == [id_]


@pytest.mark.parametrize("other", [{"worker": "ben"}, {"sources": ("bank",)}, {"sources": ()}])
def test_a_request_key_belongs_to_one_worker_and_its_sources(
    clerk: Clerk, other: dict[str, Any]
) -> None:
    clerk.accept_one()
    _claim(clerk)

    with pytest.raises(RequestKeyReused):
        _claim(clerk, **other)


def test_request_keys_of_tenants_are_apart(clerk: Clerk) -> None:
    clerk.accept_one()
    _claim(clerk)
    theirs = ClaimRequest(tenant="other", worker="x", request_key="r1", claimants=(), most=1)

    assert clerk.run(pull.claim, theirs, clerk.now).claimed == []


def test_two_claims_with_one_key_at_once_are_told_the_same(clerk: Clerk) -> None:
    clerk.accept(*(clerk.arrival(str(number)) for number in range(3)))
    ask = _ask(clerk)

    first, second = interleave(
        clerk.place,
        lambda tx: pull.claim(tx, ask, clerk.now).claimed,
        lambda tx: pull.claim(tx, ask, clerk.now).claimed,
    )

    assert len(first) == 3
    assert [(each.id, each.fence) for each in first] == [(each.id, each.fence) for each in second]
    assert {facts.fence for facts in clerk.all()} == {1}


def test_a_claim_takes_from_several_sources(clerk: Clerk) -> None:
    clerk.accept(clerk.arrival("1"), clerk.arrival("2", source="bank"))

    claimed = _claim(clerk, sources=(SOURCE, "bank"))

    assert {each.source for each in claimed} == {SOURCE, "bank"}


def test_lost_work_comes_alone(clerk: Clerk) -> None:
    lease = _one(clerk, "lost")
    clerk.now += LEASE
    clerk.accept(*(clerk.arrival(str(number)) for number in range(3)))

    claimed = _claim(clerk, "r2", "ben")

    assert [(each.id, each.fence) for each in claimed] == [(lease.id, 2)]
    assert len(_claim(clerk, "r3", "ben")) == 3


def test_work_that_is_lost_on_its_last_try_is_given_up(clerk: Clerk) -> None:
    clerk.tries = 1
    lease = _one(clerk)
    clerk.now += LEASE

    assert _claim(clerk, "r2") == []
    assert clerk.state(lease.id) is DeliveryState.DEAD


def test_limits_hold_for_pull_too(clerk: Clerk) -> None:
    clerk.accept(*(clerk.arrival(str(number)) for number in range(5)))

    assert len(_claim(clerk, concurrency=2)) == 2
    assert _claim(clerk, "r2", concurrency=2) == []


def test_request_keys_are_forgotten_after_a_while(clerk: Clerk) -> None:
    clerk.accept_one()
    _claim(clerk)
    clerk.now += DAY

    assert clerk.run(pull.forget_claims, clerk.now) == 1
    assert _claim(clerk, worker="ben") != []


# leases


def test_a_heartbeat_prolongs_what_still_holds(clerk: Clerk) -> None:
    mine, lost = _one(clerk, "1"), _one(clerk, "2")
    clerk.complete(clerk.run(leases.as_claimed, TENANT, [lost.id])[lost.id])
    clerk.now += LEASE - 1

    held = clerk.run(pull.heartbeat, ME, [mine, lost], clerk.now + LEASE)

    assert held == {mine.id}
    clerk.now += LEASE - 1
    assert clerk.claim_expired() is None


def test_completing_ends_a_delivery_and_may_be_repeated(clerk: Clerk) -> None:
    lease = _one(clerk)

    for _ in range(2):
        ended = clerk.run(pull.complete, ME, lease, clerk.now)
        assert (ended.counts, ended.settlement.state) == (True, DeliveryState.DONE)
    facts = clerk.facts(lease.id)
    assert (facts.state, facts.outcome) == (DeliveryState.DONE, DeliveryOutcome.HANDLED)


def test_a_stale_worker_cannot_complete_but_its_report_is_kept(clerk: Clerk) -> None:
    lease = _one(clerk)
    clerk.take_over()

    assert not clerk.run(pull.complete, ME, lease, clerk.now).counts
    assert "proof" in [each.outcome for each in clerk.inspect(lease.id).tries]


def test_a_transient_failure_is_tried_again_not_before_it_asked(clerk: Clerk) -> None:
    lease = _one(clerk)

    ended = _fail(clerk, lease, TryFailure(error="busy\0 line\ntwo", wait=HOUR))

    assert (ended.counts, ended.settlement.state, ended.settlement.due_at) == (
        True,
        DeliveryState.FAILED,
        clerk.now + HOUR,
    )
    assert clerk.facts(lease.id).last_error == "busy line two"
    clerk.now += HOUR
    assert len(_claim(clerk, "r2")) == 1


def test_a_permanent_failure_is_given_up_at_once(clerk: Clerk) -> None:
    lease = _one(clerk)

    ended = _fail(clerk, lease, TryFailure(error="no", permanent=True))
    assert ended.settlement.state is DeliveryState.DEAD
    assert clerk.facts(lease.id).outcome == DeliveryOutcome.PERMANENT


def test_failures_end_when_the_tries_are_used_up(clerk: Clerk) -> None:
    clerk.accept_one()
    for number in range(RULES.tries):
        (delivery,) = _claim(clerk, f"r{number}")
        ended = _fail(clerk, LeaseRef(delivery.id, delivery.fence), TryFailure(error="again"))
        clerk.now += HOUR

    assert ended.settlement.state is DeliveryState.DEAD
    assert clerk.all()[0].outcome == DeliveryOutcome.TRIES_USED_UP


def test_a_worker_may_ask_for_a_person(clerk: Clerk) -> None:
    lease = _one(clerk)

    assert clerk.run(pull.hold, ME, lease, "who is this?", clerk.now).counts
    assert clerk.facts(lease.id).hold_reason == "who is this?"


@pytest.mark.parametrize(
    "caller",
    [WorkerCaller(tenant="other"), WorkerCaller(tenant=TENANT, sources=frozenset({"bank"}))],
)
def test_what_is_foreign_is_not_found_by_any_call(clerk: Clerk, caller: WorkerCaller) -> None:
    lease = _one(clerk)
    failure = TryFailure(error="x")
    calls: list[Any] = [
        lambda tx: pull.heartbeat(tx, caller, [lease], clerk.now),
        lambda tx: pull.complete(tx, caller, lease, clerk.now),
        lambda tx: pull.fail(tx, caller, lease, failure, RULES, now=0, random=lambda: 0),
        lambda tx: pull.hold(tx, caller, lease, "x", clerk.now),
        lambda tx: pull.begin_effect(
            tx, caller, lease, "n", Safety.ONCE, timeout=1, window=1, now=0
        ),
        lambda tx: pull.finish_effect(tx, caller, lease, "n", EffectState.DONE, now=0),
    ]
    before = clerk.facts(lease.id)

    for call in calls:
        with pytest.raises(NotFound):
            clerk.session.run(call)
    assert clerk.facts(lease.id) == before


# effects


def test_an_effect_is_begun_once_and_its_result_told_again(clerk: Clerk) -> None:
    lease = _one(clerk)
    begun = _begin(clerk, lease)
    assert begun.go
    _finish(clerk, lease, EffectState.DONE, result=b'{"id": 7}')

    again = _begin(clerk, lease)

    assert (again.go, again.key) == (False, begun.key)
    assert again.before is not None
    assert again.before.result == b'{"id": 7}'


def test_a_begin_whose_answer_was_lost_may_be_repeated(clerk: Clerk) -> None:
    lease = _one(clerk)

    assert _begin(clerk, lease).go
    assert _begin(clerk, lease).go


def test_a_stale_worker_cannot_begin_an_effect(clerk: Clerk) -> None:
    lease = _one(clerk)
    clerk.take_over()

    with pytest.raises(LeaseLost):
        _begin(clerk, lease)


def _retake(clerk: Clerk, lease: LeaseRef) -> LeaseRef:
    taken = clerk.take_over("cay")
    return LeaseRef(taken.id, taken.fence)


def test_an_effect_in_doubt_holds_the_delivery(clerk: Clerk) -> None:
    lease = _one(clerk)
    _begin(clerk, lease)
    second = _retake(clerk, lease)

    answer = _begin(clerk, second)

    assert (answer.go, answer.held is not None) == (False, True)
    assert clerk.state(lease.id) is DeliveryState.HELD
    assert clerk.journal(lease.id)["charge"].state is EffectState.UNKNOWN


def test_an_idempotent_effect_is_begun_anew_within_its_window(clerk: Clerk) -> None:
    lease = _one(clerk)
    first = _begin(clerk, lease, Safety.IDEMPOTENT)
    second = _begin(clerk, _retake(clerk, lease), Safety.IDEMPOTENT)

    assert (second.go, second.key) == (True, first.key)


def test_an_idempotent_effect_after_its_window_holds_the_delivery(clerk: Clerk) -> None:
    lease = _one(clerk)
    _begin(clerk, lease, Safety.IDEMPOTENT)
    clerk.now += HOUR

    assert _begin(clerk, _retake(clerk, lease), Safety.IDEMPOTENT).held


def test_a_repeat_that_did_not_happen_does_not_outlive_the_window_either(clerk: Clerk) -> None:
    lease = _one(clerk)
    _begin(clerk, lease, Safety.IDEMPOTENT)
    second = _retake(clerk, lease)
    assert _begin(clerk, second, Safety.IDEMPOTENT).go
    _finish(clerk, second, EffectState.NOT_DONE)
    clerk.now += HOUR

    assert _begin(clerk, _retake(clerk, second), Safety.IDEMPOTENT).held


def test_an_effect_proven_not_done_is_begun_anew(clerk: Clerk) -> None:
    lease = _one(clerk)
    _begin(clerk, lease)
    _finish(clerk, lease, EffectState.NOT_DONE)

    assert _begin(clerk, lease).go


def test_a_worker_that_asks_the_other_side_may_go_on(clerk: Clerk) -> None:
    lease = _one(clerk)
    _begin(clerk, lease, Safety.VERIFY)
    second = _retake(clerk, lease)

    asked = _begin(clerk, second, Safety.VERIFY)
    assert (asked.go, asked.held) == (False, None)
    assert asked.before is not None
    _finish(clerk, second, EffectState.NOT_DONE, started_at=asked.before.started_at)
    assert _begin(clerk, second, Safety.VERIFY).go


@pytest.mark.parametrize("state", [EffectState.NOT_DONE, EffectState.UNKNOWN])
def test_a_word_on_one_s_own_start_says_nothing_of_an_earlier_one(
    clerk: Clerk, state: EffectState
) -> None:
    lease = _one(clerk)
    _begin(clerk, lease)
    second = _retake(clerk, lease)

    _finish(clerk, second, state)
    _finish(clerk, LeaseRef(lease.id, second.fence + 7), state)

    assert clerk.journal(lease.id)["charge"].state is EffectState.STARTED


def test_a_late_copy_of_a_word_does_not_undo_a_later_start_of_the_same_try(clerk: Clerk) -> None:
    lease = _one(clerk)
    first = _begin(clerk, lease)
    for _ in range(2):
        _finish(clerk, lease, EffectState.NOT_DONE, started_at=first.started_at)
    second = _begin(clerk, lease)
    assert second.go
    assert second.started_at != first.started_at

    _finish(clerk, lease, EffectState.NOT_DONE, started_at=first.started_at)
    assert clerk.journal(lease.id)["charge"].state is EffectState.STARTED
    _finish(clerk, lease, EffectState.NOT_DONE, started_at=second.started_at)
    assert clerk.journal(lease.id)["charge"].state is EffectState.NOT_DONE


def test_a_repeated_begin_is_told_the_same_start(clerk: Clerk) -> None:
    lease = _one(clerk)
    first = _begin(clerk, lease)
    clerk.now += 5

    assert _begin(clerk, lease).started_at == first.started_at


def test_an_effect_that_was_never_begun_cannot_be_finished(clerk: Clerk) -> None:
    lease = _one(clerk)

    with pytest.raises(NotFound, match="never begun"):
        _finish(clerk, lease, EffectState.DONE)


def test_a_late_success_is_proof_even_from_a_stale_worker(clerk: Clerk) -> None:
    lease = _one(clerk)
    _begin(clerk, lease)
    _retake(clerk, lease)

    _finish(clerk, lease, EffectState.DONE)

    assert clerk.journal(lease.id)["charge"].state is EffectState.DONE


def test_a_claim_by_key_and_a_plain_claim_at_once_share_nothing(clerk: Clerk) -> None:
    clerk.accept(*(clerk.arrival(str(number)) for number in range(6)))
    ask, ben = _ask(clerk), clerk.claimant("ben")

    def pulled(tx: Transaction) -> list[Delivery]:
        return pull.claim(tx, ask, clerk.now).claimed

    first, second = interleave(clerk.place, pulled, lambda tx: leases.claim(tx, ben, 6, clerk.now))

    assert not {each.id for each in first} & {each.id for each in second}
