"""Evidence: providers end doubts, tell what became of mail, and learn who gets no more."""

from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from oncebox.ledger.sends import evidence, suppressions
from oncebox.model.sends.send import OnUnknown, Send, SendState
from oncebox.model.sends.transports import (
    ProviderEvent,
    ProviderEventRecipient,
    ProviderEventResult,
    ProviderStatus,
    SendAccepted,
)
from tests.support.clerk import LEASE, TENANT, Clerk
from tests.support.interleaved import interleave
from tests.support.mailer import BOUNCED, BOX, REFUSED, RELAY, SILENCE, TO, Mailer

S = SendState
OTHER = "kim@example.org"
ID = "49a3999c-0ce1-4ea6-ab68-afcd6dc2e794"


@pytest.fixture
def mailer(clerk: Clerk) -> Mailer:
    return Mailer(clerk)


def about(send: Send, what: ProviderStatus = ProviderStatus.ACCEPTED, **more: Any) -> ProviderEvent:
    """Return a word on a send, by our tag."""
    to = more.pop("to", ())
    given: dict[str, Any] = {
        "tenant": send.tenant,
        "transport": RELAY,
        "provider_id": ID,
        "send_id": send.id,
        "at": 7,
        "recipients": tuple(
            ProviderEventRecipient(
                BOX.address_fingerprint(TENANT, each), BOX.encrypt_address(TENANT, each)
            )
            for each in to
        ),
    }
    return ProviderEvent(status=what, **{**given, **more})


def hear(mailer: Mailer, *words: ProviderEvent) -> list[ProviderEventResult]:
    return mailer.clerk.run(evidence.record_evidence, words, mailer.clerk.now)


def sent(mailer: Mailer, key: str = "key", **more: Any) -> Send:
    """Return a send that was taken, and has a name."""
    send = mailer.start(key, **more)
    assert mailer.say(send, SendAccepted(provider_id=ID))
    return mailer.get(send.id)


def listed(mailer: Mailer) -> dict[str, tuple[str, str | None]]:
    found = mailer.clerk.run(suppressions.page, TENANT)
    return {
        BOX.decrypt_address(TENANT, each.fingerprint, each.address): (each.reason, each.send_id)
        for each in found
    }


# doubt


@pytest.mark.parametrize("what", list(ProviderStatus))
def test_any_provider_event_resolves_an_unknown_outcome(
    mailer: Mailer, what: ProviderStatus
) -> None:
    send = mailer.in_doubt()

    (heard,) = hear(mailer, about(send, what))

    stands = mailer.get(send.id)
    assert (heard.send_id, heard.proven) == (send.id, True)
    assert (stands.state, stands.provider_id, stands.unknown_since) == (S.SENT, ID, None)
    assert stands.delivery == (None if what is ProviderStatus.ACCEPTED else what)
    assert mailer.events().count("send.sent") == 1


def test_a_word_on_a_hand_over_that_a_person_denied_is_proof_after_it_was_armed_again(
    mailer: Mailer,
) -> None:
    send = mailer.start()
    mailer.clerk.now += LEASE
    mailer.resolve(send.id, sent=False)
    assert mailer.intend().rearmed

    assert hear(mailer, about(send))[0].proven
    assert [each.outcome for each in mailer.tries(send.id)] == ["lost"]
    assert mailer.claim() == []


def test_a_word_that_comes_before_the_answer_is_proof_and_the_answer_changes_nothing(
    mailer: Mailer,
) -> None:
    send = mailer.start()

    (heard,) = hear(mailer, about(send))

    assert heard.proven
    assert not mailer.say(send, SILENCE)
    assert not mailer.say(send, REFUSED)
    assert not mailer.say(send, BOUNCED)
    assert (mailer.state(send.id), mailer.get(send.id).provider_id) == (S.SENT, ID)


def test_a_doubt_whose_worker_was_lost_ends_too(mailer: Mailer) -> None:
    send = mailer.start()
    mailer.lose()
    assert mailer.state(send.id) is S.UNKNOWN

    hear(mailer, about(send))

    assert mailer.state(send.id) is S.SENT


