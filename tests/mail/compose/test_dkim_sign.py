"""Signatures we make: others and we ourselves accept them, and nothing signed can be changed."""

import base64
from functools import cache
from typing import Any

import dkim
import pytest
from cryptography.hazmat.primitives.asymmetric.ec import SECP256R1
from cryptography.hazmat.primitives.asymmetric.ec import generate_private_key as ec_key
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.asymmetric.rsa import RSAPrivateKey, generate_private_key
from cryptography.hazmat.primitives.serialization import (
    BestAvailableEncryption,
    Encoding,
    NoEncryption,
    PrivateFormat,
)
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from oncebox.errors.sends import SigningInvalid
from oncebox.mail.auth.dkim_sign import SigningKey, read_signing_key, sign_dkim
from oncebox.mail.auth.dkim_verify import check_dkim
from oncebox.mail.compose.mime_writer import compose
from oncebox.model.inboxes.received_mail import AuthResult
from oncebox.model.sends.email import Attachment, Email
from tests.mail.compose.test_mime_writer import emails, usable
from tests.mail.signing import dkim_dns_record

NOW = 1_794_830_400_123
NAME = "s1._domainkey.example.com"
MESSAGE = compose(
    Email(
        sender="Shop <shop@example.com>",
        to="user@example.com",
        reply_to="help@example.com",
        subject="Grüße, and a subject that is long enough to be folded somewhere on its way",
        text="Thank you.\n\n  Bye  \n\n\n",
        html="<p>Thank you.",
        attachments=[Attachment(name="a.bin", content=bytes(range(256)))],
        unsubscribe="https://example.com/u",
    ),
    message_id="<abc@example.com>",
    date=NOW,
    seed=b"seed",
)


@cache
def made(kind: str, bits: int = 2048) -> SigningKey:
    """Return a key of either kind."""
    return generate_private_key(65537, bits) if kind == "rsa" else Ed25519PrivateKey.generate()


def signed(key: SigningKey, message: bytes = MESSAGE, **changes: Any) -> bytes:
    """Return a message below its signature."""
    asked: dict[str, Any] = {"domain": "example.com", "selector": "s1", "now": NOW, **changes}
    field = sign_dkim(message, key=key, **asked)
    assert field.isascii()
    assert max(map(len, field.split(b"\r\n"))) <= 78
    return field + message


def others_accept(raw: bytes, key: SigningKey) -> bool:
    """Ask dkimpy, which has none of our code."""
    record = dkim_dns_record(key).encode()
    return bool(dkim.verify(raw, dnsfunc=lambda name, timeout=5: record, minkey=1024))


def ours(raw: bytes, key: SigningKey) -> AuthResult:
    """Ask our own check."""
    [result] = check_dkim(raw, {NAME: [dkim_dns_record(key).encode()]})
    return result.result


kinds = pytest.mark.parametrize("kind", ["rsa", "ed25519"])


@kinds
def test_dkimpy_and_our_own_check_accept_a_signature(kind: str) -> None:
    key = made(kind)
    raw = signed(key)

    assert others_accept(raw, key)
    [result] = check_dkim(raw, {NAME: [dkim_dns_record(key).encode()]})
    assert (result.result, result.flags) == (AuthResult.PASS, ())
    assert (result.domain, result.selector) == ("example.com", "s1")
    assert result.covers == ("cc", "date", "from", "subject", "to")
    assert result.signed_at == NOW // 1000 * 1000


@settings(deadline=None, max_examples=15, suppress_health_check=[HealthCheck.too_slow])
@given(emails.filter(usable), st.sampled_from(["rsa", "ed25519"]))
def test_whatever_is_composed_can_be_signed(mail: Email, kind: str) -> None:
    key = made(kind)
    raw = signed(key, compose(mail, message_id="<a@example.com>", date=NOW, seed=b"x"))

    assert others_accept(raw, key)
    assert ours(raw, key) is AuthResult.PASS


@kinds
def test_a_mail_with_an_address_beyond_ascii_can_be_signed(kind: str) -> None:
    mail = Email(sender="jürgen@example.com", to="renée@example.com", text="x")
    raw = signed(made(kind), compose(mail, message_id="<a@example.com>", date=NOW, seed=b"x"))

    assert others_accept(raw, made(kind))
    assert ours(raw, made(kind)) is AuthResult.PASS


@kinds
@pytest.mark.parametrize(
    "field",
    [
        b"From: evil@example.com",
        b"To: other@example.com",
        b"Cc: other@example.com",
        b"Reply-To: evil@example.com",
        b"Subject: Pay now",
        b"Date: Mon, 16 Nov 2037 08:00:00 +0000",
        b"Message-ID: <other@example.com>",
        b"List-Unsubscribe: <https://evil.example>",
        b"List-Unsubscribe-Post: List-Unsubscribe=One-Click",
        b"Content-Type: text/html",
        b"Content-Transfer-Encoding: base64",
        b"In-Reply-To: <other@example.com>",
    ],
)
def test_nobody_can_add_a_field_that_a_reader_is_shown(kind: str, field: bytes) -> None:
    """Cc and In-Reply-To are not even there: they were signed as missing."""
    key = made(kind)
    raw = field + b"\r\n" + signed(key)

    assert not others_accept(raw, key)
    assert ours(raw, key) is AuthResult.FAIL


