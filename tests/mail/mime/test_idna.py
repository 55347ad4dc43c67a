"""Names: one spelling for one domain."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from oncebox.mail.mime.addresses import ascii_domain


@pytest.mark.parametrize(
    ("text", "name"),
    [
        ("Example.COM", "example.com"),
        ("example.com.", "example.com"),
        ("bücher.example", "xn--bcher-kva.example"),
        ("BÜCHER.example", "xn--bcher-kva.example"),
        ("xn--bcher-kva.example", "xn--bcher-kva.example"),
        ("_dmarc.example.com", "_dmarc.example.com"),
        ("localhost", "localhost"),
    ],
)
def test_a_domain_has_one_spelling(text: str, name: str) -> None:
    assert ascii_domain(text) == name


@pytest.mark.parametrize(
    "text",
    [
        "", ".", "..", "a..b", ".a", "-a.example", "a-.example", "a b.example", "a\x00.example",
        "a\n.example", "[127.0.0.1]", "a@b", "a/b", "\\097.example", "🂡" * 70 + ".example",
        pytest.param("a" * 64 + ".example", id="long label"),
        pytest.param("a." * 127 + "example", id="long name"),
        pytest.param("é" * 100_000, id="very long name"),
    ],
)  # fmt: skip
def test_what_is_no_domain_has_none(text: str) -> None:
    assert ascii_domain(text) == ""


@given(st.text(max_size=80))
def test_a_spelling_is_final(text: str) -> None:
    name = ascii_domain(text)

    assert ascii_domain(name) == name
    assert name.isascii()
