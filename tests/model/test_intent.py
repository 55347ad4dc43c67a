"""Intents: everybody who means the same mail makes the same key, and nobody else does."""

import hashlib
import json
import string
import unicodedata
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from oncebox.errors import KeyInvalid
from oncebox.errors.sends import MailboxInvalid, RecipientMissing
from oncebox.model.sends.email import Attachment, Email
from oncebox.model.sends.intent import (
    audience,
    intent_key,
    key_audience,
    keyed_fingerprint,
    protected_fingerprint,
    provider_key,
)

#: the first look at a name in another alphabet loads its tables
patient = settings(deadline=None)
SECRET = b"s" * 32
INVOICE = Attachment(name="invoice.pdf", content=b"%PDF", media_type="application/pdf")
MAIL = Email(
    sender="Shop <shop@example.com>",
    to="user@example.com",
    subject="Your order",
    text="Thank you",
    attachments=[INVOICE],
    template="order",
)
locals_ = st.text(string.ascii_letters + string.digits + "_-+", min_size=1, max_size=20)
addresses = st.builds("{}@{}.example".format, locals_, st.sampled_from(["a", "b", "c"]))


# ---------------------------------------------------------------- the key


def test_the_published_vector_is_the_key() -> None:
    assert intent_key("order.confirmation", "order_4821", "user@example.com", 1) == (
        "ad6f742c55fac5e1e73bae790c77210d33c4f0914de8ce6dbd9e0a35fd7e0b11"
    )


def test_an_email_of_the_published_vector_has_its_key() -> None:
    to = key_audience(replace(MAIL, to=["  User <USER@Example.COM> "]))

    assert intent_key("order.confirmation", "order_4821", to).startswith("ad6f742c55fac5e1")


plain = st.text(st.characters(exclude_categories=["Cc", "Cs", "Zl", "Zp"]), min_size=1, max_size=50)


@given(plain, plain, plain, st.integers(0, 2**31 - 1))
def test_the_key_can_be_computed_with_two_lines_of_python(
    event_type: str, entity_id: str, to: str, version: int
) -> None:
    told = json.dumps(
        {"type": event_type, "entity": entity_id, "to": to, "v": version}, sort_keys=True
    )

    assert (
        intent_key(event_type, entity_id, to, version) == hashlib.sha256(told.encode()).hexdigest()
    )


def test_characters_beyond_ascii_are_escaped_as_json_dumps_does() -> None:
    told = (
        r'{"entity": "caf\u00e9 \ud83d\ude00", '
        r'"to": "j\u00fcrgen@example.com", "type": "t", "v": 2}'
    )
    made = intent_key("t", "café 😀", audience(["Jürgen@example.com"]), 2)

    assert made == hashlib.sha256(told.encode("ascii")).hexdigest()


@given(st.tuples(plain, plain, plain, st.integers(0, 9)), st.integers(0, 3), st.data())
def test_whatever_differs_makes_another_key(
    parts: tuple[str, str, str, int], at: int, data: st.DataObject
) -> None:
    changed: list[Any] = list(parts)
    changed[at] = parts[3] + 1 if at == 3 else f"{parts[at]}{data.draw(plain)}"

    assert intent_key(*changed) != intent_key(*parts)


@pytest.mark.parametrize(
    "parts",
    [
        ("", "e", "a@example.com", 1),
        ("t", "", "a@example.com", 1),
        ("t", "e", "", 1),
        ("t", "e" * 10_240, "a@example.com", 1),
        ("t" * 10_240, "e", "a@example.com", 1),
        ("t\n", "e", "a@example.com", 1),
        ("t", "e\0", "a@example.com", 1),
        ("t", "\ud800", "a@example.com", 1),
        ("t", "e", "a@example.com", -1),
        ("t", "e", "a@example.com", 2**31),
        ("t", "e", "a@example.com", True),
    ],
)
def test_what_is_empty_too_long_or_no_text_makes_no_key(parts: tuple[str, str, str, int]) -> None:
    with pytest.raises(KeyInvalid) as caught:
        intent_key(*parts)

    assert len(str(caught.value)) < 200


# ---------------------------------------------------------------- the audience


@pytest.mark.parametrize(
    ("spelling", "address"),
    [
        ("user@example.com", "user@example.com"),
        ("  user@example.com ", "user@example.com"),
        ("User@EXAMPLE.com", "user@example.com"),
        ("Ann Lee <user@example.com>", "user@example.com"),
        ('"Lee, Ann" <user@example.com>', "user@example.com"),
        ("user@BÜCHER.example", "user@xn--bcher-kva.example"),
        ("user@xn--bcher-kva.example", "user@xn--bcher-kva.example"),
        ("JÜRGEN@example.com", "jürgen@example.com"),
        (unicodedata.normalize("NFD", "jürgen@example.com"), "jürgen@example.com"),
    ],
)
def test_all_spellings_of_an_address_are_one_audience(spelling: str, address: str) -> None:
    assert audience([spelling]) == address


@pytest.mark.parametrize("other", ["user+tag@example.com", "us.er@example.com", "user@example.org"])
def test_a_tag_and_a_dot_make_another_address(other: str) -> None:
    """Only the domain knows what they mean, and it may deliver them to others."""
    assert audience([other]) != audience(["user@example.com"])


