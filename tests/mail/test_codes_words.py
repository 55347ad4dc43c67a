"""Words: well-formed tables, languages that are told apart, and folding that keeps places."""

import sys
import unicodedata

import pytest
from hypothesis import given
from hypothesis import strategies as st

from oncebox.mail import codes_folding, codes_lexicon
from oncebox.mail.codes_lexicon import LANGUAGES, Sense, split
from tests.mail.samples.with_code import WITH_CODE
from tests.mail.samples.without_code import WITHOUT_CODE

_WORDS = codes_lexicon.standard()
_TEXTS = [(sample[0], f"{sample[1]} {sample[2]}") for sample in (*WITH_CODE, *WITHOUT_CODE)]


@pytest.mark.parametrize("language", LANGUAGES)
def test_every_language_has_words_of_every_kind(language: str) -> None:
    words = LANGUAGES[language]
    for field in ("code", "purpose", "ask", "limit", "other", "gift", "standing", "common"):
        found = list(split(getattr(words, field)))
        assert found, field
        assert all(word == codes_folding.plain(word) for word in found)


@pytest.mark.parametrize(
    ("text", "senses"),
    [
        ("Your verification code", [Sense.PURPOSE, Sense.CODE]),
        ("discount code", [Sense.GIFT, Sense.CODE]),
        ("your barcode, unicode and postcode", [Sense.OTHER] * 3),
        ("Dein Bestätigungscode und das Passwort", [Sense.PURPOSE, Sense.CODE, Sense.STANDING]),
    ],
)
def test_words_are_found_inside_of_others(text: str, senses: list[Sense]) -> None:
    plain = codes_folding.plain(text)
    hits = _WORDS.hits(plain, 0, len(plain), codes_lexicon.Tongues(("de",), sure=True))

    assert [hit.sense for hit in hits] == senses


def test_most_texts_are_known_by_their_language() -> None:
    spelled = {"pt-BR": "pt", "zh-TW": "zh"}
    texts = [(spelled.get(name, name), text) for name, text in _TEXTS]
    known = [(name, text) for name, text in texts if name in LANGUAGES]
    told = [name in _WORDS.languages(codes_folding.plain(text)).names for name, text in known]

    assert sum(told) >= 0.75 * len(told)


def test_no_language_is_certain_that_has_no_table() -> None:
    for name, text in _TEXTS:
        if name not in LANGUAGES and "-" not in name:
            assert not _WORDS.languages(codes_folding.plain(text)).sure


def test_every_decimal_digit_becomes_ascii() -> None:
    for number in range(sys.maxunicode + 1):
        character = chr(number)
        value = unicodedata.decimal(character, None)
        if value is not None:
            assert codes_folding.digits(character) == str(value)


@given(st.text())
def test_folding_keeps_every_place(text: str) -> None:
    assert len(codes_folding.plain(text)) == len(text)
    assert len(codes_folding.digits(text)) == len(text)
