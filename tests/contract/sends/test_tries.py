"""Tries: one holder at a time, a marker before the wire, proof from anybody, doubt for ever."""

import pytest

from oncebox.errors import StateConflict
from oncebox.ledger.sends import lifecycle
from oncebox.model.sends.send import AnswerStatus, OnUnknown, Send, SendMarker, SendState
from oncebox.model.sends.transports import SendAccepted, SendOutcome
from tests.support.clerk import HOUR, LEASE, MINUTE, TENANT, Clerk
from tests.support.interleaved import interleave
from tests.support.mailer import (
    BOUNCED,
    REFUSED,
    RELAY,
    SILENCE,
    TAKEN,
    TO,
    UNREACHED,
    WAIT,
    Mailer,
)

S = SendState
REPLAY, RESEND = OnUnknown.REPLAY, OnUnknown.RESEND


@pytest.fixture
def mailer(clerk: Clerk) -> Mailer:
    return Mailer(clerk)


# claims


def test_a_claim_raises_the_fence_and_keeps_others_out(mailer: Mailer) -> None:
    mailer.intend()
    send = mailer.claim_one()

    assert (send.state, send.fence, send.tries, send.worker) == (S.CLAIMED, 1, 1, "ann")
    assert send.due_at == mailer.clerk.now + LEASE
    assert mailer.claim(worker="ben") == []


def test_of_two_who_claim_at_once_one_gets_it(mailer: Mailer) -> None:
    mailer.intend()
    now = mailer.clerk.now
    first, second = interleave(
        mailer.clerk.place,
        lambda tx: lifecycle.claim(tx, lifecycle.SendClaimant(TENANT, RELAY, "ann", LEASE), 9, now),
        lambda tx: lifecycle.claim(tx, lifecycle.SendClaimant(TENANT, RELAY, "ben", LEASE), 9, now),
    )

    assert (len(first), len(second)) == (1, 0)


def test_the_oldest_are_claimed_first(mailer: Mailer) -> None:
    for key in "ab":
        mailer.intend(key)
        mailer.clerk.now += 1

    assert [each.send.message_id for each in mailer.claim(most=1)] == ["<a@example.com>"]


def test_one_claim_never_fills_the_memory(mailer: Mailer, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lifecycle, "_MOST_BYTES", 300)
    for key in "abc":
        mailer.intend(key, text="x" * 200)

    assert [len(mailer.claim()) for _ in range(4)] == [1, 1, 1, 0]


def test_an_expired_claim_is_claimed_again_because_nothing_was_on_the_wire(
    mailer: Mailer,
) -> None:
    mailer.intend()
    first = mailer.claim_one()
    swept = mailer.lose()
    second = mailer.claim_one(worker="ben")

    assert (swept.given_back, swept.unknown) == (1, 0)
    assert (second.id, second.fence, second.tries) == (first.id, 2, 2)
    assert not mailer.begin(first)
    assert mailer.begin(second)
    assert [each.outcome for each in mailer.tries(first.id)] == ["lost"]


def test_a_claim_that_is_lost_too_often_fails_as_proven_not_sent(mailer: Mailer) -> None:
    id_ = mailer.intend().send.id
    for _ in range(3):
        mailer.claim_one()
        mailer.clerk.now += LEASE
        mailer.sweep(tries=3)

    assert (mailer.state(id_), mailer.get(id_).code) == (S.FAILED, "lease_lost")
    assert mailer.events() == ["send.failed"]
    assert mailer.intend().rearmed


def test_a_lease_is_prolonged_by_its_holder_only(mailer: Mailer) -> None:
    mailer.intend()
    first = mailer.claim_one()
    mailer.clerk.now += LEASE - 1
    assert mailer.renew(first)
    mailer.clerk.now += LEASE - 1
    assert mailer.sweep().given_back == 0
    mailer.lose()
    mailer.claim_one(worker="ben")

    assert not mailer.renew(first)


def test_a_lease_is_never_shortened_by_renewal(mailer: Mailer) -> None:
    send = mailer.start()
    mailer.clerk.now -= 5
    mailer.renew(send)

    assert mailer.get(send.id).due_at == mailer.clerk.now + 5 + LEASE


# the marker


