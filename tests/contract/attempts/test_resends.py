"""Resends: an attempt asks for its mail again as often as its policy allows, and no more."""

from threading import Barrier, Thread

import pytest

from oncebox.errors import NotFound
from oncebox.errors.mail import ResendLimitReached
from oncebox.ledger.attempts import attempts
from oncebox.model.attempts import ActionState, request_fingerprint
from oncebox.model.inboxes.inbox import InboxPolicy
from tests.support.actor import ATTEMPT, Actor
from tests.support.clerk import Clerk
from tests.support.databases import Place
from tests.support.interleaved import interleave
from tests.support.mailroom import MailRoom, agent


@pytest.fixture
def room(clerk: Clerk) -> MailRoom:
    return MailRoom(clerk)


@pytest.fixture
def one(clerk: Clerk) -> Actor:
    return Actor(clerk)


def _make(room: MailRoom, resends: int, label: str = "", key: str = "key_1") -> str:
    policy = InboxPolicy(resends=resends)
    return room.make(agent(key), attempt_id=ATTEMPT, label=label, policy=policy).id


def test_a_resend_is_granted_as_often_as_the_policy_says(room: MailRoom, one: Actor) -> None:
    _make(room, 2)
    first, second = one.resend("a"), one.resend("b")

    assert [(each.number, each.allowed) for each in (first, second)] == [(1, 2), (2, 2)]
    with pytest.raises(ResendLimitReached, match="2 times"):
        one.resend("c")


def test_the_same_request_is_granted_once_and_told_again(room: MailRoom, one: Actor) -> None:
    _make(room, 1)
    first = one.resend("a")
    room.clerk.now += 1
    again = one.resend("a")

    assert (again.number, again.at, again.repeated) == (1, first.at, True)
    with pytest.raises(ResendLimitReached):
        one.resend("b")


def test_the_same_request_of_another_key_is_another(room: MailRoom, one: Actor) -> None:
    _make(room, 1)
    one.resend("a")

    with pytest.raises(ResendLimitReached):
        Actor(room.clerk, "key_9", sees_all=True).resend("a")


def test_none_is_granted_where_the_policy_says_none(room: MailRoom, one: Actor) -> None:
    _make(room, 0)

    with pytest.raises(ResendLimitReached, match="must not"):
        one.resend("a")


def test_the_strictest_policy_of_the_owners_inboxes_counts(room: MailRoom, one: Actor) -> None:
    _make(room, 3)
    _make(room, 2, "second")
    _make(room, 0, "a stranger's", "key_2")

    assert one.resend("a").allowed == 2


def test_a_rotated_inbox_brings_no_new_budget(room: MailRoom, one: Actor) -> None:
    id_ = _make(room, 1)
    one.resend("a")
    room.rotate(id_)

    with pytest.raises(ResendLimitReached):
        one.resend("b")


def test_an_attempt_that_only_acts_has_one(one: Actor) -> None:
    one.begin()

    assert one.resend("a").allowed == 1
    with pytest.raises(ResendLimitReached):
        one.resend("b")


def test_a_stranger_and_who_asks_for_nothing_are_told_the_same(room: MailRoom) -> None:
    _make(room, 1)
    for attempt in (ATTEMPT, "nothing"):
        with pytest.raises(NotFound, match="no such attempt"):
            Actor(room.clerk, "key_2").resend("a", attempt)


def test_a_resend_is_told_with_the_inbox(room: MailRoom, one: Actor) -> None:
    id_ = _make(room, 1)
    one.resend("a")
    one.resend("a")

    assert room.told() == [("resend.granted", id_)]


@pytest.mark.parametrize(("second", "granted"), [("a", 1), ("b", 2)])
def test_two_at_once_are_granted_one_after_the_other(
    room: MailRoom, one: Actor, second: str, granted: int
) -> None:
    _make(room, 5)
    one.begin()  # whose the attempt is must not be what they wait for
    asked = [request_fingerprint("key_1", each) for each in ("a", second)]
    now = room.clerk.now
    answers = interleave(
        room.clerk.place,
        lambda tx: attempts.grant_resend(tx, one.asker, ATTEMPT, asked[0], now),
        lambda tx: attempts.grant_resend(tx, one.asker, ATTEMPT, asked[1], now),
    )

    assert [each.number for each in answers] == [1, granted]
    assert [each.repeated for each in answers] == [False, second == "a"]


def test_racing_callers_never_exceed_the_budget(room: MailRoom, one: Actor) -> None:
    _make(room, 3)
    barrier, granted = Barrier(12), []

    def ask(place: Place, number: int) -> None:
        clerk = Clerk(place, now=room.clerk.now)
        barrier.wait()
        try:
            granted.append(Actor(clerk).resend(str(number)).number)
        except ResendLimitReached:
            pass
        finally:
            clerk.close()

    threads = [Thread(target=ask, args=(room.clerk.place, number)) for number in range(12)]
    for each in threads:
        each.start()
    for each in threads:
        each.join()

    assert sorted(granted) == [1, 2, 3]


def test_the_figures_of_an_attempt_tell_resends_and_actions(room: MailRoom, one: Actor) -> None:
    _make(room, 3)
    fresh = room.clerk.run(attempts.figures, one.asker, ATTEMPT)
    one.resend("a")
    one.begin(name="x")
    one.begin(name="y")
    one.done(name="y")
    later = room.clerk.run(attempts.figures, one.asker, ATTEMPT)
    stranger = room.clerk.run(attempts.figures, agent("key_2"), ATTEMPT)

    assert fresh is not None
    assert later is not None
    assert (fresh.resends, fresh.allowed, fresh.actions) == (0, 3, {})
    assert (later.resends, later.allowed) == (1, 3)
    assert later.actions == {ActionState.STARTED: 1, ActionState.DONE: 1}
    assert stranger is None
