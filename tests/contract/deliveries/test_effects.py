"""The journal: written before and after each side effect, and fenced like everything else."""

from collections.abc import Callable
from contextlib import closing

import msgspec
import pytest

from oncebox.db.database import Transaction
from oncebox.errors import EffectOutcomeUnknown, LeaseLost
from oncebox.ledger.deliveries import effects
from oncebox.model.deliveries.delivery import Delivery
from oncebox.model.deliveries.effects import BeginEffect, Effect, EffectState, Safety
from tests.support.clerk import Clerk
from tests.support.databases import Place

DONE, NOT_DONE, UNKNOWN, STARTED = (
    EffectState.DONE,
    EffectState.NOT_DONE,
    EffectState.UNKNOWN,
    EffectState.STARTED,
)


def _state(clerk: Clerk, delivery: Delivery, name: str = "charge") -> EffectState:
    return clerk.journal(delivery.id)[name].state


def _wish_again(clerk: Clerk, delivery: Delivery, safe: Safety = Safety.IDEMPOTENT) -> BeginEffect:
    before = clerk.journal(delivery.id).get("charge")
    wish = clerk.wish(delivery, safe=safe)
    return msgspec.structs.replace(wish, known_fence=before.fence if before else 0)


def _begin_again(clerk: Clerk, delivery: Delivery, safe: Safety = Safety.IDEMPOTENT) -> bool:
    return clerk.run(effects.begin_again, [_wish_again(clerk, delivery, safe)], clerk.now)[0]


def _transact(
    clerk: Clerk, wish: BeginEffect, work: Callable[[Transaction], bytes | None] = lambda _tx: b"1"
) -> Effect:
    return clerk.run(effects.transact, wish, work, clerk.now)


def test_an_effect_is_journalled_before_it_is_called(clerk: Clerk) -> None:
    delivery = clerk.accept_and_claim()

    assert clerk.begin(delivery, safe=Safety.IDEMPOTENT)

    effect = clerk.journal(delivery.id)["charge"]
    assert (effect.state, effect.safe, effect.fence) == (STARTED, Safety.IDEMPOTENT, 1)
    assert (effect.first_started_at, effect.started_at) == (clerk.now, clerk.now)
    assert (effect.surely_over_at, effect.ended_at) == (clerk.now + 5_000, None)


def test_an_effect_begun_before_is_not_begun_again_unasked(clerk: Clerk) -> None:
    first = clerk.accept_and_claim()
    clerk.begin(first)
    second = clerk.take_over()

    (begun,) = clerk.run(effects.begin, [clerk.wish(second)], clerk.now)

    assert not begun.go
    assert begun.before is not None
    assert (begun.before.state, begun.before.fence) == (STARTED, 1)


def test_a_stored_result_is_returned_to_a_repeat(clerk: Clerk) -> None:
    first = clerk.accept_and_claim()
    clerk.begin(first)
    clerk.finish(first, result=b'{"id":7}')
    second = clerk.take_over()

    (begun,) = clerk.run(effects.begin, [clerk.wish(second)], clerk.now)

    assert not begun.go
    assert begun.before is not None
    assert (begun.before.state, begun.before.result) == (DONE, b'{"id":7}')


def test_a_stale_worker_cannot_begin_an_effect(clerk: Clerk) -> None:
    first = clerk.accept_and_claim()
    clerk.take_over()

    (begun,) = clerk.run(effects.begin, [clerk.wish(first)], clerk.now)

    assert (begun.go, begun.before) == (False, None)
    assert clerk.journal(first.id) == {}


def test_a_settled_try_cannot_begin_an_effect(clerk: Clerk) -> None:
    delivery = clerk.accept_and_claim()
    clerk.fail(delivery, wait=0)

    assert not clerk.begin(delivery)
    assert clerk.journal(delivery.id) == {}


def test_a_stale_wish_does_not_go_because_a_current_one_shares_its_batch(clerk: Clerk) -> None:
    first = clerk.accept_and_claim()
    second = clerk.take_over()

    for wishes in ([first, second], [second, first]):
        name = f"charge-{wishes[0].fence}"
        answers = clerk.run(effects.begin, [clerk.wish(each, name) for each in wishes], clerk.now)
        went = {each.fence: answer.go for each, answer in zip(wishes, answers, strict=True)}
        assert went == {1: False, 2: True}


