"""Who a mail is from: one address that every reader would find, or nobody."""

import pytest

from oncebox.model.inboxes.received_mail import HeaderAddress, SenderStatus
from tests.mail.mails import read

TWO_WAYS = [
    "From: good@bank.example\nFrom: evil@evil.example",
    "From: good@bank.example\nX: y\nFROM: good@bank.example",
    "From: evil@evil.example, good@bank.example",
    "From: good@bank.example <evil@evil.example>",
    'From: "good@bank.example" <evil@evil.example>',
    "From: 'good@bank.example' <evil@evil.example>",
    "From: =?utf-8?q?good=40bank.example?= <evil@evil.example>",
    "From: =?utf-8?b?Z29vZEBiYW5rLmV4YW1wbGU=?= <evil@evil.example>",
    "From: =?utf-8?q?good=40bank=2Eexample_=3C?= <evil@evil.example>",
    "From: =?utf-8?q?good?= =?utf-8?q?=40bank.example?= <evil@evil.example>",
    "From: good\uff20bank.example <evil@evil.example>",
    "From: good @ bank.example <evil@evil.example>",
    "From: team: good@bank.example, evil@evil.example;",
    "From: team: good@bank.example;",
    "From: good@bank.example(x)@evil.example",
    "From: (good@bank.example) evil@evil.example",
    "From: evil@evil.example (good@bank.example)",
    "From: <good@bank.example> <evil@evil.example>",
    "From: <good@bank.example>evil@evil.example",
    "From: <<good@bank.example>>",
    "From: <@good.example:evil@evil.example>",
    'From: "good@bank.example"@evil.example',
    "From: good@bank.example;evil@evil.example",
    "From: good@bank.example evil@evil.example",
    "From: good@bank.example\\<evil@evil.example>",
    "From: =?utf-8?q?good?=@bank.example",
    "From: good@[127.0.0.1]",
    "From: good@bank.example.",
    "From: good@bank..example",
    "From: Acme, Inc. <news@acme.example>",
    'From: "Ann <good@bank.example>',
    "From: good@bank.example\x00@evil.example",
    "From: good\u200b@bank.example",
    "From: Ann\u202e <good@bank.example>",
    # The header itself may be read in two ways.
    "From : good@bank.example",
    "From : evil@evil.example\nFrom: good@bank.example",
    "From: good@bank.example\rFrom: evil@evil.example",
    "Subject: a\rFrom: evil@evil.example\nFrom: good@bank.example",
    "no field\nFrom: good@bank.example",
    "From: good@bank.example\nno field\nFrom: evil@evil.example",
    ": x\nFrom: good@bank.example",
    "From: " + "a" * 3_000 + " <good@bank.example>",
]


@pytest.mark.parametrize("head", TWO_WAYS, ids=range(len(TWO_WAYS)))
def test_what_can_be_read_in_two_ways_is_ambiguous(head: str) -> None:
    parsed = read(f"{head}\nDate: x\n\nhi".encode())

    assert parsed.sender.standing is SenderStatus.AMBIGUOUS
    assert (parsed.sender.address, parsed.sender.domain, parsed.sender.name) == ("", "", "")
    assert "from_ambiguous" in parsed.warnings


@pytest.mark.parametrize(
    ("field", "address", "name"),
    [
        ("a@b.example", "a@b.example", ""),
        ("<a@b.example>", "a@b.example", ""),
        ("Ann <Ann.B@B.Example>", "Ann.B@b.example", "Ann"),
        ('"Ann B. \\"C\\"" <a@b.example>', "a@b.example", 'Ann B. "C"'),
        ("a@b.example (Ann)", "a@b.example", "Ann"),
        ('"a@b.example" <a@b.example>', "a@b.example", "a@b.example"),
        ('"Jane @ Acme" <a@b.example>', "a@b.example", "Jane @ Acme"),
        ("Dr. No <a@b.example>", "a@b.example", "Dr. No"),
        ("\u00dcn\u00ef <a@b\u00fccher.example>", "a@xn--bcher-kva.example", "\u00dcn\u00ef"),
        ("=?utf-8?q?J=C3=BCrgen?= <j+tag@b.example>", "j+tag@b.example", "J\u00fcrgen"),
        ('"Foo, Bar" <a@b.example>', "a@b.example", "Foo, Bar"),
        ("O'Neil <o'neil@b.example>", "o'neil@b.example", "O'Neil"),
        ("Ann\n <a@b.example>", "a@b.example", "Ann"),
        ("Ann (via Docs) <a@b.example>", "a@b.example", "Ann"),
        ("bounce+a=user.example@b.example", "bounce+a=user.example@b.example", ""),
    ],
)
def test_what_all_readers_agree_on_is_single(field: str, address: str, name: str) -> None:
    sender = read(f"From: {field}\n\nhi".encode()).sender

    assert sender.standing is SenderStatus.SINGLE
    assert (sender.address, sender.name) == (address, name)
    assert sender.domain == address.rpartition("@")[2]


@pytest.mark.parametrize("head", ["X: y", "From:", "From: Mailer Daemon", "From: <>"])
def test_no_address_is_missing(head: str) -> None:
    assert read(f"{head}\n\nhi".encode()).sender.standing is SenderStatus.MISSING


def test_a_postmark_of_a_mailbox_file_is_no_field() -> None:
    parsed = read(b"From a@b.example Mon Nov 16 04:00:00 2026\nFrom: c@d.example\n\nhi")

    assert parsed.sender.address == "c@d.example"


def test_other_fields_are_read_leniently() -> None:
    parsed = read(
        b"To: team: a@b.example, =?utf-8?q?B=2C?= <B@C.Example>;, broken, d@e.example\n"
        b"To: <f@g.example>\nCc: (x) h@i.example\nReply-To: \n\n"
    )

    assert parsed.to == (
        HeaderAddress(name="", address="a@b.example"),
        HeaderAddress(name="B,", address="B@c.example"),
        HeaderAddress(name="", address="d@e.example"),
        HeaderAddress(name="", address="f@g.example"),
    )
    assert [each.address for each in parsed.cc] == ["h@i.example"]
    assert parsed.reply_to == ()


@pytest.mark.parametrize(
    "field",
    [
        "Bob <box@oncebox.test> <eve@evil.example>",
        "box@oncebox.test <eve@evil.example>",
        "Bob, box@oncebox.test, x <eve@evil.example>",
        '"a" box@oncebox.test, <eve@evil.example>',
        "x: box@oncebox.test;",
        '"unclosed, box@oncebox.test',
    ],
)
@pytest.mark.parametrize("name", ["To", "Cc"])
def test_recipients_that_can_be_read_in_two_ways_are_ambiguous(name: str, field: str) -> None:
    parsed = read(f"From: a@b.example\n{name}: {field}\n\nhi".encode())

    named = [each.address for each in (*parsed.to, *parsed.cc)]
    assert "recipients_ambiguous" in parsed.warnings or "box@oncebox.test" not in named


@pytest.mark.parametrize(
    "field",
    [
        "box@oncebox.test",
        "Box <box@oncebox.test>, Eve <eve@evil.example>",
        '"box@oncebox.test" <eve@evil.example>',
        "undisclosed-recipients:;",
        "box@oncebox.test (Box)",
    ],
)
def test_recipients_that_all_programs_read_alike_are_clear(field: str) -> None:
    parsed = read(f"From: a@b.example\nTo: {field}\n\nhi".encode())

    assert "recipients_ambiguous" not in parsed.warnings
