"""Signatures: what is proven, what is not, and that no mail gets the better of the check."""

import base64
import hashlib
from functools import partial

import dkim
import pytest
from cryptography.hazmat.primitives.serialization import (
    Encoding,
    PublicFormat,
    load_pem_private_key,
)
from dkim.canonicalization import CanonicalizationPolicy, Relaxed, Simple
from dkim.crypto import parse_public_key
from dkim.util import InvalidTagValueList, parse_tag_value
from hypothesis import given, settings
from hypothesis import strategies as st

from oncebox.mail.auth.dkim_message import canonical_body
from oncebox.mail.auth.dkim_verify import (
    MOST_SIGNATURES,
    SignatureUnusable,
    check_dkim,
    dkim_key_name,
    header_digest,
    parse_tags,
    rsa_bits,
)
from oncebox.model.inboxes.received_mail import VERDICT_DETAILS, AuthResult, DkimResult
from tests.mail.signing import HEADERS, MAIL, NAME, crafted, ed25519_key, keys, rsa_key, signed
from tests.support.steps import steps, touched

_RFC_8463 = b"""\
DKIM-Signature: v=1; a=ed25519-sha256; c=relaxed/relaxed;
 d=football.example.com; i=@football.example.com;
 q=dns/txt; s=brisbane; t=1528637909; h=from : to :
 subject : date : message-id : from : subject : date;
 bh=2jUSOH9NhtVGCQWNr9BrIAPreKQjO6Sn7XIkfJVOzv8=;
 b=/gCrinpcQOoIfuHNQIbq4pgh9kyIK3AQUdt9OdqQehSwhEIug4D11Bus
 Fa3bT3FY5OsU7ZbnKELq+eXdp1Q1Dw==
DKIM-Signature: v=1; a=rsa-sha256; c=relaxed/relaxed;
 d=football.example.com; i=@football.example.com;
 q=dns/txt; s=test; t=1528637909; h=from : to : subject :
 date : message-id : from : subject : date;
 bh=2jUSOH9NhtVGCQWNr9BrIAPreKQjO6Sn7XIkfJVOzv8=;
 b=F45dVWDfMbQDGHJFlXUNB2HKfbCeLRyhDXgFpEL8GwpsRe0IeIixNTe3
 DhCVlUrSjV4BwcVcOF6+FF3Zo9Rpo1tFOeS9mPYQTnGdaSGsgeefOsk2Jz
 dA+L10TeYt9BgDfQNZtKdN1WO//KgIqXP7OdEFE4LjFYNcUxZQ4FADY+8=
From: Joe SixPack <joe@football.example.com>
To: Suzie Q <suzie@shopping.example.net>
Subject: Is dinner ready?
Date: Fri, 11 Jul 2003 21:00:37 -0700 (PDT)
Message-ID: <20030712040037.46341.5F8J@football.example.com>

Hi.

We lost the game.  Are you hungry yet?

Joe.

"""
_RFC_8463_KEYS = {
    "brisbane._domainkey.football.example.com": [
        b"v=DKIM1; k=ed25519; p=11qYAYKxCrfVS/7TyWQHOg7hcvPapiMlrwIaaPcHURo="
    ],
    "test._domainkey.football.example.com": [
        (
            b"v=DKIM1; k=rsa; p=MIGfMA0GCSqGSIb3DQEBAQUAA4GNADCBiQKBgQDkHlOQoBTzWR"
            b"iGs5V6NpP3idY6Wk08a5qhdR6wy5bdOKb2jLQiY/J16JYi0Qvx/byYzCNb3W91y3FutAC"
            b"DfzwQ/BC/e/8uBsCR+yz1Lxj+PL6lHvqMKrM3rG4hstT5QjvHO9PzoxZyVYLzBfO2EeC3"
            b"Ip3G+2kryOTIKT+l/K4w3QIDAQAB"
        )
    ],
}


def _only(raw: bytes, answers: dict[str, list[bytes]] | None = None) -> DkimResult:
    [result] = check_dkim(raw, keys() if answers is None else answers)
    return result


def _bad(raw: bytes, answers: dict[str, list[bytes]] | None = None) -> tuple[AuthResult, str]:
    result = _only(raw, answers)
    assert result.result is not AuthResult.PASS
    assert result.flags[0] in VERDICT_DETAILS
    return result.result, result.flags[0]