def test_a_repeat_under_way_gets_no_marker_after_the_proof(mailer: Mailer) -> None:
    send = mailer.in_doubt(replay_for=3_600_000, on_unknown=OnUnknown.REPLAY)
    mailer.clerk.now += 60_000
    again = mailer.claim_one(worker="ben")

    hear(mailer, about(send))

    assert not mailer.begin(again)
    assert mailer.state(send.id) is S.SENT


def test_proof_for_what_a_person_thought_unsent_keeps_it_from_being_sent_again(
    mailer: Mailer,
) -> None:
    send = mailer.in_doubt()
    mailer.resolve(send.id, sent=False)
    mailer.intend()

    hear(mailer, about(send))

    assert mailer.state(send.id) is S.SENT
    assert mailer.claim() == []


def test_what_a_person_called_sent_gets_its_name(mailer: Mailer) -> None:
    send = mailer.in_doubt()
    mailer.resolve(send.id, sent=True)

    (heard,) = hear(mailer, about(send, ProviderStatus.DELIVERED))

    stands = mailer.get(send.id)
    assert (heard.proven, heard.changed) == (False, True)
    assert (stands.provider_id, stands.delivery) == (ID, ProviderStatus.DELIVERED)


# who may speak


def test_what_was_never_on_the_wire_was_taken_by_nobody(mailer: Mailer) -> None:
    pending = mailer.intend("a").send
    mailer.intend("b")
    (claimed,) = (each.send for each in mailer.claim() if each.send.id != pending.id)

    assert hear(mailer, about(pending), about(claimed)) == [
        ProviderEventResult(),
        ProviderEventResult(),
    ]
    assert {mailer.state(pending.id), mailer.state(claimed.id)} == {S.CLAIMED}


def test_a_tag_counts_for_nobody_who_has_another_name(mailer: Mailer) -> None:
    send = sent(mailer)

    heard = hear(mailer, about(send, ProviderStatus.BOUNCED, provider_id="forged", to=(TO,)))

    assert heard == [ProviderEventResult()]
    assert (mailer.get(send.id).delivery, mailer.get(send.id).provider_id) == (None, ID)
    assert listed(mailer) == {}


def test_a_name_counts_for_nobody_whom_the_tag_does_not_mean(mailer: Mailer) -> None:
    send, other = sent(mailer, "a"), mailer.in_doubt("b")

    assert hear(mailer, about(other, ProviderStatus.BOUNCED, to=(TO,))) == [ProviderEventResult()]
    assert (mailer.get(send.id).delivery, mailer.state(other.id)) == (None, S.UNKNOWN)
    assert listed(mailer) == {}


def test_a_name_alone_is_enough(mailer: Mailer) -> None:
    send = sent(mailer)

    (heard,) = hear(mailer, about(send, ProviderStatus.DELIVERED, send_id=""))

    assert (heard.send_id, mailer.get(send.id).delivery) == (send.id, ProviderStatus.DELIVERED)


def test_evidence_of_another_transport_is_ignored(mailer: Mailer) -> None:
    mailer.add_transport("other", position=9)
    doubtful, known = mailer.in_doubt("a"), sent(mailer, "b")

    heard = hear(
        mailer,
        about(doubtful, transport="other", provider_id="x"),
        about(known, ProviderStatus.BOUNCED, transport="other", send_id=""),
        about(known, ProviderStatus.BOUNCED, transport="other"),
    )

    assert heard == [ProviderEventResult()] * 3
    assert mailer.state(doubtful.id) is S.UNKNOWN
    assert mailer.get(known.id).delivery is None


def test_the_way_that_a_send_left_still_has_its_say(mailer: Mailer) -> None:
    mailer.join_group(RELAY)
    mailer.add_transport("other", position=9, failover_group="main")
    send = mailer.start()
    mailer.say(send, REFUSED, move_to="other")
    assert mailer.get(send.id).transport == "other"

    (heard,) = hear(mailer, about(send))

    assert heard.proven
    assert mailer.state(send.id) is S.SENT


