"""Emails: what can be sent, and that nothing else gets any further."""

import unicodedata
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from oncebox.errors import OnceboxError
from oncebox.errors.sends import (
    AttachmentInvalid,
    EmailHeaderInvalid,
    EmailInvalid,
    EmailTooLarge,
    HeaderReserved,
    MailboxInvalid,
    RecipientMissing,
    SenderMissing,
    TooManyRecipients,
)
from oncebox.model.inboxes.addresses import parse_mailbox
from oncebox.model.sends.email import (
    Attachment,
    Email,
    EmailLimits,
    check_email,
    recipient_addresses,
)

patient = settings(deadline=None)
CANARY = "CANARY"
MAIL = Email(sender="shop@example.com", to="user@example.com", subject="Hi", text="Hello")
#: what ends a line, or a text, for somebody
BREAKS = ["\r\n", "\n", "\r", "\0", "\x0b", "\x0c", "\x1c", "\x85", "\u2028", "\u2029", "\x1b"]


def refused(**changes: Any) -> OnceboxError:
    """Return the error with which an email is refused; it never quotes what was given."""
    with pytest.raises(EmailInvalid) as caught:
        check_email(replace(MAIL, **changes))
    assert CANARY not in str(caught.value)
    return caught.value


# ---------------------------------------------------------------- as it is given


def test_one_address_may_be_given_as_it_is() -> None:
    assert check_email(Email(sender="a@example.com", to="b@example.com", text="x")).to == (
        "b@example.com",
    )


def test_a_checked_email_is_checked() -> None:
    once = check_email(
        replace(MAIL, sender='"Shop, Inc." <Shop@EXAMPLE.com>', cc=["Ann  Lee <a@Bücher.example>"])
    )

    assert once.sender == '"Shop, Inc." <Shop@example.com>'
    assert once.cc == ("Ann Lee <a@xn--bcher-kva.example>",)
    assert check_email(once) == once


def test_the_default_sender_is_taken_where_none_is_given() -> None:
    mail = replace(MAIL, sender="")

    assert check_email(mail, default_sender="noreply@example.com").sender == "noreply@example.com"
    with pytest.raises(SenderMissing):
        check_email(mail)


def test_what_an_email_says_is_not_in_its_repr() -> None:
    secret = Attachment(name=CANARY, content=CANARY.encode())
    mail = Email(to=CANARY, subject=CANARY, text=CANARY, attachments=[secret])

    assert CANARY not in f"{mail!r} {mail.__rich_repr__()} {secret!r}"


def test_everybody_gets_a_mail_once_however_often_they_are_named() -> None:
    mail = replace(
        MAIL, to=["A <a@x.example>", "b@x.example"], cc=["A@X.example"], bcc=["c@x.example"]
    )

    assert recipient_addresses(mail) == ("a@x.example", "b@x.example", "c@x.example")


# ---------------------------------------------------------------- line ends and their like


@pytest.mark.parametrize("between", BREAKS)
@pytest.mark.parametrize("field", ["sender", "to", "cc", "bcc", "reply_to"])
def test_no_address_has_a_line_end(field: str, between: str) -> None:
    for text in (
        f"user@example.com{between}Bcc: {CANARY}@evil.example",
        f"user@example.com{between}",
        f"{between}user@example.com",
        f"An{between}n <user@example.com>",
        f'"An{between}n" <user@example.com>',
        f"Ann <user@{between}example.com>",
    ):
        assert isinstance(refused(**{field: text}), MailboxInvalid)


@pytest.mark.parametrize("between", BREAKS)
def test_no_subject_has_a_line_end(between: str) -> None:
    assert isinstance(refused(subject=f"hi{between}Bcc: {CANARY}@x"), EmailHeaderInvalid)


@pytest.mark.parametrize("between", BREAKS)
def test_no_header_field_has_a_line_end(between: str) -> None:
    for headers in ({"X-A": f"1{between}Bcc: {CANARY}"}, {f"X-A{between}Bcc": "1"}):
        assert isinstance(refused(headers=headers), EmailHeaderInvalid)


@pytest.mark.parametrize("between", BREAKS)
def test_no_attachment_has_a_line_end_in_its_name_type_or_id(between: str) -> None:
    for changes in (
        {"name": f"a{between}{CANARY}"},
        {"media_type": f"text/plain{between}X: {CANARY}"},
        {"content_id": f"a{between}{CANARY}"},
    ):
        plain: dict[str, Any] = {"name": "a", "content": b"", **changes}
        assert isinstance(refused(attachments=[Attachment(**plain)]), AttachmentInvalid)


@pytest.mark.parametrize("text", ["a\0b", "a\ud800b"])
def test_no_text_has_nul_or_half_a_character(text: str) -> None:
    assert refused(text=text).code == refused(html=text).code == "email_invalid"


