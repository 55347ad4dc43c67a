"""Intents: a key counts once, the first payload wins, and what was not sent may be sent."""

import pytest

from oncebox.errors import MasterKeyWrong, NotFound
from oncebox.ledger.sends import sends, submission
from oncebox.model.sends.send import (
    FINAL_STATES,
    REARMABLE_STATES,
    TRANSITIONS,
    AnswerStatus,
    IntentAccepted,
    OnUnknown,
    SendState,
    answer_status,
    retry_after,
)
from oncebox.model.sends.transports import SendAccepted
from tests.support.clerk import LEASE, MINUTE, TENANT, Clerk
from tests.support.interleaved import interleave
from tests.support.mailer import BOUNCED, BOX, REFUSED, RELAY, SILENCE, TAKEN, TO, Mailer, repeat_of

S = SendState


@pytest.fixture
def mailer(clerk: Clerk) -> Mailer:
    return Mailer(clerk)


# a key counts once


def test_a_key_counts_once(mailer: Mailer) -> None:
    first, second = mailer.intend(), mailer.intend()

    assert (first.status, first.created) == (AnswerStatus.IN_FLIGHT, True)
    assert (second.status, second.created) == (AnswerStatus.IN_FLIGHT, False)
    assert second.send.id == first.send.id
    assert second.send.message_id == first.send.message_id
    assert len(mailer.claim()) == 1


def test_a_key_counts_once_in_one_commit(mailer: Mailer) -> None:
    answers = mailer.ask(*(mailer.new() for _ in range(8)))

    told = [each for each in answers if each is not None]
    assert len({each.send.id for each in told}) == 1
    assert sorted(each.created for each in told) == [False] * 7 + [True]
    assert len(mailer.rows("SELECT id FROM oncebox_send_bodies")) == 1


def test_of_two_concurrent_equal_intents_one_is_stored(mailer: Mailer) -> None:
    one, two = mailer.new(), mailer.new()
    now = mailer.clerk.now
    first, second = interleave(
        mailer.clerk.place,
        lambda tx: submission.store_intents(tx, [one], now)[0],
        lambda tx: submission.store_intents(tx, [two], now)[0],
    )

    assert isinstance(first, IntentAccepted)
    assert isinstance(second, IntentAccepted)
    assert (first.created, second.created) == (True, False)
    assert second.send.id == one.id


def test_another_tenants_key_is_another(mailer: Mailer) -> None:
    mailer.add_transport(RELAY, tenant="globex")
    ours, theirs = mailer.intend(), mailer.intend(tenant="globex")

    assert theirs.created
    assert theirs.send.id != ours.send.id
    with pytest.raises(NotFound):
        mailer.get(theirs.send.id)


def test_many_intents_are_stored_in_one_commit_and_answered_in_their_order(mailer: Mailer) -> None:
    mailer.intend("b")
    answers = mailer.ask(*(mailer.new(key) for key in "cba"))

    assert [each and each.send.message_id for each in answers] == [
        f"<{key}@example.com>" for key in "cba"
    ]
    assert [each and each.created for each in answers] == [True, False, True]


def test_a_repeat_of_what_was_sent_is_told_the_first_message(mailer: Mailer) -> None:
    send = mailer.start()
    mailer.say(send, TAKEN)
    told = mailer.intend(message_id="<other@example.com>")

    assert told.status is AnswerStatus.DUPLICATE
    assert (told.send.message_id, told.send.provider_id) == ("<key@example.com>", "p-1")
    assert mailer.claim() == []


@pytest.mark.parametrize("state", SendState)
def test_everybody_is_told_how_it_stands(state: SendState) -> None:
    repeated = answer_status(state, repeated=True)

    assert repeated is (AnswerStatus.DUPLICATE if state is S.SENT else answer_status(state))


