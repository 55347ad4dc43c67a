"""Envelopes come back as they were stored, and addresses are judged by their form alone."""

import unicodedata

import pytest
from hypothesis import given
from hypothesis import strategies as st

from oncebox.model.deliveries.delivery import encode_headers
from oncebox.model.inboxes.addresses import is_sender_path, split_address, split_recipient
from oncebox.model.inboxes.received_mail import (
    Envelope,
    EnvelopeRecipient,
    decode_envelope,
    encode_envelope,
)

ENVELOPE = Envelope(
    client="192.0.2.1",
    helo="mail.example.com",
    sender="ann@example.com",
    recipients=(
        EnvelopeRecipient(inbox_id="inb_1", tenant="acme", address="a+tag@oncebox.test"),
        EnvelopeRecipient(inbox_id="inb_2", tenant="acme", address="b@oncebox.test"),
    ),
    tls="TLSv1.3",
    utf8=True,
)


@pytest.mark.parametrize(
    "envelope",
    [ENVELOPE, Envelope(client="::1", helo="[::1]", sender="", recipients=())],
    ids=["full", "bare"],
)
def test_an_envelope_comes_back_as_it_was_stored(envelope: Envelope) -> None:
    assert decode_envelope(encode_envelope(envelope)) == envelope


def test_an_envelope_is_headers_in_order() -> None:
    assert encode_envelope(ENVELOPE) == [
        ("client", "192.0.2.1"),
        ("helo", "mail.example.com"),
        ("sender", "ann@example.com"),
        ("tls", "TLSv1.3"),
        ("utf8", "yes"),
        ("recipient", "inb_1 acme a+tag@oncebox.test"),
        ("recipient", "inb_2 acme b@oncebox.test"),
    ]


@pytest.mark.parametrize(
    "path",
    [
        "ann@example.com",
        "a.b+c@sub.example.com",
        "x@localhost",
        "o'brien{}|~@example.com",
        "A@EXAMPLE.COM",
        "a/b@example.com",
        f"{'a' * 64}@example.com",
        "jürgen@münchen.example",
        "用户@例子.example",
    ],
)
def test_a_plain_address_is_one(path: str) -> None:
    local, domain = path.rsplit("@", 1)

    assert split_address(path) == split_recipient(path) == (local, domain)
    assert is_sender_path(path)


@pytest.mark.parametrize(
    "path",
    [
        "ann",
        "@example.com",
        "ann@",
        "a@b@example.com",
        "../../etc/x@example.com",
        ".a@example.com",
        "a.@example.com",
        "a..b@example.com",
        "a b@example.com",
        "a\x00b@example.com",
        "a\rb@example.com",
        "a\nb@example.com",
        "a\x1b[2J@example.com",
        "@r1,@r2:u@example.com",
        "u@[127.0.0.1]",
        "u@[IPv6:::1]",
        "u@-a.example",
        "u@a-.example",
        "u@a..example",
        "u@.example",
        "u@example.com.",
        f"{'a' * 400}@example.com",
        f"a@{'b' * 64}.example",
        f"a@{'.'.join(['b' * 60] * 5)}",
        f"{'ü' * 130}@example.com",
        "a\u202eb@example.com",
        "a\u2066b@example.com",
        "a\u200bb@example.com",
        "a\u00a0b@example.com",
        "a\u2028b@example.com",
        "a\x85b@example.com",
        "a\ufeffb@example.com",
        "a\ue000b@example.com",
        "a@exam\u202eple.com",
    ],
)
def test_what_is_not_plain_is_no_address(path: str) -> None:
    assert split_address(path) is split_recipient(path) is None
    assert not is_sender_path(path)


@pytest.mark.parametrize("path", ["u%evil@example.com", "host!u@example.com", '"a b"@example.com'])
def test_some_are_senders_but_mail_is_not_taken_for_them(path: str) -> None:
    assert is_sender_path(path)
    assert split_recipient(path) is None


def test_a_bounce_comes_from_nobody() -> None:
    assert is_sender_path("")
    assert split_recipient("") is None


def test_twins_of_one_address_are_one() -> None:
    composed = unicodedata.normalize("NFC", "jürgen@example.com")
    apart = unicodedata.normalize("NFD", composed)

    assert apart != composed
    assert split_address(apart) == split_address(composed)


@given(st.text(max_size=300))
def test_any_text_is_judged_and_what_passes_can_stand_in_a_log_line(path: str) -> None:
    parts = split_address(path)
    if parts is not None:
        text = "@".join(parts)

        assert text.isprintable()
        assert " " not in text
        assert len(text.encode()) <= 254
        assert ".." not in text
        encode_headers((("sender", text),))


_BOUNCES = (
    "bounces+12345678-ab12-kq3v7x0m2p9dw4zt=inbox.agents.example.com.signed-9f8e7d6c5b4a@"
    "em4321.sender.example.com"
)


def test_an_address_for_bounces_may_be_longer_than_an_inbox_is_named() -> None:
    """Mail of large senders comes from such addresses, and would be refused for ever."""
    assert len(_BOUNCES.partition("@")[0]) > 64
    assert is_sender_path(_BOUNCES)
    assert split_address(_BOUNCES) is None
    assert split_recipient(_BOUNCES) is None
