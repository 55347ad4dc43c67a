"""Composed mail: every reader finds in it what was given, and nothing on the way changes it."""

import hashlib
import re
from email import message_from_bytes
from email.headerregistry import Address as StdAddress
from email.message import EmailMessage
from email.policy import default
from quopri import decodestring
from typing import Any

import pytest
from hypothesis import HealthCheck, Phase, example, given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from oncebox.errors.mail import AddressInvalid
from oncebox.errors.sends import EmailHeaderInvalid, EmailInvalid, MailboxInvalid
from oncebox.mail.compose.mime_writer import compose, encode_text, quoted_printable
from oncebox.mail.parser import parse
from oncebox.model.inboxes.addresses import parse_mailbox
from oncebox.model.inboxes.received_mail import ParseStatus, SenderStatus
from oncebox.model.sends.email import Attachment, Email
from oncebox.model.sends.intent import message_id

patient = settings(
    deadline=None,
    max_examples=25,
    suppress_health_check=[HealthCheck.too_slow],
    # A whole mail takes minutes to make smaller.
    phases=[Phase.explicit, Phase.reuse, Phase.generate],
)
SECRET = b"s" * 32
ID = "<abc@example.com>"
NOW = 1_794_830_400_123
MAIL = Email(
    sender="Shop <shop@example.com>",
    to="user@example.com",
    subject="Your order",
    text="Thank you",
)


def written(mail: Email = MAIL, **changes: Any) -> bytes:
    """Compose a mail; whatever it is, the rules of the wire hold."""
    raw = compose(replace(mail, **changes), message_id=ID, date=NOW, seed=b"seed")
    assert raw.endswith(b"\r\n")
    assert not re.search(rb"(?<!\r)\n|\r(?!\n)|\0", raw)
    assert max(map(len, raw.split(b"\r\n"))) <= 998
    return raw


def head(raw: bytes) -> str:
    """Return the header of a mail, unfolded."""
    return raw.partition(b"\r\n\r\n")[0].decode().replace("\r\n ", " ")


def std(raw: bytes) -> EmailMessage:
    """Read a mail by Python's own reader, which notes every defect."""
    mail = message_from_bytes(raw, policy=default)
    assert isinstance(mail, EmailMessage)
    for part in mail.walk():
        assert part.defects == []
        for name, value in part.items():
            assert (name, list(value.defects)) == (name, [])
    return mail


# ---------------------------------------------------------------- what readers find

#: letters of many kinds, and what has a meaning to somebody; few, so that examples are made fast
LETTERS = "abcXYZ 019\u00e4\u00d6\u00df\u0142\u0436\u4e2d\u65e5\u0e01\u05d0\u0301\u00a0\U0001f600"
MARKS = "=?_\"\\<>()[]%'`~!#$&*+-/^{|},;:.@"
subjects = st.text(LETTERS + MARKS, max_size=200)
lines = st.text(LETTERS + MARKS + "\n\r\t\n. \x01\x0c\x85\u2028", max_size=300)
names = st.text(LETTERS + MARKS.translate(dict.fromkeys(b"@<>")), max_size=60)
hosts = st.sampled_from(["example.com", "a.example", "bücher.example", "x" * 60 + ".example"])
atoms = st.text("abcABC019#$&'*+/=?^_`{|}~-", min_size=1, max_size=30)


@st.composite
def mailboxes(draw: st.DrawFn) -> str:
    """Return an address, with or without a name."""
    local = draw(st.lists(atoms, min_size=1, max_size=2).map(".".join).filter(_fits))
    address = f"{local}@{draw(hosts)}"
    name = draw(names)
    quoted = name.replace("\\", "\\\\").replace('"', '\\"')
    text = f'"{quoted}" <{address}>' if name else address
    try:
        parse_mailbox(text)
    except MailboxInvalid:
        return address
    return text


def _fits(local: str) -> bool:
    # Many readers drop quotes around an address, so ours does not trust one that has them.
    return len(local) <= 64 and "=?" not in local and local.strip("'") == local


