"""Addresses: all spellings of one lead to the same inbox, and what is none is refused."""

import string
import unicodedata

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from oncebox.errors.mail import AddressInvalid
from oncebox.model.inboxes.addresses import (
    ADDRESS_RANDOM_BYTES,
    address_key,
    dns_records,
    domain_key,
    make_local_part,
    sender_key,
)

#: the first look at a name in another alphabet loads its tables
patient = settings(deadline=None)
DOMAIN = "inbox.example.com"
plain = st.text(string.ascii_lowercase + string.digits + "_-", min_size=1, max_size=40)
letters = st.text(st.characters(categories=["Ll", "Lu", "Lo", "Nd", "Mn"]), min_size=1, max_size=12)


def key(local: str, domain: str = DOMAIN) -> str | None:
    """Return the key of an address, or None where it is refused."""
    try:
        return address_key(local, domain)
    except AddressInvalid:
        return None


@patient
@given(plain, st.data())
def test_upper_and_lower_case_are_one_address(local: str, data: st.DataObject) -> None:
    shout = "".join(data.draw(st.sampled_from((each, each.upper()))) for each in local)

    assert address_key(shout, "INBOX.Example.com") == f"{local}@{DOMAIN}"


@patient
@given(plain, st.text(string.ascii_letters + string.digits + "+-_=", max_size=20))
def test_what_stands_behind_a_plus_leads_to_the_same_inbox(local: str, tag: str) -> None:
    assert address_key(f"{local}+{tag}", DOMAIN) == f"{local}@{DOMAIN}"


@patient
@given(letters)
@example("ΐ")
@example("ΑΣ")
@example("ᾳ")
@example("Å")
def test_twins_in_nfc_and_nfd_are_one_address_or_none(local: str) -> None:
    forms = {key(unicodedata.normalize(form, local)) for form in ("NFC", "NFD")}

    assert len(forms) == 1


@patient
@given(letters)
@example("ς")
@example("ß")
@example("İ")
def test_a_key_is_its_own_key(local: str) -> None:
    found = key(local)

    if found is not None:
        assert address_key(*found.rsplit("@", 1)) == found
        assert unicodedata.is_normalized("NFC", found)


@patient
@given(st.text(), st.text())
@example("a\x00b", DOMAIN)
@example('"a\rb"', DOMAIN)
@example("\ud800", DOMAIN)
@example("a", "\ud800.com")
@example("x" * 100_000, DOMAIN)
@example("x", "y." * 100_000)
@example("x", "\u3002" * 200)
@example("x", "\U0001f4a9" * 200 + ".com")
@example("x", "xn--\x80.com")
def test_hostile_text_is_an_address_or_refused_and_nothing_else(local: str, domain: str) -> None:
    try:
        found = address_key(local, domain)
    except AddressInvalid:
        return
    assert found.count("@") == 1
    assert found.isprintable()
    assert len(found.encode()) <= 64 + 1 + 253


@patient
@given(st.text())
def test_a_hostile_domain_is_a_name_or_refused_and_nothing_else(domain: str) -> None:
    try:
        found = domain_key(domain)
    except AddressInvalid:
        return
    assert found.isascii()
    assert domain_key(found) == found


@pytest.mark.parametrize(
    "local",
    [
        "",
        "+tag",
        "a.+tag",
        ".a",
        "a.",
        "a..b",
        "../../etc/x",
        "u%evil",
        "host!u",
        "a b",
        '"a b"',
        "a\\b",
        "a@b",
        "@r1,@r2:u",
        "a<b>",
        "a(b)",
        "a,b",
        "a;b",
        "a:b",
        "[a]",
        "a\x7f",
        "a\u202eb",
        "a\u200bb",
        "a\u2028b",
        "a\u00a0b",
        "ａｂｃ",  # noqa: RUF001 - full width is the point
        "x" * 65,
        "ü" * 33,
    ],
)
def test_what_other_software_might_read_differently_is_refused(local: str) -> None:
    with pytest.raises(AddressInvalid):
        address_key(local, DOMAIN)


@pytest.mark.parametrize(
    "domain",
    [
        "",
        "localhost",
        "127.0.0.1",
        "[127.0.0.1]",
        "example.com.",
        ".example.com",
        "a..com",
        "-a.com",
        "a-.com",
        "a_b.com",
        "a.c0m.1",
        "x" * 64 + ".com",
        "a." * 126 + "com",
        "a b.com",
        "a\x00.com",
    ],
)
def test_what_is_no_domain_is_refused(domain: str) -> None:
    with pytest.raises(AddressInvalid):
        domain_key(domain)


def test_a_domain_is_kept_in_one_spelling() -> None:
    spellings = (
        "bücher.example",
        "BÜCHER.example",
        "xn--bcher-kva.example",
        "bu\u0308cher。example",
    )

    assert {domain_key(each) for each in spellings} == {"xn--bcher-kva.example"}


def test_a_refusal_does_not_quote_what_was_sent() -> None:
    with pytest.raises(AddressInvalid) as refused:
        address_key("canary evil", DOMAIN)

    assert "canary" not in str(refused.value)


@patient
@given(st.binary(min_size=ADDRESS_RANDOM_BYTES, max_size=ADDRESS_RANDOM_BYTES))
def test_an_address_keeps_every_random_bit_and_is_its_own_key(random: bytes) -> None:
    local = make_local_part(random)
    digits = "0123456789abcdefghjkmnpqrstvwxyz"
    number = 0
    for each in local:
        number = number * 32 + digits.index(each)

    assert number.to_bytes(ADDRESS_RANDOM_BYTES, "big") == random
    assert address_key(local, DOMAIN) == f"{local}@{DOMAIN}"
    assert ADDRESS_RANDOM_BYTES * 8 >= 80


def test_an_address_is_not_made_of_less() -> None:
    with pytest.raises(ValueError, match="10 random bytes"):
        make_local_part(b"123")


def test_a_senders_tag_counts() -> None:
    assert sender_key("No-Reply+A@Example.COM") == "no-reply+a@example.com"


def test_the_records_bring_mail_here_and_reserved_domains_need_none() -> None:
    mx, spf = dns_records("inbox.example.com", "mx.example.net")

    assert (mx.type, mx.name, mx.value) == ("MX", "inbox.example.com.", "10 mx.example.net.")
    assert (spf.type, spf.value) == ("TXT", '"v=spf1 mx -all"')
    assert dns_records("oncebox.test", "mx.example.net") == ()
