"""Actions: begun once, told ever after, and in doubt never repeated against their choice."""

from collections.abc import Callable

import pytest

from oncebox.errors import NotFound, StateConflict
from oncebox.ledger.attempts import actions
from oncebox.model.attempts import TRANSITIONS, ActionState, BeginStatus, action_key
from oncebox.model.deliveries.effects import Safety
from tests.support.actor import ATTEMPT, DAY, NAME, Actor
from tests.support.clerk import LEASE, TENANT, Clerk
from tests.support.interleaved import interleave
from tests.support.mailroom import MailRoom, agent

BEGUN, LOOK, DONE = BeginStatus.BEGUN, BeginStatus.LOOK, BeginStatus.DONE
IN_FLIGHT, HELD = BeginStatus.IN_FLIGHT, BeginStatus.HELD
ONCE, IDEMPOTENT, VERIFY = Safety.ONCE, Safety.IDEMPOTENT, Safety.VERIFY
#: what the next caller is told of an action that was lost, and the state it is in then
LOST = {
    IDEMPOTENT: (BEGUN, ActionState.STARTED),
    ONCE: (HELD, ActionState.UNKNOWN),
    VERIFY: (LOOK, ActionState.VERIFYING),
}


@pytest.fixture
def one(clerk: Clerk) -> Actor:
    return Actor(clerk)


@pytest.fixture
def two(clerk: Clerk) -> Actor:
    """Another process with the same key."""
    return Actor(clerk)


# beginning


def test_an_action_is_begun_once_and_others_must_wait(one: Actor, two: Actor) -> None:
    first, second = one.begin(), two.begin()

    assert (first.status, first.action.fence) == (BEGUN, 1)
    assert first.action.lease_until == one.clerk.now + LEASE
    assert (second.status, second.action.lease_until) == (IN_FLIGHT, first.action.lease_until)


def test_a_repeat_of_the_same_request_is_told_the_same(one: Actor) -> None:
    first = one.begin(request="r")
    one.clerk.now += 5
    again = one.begin(request="r")

    assert (again.status, again.action.fence) == (BEGUN, first.action.fence)
    assert again.action.lease_until == one.clerk.now + LEASE


def test_a_repeat_of_the_same_request_may_come_after_the_lease(one: Actor) -> None:
    one.begin(request="r")
    one.lose()
    again = one.begin(request="r")

    assert (again.status, again.action.fence) == (BEGUN, 1)


def test_the_same_request_of_another_key_is_another(clerk: Clerk, one: Actor) -> None:
    one.begin(request="r")

    assert Actor(clerk, "key_2", sees_all=True).begin(request="r").status is IN_FLIGHT


def test_repeats_are_answered_with_the_first_result(one: Actor, two: Actor) -> None:
    one.begin()
    one.done(result=b"first")
    one.done(result=b"second")
    told = two.begin(IDEMPOTENT)

    assert (told.status, told.action.result) == (DONE, b"first")


def test_many_who_begin_in_one_commit_begin_one(one: Actor) -> None:
    answers = one.clerk.run(actions.begin, [one.wish() for _ in range(8)], one.clerk.now)

    standings = [each.status for each in answers if each is not None]
    assert sorted(standings) == [BEGUN] + [IN_FLIGHT] * 7


@pytest.mark.parametrize("safe", Safety)
def test_many_who_take_over_in_one_commit_take_over_once(one: Actor, safe: Safety) -> None:
    one.begin(safe)
    one.lose()
    answers = one.clerk.run(actions.begin, [one.wish(safe) for _ in range(8)], one.clerk.now)

    standings = [each.status for each in answers if each is not None]
    first, _ = LOST[safe]
    rest = HELD if safe is ONCE else IN_FLIGHT
    assert sorted(standings) == sorted([first] + [rest] * 7)


def test_actions_of_many_attempts_begin_in_one_commit(one: Actor) -> None:
    wishes = [one.wish(attempt=f"a{n % 3}", name=f"n{n % 2}") for n in range(6)]
    answers = one.clerk.run(actions.begin, wishes, one.clerk.now)

    assert [each and each.status for each in answers] == [BEGUN] * 6


