"""People: what they say of sends counts once, is on record, and never undoes proof."""

import pytest

from oncebox.errors import NotFound, StateConflict
from oncebox.ledger.sends import lifecycle, sends, suppressions
from oncebox.model.sends.send import AnswerStatus, SendState
from tests.support.clerk import LEASE, TENANT, Clerk
from tests.support.interleaved import interleave
from tests.support.mailer import BOUNCED, BOX, REFUSED, SILENCE, TAKEN, TO, WAIT, Mailer

S = SendState


@pytest.fixture
def mailer(clerk: Clerk) -> Mailer:
    return Mailer(clerk)


# resolve


@pytest.mark.parametrize(("sent", "state"), [(True, S.SENT), (False, S.FAILED)])
def test_an_operator_resolves_an_unknown_outcome_and_it_is_audited(
    mailer: Mailer, sent: bool, state: SendState
) -> None:
    send = mailer.in_doubt()
    after = mailer.resolve(send.id, sent=sent)

    assert (after.state, after.unknown_since, after.code) == (state, None, "resolved")
    assert mailer.audited(f"send:{send.id}") == [("send resolve", "sent" if sent else "not_sent")]
    assert mailer.events() == ["send.unknown", f"send.{state}"]


def test_what_was_resolved_as_not_sent_is_sent_by_the_next_who_asks(mailer: Mailer) -> None:
    send = mailer.in_doubt()
    mailer.resolve(send.id, sent=False)
    told = mailer.intend()

    assert (told.rearmed, told.send.id) == (True, send.id)
    assert told.send.epoch > send.epoch


def test_what_was_resolved_as_sent_is_a_duplicate_ever_after(mailer: Mailer) -> None:
    mailer.resolve(mailer.in_doubt().id, sent=True)

    assert mailer.intend().status is AnswerStatus.DUPLICATE


def test_only_what_is_in_doubt_can_be_resolved(mailer: Mailer) -> None:
    mailer.intend()
    send = mailer.claim_one()
    for step in (lambda: None, lambda: mailer.begin(send), lambda: mailer.say(send, TAKEN)):
        step()
        with pytest.raises(StateConflict):
            mailer.resolve(send.id, sent=False)
    with pytest.raises(NotFound):
        mailer.resolve("snd_none", sent=True)
    assert mailer.audited(f"send:{send.id}") == []


def test_a_lost_hand_over_can_be_resolved_before_the_sweep(mailer: Mailer) -> None:
    send = mailer.start()
    mailer.clerk.now += LEASE

    assert mailer.resolve(send.id, sent=False).state is S.FAILED
    assert not mailer.say(send, SILENCE)


def test_whoever_had_it_cannot_deny_what_a_person_resolved(mailer: Mailer) -> None:
    send = mailer.in_doubt()
    mailer.resolve(send.id, sent=False)
    mailer.intend()

    assert not mailer.say(send, REFUSED)
    assert not mailer.say(send, BOUNCED)
    assert mailer.state(send.id) is S.PENDING


def test_unknown_sends_are_listed(mailer: Mailer) -> None:
    ids = [mailer.in_doubt(key).id for key in "ab"]
    mailer.intend("c")

    assert [each.id for each in mailer.clerk.run(sends.list_unknown, TENANT)] == ids
    assert mailer.clerk.run(sends.list_unknown, "globex") == []


# cancel


@pytest.mark.parametrize("claimed", [False, True])
def test_what_is_not_on_the_wire_can_be_called_off(mailer: Mailer, claimed: bool) -> None:
    id_ = mailer.intend().send.id
    if claimed:
        mailer.claim_one()
    after = mailer.cancel(id_)

    assert after.state is S.CANCELLED
    assert mailer.audited(f"send:{id_}") == [("send cancel", "")]
    assert mailer.events() == ["send.cancelled"]
    assert mailer.claim() == []


def test_a_send_on_the_wire_cannot_be_cancelled(mailer: Mailer) -> None:
    send = mailer.start()
    for step in (lambda: None, lambda: mailer.say(send, SILENCE)):
        step()
        with pytest.raises(StateConflict):
            mailer.cancel(send.id)
    mailer.say(send, TAKEN)
    with pytest.raises(StateConflict):
        mailer.cancel(send.id)
    assert mailer.audited(f"send:{send.id}") == []


def test_an_agent_calls_off_only_what_its_key_asked_for(mailer: Mailer) -> None:
    id_ = mailer.intend(owner="key_1").send.id
    with pytest.raises(NotFound):
        mailer.cancel(id_, owner="key_2")

    assert mailer.cancel(id_, owner="key_1").state is S.CANCELLED


# resend