@patient
@given(st.text(max_size=30))
def test_no_address_is_accepted_that_has_more_than_letters_in_it(text: str) -> None:
    try:
        mailbox = parse_mailbox(text)
    except MailboxInvalid:
        return
    assert mailbox.address.count("@") == 1
    assert not {unicodedata.category(each) for each in str(mailbox)} & {"Cc", "Cs", "Zl", "Zp"}
    assert parse_mailbox(str(mailbox)) == mailbox


# ---------------------------------------------------------------- one address is one address


@pytest.mark.parametrize(
    "text",
    [
        "",
        " ",
        "user",
        "@example.com",
        "user@",
        "user@localhost",
        "user@[192.0.2.1]",
        "user@192.0.2.1",
        "a@x.example, b@y.example",
        "a@x.example,",
        "a@x.example;b@y.example",
        "a@x.example b@y.example",
        "a@x.example?bcc=b@y.example",
        "<a@x.example> b@y.example",
        "<a@x.example> <b@y.example>",
        "<a@x.example>, <b@y.example>",
        "a@x.example <b@y.example>",
        '"a@x.example" <b@y.example>',
        "a\uff20x.example <b@y.example>",
        "Team: a@x.example;",
        "a@x.example(comment)@y.example",
        "(c) a@x.example",
        "a%x.example@y.example",
        "x!a@y.example",
        "<@x.example:a@y.example>",
        "Ann <a@x.example",
        "Ann a@x.example>",
        '"Ann <a@x.example>',
        "a..b@x.example",
        ".a@x.example",
        "a@x..example",
        "a@-x.example",
        "a\u200b@x.example",
        "a\u202e@x.example",
        "a@x\u200d.example",
        "Ann\u202e <a@x.example>",
        "a" * 65 + "@x.example",
        "a@" + "x" * 64 + ".example",
        "A" * 201 + " <a@x.example>",
        "\uff41@x.example",
    ],
)
def test_what_is_not_one_address_is_refused_wherever_it_stands(text: str) -> None:
    for field in ("to", "cc", "bcc", "reply_to"):
        assert isinstance(refused(**{field: [text]}), MailboxInvalid)
    assert isinstance(refused(sender=text), MailboxInvalid | SenderMissing)


@pytest.mark.parametrize(
    ("text", "name", "address"),
    [
        ("a@x.example", "", "a@x.example"),
        ("<a@x.example>", "", "a@x.example"),
        ("Ann <a@x.example>", "Ann", "a@x.example"),
        ("Ann<a@x.example>", "Ann", "a@x.example"),
        ("J. R. 'Bob' O'Neill <a@x.example>", "J. R. 'Bob' O'Neill", "a@x.example"),
        (
            r'"Ann \"The\" Lee \\ Co, Inc." <a@x.example>',
            r'Ann "The" Lee \ Co, Inc.',
            "a@x.example",
        ),
        ("Jürgen <JÜRGEN@x.example>", "Jürgen", "JÜRGEN@x.example"),
        ("\u0639\u0644\u06cc\u200c\u0631 <a@x.example>", "\u0639\u0644\u06cc\u0631", "a@x.example"),
        ("a.b+c=d/e@x.example", "", "a.b+c=d/e@x.example"),
    ],
)
def test_a_mailbox_is_read_as_people_write_it(text: str, name: str, address: str) -> None:
    mailbox = parse_mailbox(text)

    assert (mailbox.name, mailbox.address) == (name, address)
    assert parse_mailbox(str(mailbox)) == mailbox


def test_blanks_around_an_address_are_not_kept_in_memory() -> None:
    with pytest.raises(MailboxInvalid):
        parse_mailbox(" " * 1_000_000 + "user@example.com")

    assert parse_mailbox("  user@example.com ").address == "user@example.com"


# ---------------------------------------------------------------- how many, how much


def test_a_mail_for_nobody_is_refused() -> None:
    assert isinstance(refused(to=[]), RecipientMissing)


def test_ten_thousand_recipients_are_refused_before_any_is_looked_at() -> None:
    error = refused(to=["no address"] * 10_000)

    assert isinstance(error, TooManyRecipients)
    assert "10000" in str(error)


@pytest.mark.parametrize("fields", [("to",), ("cc",), ("bcc",), ("to", "cc", "bcc"), ("reply_to",)])
def test_fifty_people_are_fine_and_one_more_is_too_many(fields: tuple[str, ...]) -> None:
    base = MAIL if fields == ("reply_to",) else replace(MAIL, to=())
    people = [f"p{number}@example.com" for number in range(51)]

    def shared(several: list[str]) -> Email:
        every = len(fields)
        return replace(base, **{name: several[at::every] for at, name in enumerate(fields)})

    assert check_email(shared(people[:50])) == shared(people[:50])
    with pytest.raises(TooManyRecipients):
        check_email(shared(people))