def test_many_effects_of_many_deliveries_begin_in_one_commit(clerk: Clerk) -> None:
    clerk.accept(*(clerk.arrival(str(number)) for number in range(3)))
    claimed = clerk.claim()
    wishes = [clerk.wish(each, name) for each in claimed for name in ("b", "a")]

    answers = clerk.run(effects.begin, wishes, clerk.now)

    assert [each.go for each in answers] == [True] * 6
    assert all(set(clerk.journal(each.id)) == {"a", "b"} for each in claimed)


# how effects end


def test_done_stays_done(clerk: Clerk) -> None:
    delivery = clerk.accept_and_claim()
    clerk.begin(delivery)
    clerk.finish(delivery, result=b"1")

    for state in (NOT_DONE, UNKNOWN, DONE):
        clerk.now += 1
        clerk.finish(delivery, state, result=b"2")

    effect = clerk.journal(delivery.id)["charge"]
    assert (effect.state, effect.result) == (DONE, b"1")
    assert not _begin_again(clerk, delivery)


def test_a_stale_success_is_accepted_as_proof(clerk: Clerk) -> None:
    first = clerk.accept_and_claim()
    clerk.begin(first)
    clerk.take_over()

    clerk.finish(first, result=b"1")

    assert _state(clerk, first) is DONE


def test_a_stale_success_is_accepted_after_the_effect_was_called_unknown(clerk: Clerk) -> None:
    first = clerk.accept_and_claim()
    clerk.begin(first)
    second = clerk.take_over()
    clerk.finish(second, UNKNOWN)

    clerk.finish(first, result=b"1")

    effect = clerk.journal(first.id)["charge"]
    assert (effect.state, effect.result) == (DONE, b"1")


def test_a_stale_success_is_accepted_after_a_repeat_proved_not_done(clerk: Clerk) -> None:
    first = clerk.accept_and_claim()
    clerk.begin(first, safe=Safety.IDEMPOTENT)
    second = clerk.take_over()
    assert _begin_again(clerk, second)
    clerk.finish(second, NOT_DONE)

    clerk.finish(first, result=b"1")

    assert _state(clerk, first) is DONE
    assert not _begin_again(clerk, second)


def test_a_stale_failure_does_not_undo_what_the_current_worker_began(clerk: Clerk) -> None:
    """The stale worker's call did not happen; that says nothing about the one under way."""
    first = clerk.accept_and_claim()
    clerk.begin(first, safe=Safety.IDEMPOTENT)
    second = clerk.take_over()
    assert _begin_again(clerk, second)

    clerk.finish(first, NOT_DONE)
    assert _state(clerk, first) is STARTED
    clerk.finish(first, UNKNOWN)
    assert _state(clerk, first) is STARTED

    clerk.finish(second, result=b"2")
    assert _state(clerk, first) is DONE


def test_a_proven_failure_may_begin_again(clerk: Clerk) -> None:
    delivery = clerk.accept_and_claim()
    clerk.begin(delivery)
    clerk.finish(delivery, NOT_DONE)
    second = clerk.take_over()

    assert _begin_again(clerk, second, Safety.ONCE)

    effect = clerk.journal(delivery.id)["charge"]
    assert (effect.state, effect.fence, effect.ended_at) == (STARTED, 2, None)


def test_a_repeat_that_did_not_happen_leaves_the_call_it_repeats_in_doubt(clerk: Clerk) -> None:
    """Once the other side has forgotten the key, the first call would be made a second time."""
    first = clerk.accept_and_claim()
    clerk.begin(first, safe=Safety.IDEMPOTENT)
    began = clerk.now
    second = clerk.take_over()
    assert _begin_again(clerk, second)

    clerk.finish(second, NOT_DONE)

    effect = clerk.journal(first.id)["charge"]
    assert (effect.state, effect.first_started_at) == (STARTED, began)


def test_what_was_proven_not_done_leaves_no_doubt_behind(clerk: Clerk) -> None:
    first = clerk.accept_and_claim()
    clerk.begin(first, safe=Safety.IDEMPOTENT)
    clerk.finish(first, NOT_DONE)
    second = clerk.take_over()
    assert _begin_again(clerk, second)

    effect = clerk.journal(first.id)["charge"]
    assert effect.first_started_at == effect.started_at
    clerk.finish(second, NOT_DONE)
    assert _state(clerk, first) is NOT_DONE