def test_the_marker_is_set_once_by_the_holder(mailer: Mailer) -> None:
    mailer.intend()
    send = mailer.claim_one()

    assert mailer.begin(send)
    assert not mailer.begin(send)
    assert (mailer.state(send.id), mailer.get(send.id).marked_at) == (S.SENDING, mailer.clerk.now)


def test_no_marker_for_a_stale_fence(mailer: Mailer) -> None:
    mailer.intend()
    first = mailer.claim_one()
    mailer.lose()
    mailer.claim_one(worker="ben")

    assert not mailer.begin(first)
    assert mailer.state(first.id) is S.CLAIMED


def test_no_marker_after_the_lease_even_if_nobody_swept(mailer: Mailer) -> None:
    mailer.intend()
    send = mailer.claim_one()
    mailer.clerk.now += LEASE

    assert not mailer.begin(send)
    assert mailer.state(send.id) is S.CLAIMED


def test_no_marker_for_a_cancelled_send(mailer: Mailer) -> None:
    mailer.intend()
    send = mailer.claim_one()
    mailer.cancel(send.id)

    assert not mailer.begin(send)
    assert mailer.state(send.id) is S.CANCELLED


def test_no_marker_for_a_suppressed_recipient(mailer: Mailer) -> None:
    mailer.intend(to=("bob@example.org", TO))
    send = mailer.claim_one()
    mailer.suppress(TO)

    assert not mailer.begin(send)
    assert mailer.state(send.id) is S.SUPPRESSED
    assert mailer.events() == ["send.suppressed"]


def test_no_marker_after_valid_until(mailer: Mailer) -> None:
    mailer.intend(valid_until=mailer.clerk.now + 10)
    send = mailer.claim_one()
    mailer.clerk.now += 10

    assert not mailer.begin(send)
    assert mailer.state(send.id) is S.EXPIRED
    assert mailer.events() == ["send.expired"]


def test_a_marker_waits_for_a_call_off_that_is_under_way(mailer: Mailer) -> None:
    mailer.intend()
    send = mailer.claim_one()
    deed, marker, now = mailer.deed(), mailer.marker(send), mailer.clerk.now
    _, (marked,) = interleave(
        mailer.clerk.place,
        lambda tx: lifecycle.cancel(tx, send.id, deed),
        lambda tx: lifecycle.mark_sending(tx, [marker], now),
    )

    assert not marked
    assert mailer.state(send.id) is S.CANCELLED


def test_a_call_off_waits_for_a_marker_that_is_under_way(mailer: Mailer) -> None:
    mailer.intend()
    send = mailer.claim_one()
    deed, marker, now = mailer.deed(), mailer.marker(send), mailer.clerk.now
    with pytest.raises(StateConflict):
        interleave(
            mailer.clerk.place,
            lambda tx: lifecycle.mark_sending(tx, [marker], now),
            lambda tx: lifecycle.cancel(tx, send.id, deed),
        )
    assert mailer.state(send.id) is S.SENDING


def test_markers_of_many_are_committed_together_and_answered_one_by_one(mailer: Mailer) -> None:
    for key in "abc":
        mailer.intend(key)
    held = [each.send for each in mailer.claim()]
    mailer.cancel(held[1].id)
    markers = [mailer.marker(send) for send in held]

    assert mailer.clerk.run(lifecycle.mark_sending, markers, mailer.clerk.now) == [
        True,
        False,
        True,
    ]


def test_no_marker_for_a_stale_fence_that_asks_beside_the_holder(mailer: Mailer) -> None:
    mailer.intend()
    stale = mailer.claim_one()
    mailer.lose()
    held = mailer.claim_one()
    markers = [mailer.marker(send) for send in (stale, held)]

    assert mailer.clerk.run(lifecycle.mark_sending, markers, mailer.clerk.now) == [False, True]
    assert mailer.clerk.run(lifecycle.renew, markers, mailer.clerk.now) == [False, True]


def test_another_tenants_fence_marks_nothing(mailer: Mailer) -> None:
    mailer.intend()
    send = mailer.claim_one()
    marker = SendMarker(tenant="globex", id=send.id, fence=send.fence, until=send.due_at or 0)

    assert mailer.clerk.run(lifecycle.mark_sending, [marker], mailer.clerk.now) == [False]
    assert mailer.state(send.id) is S.CLAIMED


# sent