# ---------------------------------------------------------------- what is proven


@pytest.mark.parametrize("line_end", [b"\n", b"\r\n"])
def test_the_example_of_rfc_8463_passes_by_both_its_keys(line_end: bytes) -> None:
    raw = _RFC_8463.replace(b"\n", line_end)

    results = check_dkim(raw, _RFC_8463_KEYS)

    assert [result.result for result in results] == [AuthResult.PASS, AuthResult.PASS]
    assert [result.selector for result in results] == ["brisbane", "test"]
    assert {result.domain for result in results} == {"football.example.com"}


@pytest.mark.parametrize("ed25519", [False, True])
@pytest.mark.parametrize(
    "forms", ["simple/simple", "simple/relaxed", "relaxed/simple", "relaxed/relaxed"]
)
def test_a_good_signature_passes_and_says_what_it_covers(forms: str, ed25519: bool) -> None:
    record = (ed25519_key() if ed25519 else rsa_key())[1]

    result = _only(signed(forms=forms, ed25519=ed25519), keys(record))

    assert (result.result, result.flags) == (AuthResult.PASS, ())
    assert (result.domain, result.selector) == ("example.com", "s1")
    assert result.covers == ("date", "from", "subject", "to")


def test_only_what_is_signed_is_covered() -> None:
    assert _only(signed(headers=(b"from", b"to"))).covers == ("from", "to")


@pytest.mark.parametrize(
    "field",
    [
        b"Subject: Your code is 999999",
        b"Date: Mon, 16 Nov 2037 08:00:00 +0000",
        b"To: eve@evil.example",
        b"Message-ID: <other@example.com>",
        b"Content-Type: text/html",
        b"Content-Transfer-Encoding: base64",
    ],
)
def test_whoever_caught_a_signed_mail_cannot_put_a_second_field_above_the_signed_one(
    field: bytes,
) -> None:
    """A signature holds for the lowest field of a name, and readers are shown the topmost."""
    typed = b"Content-Type: text/plain\r\nContent-Transfer-Encoding: 7bit\r\n"
    headers = (*HEADERS, b"content-type", b"content-transfer-encoding")
    raw = signed(typed + MAIL, headers=headers)

    assert _only(raw).result is AuthResult.PASS
    assert _bad(field + b"\r\n" + raw) == (AuthResult.FAIL, "dkim_mismatch")


def test_a_field_that_no_rule_makes_single_may_come_again() -> None:
    raw = signed(b"List-Id: <a.example>\r\n" + MAIL, headers=(*HEADERS, b"list-id"))

    assert _only(b"Received: from b\r\nList-Id: <b.example>\r\n" + raw).result is AuthResult.PASS


def test_a_field_that_was_signed_twice_is_not_covered() -> None:
    """The signature holds, but nobody knows which one a reader is shown."""
    twice = b"Date: Mon, 16 Nov 2037 08:00:00 +0000\r\n" + MAIL
    result = _only(signed(twice, headers=(b"from", b"to", b"date", b"date")))

    assert result.result is AuthResult.PASS
    assert result.covers == ("from", "to")


def test_oversigning_keeps_a_second_field_out() -> None:
    raw = signed(headers=(b"from", b"from", b"date", b"date", b"subject", b"subject"))

    assert _only(raw).result is AuthResult.PASS
    assert _bad(b"Date: Mon, 16 Nov 2037 08:00:00 +0000\r\n" + raw)[1] == "dkim_mismatch"


def test_a_key_in_the_older_form_is_read() -> None:
    private = load_pem_private_key(rsa_key()[0], None)
    bare = private.public_key().public_bytes(Encoding.DER, PublicFormat.PKCS1)

    assert _only(signed(), keys(b"p=" + base64.b64encode(bare))).result is AuthResult.PASS


def test_a_key_among_other_texts_is_found() -> None:
    answers = {NAME: [b"site-verification=x", rsa_key()[1]]}

    assert _only(signed(), answers).result is AuthResult.PASS


def test_every_signature_is_judged_by_itself() -> None:
    """A mailing list breaks the author's signature and adds its own."""
    posted = signed(forms="relaxed/relaxed")
    listed = signed(posted + b"-- \r\nThe list\r\n", domain="list.example", selector="l")

    answers = keys() | keys(name="l._domainkey.list.example")
    top, below = check_dkim(listed, answers)

    assert (top.result, top.domain) == (AuthResult.PASS, "list.example")
    assert (below.result, below.flags) == (AuthResult.FAIL, ("dkim_body_changed",))


