"""Code words: found inside of others, languages detected, and folding that keeps offsets."""

import sys
import unicodedata

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from oncebox.mail.codes import lexicon
from oncebox.mail.codes.lexicon import Sense
from oncebox.mail.languages import folding
from oncebox.mail.languages.tables import load_languages
from tests.mail.samples.with_code import WITH_CODE
from tests.mail.samples.without_code import WITHOUT_CODE

_WORDS = lexicon.standard_lexicon()
_LANGUAGES = {tag for tag, language in load_languages().items() if language.code}
_TEXTS = [(sample[0], f"{sample[1]} {sample[2]}") for sample in (*WITH_CODE, *WITHOUT_CODE)]


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
    plain = folding.fold_same_length(text)
    german = _WORDS.vocabularies(lexicon.DetectedLanguages(("de",), certain=True))
    hits = german.hits(plain, 0, len(plain))

    assert [hit.sense for hit in hits] == senses


def test_most_texts_are_known_by_their_language() -> None:
    spelled = {"pt-BR": "pt", "zh-TW": "zh"}
    texts = [(spelled.get(name, name), text) for name, text in _TEXTS]
    known = [(name, text) for name, text in texts if name in _LANGUAGES]
    told = [
        name in _WORDS.detect_languages(folding.fold_same_length(text)).names
        for name, text in known
    ]

    assert sum(told) >= 0.75 * len(told)


def test_languages_with_equal_counts_are_ordered_by_tag() -> None:
    english = load_languages()["en"]
    tags = ("cc", "hh", "aa", "gg", "bb", "ff", "dd", "ee")
    words = lexicon.Lexicon({
        tag: msgspec.structs.replace(english, frequent=(f"uno{tag}", f"due{tag}")) for tag in tags
    })  # fmt: skip
    text = " ".join(f"uno{tag} due{tag}" for tag in reversed(tags))

    # The words are counted in the order of a set, which changes with PYTHONHASHSEED.
    assert words.detect_languages(text).names == ("aa", "bb", "cc", "dd")


def test_no_language_is_certain_that_has_no_table() -> None:
    for name, text in _TEXTS:
        if name not in _LANGUAGES and "-" not in name:
            assert not _WORDS.detect_languages(folding.fold_same_length(text)).certain


def test_every_decimal_digit_becomes_ascii() -> None:
    for number in range(sys.maxunicode + 1):
        character = chr(number)
        value = unicodedata.decimal(character, None)
        if value is not None:
            assert folding.fold_digits(character) == str(value)


@given(st.text())
def test_folding_keeps_every_place(text: str) -> None:
    assert len(folding.fold_same_length(text)) == len(text)
    assert len(folding.fold_digits(text)) == len(text)