@kinds
def test_a_change_anywhere_breaks_the_signature(kind: str) -> None:
    key = made(kind)
    raw = signed(key)
    for before, after in (
        (b"Thank", b"Think"),
        (b"shop@", b"stop@"),
        (b"user@", b"uses@"),
        (b"/u>", b"/v>"),
        (b"t=17948", b"t=17949"),
    ):
        assert before in raw
        assert not others_accept(raw.replace(before, after), key)
        assert ours(raw.replace(before, after), key) is AuthResult.FAIL
    assert not others_accept(raw + b"More.\r\n", key)
    assert ours(raw + b"More.\r\n", key) is AuthResult.FAIL


@kinds
def test_what_relays_do_to_white_space_and_above_a_mail_changes_nothing(kind: str) -> None:
    key = made(kind)
    raw = b"Received: from a by b\r\n" + signed(key)
    folded = raw.replace(b"Subject: ", b"SUBJECT:\r\n   ") + b"\r\n\r\n"

    assert others_accept(folded, key)
    assert ours(folded, key) is AuthResult.PASS


def test_the_whole_body_is_signed() -> None:
    assert b"l=" not in sign_dkim(
        MESSAGE, domain="example.com", selector="s", key=made("rsa"), now=NOW
    )


def test_the_same_bytes_and_moment_give_the_same_signature() -> None:
    for kind in ("rsa", "ed25519"):
        assert signed(made(kind)) == signed(made(kind))


def test_a_mail_may_be_signed_by_both_kinds() -> None:
    both = signed(made("ed25519"), signed(made("rsa")), selector="s2")
    answers = {
        NAME: [dkim_dns_record(made("rsa")).encode()],
        "s2._domainkey.example.com": [dkim_dns_record(made("ed25519")).encode()],
    }

    assert [each.result for each in check_dkim(both, answers)] == [AuthResult.PASS, AuthResult.PASS]


def test_names_are_signed_in_one_spelling() -> None:
    raw = signed(made("rsa"), domain="BÜCHER.example", selector="Mail2026")

    assert b" d=xn--bcher-kva.example;\r\n s=mail2026;" in raw


# ---------------------------------------------------------------- keys


def pem(key: Any, form: PrivateFormat = PrivateFormat.PKCS8) -> bytes:
    """Return a key as a file holds it."""
    found: bytes = key.private_bytes(Encoding.PEM, form, NoEncryption())
    return found


def test_keys_are_read_as_openssl_and_dkimpy_write_them() -> None:
    rsa, edwards = made("rsa"), made("ed25519")
    assert isinstance(edwards, Ed25519PrivateKey)

    for text in (pem(rsa), pem(rsa, PrivateFormat.TraditionalOpenSSL)):
        assert dkim_dns_record(read_signing_key(text)) == dkim_dns_record(rsa)
    for text in (pem(edwards), base64.b64encode(edwards.private_bytes_raw()) + b"\n"):
        assert dkim_dns_record(read_signing_key(text)) == dkim_dns_record(edwards)


@pytest.mark.parametrize(
    "text",
    [
        b"",
        b"CANARY",
        b"-----BEGIN PRIVATE KEY-----\nCANARY\n-----END PRIVATE KEY-----\n",
        base64.b64encode(b"CANARY" * 5),
        pem(ec_key(SECP256R1())),
        ec_key(SECP256R1()).private_bytes(
            Encoding.PEM, PrivateFormat.PKCS8, BestAvailableEncryption(b"CANARY")
        ),
    ],
    ids=["nothing", "a word", "no key", "too short", "another kind", "a password"],
)
def test_what_is_no_key_is_refused_and_never_quoted(text: bytes) -> None:
    with pytest.raises(SigningInvalid) as caught:
        read_signing_key(text)

    assert "CANARY" not in str(caught.value)
    assert caught.value.__cause__ is None


@pytest.mark.parametrize(
    "changes",
    [
        {"domain": "localhost"},
        {"domain": "example.com; d=evil.example"},
        {"domain": "example.com\r\nBcc: x"},
        {"selector": ""},
        {"selector": "a b"},
        {"selector": "a;b=c"},
        {"selector": "a\r\nb"},
        {"selector": "a" * 64},
        {"message": b"Subject: nobody\r\n\r\nx"},
        {"message": b"From: a@x\r\nFrom: b@x\r\n\r\nx"},
        {"message": b"From: a@x\nTo: b@x\r\n\r\nx"},
        {"message": b"no field\r\n\r\nx"},
    ],
)
def test_what_cannot_be_signed_is_refused(changes: dict[str, Any]) -> None:
    with pytest.raises(SigningInvalid):
        signed(made("rsa"), **changes)


def test_the_shortest_key_that_others_accept_is_taken() -> None:
    key = read_signing_key(pem(made("rsa", 1024)))

    assert isinstance(key, RSAPrivateKey)
    assert others_accept(signed(key), key)
