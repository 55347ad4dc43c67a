"""Automatic mail: a program that answers leaves alone what a program sent, and names the rest."""

import pytest

from oncebox.mail.compose.mime_writer import compose
from oncebox.mail.compose.replies import is_automatic, reply_headers
from oncebox.mail.parser import parse
from oncebox.model.sends.email import Email, check_header
from tests.support.letters import mail

SENDER = "ann@example.com"
ID = "<1@example.com>"


def _judged(*fields: str, sender: str | None = SENDER, author: str = SENDER) -> bool:
    return is_automatic(parse(mail(more=fields, sender=author)).headers, sender)


@pytest.mark.parametrize(
    "field",
    [
        "Auto-Submitted: auto-replied",
        "Auto-Submitted: AUTO-GENERATED; owner-email=x@example.com",
        "auto-submitted: auto-notified (a comment)",
        "Auto-Submitted: no\r\nAuto-Submitted: auto-replied",
        "Auto-Submitted: something-new",
        "Precedence: bulk",
        "Precedence: Junk",
        "Precedence:   list ",
        "List-Id: <talk.example.com>",
        "X-Auto-Response-Suppress: All",
        "X-Auto-Response-Suppress: DR, OOF, AutoReply",
        "X-Autoreply: yes",
        "X-Autorespond: on holiday",
        "Return-Path: <>",
        "Return-Path: < >",
        "Return-Path: <MAILER-DAEMON@mx.example.com>",
        'Content-Type: multipart/report; report-type=delivery-status; boundary="b"',
    ],
)
def test_what_a_program_or_a_list_sent_is_automatic(field: str) -> None:
    assert _judged(field)


@pytest.mark.parametrize(
    "field",
    [
        "X-Plain: yes",
        "Auto-Submitted: no",
        "Auto-Submitted: No (I wrote this)",
        "Precedence: first-class",
        "X-Auto-Response-Suppress: None",
        "Return-Path: <ann@example.com>",
        "List-Unsubscribe: <https://example.com/u>",
        "Subject: Re: mailer-daemon trouble",
    ],
)
def test_what_a_person_sent_is_not(field: str) -> None:
    assert not _judged(field)


def test_what_comes_from_nobody_is_automatic() -> None:
    assert _judged(sender="")
    assert not _judged(sender=None)
    for daemon in ("MAILER-DAEMON@mx.example.com", "mailer-daemon@example.com"):
        assert _judged(sender=daemon)
        assert _judged(author=daemon)
    assert not _judged(author="no-mailer-daemon@example.com")


def test_our_own_mail_is_automatic_so_that_two_of_us_do_not_go_on_for_ever() -> None:
    ours = Email(sender="a@example.com", to="b@example.com", text="x")
    answer = Email(
        sender="a@example.com", to="b@example.com", text="x", headers={"In-Reply-To": ID}
    )
    for email, origin in ((ours, "auto-generated"), (answer, "auto-replied")):
        written = compose(email, message_id="<n@example.com>", date=0, seed=b"s")

        assert f"Auto-Submitted: {origin}\r\n".encode() in written
        assert is_automatic(parse(written).headers, "a@example.com")


# threads


def test_an_answer_names_what_it_answers_and_all_before_it() -> None:
    headers = parse(mail(more=["References: <a@example.com>\r\n <b@example.com>"])).headers

    assert reply_headers(headers, ID) == {
        "In-Reply-To": ID,
        "References": f"<a@example.com> <b@example.com> {ID}",
    }
    only = parse(mail(more=["In-Reply-To: <a@example.com>"])).headers
    assert reply_headers(only, ID)["References"] == f"<a@example.com> {ID}"


@pytest.mark.parametrize("strange", ["", "plain", "<no-at>", "<a b@example.com>", "<a@b>\r\nX: y"])
def test_an_id_that_cannot_be_written_is_not_named(strange: str) -> None:
    assert reply_headers((), strange) == {}


def test_a_long_thread_is_named_by_its_ends() -> None:
    before = " ".join(f"<{n}@example.com>" for n in range(500))
    fields = reply_headers((("references", (before, "rubbish <x> <0@example.com>")),), ID)
    named = fields["References"].split(" ")

    assert (named[0], named[-2:]) == ("<0@example.com>", ["<499@example.com>", ID])
    assert len(named) == 20
    for name, value in fields.items():
        assert check_header(name, value) == value
