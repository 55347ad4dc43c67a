"""Codes in hostile mail: nothing that is not there, never an error, in bounded time."""

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from oncebox.mail.codes import code_finder
from oncebox.mail.html.layout import plain_page
from oncebox.mail.languages import folding
from tests.mail.code_pages import marked
from tests.support.steps import steps

#: as much as is looked at
_MUCH = 256 * 1024
_PIECES = st.sampled_from([
    "code", "Your code is", "482913", "482 913", "CXHZ-GVDB", "R4TX9K", "4 8 2 9", "\n", "\n\n",
    " ", ":", "-", "\u200b", "\u00ad", "\u202e", "\u202c", "٤٨٢٩", "\uff14\uff18", "验证码",
    "order", "$", "#", "@", "https://a.example/", "brave-otter-lamp", "\u0130", "ß", "\ud800",
    "\x00", "<b>", "</b>", "<td>", "&shy;",
])  # fmt: skip
_TEXTS = st.one_of(st.text(max_size=300), st.lists(_PIECES, max_size=60).map("".join))


def _shown(text: str) -> str:
    """Return a text as codes are written: what anybody sees of it, without what is between."""
    visible = re.sub(r"[\W_]+", "", folding.fold_digits(text))
    return "".join(character for character in visible if character.isascii())


@given(subject=_TEXTS, text=_TEXTS, markup=_TEXTS)
def test_no_value_is_found_that_is_not_in_the_mail(subject: str, text: str, markup: str) -> None:
    pages = [plain_page(text), marked(markup)]
    places = {"subject": subject.replace("\n", " "), "plain": text, "html": pages[1].text}
    for candidate in code_finder.find_codes(subject, pages).ranked:
        place = places[candidate.where]
        assert place[candidate.start : candidate.end] == candidate.shown
        assert candidate.value.replace("-", "") in _shown(candidate.shown)
        assert candidate.value.isascii()


@given(subject=_TEXTS, text=_TEXTS)
def test_what_is_found_is_bounded_and_ordered(subject: str, text: str) -> None:
    found = code_finder.find_codes(subject, [plain_page(text)] * 3)

    assert len(found.ranked) <= 20
    scores = [candidate.score for candidate in found.ranked]
    assert scores == sorted(scores, reverse=True) or found.tied
    assert found.best is None or (found.best == found.ranked[0] and not found.tied)


_HOSTILE = {
    "digits": "7" * _MUCH,
    "digits of an amount": "7" * (_MUCH - 2) + ".7",
    "numbers": "482913 " * (_MUCH // 7),
    "lines of numbers": "482913\n" * (_MUCH // 7),
    "codes": "".join(f"Your code is {number:06d}\n" for number in range(_MUCH // 20)),
    "digits apart": "4 " * (_MUCH // 2),
    "zero-width": "\u200b" * _MUCH,
    "zero-width between": "4\u200b" * (_MUCH // 2),
    "letters": "a" * _MUCH,
    "capitals": "A" * _MUCH,
    "words in capitals": "ABCDEF " * (_MUCH // 7),
    "hyphens": "A-" * (_MUCH // 2),
    "groups": "ABCD-" * (_MUCH // 5),
    "spaces": " " * _MUCH,
    "lines": "\n" * _MUCH,
    "words for codes": "code " * (_MUCH // 5),
    "Chinese words for codes": "验证码" * (_MUCH // 3),
    "addresses": "http://x/" * (_MUCH // 9),
    "quotations": "> 482913\n" * (_MUCH // 9),
    "overrides": "\u202e482913 " * (_MUCH // 8),
    "phrases": "amber-lantern " * (_MUCH // 14),
}


@pytest.mark.parametrize("name", _HOSTILE)
def test_twice_the_text_takes_at_most_twice_the_steps(name: str) -> None:
    text = _HOSTILE[name]
    # Blocks are the reader's own; they are made before and counted elsewhere.
    half, whole = plain_page(text[: len(text) // 2]), plain_page(text)
    code_finder.find_codes("", [half])
    small = steps(lambda: code_finder.find_codes("", [half]))
    large = steps(lambda: code_finder.find_codes("", [whole]))

    assert large <= 2 * small + 1_000
    assert large < 500_000


def test_a_mebibyte_of_digits_is_no_code_and_no_work() -> None:
    page = plain_page("7" * (1 << 20))

    assert code_finder.find_codes("Your code", [page]).ranked == ()
    assert steps(lambda: code_finder.find_codes("Your code", [page])) < 2_000