@pytest.mark.parametrize("safe", Safety)
def test_of_two_who_begin_at_once_one_does(one: Actor, two: Actor, safe: Safety) -> None:
    wishes = [one.wish(safe), two.wish(safe)]
    first, second = interleave(
        one.clerk.place,
        lambda tx: actions.begin(tx, wishes[:1], one.clerk.now)[0],
        lambda tx: actions.begin(tx, wishes[1:], one.clerk.now)[0],
    )

    assert first is not None
    assert second is not None
    assert (first.status, second.status) == (BEGUN, IN_FLIGHT)


@pytest.mark.parametrize("safe", Safety)
def test_of_two_who_take_over_at_once_one_does(one: Actor, two: Actor, safe: Safety) -> None:
    one.begin(safe)
    one.lose()
    wishes = [one.wish(safe), two.wish(safe)]
    first, second = interleave(
        one.clerk.place,
        lambda tx: actions.begin(tx, wishes[:1], one.clerk.now)[0],
        lambda tx: actions.begin(tx, wishes[1:], one.clerk.now)[0],
    )

    assert first is not None
    assert second is not None
    assert first.status is LOST[safe][0]
    assert second.status is (HELD if safe is ONCE else IN_FLIGHT)


# in doubt


@pytest.mark.parametrize("safe", Safety)
def test_what_was_lost_goes_on_as_was_chosen(one: Actor, two: Actor, safe: Safety) -> None:
    one.begin(safe)
    one.clerk.now += LEASE - 1
    early = two.begin(safe)
    one.clerk.now += 1
    told = two.begin(safe)

    assert early.status is IN_FLIGHT
    assert (told.status, told.action.state) == LOST[safe]
    assert told.action.fence == (1 if safe is ONCE else 2)


@pytest.mark.parametrize("first", Safety)
@pytest.mark.parametrize("second", Safety)
def test_where_the_choices_differ_no_caller_repeats(
    one: Actor, two: Actor, first: Safety, second: Safety
) -> None:
    one.begin(first)
    one.lose()

    expected = LOST[first][0] if first is second else HELD
    assert two.begin(second).status is expected


def test_a_repeat_is_not_begun_after_the_window(one: Actor, two: Actor) -> None:
    one.begin(IDEMPOTENT)
    one.clerk.now += DAY
    inside = two.begin(IDEMPOTENT)
    one.clerk.now += LEASE
    outside = two.begin(IDEMPOTENT)

    assert (inside.status, outside.status) == (BEGUN, HELD)


def test_who_looks_says_what_was_found(one: Actor, two: Actor) -> None:
    one.begin(VERIFY)
    one.lose()
    look = two.begin(VERIFY)
    meanwhile = one.begin(VERIFY)
    assert two.not_done(look.action.fence)
    again = two.begin(VERIFY)
    one.lose()
    second = one.begin(VERIFY)
    one.done(second.action.fence, b"found")

    assert (look.status, meanwhile.status, again.status) == (LOOK, IN_FLIGHT, BEGUN)
    assert second.status is LOOK
    assert (two.begin(VERIFY).status, one.state()) == (DONE, ActionState.DONE)


def test_a_look_that_is_lost_is_taken_by_the_next(one: Actor, two: Actor) -> None:
    one.begin(VERIFY)
    one.lose()
    first = one.begin(VERIFY)
    one.lose()
    second = two.begin(VERIFY)

    assert (first.status, second.status) == (LOOK, LOOK)
    assert not one.not_done(first.action.fence)
    assert two.not_done(second.action.fence)


def test_a_repeat_that_did_not_happen_leaves_the_first_start_in_doubt(
    one: Actor, two: Actor
) -> None:
    one.begin(IDEMPOTENT)
    one.lose()
    second = two.begin(IDEMPOTENT, request="r")
    assert two.not_done(second.action.fence)
    assert one.state() is ActionState.STARTED
    stranger = one.begin(ONCE)

    assert stranger.status is HELD