def test_a_forwarder_that_changes_nothing_breaks_nothing() -> None:
    raw = (
        b"Received: from a.example by b.example; Mon, 16 Nov 2026 08:00:01 +0000\r\n"
        b"X-Forwarded-To: c@oncebox.test\r\n" + signed()
    )

    assert _only(raw).result is AuthResult.PASS


def test_the_same_signature_twice_is_two_results() -> None:
    raw = signed()
    field = raw[: -len(MAIL)]

    assert [one.result for one in check_dkim(field + raw, keys())] == [
        AuthResult.PASS,
        AuthResult.PASS,
    ]


def test_a_testing_signer_is_flagged() -> None:
    result = _only(signed(), keys(rsa_key()[1] + b"; t=y"))

    assert (result.result, result.flags) == (AuthResult.PASS, ("dkim_testing",))


def test_times_are_told_and_not_judged() -> None:
    result = _only(crafted({"t": "1000", "x": "2000"}))

    assert result.result is AuthResult.PASS
    assert (result.signed_at, result.expires_at) == (1_000_000, 2_000_000)


def test_spelling_of_d_and_s_does_not_matter() -> None:
    assert _only(crafted({"d": "EXAMPLE.com", "s": "S1"})).domain == "example.com"
    assert dkim_key_name("EXAMPLE.com.", "S1") == NAME
    assert dkim_key_name("bücher.example", "s") == "s._domainkey.xn--bcher-kva.example"
    assert dkim_key_name("", "s") == dkim_key_name("a b.example", "s") == ""


# ---------------------------------------------------------------- what is not


def test_a_mail_without_signature_proves_nothing() -> None:
    assert check_dkim(MAIL, {}) == ()


@pytest.mark.parametrize(
    ("old", "new", "code"),
    [
        (b"482913", b"999999", "dkim_body_changed"),
        (b"Your  code", b"Your  c0de", "dkim_mismatch"),
        (b"ann@example.com", b"eve@example.com", "dkim_mismatch"),
        (b"08:00:00", b"09:00:00", "dkim_mismatch"),
    ],
)
def test_a_changed_mail_fails(old: bytes, new: bytes, code: str) -> None:
    assert _bad(signed().replace(old, new)) == (AuthResult.FAIL, code)


def test_another_key_fails() -> None:
    assert _bad(signed(), keys(rsa_key(1024)[1])) == (AuthResult.FAIL, "dkim_mismatch")


def test_a_second_from_breaks_every_signature() -> None:
    for raw in (signed(), signed(headers=(b"from",))):
        assert _bad(b"From: eve@evil.example\r\n" + raw) == (AuthResult.FAIL, "dkim_mismatch")


def test_a_signature_of_the_beginning_proves_nothing_about_the_rest() -> None:
    raw = signed(length=True)
    assert _only(raw).result is AuthResult.PASS  # it is all signed

    result = _only(raw + b"Click http://evil.example\r\n")

    assert (result.result, result.flags) == (AuthResult.NEUTRAL, ("dkim_body_partly",))
    assert _bad(crafted({"l": "0", "bh": "47DEQpj8HBSa+/TImW+5JCeuQeRkm5NMpJWZG3hSuFU="})) == (
        AuthResult.NEUTRAL,
        "dkim_body_partly",
    )


def test_a_body_shorter_than_was_signed_fails() -> None:
    assert _bad(crafted({"l": "9999"}))[1] == "dkim_body_changed"


def test_short_keys_do_not_count() -> None:
    short = _der((1 << 511) + 187, 65537)

    assert _bad(signed(), keys(b"p=" + base64.b64encode(short))) == (
        AuthResult.PERMERROR,
        "dkim_weak_key",
    )


@pytest.mark.parametrize(
    ("bits", "exponent", "code"),
    [
        (8_192, 65_537, "dkim_mismatch"),
        (8_193, 65_537, "dkim_key_invalid"),
        (16_001, (1 << 15_999) + 1, "dkim_key_invalid"),
    ],
    ids=["long", "too long", "far too long"],
)
def test_keys_that_take_long_to_check_are_not_used(bits: int, exponent: int, code: str) -> None:
    """A key that was used and did not fit is a mismatch."""
    key = _der((1 << (bits - 1)) + 1, exponent)

    assert _bad(signed(), keys(b"p=" + base64.b64encode(key)))[1] == code