@pytest.mark.parametrize("state", [S.FAILED, S.CANCELLED, S.SUPPRESSED, S.EXPIRED])
def test_a_person_lets_what_was_not_sent_be_tried_again(mailer: Mailer, state: SendState) -> None:
    id_ = mailer.intend(valid_until=mailer.clerk.now + 100).send.id
    send = mailer.claim_one()
    if state is S.FAILED:
        mailer.say(send, BOUNCED)
    elif state is S.CANCELLED:
        mailer.cancel(id_)
    else:
        mailer.clerk.now += 100 if state is S.EXPIRED else 0
        if state is S.SUPPRESSED:
            mailer.suppress()
        mailer.begin(send)
    assert mailer.state(id_) is state
    if state is S.SUPPRESSED:
        mailer.unsuppress()
    mailer.resend(id_)

    again = mailer.claim_one()
    assert mailer.begin(again)
    assert mailer.audited(f"send:{id_}")[-1] == ("send resend", "")


def test_a_person_lets_one_in_doubt_be_repeated_once(mailer: Mailer) -> None:
    send = mailer.in_doubt()
    mailer.resend(send.id)
    again = mailer.claim_one()
    assert mailer.begin(again)
    mailer.say(again, SILENCE)
    mailer.clerk.now += WAIT

    assert mailer.state(send.id) is S.UNKNOWN
    assert mailer.claim() == []


def test_what_was_sent_or_is_under_way_is_not_sent_again(mailer: Mailer) -> None:
    mailer.intend()
    with pytest.raises(StateConflict):
        mailer.resend(mailer.intend().send.id)
    send = mailer.claim_one()
    for step in (lambda: None, lambda: mailer.begin(send), lambda: mailer.say(send, TAKEN)):
        step()
        with pytest.raises(StateConflict):
            mailer.resend(send.id)
    with pytest.raises(NotFound):
        mailer.resend("snd_none")


# suppression


def test_what_goes_to_the_suppression_list_is_told_at_once(mailer: Mailer) -> None:
    assert mailer.suppress()
    told = mailer.intend(to=("bob@example.org", TO))

    assert (told.status, told.created) == (AnswerStatus.SUPPRESSED, True)
    assert mailer.claim() == []
    assert mailer.events() == ["send.suppressed"]
    assert mailer.intend("other", to=("bob@example.org",)).status is AnswerStatus.IN_FLIGHT


def test_what_is_armed_again_meets_the_suppression_list(mailer: Mailer) -> None:
    mailer.cancel(mailer.intend().send.id)
    mailer.suppress()
    told = mailer.intend()

    assert (told.status, told.rearmed) == (AnswerStatus.SUPPRESSED, True)


def test_an_address_off_the_list_gets_mail_again(mailer: Mailer) -> None:
    mailer.suppress()
    mailer.unsuppress()

    assert mailer.intend().status is AnswerStatus.IN_FLIGHT
    with pytest.raises(NotFound):
        mailer.unsuppress()


def test_the_list_of_one_tenant_is_not_another_tenants(mailer: Mailer) -> None:
    mailer.suppress(tenant="globex")

    assert mailer.intend().status is AnswerStatus.IN_FLIGHT
    assert BOX.address_fingerprint("globex", TO) != BOX.address_fingerprint(TENANT, TO)


def test_an_address_is_listed_once_for_its_first_reason_and_only_sealed(mailer: Mailer) -> None:
    assert mailer.suppress()
    assert not mailer.suppress()
    (listed,) = mailer.clerk.run(suppressions.page, TENANT)

    assert mailer.clerk.run(suppressions.get, TENANT, listed.fingerprint) == listed
    assert mailer.clerk.run(suppressions.page, TENANT, after=listed.fingerprint) == []
    assert BOX.decrypt_address(TENANT, listed.fingerprint, listed.address) == TO
    assert TO not in repr(mailer.rows("SELECT * FROM oncebox_suppressions"))
    audited = mailer.audited(f"suppression:{listed.fingerprint.hex()[:16]}")
    assert audited == [("suppression add", "manual")]
    assert TO not in repr(mailer.rows("SELECT * FROM oncebox_audit"))


def test_of_two_concurrent_resolutions_one_succeeds(mailer: Mailer) -> None:
    send = mailer.in_doubt()
    deeds = [mailer.deed(), mailer.deed()]
    with pytest.raises(StateConflict):
        interleave(
            mailer.clerk.place,
            lambda tx: lifecycle.resolve(tx, send.id, deeds[0], sent=True),
            lambda tx: lifecycle.resolve(tx, send.id, deeds[1], sent=False),
        )
    assert mailer.state(send.id) is S.SENT
