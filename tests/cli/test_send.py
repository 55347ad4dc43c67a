"""Sends at the terminal: asked for once, seen with every try, and ended by a person's word."""

from typing import Any

import pytest

from oncebox.model.sends.transports import NotSent, SendAccepted, SendPhase, SendRejected
from tests.cli.ledger import Answer, Ledger
from tests.cli.outbox import SILENCE, tried

WHO = "ann.canary@example.com"
TEXT = "CANARYTEXT"
RELAY = ("transport", "add", "relay", "--kind", "smtp", "--host", "127.0.0.1", "--port", "1",
         "--security", "none")  # fmt: skip


@pytest.fixture
def relay(bare: Ledger) -> Ledger:
    """A ledger with a way out, on one of the databases."""
    bare.type(*RELAY)
    return bare


def mail(ledger: Ledger, *options: str, entity: str = "1", text: str = TEXT) -> Answer:
    return ledger.type(
        "send", "mail", "--to", WHO, "--from", "shop@example.com", "--subject", "Thanks",
        "--text", text, "--event-type", "order.paid", "--entity-id", entity, *options,
    )  # fmt: skip


def inspect(ledger: Ledger, id_: str) -> Any:
    return ledger.type("send", "inspect", id_, "--json").record


def test_a_mail_typed_twice_is_one_send(bare: Ledger) -> None:
    first, second = mail(bare, "--json").record, mail(bare, "--json", text="other").record
    listed = bare.type("send", "list").rows

    assert (first["status"], first["created"], first["transport"]) == ("in_flight", True, "log")
    assert (second["id"], second["created"], second["drift"]) == (first["id"], False, True)
    assert first["message_id"] == second["message_id"]
    assert [row[:6] for row in listed] == [
        [first["id"], "pending", "log", "order.paid", "1", "0"],
    ]


def test_a_mail_is_read_from_standard_input_and_takes_files(bare: Ledger) -> None:
    bare.type("migrate")
    command = ("send", "mail", "--to", WHO, "--from", "a@example.com", "--key", "k", "--text", "-")
    assert bare.type(*command, stdin=b"hello").code == 0
    assert bare.type(*command, stdin=b"\xff").code == 2
    assert bare.type(*command, "--html", "-", stdin=b"x").code == 2
    attached = bare.type(*command, "--attach", "data/oncebox.db", "--json", stdin=b"hello")

    assert (attached.code, attached.error["code"]) == (1, "send_key_conflict")


def test_a_mail_that_cannot_be_sent_is_refused_with_its_code(bare: Ledger) -> None:
    nobody = bare.type("send", "mail", "--text", "x", "--key", "k", "--json")
    keyless = bare.type("send", "mail", "--to", WHO, "--text", "x", "--from", WHO, "--json")
    split = mail(bare, "--json", "--to", "a@example.com\r\nBcc: b@example.com")

    codes = [each.error["code"] for each in (nobody, keyless, split)]
    assert codes == ["sender_missing", "key_invalid", "mailbox_invalid"]


def test_an_inspection_has_every_try_with_how_far_it_came(ledger: Ledger) -> None:
    ledger.type(*RELAY)
    id_ = mail(ledger, "--json").record["id"]
    tried(outcome=NotSent(code="recipient_deferred", phase=SendPhase.ENVELOPE, reply=451), wait=0)
    tried(outcome=SILENCE)
    found = inspect(ledger, id_)
    rows = ledger.type("send", "inspect", id_).rows

    assert [(each["outcome"], each["phase"], each["reply"]) for each in found["tries"]] == [
        ("not_sent", "envelope", 451), ("unknown", "handed_over", 0),
    ]  # fmt: skip
    assert (found["send"]["state"], found["unknown_since"] is not None) == ("unknown", True)
    assert found["next_action"].startswith("needs a person")
    assert [row[:3] for row in rows if row[0] == "try"] == [
        ["try", "1", "not_sent"], ["try", "2", "unknown"],
    ]  # fmt: skip
    assert rows[-1] == ["next action", found["next_action"]]
    assert {"unknown", "last outcome", "key"} <= {row[0] for row in rows}


def test_a_lease_is_told_with_its_end(relay: Ledger) -> None:
    id_ = mail(relay, "--json").record["id"]
    tried(outcome=None)
    rows = {row[0]: row[1:] for row in relay.type("send", "inspect", id_).rows}

    assert rows["lease"][0].startswith("expires in ")
    assert rows["lease"][1:] == ["ann:1", "fence 1"]
    assert rows["next action"] == ["wait: a worker holds the lease"]


def test_a_send_is_found_by_its_message_id_and_by_the_providers(relay: Ledger) -> None:
    first = mail(relay, "--json").record
    tried(outcome=SendAccepted(provider_id="4AF3B2"))

    for name in (first["id"], first["message_id"], "4AF3B2"):
        assert inspect(relay, name)["send"]["id"] == first["id"]
    assert relay.type("send", "inspect", "nobody").code == 3
    assert relay.type("send", "explain", "nobody").code == 3


def test_an_explanation_says_why_and_what_next(relay: Ledger) -> None:
    waiting = mail(relay, "--json").record["id"]
    relay.type("transport", "pause", "relay")
    paused = relay.type("send", "explain", waiting).out
    relay.type("transport", "resume", "relay")
    tried(outcome=SILENCE)
    doubt = relay.type("send", "explain", waiting).out
    as_json = relay.type("send", "explain", waiting, "--json").record

    assert "Its transport relay is paused" in paused
    assert "It is not known whether it was sent." in doubt
    assert "1 attempt, through relay, " in doubt
    assert "no answer came after the mail was transmitted" in doubt
    assert "Its outcome has been unknown for " in doubt
    assert "A report from the provider, or an operator, settles it for good." in doubt
    assert f"oncebox send resolve {waiting} --sent --why '…'" in as_json["sentences"][-1]
    assert f"oncebox send resolve {waiting} --not-sent --why '…'" in as_json["sentences"][-1]