def test_evidence_of_another_tenant_is_ignored(mailer: Mailer) -> None:
    doubtful, known = mailer.in_doubt("a"), sent(mailer, "b")
    mailer.add_transport(RELAY, tenant="rival")

    heard = hear(
        mailer,
        about(doubtful, tenant="rival", provider_id="x"),
        about(known, ProviderStatus.COMPLAINED, tenant="rival", to=(TO,)),
        about(known, ProviderStatus.COMPLAINED, tenant="rival", send_id="", to=(TO,)),
    )

    assert heard == [ProviderEventResult()] * 3
    assert mailer.state(doubtful.id) is S.UNKNOWN
    assert mailer.get(known.id).delivery is None
    assert mailer.rows("SELECT COUNT(*) FROM oncebox_suppressions") == [(0,)]


@pytest.mark.parametrize("changed", [{"send_id": "snd_nobody"}, {"send_id": ""}])
def test_a_word_on_nothing_of_ours_changes_nothing(mailer: Mailer, changed: dict[str, str]) -> None:
    send = mailer.in_doubt()
    word = about(send, ProviderStatus.BOUNCED, to=(TO,), **changed)

    assert hear(mailer, word) == [ProviderEventResult()]
    assert (mailer.state(send.id), listed(mailer)) == (S.UNKNOWN, {})
    assert hear(mailer) == []


def test_of_two_names_for_one_send_the_first_counts(mailer: Mailer) -> None:
    send = mailer.in_doubt()

    heard = hear(
        mailer, about(send), about(send, ProviderStatus.BOUNCED, provider_id="other", to=(TO,))
    )

    assert [each.send_id for each in heard] == [send.id, None]
    assert (mailer.get(send.id).provider_id, listed(mailer)) == (ID, {})


# what became of it


def test_a_weaker_word_never_replaces_a_stronger_one(mailer: Mailer) -> None:
    send = sent(mailer)
    for what in (
        ProviderStatus.DELAYED,
        ProviderStatus.DELIVERED,
        ProviderStatus.DELAYED,
        ProviderStatus.CLICKED,
        ProviderStatus.OPENED,
    ):
        hear(mailer, about(send, what))

    assert mailer.get(send.id).delivery is ProviderStatus.CLICKED
    assert mailer.events() == ["send.sent", *["send.delivery"] * 3]