def test_success_is_recorded_with_what_the_provider_calls_it(mailer: Mailer) -> None:
    send = mailer.start()

    assert mailer.say(send, TAKEN)
    after = mailer.get(send.id)
    assert (after.state, after.provider_id, after.due_at) == (S.SENT, "p-1", None)
    assert mailer.events() == ["send.sent"]
    (tried,) = mailer.tries(send.id)
    assert (tried.outcome, tried.phase, tried.provider_id) == ("accepted", "answered", "p-1")
    assert (tried.claimed_at, tried.marked_at) == (mailer.clerk.now, mailer.clerk.now)


def test_an_empty_provider_id_is_success_all_the_same(mailer: Mailer) -> None:
    send = mailer.start()

    assert mailer.say(send, SendAccepted(provider_id=""))
    assert mailer.state(send.id) is S.SENT


def test_a_late_success_of_a_stale_fence_is_recorded(mailer: Mailer) -> None:
    first = mailer.start()
    mailer.lose()
    assert mailer.state(first.id) is S.UNKNOWN

    assert mailer.say(first, TAKEN)
    assert mailer.state(first.id) is S.SENT
    assert [each.outcome for each in mailer.tries(first.id)] == ["accepted"]


def test_a_late_success_stops_whoever_has_claimed_it_since(mailer: Mailer) -> None:
    first = mailer.in_doubt(on_unknown=RESEND)
    mailer.clerk.now += WAIT
    second = mailer.claim_one(worker="ben")

    assert mailer.say(first, TAKEN, fence=1)
    assert not mailer.begin(second)
    assert not mailer.say(second, BOUNCED)
    assert mailer.state(first.id) is S.SENT


@pytest.mark.parametrize("state", sorted(set(S) - {S.SENT, S.SENDING, S.CLAIMED, S.LOGGED}))
def test_proof_counts_whatever_was_thought_before(mailer: Mailer, state: SendState) -> None:
    send = mailer.in_doubt(valid_until=mailer.clerk.now + MINUTE)
    if state is not S.UNKNOWN:
        mailer.resolve(send.id, sent=False)
    if state is S.SUPPRESSED:
        mailer.suppress()
    if state in {S.PENDING, S.CANCELLED, S.EXPIRED, S.SUPPRESSED}:
        mailer.intend(valid_until=mailer.clerk.now + MINUTE)
    if state is S.CANCELLED:
        mailer.cancel(send.id)
    if state is S.EXPIRED:
        mailer.clerk.now += MINUTE
        mailer.sweep()
    assert mailer.state(send.id) is state

    assert mailer.say(send, TAKEN, fence=1)
    assert mailer.state(send.id) is S.SENT
    assert mailer.intend().status is AnswerStatus.DUPLICATE


def test_proof_from_outside_needs_no_fence(mailer: Mailer) -> None:
    send = mailer.in_doubt()

    assert mailer.say(send, TAKEN, fence=0, transport="")
    assert mailer.state(send.id) is S.SENT
    assert [each.outcome for each in mailer.tries(send.id)] == ["unknown"]


def test_proof_with_a_fence_that_was_never_given_counts_nothing(mailer: Mailer) -> None:
    send = mailer.in_doubt()

    assert not mailer.say(send, TAKEN, fence=send.fence + 1)
    assert mailer.state(send.id) is S.UNKNOWN


def test_what_was_sent_stays_as_it_is(mailer: Mailer) -> None:
    send = mailer.start()
    mailer.say(send, TAKEN)
    before = mailer.get(send.id)
    for outcome in (SendAccepted(provider_id="p-2"), REFUSED, BOUNCED, SILENCE):
        assert not mailer.say(send, outcome)

    assert mailer.get(send.id) == before
    assert mailer.events() == ["send.sent"]


def test_proof_and_denial_in_one_commit_are_told_apart(mailer: Mailer) -> None:
    send = mailer.start()
    told = mailer.settle(mailer.word(send, REFUSED), mailer.word(send, TAKEN, fence=0))

    assert [each and each.send.state for each in told] == [S.SENT, S.SENT]
    assert [each and each.counted for each in told] == [False, True]


def test_a_word_on_a_send_that_is_not_there_is_told(mailer: Mailer) -> None:
    send = mailer.start()
    stranger = mailer.word(send, TAKEN)
    settled = mailer.settle(
        type(stranger)(tenant="globex", id=send.id, fence=1, outcome=TAKEN),
        type(stranger)(tenant=TENANT, id="snd_none", fence=1, outcome=TAKEN),
    )

    assert settled == [None, None]
    assert mailer.state(send.id) is S.SENDING