def test_an_explanation_says_why_no_other_transport_takes_over(relay: Ledger) -> None:
    refused = NotSent(code="login_refused", phase=SendPhase.GREETED, opens_circuit=True)
    ids: dict[tuple[str, ...], str] = {}
    for options in ((), ("--transport", "relay")):
        ids[options] = mail(relay, "--json", *options, entity=str(len(ids))).record["id"]
    tried(outcome=refused, wait=0)
    alone, named = (relay.type("send", "explain", id_).out for id_ in ids.values())
    shown = [relay.type("send", "inspect", id_).rows for id_ in ids.values()]

    assert "It has no failover group, so no other one takes over" in alone
    assert "The request named this transport, so no other one is used." in named
    assert [inspect(relay, id_)["pinned"] for id_ in ids.values()] == [False, True]
    assert any("named by the request" in row for row in shown[1])
    assert not any("named by the request" in row for row in shown[0])


def test_an_explanation_counts_attempts_and_says_that_there_was_no_connection(
    relay: Ledger,
) -> None:
    id_ = mail(relay, "--json").record["id"]
    for _ in range(2):
        tried(outcome=NotSent(code="connect_failed", phase=SendPhase.CONNECT), wait=0)
    said = relay.type("send", "explain", id_).out

    assert "2 attempts, the last through relay, " in said
    assert "not sent, because the transport could not connect (connect_failed)." in said
    assert "It has been due for " in said


@pytest.mark.parametrize(("word", "state"), [("--sent", "sent"), ("--not-sent", "failed")])
def test_a_persons_word_ends_the_doubt_and_is_audited(relay: Ledger, word: str, state: str) -> None:
    id_ = mail(relay, "--json").record["id"]
    tried(outcome=SILENCE)
    done = relay.type("send", "resolve", id_, word, "--why", "I looked", "--who", "eve")
    again = relay.type("send", "resolve", id_, word, "--why", "x", "--json")
    answered = mail(relay, "--json").record

    assert (done.code, done.rows[0][:2]) == (0, [id_, state])
    assert (again.code, again.error["code"]) == (4, "state_conflict")
    assert relay.audit(f"send:{id_}") == [("eve", "send resolve", "I looked")]
    assert answered["status"] == ("duplicate" if state == "sent" else "in_flight")
    assert answered["rearmed"] is (state == "failed")


def test_a_send_is_called_off_in_time_and_armed_again_by_a_person(relay: Ledger) -> None:
    id_ = mail(relay, "--json").record["id"]
    off = relay.type("send", "cancel", id_, "--why", "too soon", "--json").record
    armed = relay.type("send", "resend", id_, "--why", "now", "--json").record
    tried(outcome=SendAccepted())
    late = relay.type("send", "cancel", id_, "--why", "too late", "--json")
    twice = relay.type("send", "resend", id_, "--why", "again", "--json")

    assert (off["state"], armed["state"]) == ("cancelled", "pending")
    assert (late.code, twice.code) == (4, 4)
    assert [each[1] for each in relay.audit(f"send:{id_}")] == ["send cancel", "send resend"]


def test_what_was_given_up_is_explained_and_sent_again_on_a_word(relay: Ledger) -> None:
    id_ = mail(relay, "--json").record["id"]
    tried(outcome=SendRejected(code="recipient_refused", phase=SendPhase.ENVELOPE, reply=550))
    told = relay.type("send", "explain", id_).out
    relay.type("send", "resend", id_, "--why", "the mailbox is there now")

    assert "the server refused a recipient" in told
    assert "proven that it was not sent" in told
    assert tried(outcome=SendAccepted()).id == id_


def test_half_a_word_is_refused(relay: Ledger) -> None:
    id_ = mail(relay, "--json").record["id"]
    answers = [
        relay.type("send", "resolve", id_, "--why", "x"),
        relay.type("send", "resolve", id_, "--sent"),
        relay.type("send", "resolve", id_, "--not-sent", "--provider-id", "p", "--why", "x"),
        relay.type("send", "cancel", id_),
        relay.type("send", "resend", id_, "--why", " "),
    ]

    assert {each.code for each in answers} == {2}
    assert relay.type("send", "cancel", "snd_none", "--why", "x").code == 3


def test_the_doctor_reports_unknown_sends_and_a_missing_transport(sound_ledger: Ledger) -> None:
    assert {each["status"] for each in sound_ledger.type("doctor", "--json").records} == {"ok"}
    mail(sound_ledger)
    only_log = {each["check"]: each for each in sound_ledger.type("doctor", "--json").records}
    sound_ledger.type(*RELAY)
    mail(sound_ledger, entity="2")
    tried(outcome=SILENCE)
    doubt = {each["check"]: each for each in sound_ledger.type("doctor", "--json").records}

    assert only_log["transports"]["status"] == "warn"
    assert "only log" in only_log["transports"]["message"]
    assert doubt["transports"]["status"] == "ok"
    assert (doubt["unknown sends"]["status"], doubt["unknown sends"]["message"]) == ("warn", "1")


def test_nothing_that_is_typed_shows_whom_a_mail_is_for_or_what_it_says(relay: Ledger) -> None:
    id_ = mail(relay, "--json").record["id"]
    tried(outcome=SILENCE)
    seen = [
        relay.type("send", *command, *extra)
        for command in (("list",), ("inspect", id_), ("explain", id_))
        for extra in ((), ("--json",))
    ]

    assert not any("canary" in (each.out + each.err).lower() for each in seen)
