"""Spots: where patterns are asked is where they match, and nowhere is left out."""

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from oncebox.mail.codes import shapes
from oncebox.mail.codes.shapes import MatchPositions

_PATTERNS = {
    "words": shapes._WORD_WITH_DIGIT,
    "digits": shapes._GROUPS,
    "singles": shapes._SINGLES,
    "dashed": shapes._DASHED,
    "capitals": shapes._CAPITALS,
}
_SHORT = re.compile("[0-9]{1,3}")
_PIECES = st.sampled_from([
    "a", "Z", "1", "9", " ", "-", "\n", "|", "+", "(", ")", ".", "/", "'", "\u200b", "\u2010",
    "\u2013", "\u00a0", "\u2019", "é", "中", "_", "@", "  ", "OTP-", "123 456", "4 8 2 9", "AB12",
    "ABCD", "\u00ad", "+49 (30) 123 456", "12", "1234", "5678.90", ",", ":", "\\",
])  # fmt: skip


@pytest.mark.parametrize("name", _PATTERNS)
@given(text=st.lists(_PIECES, max_size=40).map("".join) | st.text(max_size=80))
def test_a_pattern_asked_at_its_spots_finds_what_it_finds_everywhere(name: str, text: str) -> None:
    pattern = _PATTERNS[name]
    asked = [
        match.span()
        for match in shapes._bounded_matches(pattern, text, getattr(MatchPositions(text), name))
    ]

    # A number of three digits is no code, so nobody asks there.
    everywhere = [match for match in pattern.finditer(text) if not _SHORT.fullmatch(match[0])]
    assert asked == [match.span() for match in everywhere]