def test_somebody_who_is_at_it_is_in_flight(mailer: Mailer) -> None:
    send = mailer.start()
    told = mailer.intend()

    assert (told.status, told.send.state) == (AnswerStatus.IN_FLIGHT, S.SENDING)
    assert told.send.due_at == mailer.clerk.now + LEASE
    assert told.send.id == send.id


def test_a_repeat_of_what_is_in_doubt_sends_nothing(mailer: Mailer) -> None:
    mailer.in_doubt()

    assert mailer.intend().status is AnswerStatus.UNKNOWN
    assert mailer.claim() == []


def test_a_repeat_can_be_answered_without_writing(mailer: Mailer) -> None:
    new = mailer.new()
    assert mailer.clerk.run(submission.find_existing, [repeat_of(new)]) == [None]
    mailer.intend()
    asked = [repeat_of(new), repeat_of(mailer.new(text="other"))]
    told = mailer.clerk.run(submission.find_existing, asked)

    assert [(each.status, each.drift) for each in told if each] == [
        (AnswerStatus.IN_FLIGHT, False),
        (AnswerStatus.IN_FLIGHT, True),
    ]


def test_a_repeat_that_would_be_armed_again_is_not_answered_without_writing(
    mailer: Mailer,
) -> None:
    mailer.cancel(mailer.intend().send.id)

    assert mailer.clerk.run(submission.find_existing, [repeat_of(mailer.new())]) == [None]


def test_who_waits_is_told_when_to_ask_again(mailer: Mailer) -> None:
    now = mailer.clerk.now
    assert retry_after(mailer.intend().send, now) == 1_000
    assert retry_after(mailer.intend("later", send_at=now + MINUTE).send, now) == MINUTE
    send = mailer.claim_one()
    assert retry_after(send, now) == 1_000
    mailer.begin(send)
    for outcome in (SILENCE, TAKEN):
        mailer.say(send, outcome)
        assert retry_after(mailer.get(send.id), now) is None


# protected fields and drift


def test_other_protected_fields_under_the_same_key_are_refused(mailer: Mailer) -> None:
    first = mailer.intend()
    told = mailer.intend(to=("eve@example.org",))

    assert (told.status, told.created) == (AnswerStatus.CONFLICT, False)
    assert told.send.id == first.send.id
    assert len(mailer.rows("SELECT id FROM oncebox_send_bodies")) == 1
    assert len(mailer.rows("SELECT mark FROM oncebox_send_recipients")) == 1


@pytest.mark.parametrize("state", sorted(REARMABLE_STATES))
def test_other_protected_fields_are_refused_even_where_nothing_was_sent(
    mailer: Mailer, state: SendState
) -> None:
    id_ = _ended(mailer, state)
    told = mailer.intend(to=("eve@example.org",))

    assert told.status is AnswerStatus.CONFLICT
    assert mailer.state(id_) is state


def test_drift_is_flagged_and_the_first_payload_wins(mailer: Mailer) -> None:
    mailer.intend(text="first")
    told = mailer.intend(text="second")
    (claimed,) = mailer.claim()

    assert (told.drift, told.created) == (True, False)
    assert not mailer.intend(text="first").drift
    assert BOX.decrypt_field("message", TENANT, claimed.send.body_id, claimed.message) == b"first"


# arming again


def _ended(mailer: Mailer, state: SendState) -> str:
    """Bring a send to an end that is proven not sent."""
    if state is S.EXPIRED:
        send = mailer.intend(valid_until=mailer.clerk.now + 1).send
        mailer.clerk.now += 1
        mailer.sweep()
    elif state is S.CANCELLED:
        send = mailer.cancel(mailer.intend().send.id)
    else:
        send = mailer.start()
        mailer.say(send, BOUNCED)
    assert mailer.state(send.id) is state
    return send.id