attachments = st.builds(
    Attachment,
    name=st.text(LETTERS + MARKS, min_size=1, max_size=120).filter(lambda name: "=?" not in name),
    content=st.binary(max_size=300),
    media_type=st.sampled_from(["application/pdf", "text/plain", "text/calendar;method=REQUEST"]),
    content_id=st.just(""),
)
emails = st.builds(
    Email,
    sender=mailboxes(),
    to=st.lists(mailboxes(), max_size=4),
    cc=st.lists(mailboxes(), max_size=2),
    bcc=st.lists(mailboxes(), min_size=1, max_size=2),
    reply_to=st.lists(mailboxes(), max_size=2),
    subject=subjects,
    text=lines,
    html=st.just("") | lines.map(lambda text: f"<p>{text}"),
    headers=st.dictionaries(
        st.sampled_from(["X-Short", "X-A-Name-That-Is-Longer-Than-Others", "List-Id"]),
        subjects.map(str.strip).filter(bool),
        max_size=3,
    ),
    attachments=st.lists(attachments, max_size=3),
    unsubscribe=st.sampled_from(["", "https://example.com/u?" + "x" * 800, "mailto:u@example.com"]),
)


def usable(mail: Email) -> bool:
    """Say whether there is anything in a mail."""
    return bool(mail.text or mail.html or mail.attachments)