@patient
@given(st.lists(addresses, min_size=1, max_size=8), st.randoms())
def test_order_and_repeats_do_not_matter(several: list[str], random: Any) -> None:
    other = [each.upper() for each in several] + several
    random.shuffle(other)

    assert audience(other) == audience(several)
    assert audience(several).split(",") == sorted({each.lower() for each in several})


@patient
@given(st.lists(addresses, min_size=1, max_size=8))
def test_an_audience_is_its_own_audience(several: list[str]) -> None:
    assert audience(audience(several).split(",")) == audience(several)


def test_nobody_is_no_audience() -> None:
    with pytest.raises(RecipientMissing):
        audience([])


def test_what_is_no_address_has_no_audience() -> None:
    with pytest.raises(MailboxInvalid):
        audience(["a@example.com, b@example.com"])


def test_the_key_is_made_of_those_in_to_and_copies_are_none_of_it() -> None:
    copied = replace(MAIL, cc=["boss@example.com"], bcc=["archive@example.com"])

    assert key_audience(copied) == key_audience(MAIL) == "user@example.com"
    assert protected_fingerprint(copied) != protected_fingerprint(MAIL)


def test_a_mail_without_anybody_in_to_has_all_who_get_it_for_its_audience() -> None:
    hidden = replace(MAIL, to=(), cc=["b@example.com"], bcc=["a@example.com"])

    assert key_audience(hidden) == "a@example.com,b@example.com"


# ---------------------------------------------------------------- what is protected


@pytest.mark.parametrize(
    "changes",
    [
        {"to": ["other@example.com"]},
        {"to": ["user@example.com", "other@example.com"]},
        {"cc": ["other@example.com"]},
        {"bcc": ["other@example.com"]},
        {"sender": "evil@example.com"},
        {"attachments": []},
        {"attachments": [INVOICE, INVOICE]},
        {"attachments": [replace(INVOICE, content=b"%PDF2")]},
        {"attachments": [replace(INVOICE, name="other.pdf")]},
        {"attachments": [replace(INVOICE, media_type="text/html")]},
        {"attachments": [replace(INVOICE, content_id="x")]},
        {"template": "reminder"},
    ],
)
def test_another_audience_sender_attachment_or_template_is_another_mail(
    changes: dict[str, Any],
) -> None:
    assert protected_fingerprint(replace(MAIL, **changes)) != protected_fingerprint(MAIL)


@pytest.mark.parametrize(
    "changes",
    [
        {"subject": "Order confirmed!"},
        {"text": "Many thanks"},
        {"html": "<p>Many thanks"},
        {"variables": {"name": "Ann"}},
        {"headers": {"X-Run": "2"}},
        {"reply_to": ["help@example.com"]},
        {"unsubscribe": "https://example.com/u"},
        {"to": ["User <USER@example.com>"]},
        {"sender": "The Shop <SHOP@example.com>"},
        {"to": [], "bcc": ["user@example.com"]},
        {"to": ["user@example.com", "USER@example.com"]},
        {"attachments": [replace(INVOICE, media_type="Application/PDF")]},
    ],
)
def test_what_a_model_writes_anew_at_every_try_is_not_protected(changes: dict[str, Any]) -> None:
    assert protected_fingerprint(replace(MAIL, **changes)) == protected_fingerprint(MAIL)


def test_the_order_of_attachments_is_not_protected() -> None:
    other = replace(INVOICE, name="terms.pdf")

    assert protected_fingerprint(
        replace(MAIL, attachments=[other, INVOICE])
    ) == protected_fingerprint(replace(MAIL, attachments=[INVOICE, other]))


# ---------------------------------------------------------------- what providers see


def test_a_provider_sees_a_key_that_all_of_them_take() -> None:
    made = provider_key(SECRET, "acme", "k" * 64, 1)

    assert len(made) == 52
    assert set(made) <= set(string.ascii_lowercase + "234567")


def test_a_providers_key_is_the_same_in_every_version_of_oncebox() -> None:
    assert provider_key(SECRET, "acme", "k", 1) == (
        "pp5rvv56odoger73aisswfpvgu53pcf7btwuziunftkhdqsriaiq"
    )


@given(st.binary(min_size=1), plain, plain, st.integers(0, 9))
def test_secret_tenant_key_and_epoch_each_change_what_a_provider_sees(
    secret: bytes, tenant: str, own: str, epoch: int
) -> None:
    made = {
        provider_key(secret, tenant, own, epoch),
        provider_key(secret + b"x", tenant, own, epoch),
        provider_key(secret, f"{tenant}x", own, epoch),
        provider_key(secret, tenant, f"x{own}", epoch),
        provider_key(secret, tenant, own, epoch + 1),
    }

    assert len(made) == 5


def test_no_two_lists_of_pieces_are_marked_the_same() -> None:
    assert (
        keyed_fingerprint(SECRET, "a", "bc")
        != keyed_fingerprint(SECRET, "ab", "c")
        != keyed_fingerprint(SECRET, "abc")
    )
