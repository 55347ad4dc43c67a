"""Patterns of subjects: stars and question marks, in steps that grow with the text alone."""

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from oncebox.model.inboxes.wait_filter import matches_wildcard
from tests.support.steps import steps


@pytest.mark.parametrize(
    ("pattern", "text", "fitting"),
    [
        ("Verify your email", "verify YOUR email", True),
        ("verify", "please verify", False),
        ("*verify*", "please verify your email", True),
        ("code ??????", "Code 123456", True),
        ("code ??????", "Code 12345", False),
        ("*", "", True),
        ("**", "anything", True),
        ("?", "", False),
        ("", "", True),
        ("a*", "ba", False),
        ("*[0-9]*", "7", False),
        ("Über*", "ÜBERPRÜFEN", True),
    ],
)
def test_a_pattern_describes_the_whole_text(pattern: str, text: str, *, fitting: bool) -> None:
    assert matches_wildcard(pattern, text) is fitting


@given(st.text("ab*?", max_size=8), st.text("ab*?", max_size=10))
def test_it_agrees_with_regular_expressions(pattern: str, text: str) -> None:
    words = {"*": ".*", "?": "."}
    expression = "".join(words.get(each, re.escape(each)) for each in pattern)

    assert matches_wildcard(pattern, text) is bool(re.fullmatch(expression, text, re.DOTALL))


def test_no_pattern_takes_more_than_a_few_steps_for_each_character() -> None:
    """What makes a backtracking matcher go on for ever takes as long as anything else."""
    text = "a" * 2_000 + "b"

    assert not matches_wildcard("*a" * 100, text)
    assert steps(lambda: matches_wildcard("*a" * 100, text)) <= 5 * len(text) + 1_000