def test_what_was_given_back_is_repeated_at_once(one: Actor, two: Actor) -> None:
    one.begin(IDEMPOTENT)
    one.lose()
    second = two.begin(IDEMPOTENT, request="r")
    two.not_done(second.action.fence)
    third = two.begin(IDEMPOTENT, request="r")

    assert (third.status, third.action.fence) == (BEGUN, 3)


def test_what_did_not_happen_is_begun_again_by_any_choice(one: Actor, two: Actor) -> None:
    one.begin(ONCE)
    one.not_done()
    again = two.begin(IDEMPOTENT)

    assert (again.status, again.action.fence, again.action.safe) == (BEGUN, 2, IDEMPOTENT)
    assert again.action.first_started_at == again.action.started_at


# holders


def test_a_sign_of_life_keeps_an_action(one: Actor, two: Actor) -> None:
    one.begin()
    one.clerk.now += LEASE - 1
    assert one.heartbeat()
    one.clerk.now += LEASE - 1

    assert two.begin().status is IN_FLIGHT


def test_the_fence_decides_and_not_the_time(one: Actor, two: Actor) -> None:
    one.begin()
    one.lose()

    assert one.heartbeat()
    assert two.begin().status is IN_FLIGHT


@pytest.mark.parametrize("safe", Safety)
def test_a_stale_holder_cannot_change_the_state(one: Actor, two: Actor, safe: Safety) -> None:
    one.begin(safe)
    one.lose()
    told = two.begin(safe)
    before = one.state()

    assert not one.not_done(1)
    assert not one.heartbeat(1)
    assert one.state() is before is told.action.state


@pytest.mark.parametrize("safe", Safety)
def test_a_stale_holder_may_add_proof_of_success(one: Actor, two: Actor, safe: Safety) -> None:
    one.begin(safe)
    one.lose()
    two.begin(safe)
    one.done(1, b"proof")

    told = two.begin(safe)
    assert (told.status, told.action.result) == (DONE, b"proof")
    assert not two.heartbeat(2)


def test_proof_counts_after_somebody_found_nothing(one: Actor, two: Actor) -> None:
    one.begin(VERIFY)
    one.lose()
    two.not_done(two.begin(VERIFY).action.fence)
    one.done(1, b"proof")

    assert one.state() is ActionState.DONE


def test_nobody_proves_by_a_fence_that_was_never_given(one: Actor) -> None:
    one.begin()

    assert one.done(2) is None
    assert one.state() is ActionState.STARTED


def test_a_repeated_denial_still_counts(one: Actor) -> None:
    one.begin()

    assert one.not_done()
    assert one.not_done()
    assert one.state() is ActionState.NOT_DONE


def test_what_is_done_cannot_be_denied(one: Actor) -> None:
    one.begin()
    one.done()
    one.not_done()

    assert one.state() is ActionState.DONE


# persons


def test_a_person_resolves_what_is_held_and_that_is_audited(one: Actor, two: Actor) -> None:
    room = MailRoom(one.clerk)
    one.begin()
    one.lose()
    two.begin()
    deed = room.office.deed()
    resolved = one.clerk.run(actions.resolve, (ATTEMPT, NAME), ActionState.DONE, deed, b"seen")

    assert (resolved.state, two.begin().action.result) == (ActionState.DONE, b"seen")
    assert room.office.audit(f"action:{ATTEMPT}/{NAME}") == [("action resolve", "done")]


def test_after_a_person_denied_it_an_action_begins_again(one: Actor, two: Actor) -> None:
    room = MailRoom(one.clerk)
    one.begin()
    one.lose()
    two.begin()
    one.clerk.run(actions.resolve, (ATTEMPT, NAME), ActionState.NOT_DONE, room.office.deed())
    again = two.begin()

    assert (again.status, again.action.fence) == (BEGUN, 3)
    assert not one.not_done(1)


