"""Guards of sends: an agent that plans anew sends no second mail, and none sends without end."""

import asyncio
import threading
from collections import Counter
from typing import Any

import msgspec
import pytest

from oncebox.core import ids
from oncebox.db.database import Database
from oncebox.errors.sends import SendBudgetSpent
from oncebox.ledger.sends import submission
from oncebox.ledger.transactions import Ledger
from oncebox.model.sends.send import (
    BUDGET_WINDOW,
    AnswerStatus,
    IntentAccepted,
    IntentRefused,
    IntentResult,
    NewSend,
    SendLimits,
    SendState,
)
from oncebox.model.sends.transports import SendOutcome
from tests.support.clerk import HOUR, MINUTE, TENANT, Clerk
from tests.support.interleaved import interleave
from tests.support.mailer import BOUNCED, BOX, RELAY, SILENCE, TAKEN, TO, Mailer

S = SendState
BOB = "bob@example.org"
TYPE = "order.confirmation"
COOL = SendLimits(cool_down=10 * MINUTE)
KEY_OF = "key_1"
THREADS = 8


@pytest.fixture
def mailer(clerk: Clerk) -> Mailer:
    return Mailer(clerk)


def _cooled(**more: Any) -> dict[str, Any]:
    return {"event_type": TYPE, "guards": COOL, **more}


def _budget(per_key: int = 0, per_recipient: int = 0, **more: Any) -> dict[str, Any]:
    limits = SendLimits(per_key=per_key, per_recipient=per_recipient)
    return {"owner": KEY_OF, "guards": limits, **more}


def _answers(told: list[IntentResult]) -> list[AnswerStatus | None]:
    return [None if each is None else each.status for each in told]


def _used(mailer: Mailer) -> dict[str, int]:
    rows = mailer.rows("SELECT kind, SUM(used) FROM oncebox_send_guards GROUP BY kind")
    return {kind: int(used) for kind, used in rows}


# the cool-down


def test_a_replanned_key_sends_no_second_mail_and_names_the_first(mailer: Mailer) -> None:
    first = mailer.intend("first", **_cooled())
    mailer.clerk.now += MINUTE
    told = mailer.turned_down("second", **_cooled())

    assert told.status is AnswerStatus.COOLING_DOWN
    assert (told.earlier, told.retry_after) == (first.send.id, 9 * MINUTE)
    assert len(mailer.claim()) == 1
    for table in ("sends", "send_bodies", "send_recipients"):
        assert len(mailer.rows(f"SELECT * FROM oncebox_{table}")) == 1  # noqa: S608 - our names


def test_after_the_cool_down_a_new_key_is_a_new_mail(mailer: Mailer) -> None:
    mailer.intend("first", **_cooled())
    mailer.clerk.now += 10 * MINUTE - 1
    assert mailer.turned_down("second", **_cooled()).retry_after == 1
    mailer.clerk.now += 1

    second = mailer.intend("second", **_cooled())
    assert second.created
    assert mailer.turned_down("third", **_cooled()).earlier == second.send.id


def test_a_repeat_of_a_known_key_is_never_turned_down(mailer: Mailer) -> None:
    mailer.intend("first", **_cooled())

    assert mailer.intend("first", text="other", **_cooled()).drift
    mailer.clerk.now += HOUR
    assert mailer.intend("first", **_cooled()).status is AnswerStatus.IN_FLIGHT
    assert mailer.intend("second", **_cooled()).created
    assert mailer.intend("first", **_cooled()).status is AnswerStatus.IN_FLIGHT


@pytest.mark.parametrize(
    "other",
    [{"event_type": "order.shipped"}, {"event_type": ""}, {"to": (BOB,)}, {"tenant": "globex"}],
)
def test_another_type_another_recipient_and_another_tenant_are_apart(
    mailer: Mailer, other: dict[str, Any]
) -> None:
    mailer.add_transport(RELAY, tenant="globex")
    mailer.intend("first", **_cooled())

    assert mailer.intend("second", **_cooled(**other)).created