@patient
@given(emails.filter(usable))
def test_our_own_reader_finds_what_was_given(mail: Email) -> None:
    raw = written(mail)
    found = parse(raw)

    assert found.status is ParseStatus.PARSED
    assert (found.message_id, found.date) == (ID, NOW // 1000 * 1000)
    assert found.subject.strip() == mail.subject.strip()
    sender = parse_mailbox(mail.sender)
    assert found.sender.standing is SenderStatus.SINGLE
    assert (found.sender.address, found.sender.name) == (sender.address, sender.name)
    for given_, seen in ((mail.to, found.to), (mail.cc, found.cc), (mail.reply_to, found.reply_to)):
        boxes = [parse_mailbox(text) for text in given_]
        assert [(each.name, each.address) for each in seen] == [
            (box.name, box.address) for box in boxes
        ]
    if mail.text.strip():
        shown = mail.text.replace("\r\n", "\n").replace("\r", "\n").removeprefix("\ufeff")
        assert found.text == shown.strip()
    assert [(each.name, each.sha256) for each in found.attachments] == [
        (each.name, hashlib.sha256(each.content).hexdigest()) for each in mail.attachments
    ]
    headers = dict(found.headers)
    for name, value in mail.headers.items():
        assert headers[name.lower()] == (value,)
    assert found.auto_submitted
    assert {"bcc", "resent-bcc"}.isdisjoint(headers)


@patient
@given(emails.filter(usable))
def test_pythons_reader_finds_what_was_given(mail: Email) -> None:
    found = std(written(mail))

    assert found["message-id"] == ID
    assert int(found["date"].datetime.timestamp()) == NOW // 1000
    assert (found["subject"] or "").strip() == mail.subject.strip()
    for name, given_ in (
        ("from", [mail.sender]), ("to", mail.to), ("cc", mail.cc), ("reply-to", mail.reply_to),
    ):  # fmt: skip
        seen: tuple[StdAddress, ...] = found[name].addresses if given_ else ()
        boxes = [parse_mailbox(text) for text in given_]
        assert [each.addr_spec for each in seen] == [box.address for box in boxes]
        # Python 3.11 keeps the space between two encoded words of a name (RFC 2047, 6.2).
        seen_names = ["".join(each.display_name.split()) for each in seen]
        assert seen_names == ["".join(box.name.split()) for box in boxes]
    if mail.text:
        part = found.get_body(("plain",))
        assert part is not None
        shown = mail.text.replace("\r\n", "\n").replace("\r", "\n")
        read = part.get_payload(decode=True)
        assert isinstance(read, bytes)
        assert read.decode().replace("\r\n", "\n").removesuffix("\n") == shown.removesuffix("\n")
    attached = [part for part in found.walk() if "content-disposition" in part]
    files = [str(part["content-disposition"].params["filename"]).strip() for part in attached]
    assert files == [each.name.strip() for each in mail.attachments]
    assert [part.get_payload(decode=True) for part in attached] == [
        each.content for each in mail.attachments
    ]


@patient
@given(emails.filter(usable))
def test_the_same_mail_is_the_same_bytes_and_all_of_them_are_ascii(mail: Email) -> None:
    raw = written(mail)

    assert raw == written(replace(mail))
    assert raw.isascii()


def test_another_seed_makes_other_boundaries_and_nothing_else() -> None:
    mail = replace(MAIL, html="<p>x")
    one, other = (compose(mail, message_id=ID, date=NOW, seed=seed) for seed in (b"1", b"2"))

    assert one != other
    hide = re.compile(rb"=_[a-z2-7]{32}")
    assert hide.sub(b"", one) == hide.sub(b"", other)


# ---------------------------------------------------------------- what is in it


def test_a_mail_looks_like_this() -> None:
    assert written(unsubscribe="https://example.com/u/1", headers={"X-Ref": "4821"}) == (
        b"Date: Mon, 16 Nov 2026 12:00:00 +0000\r\n"
        b"From: Shop <shop@example.com>\r\n"
        b"To: <user@example.com>\r\n"
        b"Subject: Your order\r\n"
        b"Message-ID: <abc@example.com>\r\n"
        b"Auto-Submitted: auto-generated\r\n"
        b"List-Unsubscribe: <https://example.com/u/1>\r\n"
        b"List-Unsubscribe-Post: List-Unsubscribe=One-Click\r\n"
        b"X-Ref: 4821\r\n"
        b"MIME-Version: 1.0\r\n"
        b'Content-Type: text/plain;\r\n charset="utf-8"\r\n'
        b"Content-Transfer-Encoding: quoted-printable\r\n"
        b"\r\n"
        b"Thank you\r\n"
    )


def test_bcc_is_written_nowhere() -> None:
    raw = written(bcc=["secret@hidden.example"], html="<p>x", text="x")

    assert b"hidden" not in raw
    assert not re.search(rb"(?im)^bcc", raw)


def test_a_mail_that_names_nobody_says_so() -> None:
    raw = written(to=(), bcc=["secret@hidden.example"])

    assert "To: undisclosed-recipients:;" in head(raw)
    assert list(std(raw)["to"].addresses) == []
    assert parse(raw).to == ()


def test_one_click_is_offered_only_where_a_click_can_be_posted() -> None:
    raw = written(unsubscribe="mailto:u@example.com?subject=stop")

    assert "List-Unsubscribe: <mailto:u@example.com?subject=stop>" in head(raw)
    assert "List-Unsubscribe-Post" not in head(raw)


def test_a_local_part_beyond_ascii_is_all_that_needs_smtputf8() -> None:
    raw = written(to=["Jürgen <jürgen@bücher.example>"], subject="Grüße", text="Grüße")

    assert [line for line in raw.split(b"\r\n") if not line.isascii()] == [
        "To: =?utf-8?q?J=C3=BCrgen?= <jürgen@xn--bcher-kva.example>".encode()
    ]
    assert parse(raw).to[0].address == "jürgen@xn--bcher-kva.example"


def test_pictures_stand_beside_the_html_that_shows_them_and_the_rest_hangs_on() -> None:
    logo = Attachment(name="l.png", content=b"png", media_type="image/png", content_id="logo")
    bill = Attachment(name="b.pdf", content=b"pdf", media_type="application/pdf")
    raw = written(html='<img src="cid:logo">', attachments=[logo, bill])

    kinds = [part.get_content_type() for part in std(raw).walk()]
    assert kinds == [
        "multipart/mixed",
        "multipart/alternative",
        "text/plain",
        "multipart/related",
        "text/html",
        "image/png",
        "application/pdf",
    ]
    shown, hanging = parse(raw).attachments
    assert (shown.inline, shown.content_id, hanging.inline) == (True, "logo", False)


@pytest.mark.parametrize(
    ("changes", "kinds"),
    [
        ({}, ["text/plain"]),
        ({"text": "", "html": "<p>x"}, ["text/html"]),
        ({"html": "<p>x"}, ["multipart/alternative", "text/plain", "text/html"]),
        (
            {"text": "", "attachments": [Attachment(name="a", content=b"")]},
            ["multipart/mixed", "application/octet-stream"],
        ),
        (
            {"attachments": [Attachment(name="a", content=b"", content_id="unused")]},
            ["multipart/mixed", "text/plain", "application/octet-stream"],
        ),
    ],
)
def test_a_mail_has_no_more_parts_than_it_needs(changes: dict[str, Any], kinds: list[str]) -> None:
    assert [part.get_content_type() for part in std(written(**changes)).walk()] == kinds


def test_parameters_of_a_media_type_are_kept() -> None:
    invite = Attachment(name="i.ics", content=b"x", media_type="text/calendar;method=REQUEST")
    [part] = [each for each in std(written(attachments=[invite])).walk() if each.get_filename()]

    assert part["content-type"].params["method"] == "REQUEST"


# ---------------------------------------------------------------- lines that servers leave alone


@given(lines)
@example(".")
@example("a\n.\nb")
@example("a\n.\r\nMAIL FROM:<x>\r\n")
@example("From me")
@example("x" * 75 + ".y")
@example("x" * 73 + "From y")
@example("\u20ac" * 100)
@example("a \n b\t\n \n")
@example("=" * 200)
def test_no_line_of_a_text_is_one_that_a_server_would_change(text: str) -> None:
    body = encode_text(text)

    assert body.data.isascii()
    for line in body.data.split(b"\r\n"):
        assert len(line) <= 76
        assert not line.startswith((b".", b"From ")) or body.encoding == "base64"
        assert not line.endswith((b" ", b"\t"))
        assert b"\r" not in line


@given(lines)
@example("a\u2028b\x85c")
def test_quoted_printable_is_read_by_others(text: str) -> None:
    data = text.replace("\r\n", "\n").replace("\r", "\n").replace("\n", "\r\n").encode()

    assert decodestring(quoted_printable(data)) == data


def test_a_text_is_written_in_the_shorter_way() -> None:
    assert (
        encode_text("Schöne Grüße aus Köln, liebe Leute, und bis zum nächsten Mal").encoding
        == "quoted-printable"
    )
    assert encode_text("ご注文ありがとうございます").encoding == "base64"


# ---------------------------------------------------------------- what is refused


@pytest.mark.parametrize(
    "changes",
    [
        {"sender": "a@x.example\r\nBcc: b@y.example"},
        {"to": ["a@x.example\n"]},
        {"subject": "hi\r\nBcc: b@y.example"},
        {"headers": {"Bcc": "b@y.example"}},
        {"headers": {"X-A": "1\r\nBcc: b@y.example"}},
        {"headers": {"X-A: 1\r\nBcc": "b@y.example"}},
        {"attachments": [Attachment(name='a"\r\nX: y', content=b"")]},
        {"unsubscribe": "https://x.example/>\r\nBcc: b@y.example"},
        {"text": "a\0b"},
        {"to": []},
    ],
)
def test_a_mail_that_nobody_checked_is_checked_before_it_is_written(
    changes: dict[str, Any],
) -> None:
    with pytest.raises(EmailInvalid):
        written(**changes)


@pytest.mark.parametrize("bad", ["", "abc@example.com", "<a b@x>", "<a@x>\r\nBcc: b@y", "<a@x.é>"])
def test_what_is_no_message_id_is_refused(bad: str) -> None:
    with pytest.raises(EmailHeaderInvalid):
        compose(MAIL, message_id=bad, date=NOW, seed=b"")


# ---------------------------------------------------------------- Message-IDs


def test_a_message_id_is_the_same_in_every_version_of_oncebox() -> None:
    assert message_id(SECRET, "acme", "k", "Example.COM") == (
        "<mke2orjivtd5ws5jvmos7u65fpy3ty2m@example.com>"
    )


def test_a_message_id_is_of_its_secret_tenant_key_and_domain() -> None:
    made = {
        message_id(SECRET, "acme", "k", "example.com"),
        message_id(b"t" * 32, "acme", "k", "example.com"),
        message_id(SECRET, "acm", "ek", "example.com"),
        message_id(SECRET, "acme", "j", "example.com"),
        message_id(SECRET, "acme", "k", "example.org"),
    }

    assert len(made) == 5
    for each in made:
        compose(MAIL, message_id=each, date=NOW, seed=b"")


def test_a_message_id_is_at_a_domain() -> None:
    with pytest.raises(AddressInvalid):
        message_id(SECRET, "acme", "k", "local host")