def test_a_person_may_resolve_what_was_lost_before_anybody_asked(one: Actor) -> None:
    room = MailRoom(one.clerk)
    one.begin()
    with pytest.raises(StateConflict):
        one.clerk.run(actions.resolve, (ATTEMPT, NAME), ActionState.DONE, room.office.deed())
    one.lose()
    listed = one.clerk.run(actions.list_unknown, TENANT, one.clerk.now)
    one.clerk.run(actions.resolve, (ATTEMPT, NAME), ActionState.DONE, room.office.deed())

    assert [each.name for each in listed] == [NAME]
    assert one.clerk.run(actions.list_unknown, TENANT, one.clerk.now) == []
    with pytest.raises(StateConflict):
        one.clerk.run(actions.resolve, (ATTEMPT, NAME), ActionState.DONE, room.office.deed())
    with pytest.raises(NotFound):
        one.clerk.run(actions.resolve, (ATTEMPT, "no"), ActionState.DONE, room.office.deed())


def test_what_is_held_is_told_once(one: Actor, two: Actor) -> None:
    room = MailRoom(one.clerk)
    inbox = room.make(agent("key_1"), attempt_id=ATTEMPT)
    one.begin()
    one.lose()
    first, second = one.begin(), two.begin()

    assert (first.held_now, second.held_now) == (True, False)
    assert room.told() == [("action.held", inbox.id)]


# whose it is


def test_an_attempt_is_of_the_key_that_made_its_first_inbox(clerk: Clerk) -> None:
    room = MailRoom(clerk)
    room.make(agent("key_1"), attempt_id=ATTEMPT)
    room.make(agent("key_2"), attempt_id=ATTEMPT, label="mine too")
    theirs, ours = Actor(clerk, "key_2").ask(), Actor(clerk, "key_1").ask()

    assert theirs is None
    assert ours is not None
    assert ours.status is BEGUN


def test_an_attempt_without_inboxes_is_of_who_begins_first(clerk: Clerk, one: Actor) -> None:
    one.begin()
    MailRoom(clerk).make(agent("key_2"), attempt_id=ATTEMPT)
    stranger = Actor(clerk, "key_2")

    assert stranger.ask() is None
    assert one.begin().status is IN_FLIGHT


def test_what_was_made_at_the_terminal_is_for_operators_only(clerk: Clerk, one: Actor) -> None:
    MailRoom(clerk).make(attempt_id=ATTEMPT)

    assert one.ask() is None
    assert Actor(clerk, "key_9", sees_all=True).begin().status is BEGUN


@pytest.mark.parametrize(
    "say", [Actor.done, Actor.not_done, Actor.heartbeat], ids=["done", "not-done", "heartbeat"]
)
def test_a_stranger_has_no_say(
    clerk: Clerk, one: Actor, say: Callable[[Actor, int], object]
) -> None:
    before = one.begin().action

    assert not say(Actor(clerk, "key_2"), 1)
    (after,) = clerk.run(actions.newest, TENANT)
    assert after == before


def test_strangers_in_one_commit_are_told_apart(clerk: Clerk, one: Actor) -> None:
    one.begin()
    one.done(result=b"secret")
    stranger = Actor(clerk, "key_2")
    answers = clerk.run(
        actions.begin, [stranger.wish(), one.wish(), stranger.wish(name="other")], clerk.now
    )

    assert [each and each.status for each in answers] == [None, DONE, None]


def test_an_operator_acts_for_all_and_the_attempt_stays_its_owners(clerk: Clerk) -> None:
    MailRoom(clerk).make(agent("key_1"), attempt_id=ATTEMPT)
    operator = Actor(clerk, "key_9", sees_all=True)
    operator.begin()
    operator.done()

    assert Actor(clerk, "key_1").begin().status is DONE


def test_tenants_do_not_share_attempts(clerk: Clerk, one: Actor) -> None:
    one.begin()
    one.done()
    other = Actor(clerk)
    other.asker = agent("key_1", "default")

    assert other.begin().status is BEGUN
    assert action_key("default", ATTEMPT, NAME) != action_key(TENANT, ATTEMPT, NAME)


def test_all_states_can_be_reached_and_left_as_the_table_says() -> None:
    reached = {ActionState.STARTED}
    for _ in ActionState:
        reached |= {after for before, after in TRANSITIONS if before in reached}

    assert reached == set(ActionState)
    assert ActionState.DONE not in {before for before, _ in TRANSITIONS}
    assert all(TRANSITIONS.values())