def test_mail_of_no_type_cools_down_too(mailer: Mailer) -> None:
    mailer.intend("first", guards=COOL)

    assert mailer.turned_down("second", guards=COOL).status is AnswerStatus.COOLING_DOWN


def test_who_has_no_guards_is_not_turned_down(mailer: Mailer) -> None:
    mailer.intend("first", **_cooled())

    assert mailer.intend("second", event_type=TYPE).created
    assert mailer.intend("third", event_type=TYPE).created


def test_a_mail_for_later_cools_down_from_then_on(mailer: Mailer) -> None:
    mailer.intend("first", **_cooled(send_at=mailer.clerk.now + HOUR))
    mailer.clerk.now += HOUR

    assert mailer.turned_down("second", **_cooled()).retry_after == 10 * MINUTE


def test_several_recipients_are_all_free_or_nothing_is_taken(mailer: Mailer) -> None:
    mailer.intend("ann", **_cooled())
    told = mailer.turned_down("both", **_cooled(to=(BOB, TO)))

    assert told.status is AnswerStatus.COOLING_DOWN
    assert mailer.intend("bob", **_cooled(to=(BOB,))).created
    assert mailer.turned_down("both", **_cooled(to=(BOB, TO))).status is AnswerStatus.COOLING_DOWN


def _end(mailer: Mailer, state: SendState) -> str:
    """Bring a send to its end, or into doubt."""
    if state is S.CANCELLED:
        return mailer.cancel(mailer.intend("first", **_cooled()).send.id).id
    if state is S.EXPIRED:
        id_ = mailer.intend("first", **_cooled(valid_until=mailer.clerk.now + 1)).send.id
        mailer.clerk.now += 1
        mailer.sweep()
        return id_
    if state is S.SUPPRESSED:
        mailer.suppress()
        id_ = mailer.intend("first", **_cooled()).send.id
        mailer.unsuppress()
        return id_
    outcomes: dict[SendState, SendOutcome] = {S.FAILED: BOUNCED, S.SENT: TAKEN, S.UNKNOWN: SILENCE}
    send = mailer.start("first", **_cooled())
    mailer.say(send, outcomes.get(state, TAKEN), logged=state is S.LOGGED)
    return send.id


@pytest.mark.parametrize("state", [S.FAILED, S.EXPIRED, S.CANCELLED, S.SUPPRESSED])
def test_a_send_proven_not_sent_starts_no_cool_down(mailer: Mailer, state: SendState) -> None:
    id_ = _end(mailer, state)
    assert mailer.state(id_) is state

    assert mailer.intend("second", **_cooled()).created


@pytest.mark.parametrize("state", [S.SENT, S.UNKNOWN, S.LOGGED])
def test_what_was_sent_or_may_have_been_cools_down(mailer: Mailer, state: SendState) -> None:
    id_ = _end(mailer, state)
    assert mailer.state(id_) is state

    assert mailer.turned_down("second", **_cooled()).earlier == id_


def test_what_failed_is_not_armed_again_while_another_key_cools_down(mailer: Mailer) -> None:
    id_ = _end(mailer, S.FAILED)
    second = mailer.intend("second", **_cooled())

    assert mailer.turned_down("first", **_cooled()).earlier == second.send.id
    assert mailer.state(id_) is S.FAILED
    mailer.clerk.now += 10 * MINUTE
    assert mailer.intend("first", **_cooled()).rearmed
    assert mailer.turned_down("third", **_cooled()).earlier == id_


def test_what_failed_is_armed_again_under_its_own_cool_down(mailer: Mailer) -> None:
    id_ = _end(mailer, S.FAILED)

    assert mailer.intend("first", **_cooled()).rearmed
    assert mailer.turned_down("second", **_cooled()).earlier == id_


def test_another_audience_under_a_known_key_is_told_that_and_no_more(mailer: Mailer) -> None:
    mailer.intend("bob", **_cooled(to=(BOB,)))
    _end(mailer, S.FAILED)
    told = mailer.intend("first", **_cooled(to=(BOB,)))

    assert told.status is AnswerStatus.CONFLICT


# budgets