@pytest.mark.parametrize(
    "changes",
    [
        {"subject": "x" * 999},
        {"text": "x" * (2 * 1024 * 1024 + 1)},
        {"text": "x" * 1024 * 1024, "html": "ü" * (512 * 1024 + 1)},
        {"headers": {f"X-{number}": "1" for number in range(51)}},
        {"headers": {"X-A": "x " * 9_000}},
        {"attachments": [Attachment(name="a", content=b"")] * 101},
        {"attachments": [Attachment(name="a", content=bytes(20 * 1024 * 1024))]},
        {"attachments": [Attachment(name="a", content=bytes(10 * 1024 * 1024))] * 2},
    ],
)
def test_what_is_too_large_is_refused(changes: dict[str, Any]) -> None:
    assert isinstance(refused(**changes), EmailTooLarge)


def test_the_limits_are_the_operators() -> None:
    large = replace(MAIL, attachments=[Attachment(name="a", content=bytes(100))])

    with pytest.raises(EmailTooLarge):
        check_email(large, limits=EmailLimits(size=200))
    assert check_email(large, limits=EmailLimits(size=300)) == large


def test_a_mail_with_nothing_in_it_is_refused_unless_a_template_writes_it() -> None:
    assert refused(text="").code == "email_invalid"
    assert check_email(replace(MAIL, text="", template="welcome")).template == "welcome"


def test_variables_without_a_template_are_refused() -> None:
    assert refused(variables={"name": CANARY}).code == "email_invalid"


# ---------------------------------------------------------------- header fields


@pytest.mark.parametrize(
    "name",
    [
        "From", "to", "CC", "Bcc", "bcC", "Sender", "Reply-To", "Subject", "Date", "Message-ID",
        "Return-Path", "Received", "MIME-Version", "Content-Type", "Content-Transfer-Encoding",
        "Resent-To", "Resent-Bcc", "DKIM-Signature", "ARC-Seal", "Authentication-Results",
        "Auto-Submitted", "List-Unsubscribe", "List-Unsubscribe-Post", "X-SMTPAPI",
        "X-Mailgun-Recipient-Variables", "X-PM-KeepID", "X-SES-Configuration-Set", "X-MC-Track",
        "X-Mailjet-Campaign", "X-MSYS-API", "Resend-Idempotency-Key", "Apparently-To",
        "Disposition-Notification-To",
    ],
)  # fmt: skip
def test_nobody_adds_recipients_or_steers_a_provider_by_a_header_field(name: str) -> None:
    error = refused(headers={name: f"{CANARY}@evil.example"})

    assert isinstance(error, HeaderReserved)
    assert name in str(error)


@pytest.mark.parametrize(
    "headers",
    [
        {"": "1"},
        {"X A": "1"},
        {"X:A": "1"},
        {"X-Ä": "1"},
        {"X" * 77: "1"},
        {"X-A": ""},
        {"X-A": "  "},
        {"X-A": "x" * 901},
        {"X-A": "1", "x-a": "2"},
        {"In-Reply-To": "yesterday's"},
        {"References": "<a@x.example>,<b@x.example>"},
    ],
)
def test_what_is_no_header_field_is_refused(headers: dict[str, str]) -> None:
    assert isinstance(refused(headers=headers), EmailHeaderInvalid)


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("X-Entity-Ref-ID", "123"),
        ("X-Greeting", "Grüße"),
        ("In-Reply-To", "<a@x.example>"),
        ("References", "<a@x.example> <b@x.example>"),
        ("List-Id", "News <news.example.com>"),
    ],
)
def test_other_header_fields_are_kept(name: str, value: str) -> None:
    assert check_email(replace(MAIL, headers={name: f" {value} "})).headers == {name: value}


# ---------------------------------------------------------------- attachments, unsubscribing


@pytest.mark.parametrize(
    "changes",
    [
        {"name": ""},
        {"name": "x" * 256},
        {"media_type": ""},
        {"media_type": "pdf"},
        {"media_type": "text/plain; name=a b"},
        {"media_type": "message/rfc822"},
        {"media_type": "Multipart/mixed"},
        {"content_id": "<logo>"},
        {"content_id": "a b"},
    ],
)
def test_an_attachment_that_cannot_be_written_is_refused(changes: dict[str, Any]) -> None:
    plain: dict[str, Any] = {"name": "a", "content": b"", **changes}

    assert isinstance(refused(attachments=[Attachment(**plain)]), AttachmentInvalid)


def test_two_attachments_have_two_content_ids() -> None:
    logo = Attachment(name="a.png", content=b"", content_id="logo")

    assert isinstance(
        refused(attachments=[logo, replace(logo, content_id="LOGO")]), AttachmentInvalid
    )


@pytest.mark.parametrize(
    "where",
    [
        "http://example.com/u", "example.com", "javascript:x", "https://", "https://a b",
        "https://x>, <mailto:evil@x", "https://grüße.example", "https://x/" + "y" * 1_000,
        "https://x\r\nBcc: a@b", "mailto:",
    ],
)  # fmt: skip
def test_what_no_mail_program_may_follow_is_no_way_to_unsubscribe(where: str) -> None:
    assert refused(unsubscribe=where).code == "email_invalid"
