"""A canary that is hidden is found: otherwise that none is found says nothing."""

import base64

import pytest

from tests.support.canary import forms

WORD = "7QX2ZK93VW"


@pytest.mark.parametrize("before", ["", "a", "ab", "abc", "abcd"])
@pytest.mark.parametrize("spell", [str.encode, lambda it: base64.b64encode(it.encode())])
def test_a_word_is_found_wherever_it_begins(spell: object, before: str) -> None:
    content = spell(f"{before}{WORD} and more")  # type: ignore[operator]

    assert any(each in content for each in forms(WORD))
    assert not any(each in content for each in forms("8QX2ZK93VX"))


def test_no_form_is_so_short_that_chance_would_find_it() -> None:
    assert min(map(len, forms(WORD))) >= len(WORD)