def test_a_key_that_has_spent_its_hour_waits_for_the_next(mailer: Mailer) -> None:
    for n in range(3):
        mailer.intend(f"{n}", **_budget(per_key=3))
        mailer.clerk.now += MINUTE
    told = mailer.turned_down("3", **_budget(per_key=3))

    assert (told.status, told.earlier) == (AnswerStatus.OVER_BUDGET, None)
    assert told.retry_after == BUDGET_WINDOW - 3 * MINUTE
    mailer.clerk.now += told.retry_after - 1
    assert mailer.turned_down("3", **_budget(per_key=3)).retry_after == 1
    mailer.clerk.now += 1
    assert mailer.intend("3", **_budget(per_key=3)).created
    assert _used(mailer) == {"key": 1}


def test_a_recipient_has_a_budget_whoever_asks(mailer: Mailer) -> None:
    for n in range(2):
        mailer.intend(f"{n}", **_budget(per_recipient=2, owner=f"key_{n}"))

    told = mailer.turned_down("2", **_budget(per_recipient=2, owner="key_2"))
    assert told.status is AnswerStatus.OVER_BUDGET
    assert mailer.intend("bob", **_budget(per_recipient=2, to=(BOB,))).created


def test_another_key_has_a_budget_of_its_own_and_the_terminal_none(mailer: Mailer) -> None:
    mailer.intend("a", **_budget(per_key=1))
    mailer.turned_down("b", **_budget(per_key=1))

    assert mailer.intend("b", **_budget(per_key=1, owner="key_2")).created
    assert mailer.intend("c", **_budget(per_key=1, owner=None)).created
    assert mailer.intend("d", **_budget(per_key=1, owner=None)).created


def test_repeats_and_those_turned_down_cost_nothing(mailer: Mailer) -> None:
    both = _budget(per_key=2, per_recipient=2)
    mailer.intend("a", **both)
    for _ in range(5):
        mailer.intend("a", **both)
    mailer.intend("b", **both)
    for _ in range(5):
        mailer.turned_down("c", **both)
        mailer.intend("b", **both)

    assert _used(mailer) == {"key": 2, "recipient": 2}


def test_what_is_armed_again_is_counted_again(mailer: Mailer) -> None:
    for _ in range(2):
        mailer.cancel(mailer.intend("a", **_budget(per_key=2)).send.id)
    told = mailer.turned_down("a", **_budget(per_key=2))

    assert told.status is AnswerStatus.OVER_BUDGET
    assert mailer.rows("SELECT rearms FROM oncebox_sends") == [(1,)]


def test_a_spent_recipient_costs_the_others_nothing(mailer: Mailer) -> None:
    mailer.intend("a", **_budget(per_recipient=1))
    mailer.turned_down("b", **_budget(per_key=5, per_recipient=1, to=(BOB, TO)))

    assert mailer.intend("c", **_budget(per_key=1, per_recipient=1, to=(BOB,))).created


def test_a_way_that_is_not_there_costs_nothing(mailer: Mailer) -> None:
    limits = _budget(per_key=1, event_type=TYPE)
    limits["guards"] = msgspec.structs.replace(limits["guards"], cool_down=MINUTE)
    lost = mailer.new("a", transport="nowhere", **limits)
    told = mailer.told(lost, mailer.new("b", **limits))

    assert told[0] is None
    assert _answers(told)[1] is AnswerStatus.IN_FLIGHT
    assert _used(mailer)["key"] == 1


def test_the_first_who_finds_no_transport_at_all_is_counted_once(mailer: Mailer) -> None:
    mailer.rows("DELETE FROM oncebox_transports RETURNING name")
    limits = _budget(per_key=2, transport="")

    assert _answers(mailer.told(mailer.new("a", **limits), mailer.new("b", **limits))) == [
        AnswerStatus.IN_FLIGHT,
        AnswerStatus.IN_FLIGHT,
    ]
    assert _used(mailer) == {"key": 2}


# many in one commit