def test_the_first_start_of_an_effect_is_remembered(clerk: Clerk) -> None:
    """The window in which other services remember a key counts from it."""
    first = clerk.accept_and_claim()
    clerk.begin(first, safe=Safety.IDEMPOTENT)
    began = clerk.now
    _begin_again(clerk, clerk.take_over())

    effect = clerk.journal(first.id)["charge"]
    assert (effect.first_started_at, effect.started_at) == (began, clerk.now)


@pytest.mark.parametrize("state", [STARTED, NOT_DONE])
def test_a_stale_worker_cannot_begin_again(clerk: Clerk, state: EffectState) -> None:
    first = clerk.accept_and_claim()
    clerk.begin(first)
    if state is NOT_DONE:
        clerk.finish(first, NOT_DONE)
    clerk.take_over()

    assert not _begin_again(clerk, first)
    assert _state(clerk, first) is state


def test_a_stale_wish_does_not_begin_again_because_a_current_one_shares_its_batch(
    clerk: Clerk,
) -> None:
    first = clerk.accept_and_claim()
    clerk.begin(first, safe=Safety.IDEMPOTENT)
    second = clerk.take_over()
    wishes = [_wish_again(clerk, each) for each in (first, second)]

    assert clerk.run(effects.begin_again, wishes, clerk.now) == [False, True]


def test_an_effect_begun_anew_by_another_is_not_begun_anew_once_more(clerk: Clerk) -> None:
    """The start that was judged must still be the last one."""
    clerk.begin(clerk.accept_and_claim())
    second = clerk.take_over()
    judged = _wish_again(clerk, second, Safety.ONCE)
    third = clerk.take_over("cay")
    assert _begin_again(clerk, third)

    fourth = clerk.take_over("dan")
    late = msgspec.structs.replace(judged, fence=fourth.fence)

    assert clerk.run(effects.begin_again, [late], clerk.now) == [False]
    assert clerk.journal(fourth.id)["charge"].fence == third.fence


def test_a_start_repeated_after_a_lost_reply_goes(clerk: Clerk) -> None:
    delivery = clerk.accept_and_claim()
    wish = clerk.wish(delivery)
    assert [clerk.run(effects.begin, [wish], clerk.now)[0].go for _ in range(2)] == [True, True]

    clerk.finish(delivery, NOT_DONE)
    second = clerk.take_over()
    again = _wish_again(clerk, second)
    assert [clerk.run(effects.begin_again, [again], clerk.now) for _ in range(2)] == [
        [True],
        [True],
    ]


def test_a_start_repeated_after_the_lease_was_lost_does_not_go(clerk: Clerk) -> None:
    first = clerk.accept_and_claim()
    wish = clerk.wish(first)
    clerk.run(effects.begin, [wish], clerk.now)
    clerk.take_over()

    (begun,) = clerk.run(effects.begin, [wish], clerk.now)

    assert not begun.go


def test_an_unknown_effect_never_begins_again(clerk: Clerk) -> None:
    first = clerk.accept_and_claim()
    clerk.begin(first)
    second = clerk.take_over()
    clerk.finish(second, UNKNOWN)

    assert not _begin_again(clerk, second)
    assert _state(clerk, first) is UNKNOWN


def test_an_effect_never_begun_cannot_begin_again_or_end(clerk: Clerk) -> None:
    delivery = clerk.accept_and_claim()

    assert not _begin_again(clerk, delivery)
    clerk.finish(delivery)

    assert clerk.journal(delivery.id) == {}


# transactions of our own


def _note(word: str) -> Callable[[Transaction], bytes | None]:
    def work(tx: Transaction) -> bytes | None:
        tx.execute(f"INSERT INTO notes (word) VALUES ('{word}')")  # noqa: S608 - a test's word
        return b"1"

    return work


@pytest.fixture
def notebook(clerk: Clerk) -> Callable[[], list[str]]:
    """A user's own table beside ours."""
    if clerk.place.kind == "postgres":
        clerk.session.run(lambda tx: tx.execute("DROP TABLE IF EXISTS notes"))
    clerk.session.run(lambda tx: tx.execute("CREATE TABLE notes (word TEXT)"))
    return lambda: [
        str(word) for (word,) in clerk.session.run(lambda tx: tx.execute("SELECT word FROM notes"))
    ]


def test_a_transaction_commits_with_its_journal(
    clerk: Clerk, notebook: Callable[[], list[str]]
) -> None:
    delivery = clerk.accept_and_claim()

    effect = _transact(clerk, clerk.wish(delivery), _note("one"))

    assert (effect.state, effect.result, notebook()) == (DONE, b"1", ["one"])


