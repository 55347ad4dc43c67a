"""Arrivals: what may come in is checked before anything is stored."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from oncebox.errors import BodyTooLarge, HeaderInvalid, KeyInvalid
from oncebox.model.validation import (
    check_body,
    check_headers,
    check_key,
    check_source_name,
    check_type,
)

anything = st.text(st.characters(), max_size=20)


@given(anything)
def test_a_key_that_passes_is_plain_text(key: str) -> None:
    try:
        check_key(key)
    except KeyInvalid:
        return

    assert 1 <= len(key) <= 512
    assert "\0" not in key
    assert len(key.splitlines()) == 1
    assert key.encode().decode() == key


@pytest.mark.parametrize("key", ["a", "x" * 512, "ü", "\U0001f4e6", " ", "a b", "\u202e", "\\0"])
def test_plain_keys_pass(key: str) -> None:
    check_key(key)


@pytest.mark.parametrize(
    "key",
    ["", "x" * 513, "\0", "\n", "a\r", "\x1b[31m", "\x7f", "\x80", "\x9f", "\u2028", "\udfff"],
)
def test_other_keys_are_refused(key: str) -> None:
    with pytest.raises(KeyInvalid):
        check_key(key)


def test_a_refusal_says_what_it_is_about_and_never_quotes_it() -> None:
    with pytest.raises(KeyInvalid, match="the order key") as caught:
        check_key("secret\n", "order key")

    assert "secret" not in str(caught.value)


@pytest.mark.parametrize("source", ["stripe", "a", "0", "my.shop:eu/2-b_c", "a" * 100])
def test_a_source_is_a_simple_name(source: str) -> None:
    check_source_name(source)


@pytest.mark.parametrize(
    "source", ["", " a", "a b", "a\n", "-a", ".a", "/a", "é", "a" * 101, "a\0", "*"]
)
def test_other_sources_are_refused(source: str) -> None:
    with pytest.raises(KeyInvalid):
        check_source_name(source)


def test_no_type_is_a_type() -> None:
    check_type("")
    check_type("invoice.paid")
    with pytest.raises(KeyInvalid):
        check_type("a\nb")


@given(st.lists(st.tuples(anything, anything), max_size=5))
def test_headers_that_pass_are_unchanged_and_cannot_be_split(
    headers: list[tuple[str, str]],
) -> None:
    try:
        kept = check_headers(headers, count=5, size=1_000)
    except HeaderInvalid:
        return

    assert list(kept) == headers
    for name, value in kept:
        assert name
        assert not set(name + value) & set("\r\n\0")
        assert ":" not in name


def test_headers_are_counted_and_measured_exactly() -> None:
    assert len(check_headers([("a", "b")] * 3, count=3, size=6)) == 3
    with pytest.raises(HeaderInvalid, match="at most 2"):
        check_headers([("a", "b")] * 3, count=2, size=6)
    with pytest.raises(HeaderInvalid, match="over 5 bytes"):
        check_headers([("a", "b")] * 3, count=3, size=5)


def test_a_tab_in_a_header_is_allowed() -> None:
    assert check_headers([("a", "b\tc")], count=1, size=10) == (("a", "b\tc"),)


def test_a_body_is_measured_exactly() -> None:
    check_body(b"123", limit=3)
    with pytest.raises(BodyTooLarge, match="4 bytes; the limit is 3"):
        check_body(b"1234", limit=3)
