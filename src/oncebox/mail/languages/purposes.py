"""Purposes of a mail (signup, login, reset, invite), found by the words of many languages."""

import functools
import re

import msgspec

from oncebox.mail.languages.folding import fold_words
from oncebox.mail.languages.tables import load_languages
from oncebox.model.inboxes.purpose import Purpose

#: letters of scripts with spaces between words; a stem in one of them begins a word
_SPACED_SCRIPTS = re.compile("[a-z\u00df-\u024f\u0370-\u058f\u10d0-\u10ff]")
#: a stem of up to so many letters is a whole word
_WHOLE_WORD_LENGTH = 4
#: letters of a word by which stems are indexed
_KEY = 3
#: characters of a text that are searched
_LONGEST_TEXT = 256 * 1024

_Stems = list[tuple[str, Purpose]]
#: a phrase, the words of it that a text must have before it is searched for, and its purpose
_Phrases = list[tuple[str, frozenset[str], Purpose]]


class _StemIndex(msgspec.Struct, frozen=True):
    """The stems of all languages, by what is looked up for each word of a text."""

    #: beginnings of words, by their first letters
    beginnings: dict[str, _Stems]
    #: phrases, and words that must be whole, by their first word
    phrases: dict[str, _Phrases]
    #: stems that may be inside a word
    anywhere: _Stems


def find_purposes(subject: str, text: str) -> tuple[Purpose, ...]:
    """Return the purposes named by subject and text, sorted; there may be several or none."""
    words = fold_words(f"{subject}\n{text[:_LONGEST_TEXT]}")
    folded = f" {' '.join(words)} "
    index = _stem_index()
    found: set[Purpose] = set()
    unique = set(words)
    for word in unique:
        for stem, purpose in index.beginnings.get(word[:_KEY], ()):
            if word.startswith(stem):
                found.add(purpose)
        for phrase, required, purpose in index.phrases.get(word, ()):
            if purpose not in found and required <= unique and phrase in folded:
                found.add(purpose)
    ascii_only = folded.isascii()
    for stem, purpose in index.anywhere:
        if purpose not in found and stem.isascii() >= ascii_only and stem in folded:
            found.add(purpose)
    return tuple(sorted(found))


@functools.cache
def _stem_index() -> _StemIndex:
    index = _StemIndex({}, {}, [])
    for language in load_languages().values():
        for purpose in set(Purpose) - {Purpose.ANY}:
            for written in getattr(language.purpose, purpose.value, ()):
                _add_stem(index, fold_words(written), purpose)
    return index


def _add_stem(index: _StemIndex, words: list[str], purpose: Purpose) -> None:
    stem = " ".join(words)
    whole = len(stem) <= _WHOLE_WORD_LENGTH
    if not _SPACED_SCRIPTS.match(stem):
        index.anywhere.append((stem, purpose))
    elif len(words) > 1 or whole:
        # The last word may go on in the text, unless the stem is short.
        phrase, required = (f" {stem} ", words) if whole else (f" {stem}", words[:-1])
        index.phrases.setdefault(words[0], []).append((phrase, frozenset(required), purpose))
    else:
        index.beginnings.setdefault(stem[:_KEY], []).append((stem, purpose))