def test_in_one_commit_only_those_are_turned_down_for_whom_nothing_is_left(mailer: Mailer) -> None:
    limits = _budget(per_key=3)
    news = [mailer.new(f"{n}", to=(f"{n}@example.org",), **limits) for n in range(5)]
    free = mailer.new("free")
    told = mailer.told(*news, free)

    assert Counter(_answers(told[:5])) == {AnswerStatus.IN_FLIGHT: 3, AnswerStatus.OVER_BUDGET: 2}
    assert _answers(told[5:]) == [AnswerStatus.IN_FLIGHT]
    assert len(mailer.claim()) == 4
    assert _used(mailer) == {"key": 3}


def test_in_one_commit_one_of_many_keys_cools_the_others_down(mailer: Mailer) -> None:
    told = mailer.told(*(mailer.new(f"{n}", **_cooled()) for n in range(5)))
    (first,) = (each for each in told if isinstance(each, IntentAccepted))

    assert {each.earlier for each in told if isinstance(each, IntentRefused)} == {first.send.id}
    assert len(mailer.claim()) == 1


def test_in_one_commit_a_key_asked_for_often_is_counted_once(mailer: Mailer) -> None:
    limits = _budget(per_key=1, per_recipient=1)
    told = mailer.told(*(mailer.new("a", **limits) for _ in range(6)))

    assert _answers(told) == [AnswerStatus.IN_FLIGHT] * 6
    assert _used(mailer) == {"key": 1, "recipient": 1}


def test_a_batch_of_which_one_is_turned_down_leaves_nothing(mailer: Mailer) -> None:
    new = submission.NewBatch(id=ids.new("bat"), tenant=TENANT, key=b"batch")
    limits = _budget(per_key=2)
    mailer.intend("before", **limits)

    def ask() -> list[SendState]:
        wanted = [mailer.new("a", **limits), mailer.new("b", to=(BOB,), **limits)]
        told = mailer.clerk.run(submission.store_batch, new, wanted, mailer.clerk.now)
        return [each.send.state for each in told.answers]

    with pytest.raises(SendBudgetSpent):
        ask()
    assert _used(mailer) == {"key": 1}
    assert len(mailer.rows("SELECT id FROM oncebox_sends")) == 1
    mailer.clerk.now += BUDGET_WINDOW
    assert ask() == [S.PENDING, S.PENDING]
    assert len(mailer.rows("SELECT send_id FROM oncebox_batch_sends")) == 2


# at the same time


def test_of_two_replanned_keys_at_once_one_is_let_in(mailer: Mailer) -> None:
    mailer.intend("long ago", **_cooled())
    mailer.clerk.now += 10 * MINUTE
    one, two = mailer.new("one", **_cooled()), mailer.new("two", **_cooled())
    first, second = _at_once(mailer, one, two)

    assert isinstance(first, IntentAccepted)
    assert isinstance(second, IntentRefused)
    assert second.earlier == first.send.id


def test_of_two_at_once_one_gets_the_last_of_a_budget(mailer: Mailer) -> None:
    limits = _budget(per_key=2)
    mailer.intend("before", **limits)
    first, second = _at_once(mailer, mailer.new("one", **limits), mailer.new("two", **limits))

    assert _answers([first, second]) == [AnswerStatus.IN_FLIGHT, AnswerStatus.OVER_BUDGET]
    assert _used(mailer) == {"key": 2}


def test_of_two_with_the_same_key_at_once_both_are_told_of_one_send(mailer: Mailer) -> None:
    limits = _budget(per_key=1, per_recipient=1, event_type=TYPE)
    limits["guards"] = msgspec.structs.replace(limits["guards"], cool_down=MINUTE)
    first, second = _at_once(mailer, mailer.new("a", **limits), mailer.new("a", **limits))

    assert _answers([first, second]) == [AnswerStatus.IN_FLIGHT] * 2
    assert (_used(mailer)["key"], len(mailer.claim())) == (1, 1)


def test_of_an_armed_again_and_a_replanned_key_at_once_one_is_let_in(mailer: Mailer) -> None:
    """The second has read that the first one's send had failed, before it waited for it."""
    _end(mailer, S.FAILED)
    first, second = _at_once(mailer, mailer.new("first", **_cooled()), mailer.new("b", **_cooled()))

    assert isinstance(first, IntentAccepted)
    assert first.rearmed
    assert isinstance(second, IntentRefused)
    assert len(mailer.claim()) == 1