@given(words=st.lists(st.lists(st.sampled_from(ProviderStatus), max_size=4), max_size=5))
@settings(max_examples=15, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_in_whatever_order_words_come_the_strongest_stays(
    clerk: Clerk, words: list[list[ProviderStatus]]
) -> None:
    mailer = _again(clerk)
    send = mailer.in_doubt(str(mailer.clerk.now), transport=mailer.transport)
    name = f"id-{send.id}"
    news = 0
    for batch in words:
        told = [about(send, what, provider_id=name, transport=mailer.transport) for what in batch]
        news += sum(each.changed for each in hear(mailer, *told, *told))

    said = [what for batch in words for what in batch]
    strongest = max(said, key=lambda each: each.strength, default=ProviderStatus.ACCEPTED)
    stands = mailer.get(send.id)
    assert stands.state is (S.SENT if said else S.UNKNOWN)
    assert stands.delivery == (None if strongest is ProviderStatus.ACCEPTED else strongest)
    assert news % 2 == 0


def _again(clerk: Clerk) -> Mailer:
    """Return a mailer whose transport no earlier example used."""
    clerk.now += 100_000
    return Mailer(clerk, transport=f"way-{clerk.now}")


def test_a_word_heard_again_is_no_news(mailer: Mailer) -> None:
    send = mailer.in_doubt()
    word = about(send, ProviderStatus.BOUNCED, to=(TO,))

    first, again = hear(mailer, word), hear(mailer, word)

    assert first == [ProviderEventResult(send.id, proven=True, changed=True, suppressed=1)]
    assert again == [ProviderEventResult(send.id)]
    assert mailer.events() == ["send.unknown", "send.sent", "send.delivery"]


def test_who_waits_for_words_on_one_send_sees_one_of_them_win(mailer: Mailer) -> None:
    send, now = mailer.in_doubt(), mailer.clerk.now
    first, second = interleave(
        mailer.clerk.place,
        lambda tx: evidence.record_evidence(tx, [about(send, ProviderStatus.DELIVERED)], now),
        lambda tx: evidence.record_evidence(tx, [about(send, ProviderStatus.DELIVERED)], now),
    )

    assert sorted([first[0].proven, second[0].proven]) == [False, True]
    assert sorted([first[0].changed, second[0].changed]) == [False, True]
    assert mailer.events().count("send.sent") == 1


# who gets no more mail


@pytest.mark.parametrize(
    ("what", "reason"),
    [(ProviderStatus.BOUNCED, "hard_bounce"), (ProviderStatus.COMPLAINED, "complaint")],
)
def test_a_hard_bounce_and_a_complaint_end_mail_to_that_address(
    mailer: Mailer, what: ProviderStatus, reason: str
) -> None:
    send = sent(mailer, to=(TO, OTHER))

    (heard,) = hear(mailer, about(send, what, to=(TO,)))

    assert heard.suppressed == 1
    assert listed(mailer) == {TO: (reason, send.id)}
    assert mailer.intend("next").send.state is S.SUPPRESSED
    assert mailer.intend("free", to=(OTHER,)).send.state is S.PENDING


@pytest.mark.parametrize(
    "what",
    [
        each
        for each in ProviderStatus
        if each not in {ProviderStatus.BOUNCED, ProviderStatus.COMPLAINED}
    ],
)
def test_no_other_word_does(mailer: Mailer, what: ProviderStatus) -> None:
    send = sent(mailer)

    hear(mailer, about(send, what, to=(TO,)))

    assert listed(mailer) == {}


def test_only_recipients_of_the_very_send_are_listed(mailer: Mailer) -> None:
    send = sent(mailer)
    sent_to_other = mailer.start("other", to=(OTHER,))

    (heard,) = hear(mailer, about(send, ProviderStatus.BOUNCED, to=(OTHER,)))

    assert (heard.suppressed, listed(mailer)) == (0, {})
    assert mailer.state(sent_to_other.id) is S.SENDING


def test_every_recipient_counts_for_itself(mailer: Mailer) -> None:
    send = sent(mailer, to=(TO, OTHER))

    hear(mailer, about(send, ProviderStatus.BOUNCED, to=(TO,)))
    hear(mailer, about(send, ProviderStatus.BOUNCED, to=(OTHER,)))

    assert set(listed(mailer)) == {TO, OTHER}


def test_a_replay_does_not_undo_what_a_person_did(mailer: Mailer) -> None:
    send = sent(mailer)
    bounced = about(send, ProviderStatus.BOUNCED, to=(TO,))
    hear(mailer, bounced)
    mailer.unsuppress()

    assert hear(mailer, bounced)[0].suppressed == 0
    assert listed(mailer) == {}
    hear(mailer, about(send, ProviderStatus.COMPLAINED, to=(TO,)))
    assert listed(mailer) == {TO: ("complaint", send.id)}


def test_the_first_reason_stays(mailer: Mailer) -> None:
    send = sent(mailer)
    mailer.suppress()

    (heard,) = hear(mailer, about(send, ProviderStatus.COMPLAINED, to=(TO,)))

    assert heard.suppressed == 0
    assert listed(mailer) == {TO: ("manual", None)}


def test_the_event_holds_no_address(mailer: Mailer) -> None:
    send = sent(mailer)
    hear(mailer, about(send, ProviderStatus.BOUNCED, to=(TO,)))

    ((data,),) = mailer.rows("SELECT data FROM oncebox_events WHERE type = 'send.delivery'")
    said = bytes(data) if not isinstance(data, str) else data.encode()
    assert b'"delivery":"bounced"' in said.replace(b" ", b"")
    assert b"example.org" not in said