def test_the_log_transport_says_logged(mailer: Mailer) -> None:
    send = mailer.start()

    assert mailer.say(send, SendAccepted(), logged=True)
    assert mailer.state(send.id) is S.LOGGED
    assert mailer.intend().status is AnswerStatus.LOGGED
    assert mailer.events() == ["send.logged"]


def test_the_log_needs_no_marker(mailer: Mailer) -> None:
    mailer.intend()
    send = mailer.claim_one()

    assert mailer.say(send, SendAccepted(), logged=True)
    after = mailer.get(send.id)
    assert (after.state, after.marked_at) == (S.LOGGED, mailer.clerk.now)


def test_the_log_asks_the_suppression_list_as_the_marker_does(mailer: Mailer) -> None:
    mailer.intend()
    send = mailer.claim_one()
    mailer.suppress(TO)

    assert not mailer.say(send, SendAccepted(), logged=True)
    assert mailer.state(send.id) is S.SUPPRESSED
    assert mailer.events() == ["send.suppressed"]
    assert mailer.tries(send.id) == []


def test_the_log_takes_nothing_that_comes_too_late(mailer: Mailer) -> None:
    mailer.intend(valid_until=mailer.clerk.now + 1_000)
    send = mailer.claim_one()
    mailer.clerk.now += 2_000

    assert not mailer.say(send, SendAccepted(), logged=True)
    assert mailer.state(send.id) is S.EXPIRED


def test_the_log_ends_no_doubt_and_is_asked_once(mailer: Mailer) -> None:
    doubtful = mailer.in_doubt(on_unknown=RESEND)
    mailer.clerk.now += WAIT
    send = mailer.claim_one()

    assert not mailer.say(send, SendAccepted(), logged=True)
    after = mailer.get(doubtful.id)
    assert (after.state, after.repeat_mode, after.due_at) == (S.UNKNOWN, None, None)
    assert mailer.claim() == []


def test_a_stale_holder_cannot_log(mailer: Mailer) -> None:
    mailer.intend()
    stale = mailer.claim_one()
    mailer.clerk.now += LEASE
    mailer.sweep()
    mailer.claim_one()

    assert not mailer.say(stale, SendAccepted(), logged=True)
    assert mailer.state(stale.id) is S.CLAIMED


# not sent


@pytest.mark.parametrize("marked", [False, True])
def test_what_was_not_sent_is_tried_again_when_it_is_due(mailer: Mailer, marked: bool) -> None:
    mailer.intend()
    send = mailer.claim_one()
    assert not marked or mailer.begin(send)
    assert mailer.say(send, REFUSED)
    after = mailer.get(send.id)

    assert (after.state, after.code, after.reply) == (S.PENDING, "try_later", 451)
    assert after.epoch == int(marked), "a provider that caches errors is asked with another key"
    assert mailer.claim() == []
    mailer.clerk.now += WAIT
    assert mailer.claim_one().fence == 2
    assert mailer.events() == []


def test_what_is_given_up_has_failed(mailer: Mailer) -> None:
    send = mailer.start()
    assert mailer.say(send, REFUSED, wait=None)

    assert mailer.state(send.id) is S.FAILED
    assert mailer.events() == ["send.failed"]


def test_what_was_rejected_has_failed(mailer: Mailer) -> None:
    mailer.intend()
    send = mailer.claim_one()
    assert mailer.say(send, BOUNCED)
    after = mailer.get(send.id)

    assert (after.state, after.code, after.reply, after.due_at) == (
        S.FAILED,
        "mailbox_unknown",
        550,
        None,
    )


@pytest.mark.parametrize("outcome", [REFUSED, BOUNCED, SILENCE])
def test_a_stale_fence_changes_nothing_but_is_on_record(
    mailer: Mailer, outcome: SendOutcome
) -> None:
    mailer.intend()
    first = mailer.claim_one()
    mailer.lose()
    second = mailer.claim_one(worker="ben")

    assert not mailer.say(first, outcome)
    after = mailer.get(first.id)
    assert (after.state, after.fence, after.worker) == (S.CLAIMED, second.fence, "ben")
    assert mailer.tries(first.id)[0].outcome in {"not_sent", "rejected", "unknown"}
    assert mailer.begin(second)