def _at_once(mailer: Mailer, one: NewSend, two: NewSend) -> tuple[IntentResult, IntentResult]:
    now = mailer.clerk.now
    return interleave(
        mailer.clerk.place,
        lambda tx: submission.store_intents(tx, [one], now)[0],
        lambda tx: submission.store_intents(tx, [two], now)[0],
    )


@pytest.mark.parametrize("cooled", [True, False])
def test_among_racing_threads_no_more_are_let_in_than_may_be(
    mailer: Mailer, cooled: object
) -> None:
    """Each wants several recipients, in an order of its own, and so could wait for another."""
    people = tuple(f"{n}@example.org" for n in range(6))
    limits = _cooled() if cooled else _budget(per_key=3, per_recipient=4)
    told: list[IntentResult] = []
    gate = threading.Barrier(THREADS)

    def ask(number: int) -> None:
        session = mailer.clerk.place.session()
        turned = people[number % 6 :] + people[: number % 6]
        new = [mailer.new(f"{number} {n}", to=turned, **limits) for n in range(3)]
        gate.wait(30)
        try:
            told.extend(session.run(lambda tx: submission.store_intents(tx, new, mailer.clerk.now)))
        finally:
            session.close()

    threads = [threading.Thread(target=ask, args=(number,)) for number in range(THREADS)]
    for each in threads:
        each.start()
    for each in threads:
        each.join(30)

    assert len(told) == 3 * THREADS
    let_in = sum(isinstance(each, IntentAccepted) for each in told)
    assert let_in == (1 if cooled else 3)
    assert len(mailer.claim()) == let_in


async def test_callers_who_share_commits_share_budgets(clerk: Clerk, database: Database) -> None:
    mailer, ledger = Mailer(clerk), Ledger(database)
    limits = _budget(per_key=10)
    news = [mailer.new(f"{n % 20}", to=(f"{n % 20}@example.org",), **limits) for n in range(60)]
    told = await asyncio.gather(*(ledger.submit(submission.store_intents, each) for each in news))

    created = sum(isinstance(each, IntentAccepted) and each.created for each in told)
    assert created == 10
    assert {each.status for each in told if each} == {
        AnswerStatus.IN_FLIGHT,
        AnswerStatus.OVER_BUDGET,
    }


# what is kept


def test_guards_that_guard_nothing_are_forgotten(mailer: Mailer) -> None:
    mailer.intend("a", **_cooled())
    mailer.intend("b", **_budget(per_key=5, per_recipient=5))
    assert mailer.clerk.run(submission.forget_guards, mailer.clerk.now) == 0
    mailer.clerk.now += 10 * MINUTE
    assert mailer.clerk.run(submission.forget_guards, mailer.clerk.now) == 1
    mailer.clerk.now += HOUR

    assert mailer.clerk.run(submission.forget_guards, mailer.clerk.now, 1) == 1
    assert mailer.clerk.run(submission.forget_guards, mailer.clerk.now) == 1
    assert mailer.rows("SELECT * FROM oncebox_send_guards") == []


def test_a_guard_is_not_forgotten_while_somebody_takes_from_it(mailer: Mailer) -> None:
    mailer.intend("a", **_budget(per_key=1))
    mailer.clerk.now += BUDGET_WINDOW
    new, now = mailer.new("b", **_budget(per_key=1)), mailer.clerk.now
    interleave(
        mailer.clerk.place,
        lambda tx: submission.store_intents(tx, [new], now)[0],
        lambda tx: submission.forget_guards(tx, now),
    )

    assert mailer.turned_down("c", **_budget(per_key=1)).status is AnswerStatus.OVER_BUDGET


def test_guards_tell_no_address(mailer: Mailer) -> None:
    mailer.intend("a", **_budget(per_recipient=5))

    everything = repr(mailer.rows("SELECT * FROM oncebox_send_guards"))
    assert TO not in everything
    assert repr(BOX.address_fingerprint(TENANT, TO)) in everything