@pytest.mark.parametrize("state", sorted(REARMABLE_STATES))
def test_a_send_proven_not_sent_is_rearmed_with_the_new_payload(
    mailer: Mailer, state: SendState
) -> None:
    id_ = _ended(mailer, state)
    before = mailer.get(id_)
    told = mailer.intend(text="second")
    (claimed,) = mailer.claim()

    assert (told.status, told.rearmed, told.created) == (AnswerStatus.IN_FLIGHT, True, False)
    assert (told.send.id, told.drift) == (id_, False)
    assert told.send.epoch > before.epoch
    assert told.send.fence > before.fence
    assert BOX.decrypt_field("message", TENANT, claimed.send.body_id, claimed.message) == b"second"
    assert len(mailer.rows("SELECT id FROM oncebox_send_bodies")) == 1


@pytest.mark.parametrize("state", sorted(REARMABLE_STATES))
def test_many_who_arm_again_in_one_commit_do_it_once(mailer: Mailer, state: SendState) -> None:
    id_ = _ended(mailer, state)
    answers = mailer.ask(*(mailer.new(text=f"text {n}") for n in range(6)))

    told = [each for each in answers if each is not None]
    assert sum(each.rearmed for each in told) == 1
    assert {each.send.id for each in told} == {id_}
    assert {each.send.rearms for each in told} == {1}
    assert [each.drift for each in told if each.rearmed] == [False]
    assert len(mailer.claim()) == 1


def test_of_two_concurrent_rearms_one_succeeds(mailer: Mailer) -> None:
    _ended(mailer, S.FAILED)
    one, two = mailer.new(text="one"), mailer.new(text="two")
    now = mailer.clerk.now
    first, second = interleave(
        mailer.clerk.place,
        lambda tx: submission.store_intents(tx, [one], now)[0],
        lambda tx: submission.store_intents(tx, [two], now)[0],
    )

    assert isinstance(first, IntentAccepted)
    assert isinstance(second, IntentAccepted)
    assert (first.rearmed, second.rearmed, second.drift) == (True, False, True)
    assert len(mailer.rows("SELECT id FROM oncebox_send_bodies")) == 1


@pytest.mark.parametrize("outcome", [TAKEN, SILENCE])
def test_a_sent_or_unknown_send_is_never_rearmed(mailer: Mailer, outcome: SendAccepted) -> None:
    send = mailer.start()
    mailer.say(send, outcome)
    told = mailer.intend(text="other")

    assert not told.rearmed
    assert mailer.claim() == []


def test_a_worker_of_before_gets_no_marker_for_what_was_armed_again(mailer: Mailer) -> None:
    mailer.intend()
    send = mailer.claim_one()
    mailer.cancel(send.id)
    mailer.intend(text="second")

    assert not mailer.begin(send)
    assert not mailer.say(send, REFUSED)
    assert mailer.state(send.id) is S.PENDING


# when, and by which way


def test_a_send_waits_for_its_time(mailer: Mailer) -> None:
    mailer.intend(send_at=mailer.clerk.now + MINUTE)
    assert mailer.claim() == []
    mailer.clerk.now += MINUTE

    assert len(mailer.claim()) == 1


def test_without_any_transport_the_log_takes_it(mailer: Mailer) -> None:
    told = mailer.intend(transport="log")

    assert told.created
    assert len(mailer.claim(transport="log")) == 1


def test_one_who_waits_for_the_log_is_stored_beside_those_who_do_not(mailer: Mailer) -> None:
    mailer.intend("known")
    news = [mailer.new("known"), mailer.new("a"), mailer.new("b", transport="log")]
    answers = mailer.ask(*news)

    assert [each and each.created for each in answers] == [False, True, True]


def test_a_way_that_is_not_there_is_told_and_takes_nothing(mailer: Mailer) -> None:
    answers = mailer.ask(mailer.new("a", transport="nowhere"), mailer.new("b"))

    assert answers[0] is None
    assert answers[1] is not None
    assert len(mailer.rows("SELECT id FROM oncebox_sends")) == 1
    assert len(mailer.rows("SELECT id FROM oncebox_send_bodies")) == 1