def test_another_way_is_taken_only_from_proven_not_sent(mailer: Mailer) -> None:
    mailer.join_group(RELAY)
    mailer.add_transport("backup", failover_group="main")
    send = mailer.start()
    mailer.say(send, UNREACHED, move_to="backup", wait=0)
    assert mailer.get(send.id).transport == "backup"

    other = mailer.start("other", on_unknown=RESEND)
    mailer.say(other, SILENCE, move_to="backup")
    mailer.clerk.now += WAIT
    again = next(each.send for each in mailer.claim() if each.send.id == other.id)
    assert mailer.begin(again)
    mailer.say(again, UNREACHED, move_to="backup")
    assert (mailer.state(other.id), mailer.get(other.id).transport) == (S.UNKNOWN, RELAY)


def test_a_way_that_is_not_there_is_never_taken(mailer: Mailer) -> None:
    send = mailer.start()
    mailer.say(send, UNREACHED, move_to="nowhere")

    assert mailer.get(send.id).transport == RELAY


# unknown


def test_an_expired_sending_becomes_unknown_and_is_never_claimed_again(mailer: Mailer) -> None:
    send = mailer.start()
    swept = mailer.lose()
    after = mailer.get(send.id)

    assert (swept.given_back, swept.unknown) == (0, 1)
    assert (after.state, after.due_at, after.unknown_since) == (S.UNKNOWN, None, send.claimed_at)
    for _ in range(3):
        mailer.clerk.now += 24 * HOUR
        mailer.sweep()
        assert mailer.claim() == []
    assert mailer.events() == ["send.unknown"]
    assert not mailer.say(send, REFUSED)
    assert mailer.state(send.id) is S.UNKNOWN


def test_a_lost_answer_is_unknown_and_held(mailer: Mailer) -> None:
    send = mailer.in_doubt()
    mailer.clerk.now += 24 * HOUR

    assert (send.state, send.repeat_mode, send.code) == (S.UNKNOWN, None, "no_answer")
    assert mailer.claim() == []
    assert mailer.intend().status is AnswerStatus.UNKNOWN


def test_replay_repeats_inside_the_window_with_the_same_key(mailer: Mailer) -> None:
    send = mailer.in_doubt(replay_for=HOUR, on_unknown=REPLAY)
    assert mailer.events() == []
    mailer.clerk.now += WAIT
    again = mailer.claim_one()

    assert (again.id, again.epoch, again.body_id) == (send.id, send.epoch, send.body_id)
    assert mailer.begin(again, replay_for=HOUR)
    assert mailer.get(send.id).replay_until == send.replay_until, "the first hand-over counts"
    assert mailer.say(again, TAKEN)
    assert mailer.state(send.id) is S.SENT


def test_a_lost_replay_is_repeated_by_the_next_worker(mailer: Mailer) -> None:
    send = mailer.start(replay_for=HOUR, on_unknown=REPLAY)
    mailer.lose()
    again = mailer.claim_one()
    assert mailer.begin(again)
    mailer.lose()

    assert mailer.state(send.id) is S.UNKNOWN
    assert mailer.claim_one().tries == 3


def test_replay_ends_with_the_window(mailer: Mailer) -> None:
    mailer.in_doubt(replay_for=HOUR, on_unknown=REPLAY)
    mailer.clerk.now += HOUR - LEASE + 1
    late = mailer.claim_one()
    mailer.clerk.now += LEASE - 1

    assert not mailer.begin(late)
    assert (mailer.state(late.id), mailer.get(late.id).repeat_mode) == (S.UNKNOWN, None)
    assert mailer.claim() == []
    assert mailer.events() == ["send.unknown"]


def test_a_replay_nobody_made_in_time_is_held(mailer: Mailer) -> None:
    send = mailer.in_doubt(replay_for=HOUR, on_unknown=REPLAY)
    mailer.clerk.now += HOUR
    assert mailer.claim() == []

    assert mailer.sweep().lapsed == 1
    assert (mailer.get(send.id).repeat_mode, mailer.events()) == (None, ["send.unknown"])


def test_without_a_window_there_is_no_replay(mailer: Mailer) -> None:
    mailer.in_doubt(on_unknown=REPLAY)
    mailer.clerk.now += WAIT

    assert mailer.claim() == []


