"""Excerpts: short, nothing invisible, no links, and nothing else is looked at."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from oncebox.mail.excerpt import LONGEST_EXCERPT, excerpt, html_excerpt, one_line


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("Your code is 123456.", "Your code is 123456."),
        ("go to https://a.example/x?y=1 now", "go to [link 1: blocked] now"),
        ("HTTPS://A.EXAMPLE", "[link 1: blocked]"),
        ("two http://a.b/ and ftp://c.d", "two [link 1: blocked] and [link 2: blocked]"),
        ("[text](https://a.b/c)", "[text]([link 1: blocked]"),
        ("www.example.com", "[link 1: blocked]"),
        ("example.com/path", "[link 1: blocked]"),
        ("mailto:a@b.c", "[link 1: blocked]"),
        ("javascript:alert(1)", "[link 1: blocked]"),
        ("htt\u200bps://evil.example", "[link 1: blocked]"),
        ("a\u202eb\u2066c\ufe0fd\U000e0041e\x1bf", "abcdef"),
        ("line one\nline two\ttabbed", "line one\nline two\ttabbed"),
    ],
)
def test_links_and_invisible_characters_go(text: str, shown: str) -> None:
    assert excerpt(text).text == shown


def test_what_was_taken_out_is_counted() -> None:
    found = excerpt("a\u200b\u200bb https://x.y https://z.w")

    assert (found.removed, found.links, found.cut) == (2, 2, False)


def test_a_long_text_is_cut_and_says_so() -> None:
    found = excerpt("x" * 5_000)

    assert (len(found.text), found.cut) == (LONGEST_EXCERPT, True)


@given(st.text())
def test_nothing_is_longer_than_it_may_be_and_a_line_is_a_line(text: str) -> None:
    assert len(excerpt(text).text) <= LONGEST_EXCERPT
    assert "\n" not in one_line(text)


@pytest.mark.parametrize("text", ["a." * 600_000, "a" * 1_000_000, "a:/" * 400_000, "-." * 500_000])
def test_only_the_beginning_of_a_long_text_is_looked_at(text: str) -> None:
    assert excerpt(text) == excerpt(text[: 64 * 1024] + "\u200b www.example.com")


@pytest.mark.parametrize(
    "hidden",
    [
        "https://evil.example/x",
        "&#104;&#116;&#116;&#112;&#115;&#58;&#47;&#47;evil.example",
        "&#x68;ttps&colon;&sol;&sol;evil&period;example&sol;x",
        "https&#58//evil.example",
    ],
)
def test_character_references_hide_no_link_in_html(hidden: str) -> None:
    found = html_excerpt(f'<a href="{hidden}">a &lt; b &amp; c</a>')

    assert found.text == '<a href="[link 1: blocked]">a &lt; b &amp; c</a>'


def test_html_is_cut_and_says_so() -> None:
    found = html_excerpt("<p>" + "x" * 100_000)

    assert (len(found.text), found.cut) == (65_536, True)