# what is kept


def test_what_a_send_says_is_sealed_for_its_own_place(mailer: Mailer) -> None:
    mailer.intend(text="the code is 123456")
    (claimed,) = mailer.claim()
    send = claimed.send

    everything = repr(mailer.rows("SELECT * FROM oncebox_send_bodies"))
    everything += repr(mailer.rows("SELECT * FROM oncebox_sends"))
    everything += repr(mailer.rows("SELECT * FROM oncebox_send_recipients"))
    assert "123456" not in everything
    assert TO not in everything
    assert BOX.decrypt_field("message", TENANT, send.id, claimed.message) == b"the code is 123456"
    assert BOX.decrypt_field("envelope", TENANT, send.id, claimed.envelope) == TO.encode()
    for tenant, id_ in (("globex", send.id), (TENANT, "snd_other")):
        with pytest.raises(MasterKeyWrong):
            BOX.decrypt_field("message", tenant, id_, claimed.message)
    with pytest.raises(MasterKeyWrong):
        BOX.decrypt_field("envelope", TENANT, send.id, claimed.message)


def test_a_send_is_found_by_every_name_it_has(mailer: Mailer) -> None:
    send = mailer.start()
    mailer.say(send, TAKEN)

    def found(name: str, tenant: str = TENANT) -> list[str]:
        return mailer.clerk.run(sends.find, tenant, name)

    assert [found(name) for name in (send.id, "<key@example.com>", "p-1")] == [[send.id]] * 3
    assert found("") == []
    assert found(send.id, "globex") == found("p-1", "globex") == []


def test_a_list_is_of_one_tenant_newest_first(mailer: Mailer) -> None:
    mailer.add_transport(RELAY, tenant="globex")
    mailer.intend("other", tenant="globex")
    made = [mailer.intend(key, owner=f"key_{key}").send.id for key in "abc"]
    mailer.cancel(made[1])

    def listed(wanted: sends.SendFilter, **more: object) -> list[str]:
        return [each.id for each in mailer.clerk.run(sends.newest, wanted, **more)]  # type: ignore[arg-type]

    assert listed(sends.SendFilter(TENANT)) == made[::-1]
    assert listed(sends.SendFilter(TENANT, state=S.CANCELLED)) == [made[1]]
    assert listed(sends.SendFilter(TENANT, owner="key_a")) == [made[0]]
    assert listed(sends.SendFilter(TENANT, transport="log")) == []
    assert listed(sends.SendFilter(TENANT), before=made[2], most=1) == [made[1]]


def test_an_agent_sees_only_what_its_key_asked_for(mailer: Mailer) -> None:
    id_ = mailer.intend(owner="key_1").send.id

    assert mailer.clerk.run(sends.get, TENANT, id_, owner="key_1").id == id_
    with pytest.raises(NotFound):
        mailer.clerk.run(sends.get, TENANT, id_, owner="key_2")


# the table of states


def test_every_state_is_reached_and_only_what_was_sent_is_for_ever() -> None:
    reached = {S.PENDING}
    for _ in S:
        reached |= {after for before, after in TRANSITIONS if before in reached}

    assert reached == set(S)
    assert {before for before, _ in TRANSITIONS} == set(S) - {S.SENT}
    assert all(TRANSITIONS.values())
    assert REARMABLE_STATES < FINAL_STATES


def test_an_unknown_outcome_never_resolves_by_itself() -> None:
    assert {after for before, after in TRANSITIONS if before is S.UNKNOWN} == {
        S.CLAIMED,
        S.SENT,
        S.FAILED,
    }


def test_a_new_send_is_replayed_in_doubt_unless_something_else_was_chosen(mailer: Mailer) -> None:
    assert mailer.new().on_unknown is OnUnknown.REPLAY
    assert mailer.new(on_unknown=OnUnknown.HOLD).on_unknown is OnUnknown.HOLD