def test_a_repeated_transaction_returns_the_stored_result(
    clerk: Clerk, notebook: Callable[[], list[str]]
) -> None:
    first = clerk.accept_and_claim()
    _transact(clerk, clerk.wish(first), _note("one"))
    second = clerk.take_over()

    effect = _transact(clerk, clerk.wish(second), _note("two"))

    assert (effect.state, effect.result, notebook()) == (DONE, b"1", ["one"])


def test_a_failing_transaction_leaves_neither_work_nor_journal(
    clerk: Clerk, notebook: Callable[[], list[str]]
) -> None:
    delivery = clerk.accept_and_claim()

    def work(tx: Transaction) -> bytes | None:
        _note("half")(tx)
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        _transact(clerk, clerk.wish(delivery), work)

    assert (notebook(), clerk.journal(delivery.id)) == ([], {})
    assert _transact(clerk, clerk.wish(delivery), _note("whole")).state is DONE
    assert notebook() == ["whole"]


def test_a_stale_worker_cannot_transact(clerk: Clerk, notebook: Callable[[], list[str]]) -> None:
    first = clerk.accept_and_claim()
    clerk.take_over()

    with pytest.raises(LeaseLost):
        _transact(clerk, clerk.wish(first), _note("stale"))

    assert notebook() == []


def test_a_transaction_does_not_pass_over_an_effect_in_doubt(clerk: Clerk) -> None:
    """The name was used for a call to the outside before; that is not a stored result."""
    delivery = clerk.accept_and_claim()
    clerk.begin(delivery)
    second = clerk.take_over()

    with pytest.raises(EffectOutcomeUnknown):
        _transact(clerk, clerk.wish(second))

    assert _state(clerk, delivery) is STARTED


def test_a_transaction_runs_after_its_effect_was_proven_not_done(clerk: Clerk) -> None:
    delivery = clerk.accept_and_claim()
    clerk.begin(delivery)
    clerk.finish(delivery, NOT_DONE)

    assert _transact(clerk, clerk.wish(delivery)).state is DONE


# a person's word


@pytest.mark.parametrize("word", [DONE, NOT_DONE])
@pytest.mark.parametrize("state", [STARTED, UNKNOWN])
def test_a_person_resolves_an_effect_in_doubt(
    clerk: Clerk, state: EffectState, word: EffectState
) -> None:
    delivery = clerk.accept_and_claim()
    clerk.begin(delivery)
    if state is UNKNOWN:
        clerk.finish(delivery, UNKNOWN)

    resolved = clerk.run(effects.resolve, "acme", delivery.id, "charge", word, clerk.now)

    assert resolved
    assert _state(clerk, delivery) is word


@pytest.mark.parametrize("state", [DONE, NOT_DONE])
def test_a_person_cannot_change_what_is_known(clerk: Clerk, state: EffectState) -> None:
    delivery = clerk.accept_and_claim()
    clerk.begin(delivery)
    clerk.finish(delivery, state)
    other = NOT_DONE if state is DONE else DONE

    assert not clerk.run(effects.resolve, "acme", delivery.id, "charge", other, clerk.now)
    assert _state(clerk, delivery) is state


def test_another_tenant_resolves_nothing(clerk: Clerk) -> None:
    delivery = clerk.accept_and_claim()
    clerk.begin(delivery)

    assert not clerk.run(effects.resolve, "other", delivery.id, "charge", DONE, clerk.now)
    assert clerk.run(effects.of_delivery, "other", delivery.id) == []


@pytest.mark.parametrize("kind", ["postgres"])  # on SQLite nobody writes beside a transaction
def test_a_transaction_that_lost_its_lease_meanwhile_is_undone(clerk: Clerk, place: Place) -> None:
    delivery = clerk.accept_and_claim()
    other = Clerk(place, now=clerk.now)

    def work(tx: Transaction) -> bytes:
        tx.execute("CREATE TABLE undone (text TEXT)")
        other.take_over()
        return b"1"

    with closing(other), pytest.raises(LeaseLost):
        clerk.run(effects.transact, clerk.wish(delivery), work, clerk.now)

    assert clerk.journal(delivery.id) == {}
    assert clerk.run(lambda tx: tx.execute("SELECT to_regclass('undone')")) == [(None,)]