def test_resend_repeats_the_same_bytes(mailer: Mailer) -> None:
    send = mailer.in_doubt(on_unknown=RESEND)
    mailer.clerk.now += WAIT
    again = mailer.claim_one()

    assert (again.message_id, again.body_id) == (send.message_id, send.body_id)
    assert mailer.begin(again)


def _repeated(mailer: Mailer) -> Send:
    send = mailer.in_doubt(on_unknown=RESEND, valid_until=mailer.clerk.now + 3 * WAIT)
    mailer.clerk.now += WAIT
    (again,) = (each.send for each in mailer.claim())
    assert again.id == send.id
    return again


@pytest.mark.parametrize("marked", [False, True])
@pytest.mark.parametrize("outcome", [REFUSED, UNREACHED, BOUNCED])
def test_a_repeat_that_was_not_taken_says_nothing_of_the_hand_over_in_doubt(
    mailer: Mailer, outcome: SendOutcome, marked: bool
) -> None:
    again = _repeated(mailer)
    assert not marked or mailer.begin(again)
    mailer.say(again, outcome)
    after = mailer.get(again.id)

    assert (after.state, after.epoch) == (S.UNKNOWN, again.epoch)
    assert after.unknown_since == again.unknown_since
    assert not mailer.intend(valid_until=again.valid_until).rearmed


def test_a_repeat_whose_worker_is_lost_stays_in_doubt(mailer: Mailer) -> None:
    again = _repeated(mailer)
    swept = mailer.lose()

    assert swept.given_back == 1
    assert mailer.state(again.id) is S.UNKNOWN
    assert mailer.claim_one().id == again.id


def test_a_repeat_in_doubt_is_never_called_off_suppressed_or_expired(mailer: Mailer) -> None:
    again = _repeated(mailer)
    with pytest.raises(StateConflict):
        mailer.cancel(again.id)
    mailer.suppress()

    assert not mailer.begin(again)
    assert mailer.state(again.id) is S.UNKNOWN
    assert mailer.events()[-1:] == ["send.unknown"]


def test_a_repeat_in_doubt_is_not_made_after_valid_until(mailer: Mailer) -> None:
    send = mailer.in_doubt(on_unknown=RESEND, valid_until=mailer.clerk.now + WAIT)
    mailer.clerk.now += WAIT

    assert mailer.claim() == []
    assert mailer.sweep().lapsed == 1
    assert mailer.state(send.id) is S.UNKNOWN


# in time


def test_an_unclaimed_send_expires_in_time(mailer: Mailer) -> None:
    told = mailer.intend(valid_until=mailer.clerk.now + MINUTE)
    mailer.clerk.now += MINUTE
    assert mailer.claim() == []

    assert mailer.sweep().expired == 1
    assert mailer.state(told.send.id) is S.EXPIRED


def test_a_sweep_goes_on_where_there_is_more(mailer: Mailer) -> None:
    for key in "abc":
        mailer.intend(key, valid_until=mailer.clerk.now + 1)
    mailer.clerk.now += 1
    seen = [mailer.clerk.run(lifecycle.sweep, mailer.clerk.now, most=2) for _ in range(3)]

    assert [(each.expired, each.has_more) for each in seen] == [(2, True), (1, False), (0, False)]


def test_events_contain_no_address_and_no_text(mailer: Mailer) -> None:
    send = mailer.start(text="the code is 123456")
    mailer.say(send, TAKEN)
    told = b"".join(bytes(row[0]) for row in mailer.rows("SELECT data FROM oncebox_events"))

    assert b"123456" not in told
    assert TO.encode() not in told
    assert b'"provider_id":"p-1"' in told


def test_a_repeat_is_not_given_up_because_its_lease_was_renewed_too_late(mailer: Mailer) -> None:
    mailer.in_doubt(on_unknown=OnUnknown.RESEND)
    mailer.clerk.now += WAIT
    send = mailer.claim_one()
    # The marker was refused, for the lease had run out; the renewal was committed right after.
    refused = [(send.tenant, send.id, send.fence)]
    mailer.clerk.run(lifecycle.end_refused, refused, mailer.clerk.now)

    found = mailer.get(send.id)
    assert (found.state, found.repeat_mode) == (SendState.CLAIMED, OnUnknown.RESEND)
    assert mailer.begin(send)