def _der(modulus: int, exponent: int) -> bytes:
    def number(value: int) -> bytes:
        text = value.to_bytes(value.bit_length() // 8 + 1, "big")
        return b"\x02" + _size(len(text)) + text

    inner = number(modulus) + number(exponent)
    return b"\x30" + _size(len(inner)) + inner


def _size(size: int) -> bytes:
    text = size.to_bytes((size.bit_length() + 7) // 8 or 1, "big")
    return text if size < 128 else bytes([0x80 | len(text)]) + text


@pytest.mark.parametrize(
    ("changes", "code"),
    [
        ({"a": "rsa-sha1"}, "dkim_weak_algorithm"),
        ({"a": "none"}, "dkim_invalid"),
        ({"v": "2"}, "dkim_invalid"),
        ({"v": None}, "dkim_invalid"),
        ({"d": None}, "dkim_invalid"),
        ({"s": None}, "dkim_invalid"),
        ({"bh": None}, "dkim_invalid"),
        ({"bh": "?"}, "dkim_invalid"),
        ({"c": "odd/odd"}, "dkim_invalid"),
        ({"q": "http"}, "dkim_invalid"),
        ({"i": "@evil.example"}, "dkim_invalid"),
        ({"i": "@notexample.com"}, "dkim_invalid"),
        ({"l": "-1"}, "dkim_invalid"),
        pytest.param({"l": "1" * 5_000}, "dkim_invalid", id="a long length"),
        pytest.param({"x": "1" * 5_000}, "dkim_invalid", id="a long time"),
        ({"t": "soon"}, "dkim_invalid"),
        ({"h": "to:subject"}, "dkim_from_unsigned"),
        pytest.param({"h": "from" + ":to" * 600}, "dkim_invalid", id="many names"),
        ({"h": "from::to"}, "dkim_invalid"),
        pytest.param({"z": "x" * 20_000}, "dkim_invalid", id="a huge field"),
    ],
)
def test_a_signature_that_is_not_spelled_right_never_counts(
    changes: dict[str, str | None], code: str
) -> None:
    assert _bad(crafted(changes)) == (AuthResult.PERMERROR, code)


@pytest.mark.parametrize(
    ("record", "code"),
    [
        (b"v=DKIM1; p=", "dkim_no_key"),
        (b"unrelated", "dkim_no_key"),
        (b"v=DKIM2; p=AAAA", "dkim_key_invalid"),
        (b"v=DKIM1; p=!", "dkim_key_invalid"),
        (b"v=DKIM1; p=AAAA", "dkim_key_invalid"),
        (b"v=DKIM1; k=ed25519; p=" + base64.b64encode(b"x" * 32), "dkim_key_invalid"),
        (b"v=DKIM1; p=AAAA; p=BBBB", "dkim_key_invalid"),
        pytest.param(b"p=" + b"A" * 30_000, "dkim_key_invalid", id="a huge record"),
        (b"\xff\x00p=", "dkim_key_invalid"),
    ],
)
def test_a_key_that_cannot_be_used_never_counts(record: bytes, code: str) -> None:
    assert _bad(signed(), keys(record)) == (AuthResult.PERMERROR, code)


@pytest.mark.parametrize("tag", [b"; h=sha1", b"; s=tlsrpt", b"; s=other"])
def test_a_key_for_something_else_never_counts(tag: bytes) -> None:
    assert _bad(signed(), keys(rsa_key()[1] + tag)) == (AuthResult.PERMERROR, "dkim_key_invalid")


def test_a_key_that_forbids_sub_domains_is_obeyed() -> None:
    record = rsa_key()[1] + b"; t=s"

    assert _bad(crafted({"i": "@mail.example.com"}), keys(record))[1] == "dkim_key_invalid"
    assert _only(crafted({"i": "@example.com"}), keys(record)).result is AuthResult.PASS


def test_two_keys_at_one_name_are_none() -> None:
    answers = {NAME: [rsa_key()[1], rsa_key(1024)[1]]}

    assert _bad(signed(), answers) == (AuthResult.PERMERROR, "dkim_key_invalid")


def test_no_key_and_no_answer_are_not_the_same() -> None:
    assert _bad(signed(), {NAME: []}) == (AuthResult.PERMERROR, "dkim_no_key")
    assert _bad(signed(), {}) == (AuthResult.TEMPERROR, "dkim_key_unreachable")


def test_only_the_first_signatures_are_checked() -> None:
    field = signed()[: -len(MAIL)]

    results = check_dkim(field * 400 + MAIL, keys())

    assert len(results) == MOST_SIGNATURES + 1
    assert results[-1] == DkimResult(result=AuthResult.NEUTRAL, flags=("dkim_many",))


_AT = b"\r\nTo:"


@pytest.mark.parametrize(
    ("before", "instead"),
    [
        (b"", b"\nTo:"),
        (b"", b"\rTo:"),
        (b"", b"\r\n\n\r\nTo:"),
        (b"", b"\r\nno field\r\nTo:"),
        (b"", b"\r\nFrom : eve@evil.example\r\nTo:"),
        (b"", b"\r\n\x00From: eve@evil.example\r\nTo:"),
        (b" folded before anything\r\n", _AT),
        pytest.param(b"X: y\r\n" * 2_000, _AT, id="many fields"),
        pytest.param(b"X: " + b"y" * 300_000 + b"\r\n", _AT, id="a long field"),
    ],
)
def test_a_header_that_programs_read_differently_is_not_believed(
    before: bytes, instead: bytes
) -> None:
    [result] = check_dkim(before + signed().replace(_AT, instead), keys())

    assert (result.result, result.flags) == (AuthResult.PERMERROR, ("dkim_odd_lines",))


# ---------------------------------------------------------------- hostile bytes

_SIGNED = signed()


@given(st.binary(max_size=400))
def test_no_bytes_raise(raw: bytes) -> None:
    check_dkim(raw, {})
    check_dkim(b"DKIM-Signature: " + raw, {"": [raw], NAME: [raw]})


@given(st.binary(max_size=200), st.integers(0, 2_000), st.integers(0, 40))
def test_no_damage_to_a_signed_mail_raises(noise: bytes, at: int, cut: int) -> None:
    damaged = _SIGNED[:at] + noise + _SIGNED[at + cut :]

    for result in check_dkim(damaged, keys()):
        assert set(result.flags) <= VERDICT_DETAILS.keys()


@given(st.binary(max_size=300))
def test_no_record_raises(record: bytes) -> None:
    for text in (record, b"v=DKIM1; p=" + record, b"p=" + base64.b64encode(record)):
        assert _only(_SIGNED, keys(text)).result is not AuthResult.PASS


@settings(max_examples=300)
@given(st.lists(st.sampled_from([b" ", b"\t", b"a", b"\r\n", b"\r", b"\n", b"  \r\n"])))
def test_bodies_are_put_in_form_as_dkimpy_does(pieces: list[bytes]) -> None:
    body = b"".join(pieces) + b"\r\n"
    lines = dkim.rfc822_parse(b"A: b\r\n\r\n" + body)[1]

    assert canonical_body(body, relaxed=False) == Simple.canonicalize_body(lines)
    assert canonical_body(body, relaxed=True) == Relaxed.canonicalize_body(lines)


@settings(max_examples=50, deadline=None)  # keys are made when they are first needed
@given(st.text(alphabet=" \tab\r\n.", max_size=60), st.sampled_from(["simple", "relaxed"]))
def test_what_dkimpy_signs_passes_here_and_there(text: str, form: str) -> None:
    head, _, _ = MAIL.partition(b"\r\n\r\n")
    body = b"\r\n".join(text.encode().splitlines()) + b"\r\n"
    raw = signed(head + b"\r\n\r\n" + body, forms=f"{form}/{form}")

    assert dkim.verify(raw, dnsfunc=lambda *_, **__: rsa_key()[1])
    assert _only(raw).result is AuthResult.PASS


@pytest.mark.parametrize("piece", [b" ", b"\r\n", b"\r\r\n", b" \t", b"a "])
def test_the_largest_bodies_take_steps_that_grow_with_their_size(piece: bytes) -> None:
    """dkimpy needs hours for the first of these."""
    raw = signed() + piece * 1_000_000 + b"x"

    assert _bad(raw)[1] == "dkim_body_changed"
    assert steps(lambda: _bad(raw)) < 10_000
    for relaxed in (False, True):
        small, large = (
            touched(partial(canonical_body, piece * count + b"x", relaxed=relaxed))
            for count in (10_000, 20_000)
        )
        assert large <= 2.1 * small


@pytest.mark.parametrize("gap", [b"\r\n ", b"\r\n \t", b" "])
def test_the_strangest_signatures_take_steps_that_grow_with_their_size(gap: bytes) -> None:
    def spent(tags: int) -> int:
        fields = [
            b"DKIM-Signature: v=1; a=rsa-sha256; d=example.com; s=s1; h=from; bh=AAAA; b=AAAA"
            + b"".join(b";x%d=" % tag + gap * (250 // len(gap)) for tag in range(tags))
            for _ in range(5)
        ]
        return steps(lambda: check_dkim(b"\r\n".join(fields) + b"\r\n" + MAIL, keys()))

    spent(1)
    assert spent(40) <= 2.1 * spent(20)


@pytest.mark.parametrize("strange", [b"; x=" + b" " * 256, b"; x=" + b"a" * 16 * 1024])
def test_signatures_with_long_gaps_or_of_many_bytes_are_not_read_at_all(strange: bytes) -> None:
    """The expressions that read them take their time over these."""
    raw = signed().replace(b"; d=", strange + b"; d=", 1)
    (found,) = check_dkim(raw, keys())

    assert (found.result, found.flags) == (AuthResult.PERMERROR, ("dkim_invalid",))
    assert (found.domain, found.selector) == ("", "")


# dkimpy is the oracle: the same tags, the same signed header, the same size of a key

_tag_lists = st.lists(
    st.sampled_from([b"v=1", b"b", b"=", b";", b" ", b"\r\n ", b"\x0b", b"a", b"bh", b"2", b"_x"])
).map(b"".join)
_values = st.lists(
    st.sampled_from([b"a", b"B", b" ", b"\t", b"\r\n ", b":", b"b=", b";", b"\x0c", b"\xc3\xa4"])
).map(lambda pieces: b"".join(pieces) + b"\r\n")
_names = st.sampled_from([b"from", b"From", b"FROM", b"to", b"Subject", b"x"])
_signatures = st.lists(
    st.sampled_from(
        [b"; b=", b"\r\n b", b" =", b"=", b"abc", b"+/=", b"\r\n\t", b";", b" ", b"h=b"]
    )
).map(lambda pieces: b"".join(pieces) + b"\r\n")


@given(_tag_lists)
def test_tags_are_read_as_dkimpy_reads_them(text: bytes) -> None:
    try:
        expected = parse_tag_value(text)
    except InvalidTagValueList:
        with pytest.raises(SignatureUnusable):
            parse_tags(text, "dkim_invalid")
    else:
        assert parse_tags(text, "dkim_invalid") == expected


@given(
    st.lists(st.tuples(_names, _values)), st.lists(_names.map(bytes.lower)), _signatures,
    st.booleans(),
)  # fmt: skip
def test_the_signed_header_is_that_of_dkimpy(
    fields: list[tuple[bytes, bytes]], names: list[bytes], signature: bytes, relaxed: bool
) -> None:
    policy = CanonicalizationPolicy.from_c_value(b"relaxed" if relaxed else b"simple")
    field = (b"DKIM-Signature", signature)
    expected = hashlib.sha256()
    dkim.hash_headers(expected, policy, policy.canonicalize_headers(fields), names, field, {})

    assert header_digest(fields, names, field, relaxed=relaxed) == expected.digest()


@pytest.mark.parametrize("bits", [1024, 2048])
@pytest.mark.parametrize("form", [PublicFormat.SubjectPublicKeyInfo, PublicFormat.PKCS1])
def test_the_size_of_a_key_is_that_of_dkimpy(bits: int, form: PublicFormat) -> None:
    public = load_pem_private_key(rsa_key(bits)[0], None).public_key()
    encoded = public.public_bytes(Encoding.DER, form)

    assert rsa_bits(encoded) == parse_public_key(encoded)["modulus"].bit_length() == bits
    for end in range(len(encoded)):
        with pytest.raises(SignatureUnusable):
            rsa_bits(encoded[:end])
