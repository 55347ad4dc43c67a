"""Word tables: every file is complete, sorted, free of duplicates, and documented."""

import re
import tomllib
from collections.abc import Callable, Iterator
from importlib import resources
from typing import Any, get_type_hints

import msgspec
import pytest

from oncebox.mail.codes import lexicon
from oncebox.mail.codes.lexicon import DetectedLanguages, Sense
from oncebox.mail.languages import folding, tables
from oncebox.mail.languages.tables import (
    CodeWords,
    Language,
    LinkWords,
    PurposeWords,
    load_languages,
)
from oncebox.mail.links import meaning
from oncebox.mail.links.meaning import LinkMeaning

FILES = {
    file.name.removesuffix(".toml"): file.read_text("utf-8")
    for file in resources.files(tables.__package__).iterdir()
    if file.name.endswith(".toml")
}
SECTIONS: dict[str, tuple[type[msgspec.Struct], Callable[[str], str]]] = {
    "": (Language, folding.fold_same_length),
    "code": (CodeWords, folding.fold_same_length),
    "link": (LinkWords, folding.fold_text),
    "purpose": (PurposeWords, lambda word: " ".join(folding.fold_words(word))),
}
KEY = re.compile(r"(\w+) = ")
#: the lists of code words by their sense
SENSES = {
    Sense.CODE: "name",
    Sense.PURPOSE: "purpose",
    Sense.ASK: "instruction",
    Sense.LIMIT: "validity",
    Sense.OTHER: "other_number",
    Sense.GIFT: "voucher",
    Sense.STANDING: "password",
    Sense.EVENT: "event",
}
_NO_CODE = frozenset({Sense.OTHER, Sense.GIFT, Sense.STANDING, Sense.EVENT})

every_language = pytest.mark.parametrize("tag", sorted(FILES))


def lists(tag: str) -> Iterator[tuple[str, str, list[str]]]:
    """Yield section, key and words of a file."""
    document = tomllib.loads(FILES[tag])
    for section in SECTIONS:
        for key, words in (document.get(section, {}) if section else document).items():
            if isinstance(words, list):
                yield section, key, words


def descriptions(section: type[msgspec.Struct]) -> dict[str, str]:
    """Return what each key of a section is for."""
    hints: dict[str, Any] = get_type_hints(section, include_extras=True)
    return {
        key: hint.__metadata__[0].description
        for key, hint in hints.items()
        if hasattr(hint, "__metadata__")
    }


def test_every_file_is_loaded_in_the_order_of_tags() -> None:
    assert list(load_languages()) == sorted(FILES)
    assert len(FILES) > 90
    assert len({language.name for language in load_languages().values()}) == len(FILES)


@every_language
def test_words_are_sorted_and_none_is_empty(tag: str) -> None:
    assert re.fullmatch("[a-z]{2,3}", tag)
    for section, key, words in lists(tag):
        expected = sorted(words, key=lambda word: (word.lstrip("=~"), word))
        assert words == expected, f"{tag}.toml [{section}] {key}: expected order {expected}"
        assert all(word.strip(" =~") for word in words)


@every_language
def test_no_word_is_listed_twice(tag: str) -> None:
    for section, key, words in lists(tag):
        folded = [SECTIONS[section][1](word) for word in words]
        twice = {word for word in folded if folded.count(word) > 1}
        assert not twice, f"{tag}.toml [{section}] {key}"


@every_language
def test_every_key_is_documented(tag: str) -> None:
    section = ""
    lines = FILES[tag].splitlines()
    for before, line in zip(["", *lines], lines, strict=False):
        if line.startswith("["):
            section = line.strip("[]")
            assert before.startswith("# ")
        elif match := KEY.match(line):
            assert before == f"# {descriptions(SECTIONS[section][0])[match[1]]}"


@every_language
def test_code_words_of_every_kind_are_there(tag: str) -> None:
    language = load_languages()[tag]
    if language.code is not None:
        assert language.frequent
        assert all(getattr(language.code, key) for key in set(descriptions(CodeWords)) - {"event"})


_AGAINST = (
    LinkMeaning.REFUSAL
    | LinkMeaning.IF_NOT_YOU
    | LinkMeaning.OTHER_PURPOSE
    | LinkMeaning.OTHER_LABEL
)


@every_language
def test_no_word_against_a_link_is_found_in_a_phrase_for_one(tag: str) -> None:
    """Links are read with the words of all languages: "пожалова…" is in "добро пожаловать"."""
    language = load_languages()[tag]
    phrases = [
        phrase
        for section, keys in (
            (language.link, ("action",)),
            (language.purpose, ("signup", "login", "reset", "invite")),
        )
        for key in keys
        for phrase in getattr(section, key, ())
    ]

    assert not {phrase for phrase in phrases if meaning.text_meaning(phrase) & _AGAINST}


@every_language
def test_no_code_word_hides_another(tag: str) -> None:
    """A word of one list must not be read as one of another list."""
    language = load_languages()[tag]
    words = lexicon.standard_lexicon().vocabularies(DetectedLanguages((tag,), certain=True))
    if language.code is None:
        return
    senses: dict[str, set[Sense]] = {}
    for sense, key in SENSES.items():
        for written in getattr(language.code, key):
            word = folding.fold_same_length(written.lstrip("=~"))
            senses.setdefault(word, set()).update(_NO_CODE if sense in _NO_CODE else {sense})
    hidden = {
        word
        for word, own in senses.items()
        if own.isdisjoint(hit.sense for hit in words.hits(word, 0, len(word)))
    }
    assert not hidden


def test_an_unknown_key_is_refused() -> None:
    with pytest.raises(msgspec.ValidationError):
        msgspec.convert({"name": "German", "link": {"actions": ["bestatig"]}}, Language)
