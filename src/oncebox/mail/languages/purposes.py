"""Purpose of a mail (signup, login, reset, invite), found by the words of many languages.

The subject decides; if it names no purpose, the one that the text names first. Generic words, such
as "your verification code", name none: the purpose is unclear.
"""

import functools
import re

import msgspec

from oncebox.mail.languages.folding import fold_phrases, fold_words
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
#: of purposes that are named together, the one that wins: "confirm your sign-in" is a login
_RANKS = {Purpose.RESET: 0, Purpose.INVITE: 1, Purpose.LOGIN: 2, Purpose.SIGNUP: 3}
#: characters between words that are named together
_TOGETHER = 14

_Stems = list[tuple[str, Purpose]]
#: a phrase, the words and beginnings of words that a text must have before it is searched for
_Phrases = list[tuple[str, frozenset[str], frozenset[str], Purpose]]


class _StemIndex(msgspec.Struct, frozen=True):
    """The stems of all languages, by what is looked up for each word of a text."""

    #: beginnings of words, by their first letters
    beginnings: dict[str, _Stems]
    #: phrases, and words that must be whole, by their first word
    phrases: dict[str, _Phrases]
    #: stems that may be inside a word, and those of them in ASCII, which are single words
    anywhere: _Stems
    anywhere_ascii: _Stems
    #: generic phrases that contain a stem, such as "one-time password"
    generic: list[str]


def find_purposes(subject: str, text: str) -> tuple[Purpose, ...]:
    """Return the purpose that subject or text name; empty if it is unclear."""
    return _named_first(subject) or _named_first(text[:_LONGEST_TEXT])


def _named_first(text: str) -> tuple[Purpose, ...]:
    """Return the purpose that a text names first."""
    # The lines of tables and quotations repeat; a word is looked up once.
    unique = set(fold_words("\n".join(dict.fromkeys(text.split("\n")))))
    index = _stem_index()
    stems = [*_beginning_words(index, unique), *_possible_phrases(index, unique)]
    if not stems:
        return ()
    folded = f" {fold_phrases(text)} "
    for phrase in index.generic:
        if phrase in folded:
            folded = folded.replace(phrase, " " * len(phrase))
    places: dict[Purpose, int] = {}
    for stem, purpose in stems:
        at = folded.find(stem)
        if at >= 0:
            places[purpose] = min(at, places.get(purpose, at))
    if not places:
        return ()
    first = min(places.values())
    together = [purpose for purpose, at in places.items() if at - first <= _TOGETHER]
    return (min(together, key=_RANKS.__getitem__),)


def _beginning_words(index: _StemIndex, unique: set[str]) -> _Stems:
    """Return the stems with which a word begins."""
    found: _Stems = []
    beginnings = index.beginnings
    for word in unique:
        if (stems := beginnings.get(word[:_KEY])) is not None:
            found += [(f" {stem}", purpose) for stem, purpose in stems if word.startswith(stem)]
    return found


def _possible_phrases(index: _StemIndex, unique: set[str]) -> _Stems:
    """Return the phrases of which every word occurs, and the stems that may be inside a word."""
    keys = {word[:_KEY] for word in unique}
    found = [
        (phrase, purpose)
        for first in index.phrases.keys() & unique
        for phrase, required, last, purpose in index.phrases[first]
        if last <= keys and required <= unique
    ]
    distinct = " ".join(unique)
    if distinct.isascii():
        return found + [each for each in index.anywhere_ascii if each[0] in distinct]
    return found + index.anywhere


@functools.cache
def _stem_index() -> _StemIndex:
    index = _StemIndex({}, {}, [], [], [])
    tables = [each.purpose for each in load_languages().values() if each.purpose is not None]
    every: set[str] = set()
    for table in tables:
        for purpose in _RANKS:
            for written in getattr(table, purpose.value):
                words = fold_words(written)
                every.add(" ".join(words))
                _add_stem(index, words, purpose)
    for table in tables:
        for phrase in (" ".join(fold_words(written)) for written in table.unclear):
            if any(stem in phrase for stem in every):
                index.generic.append(phrase)
    return index


def _add_stem(index: _StemIndex, words: list[str], purpose: Purpose) -> None:
    stem = " ".join(words)
    whole = len(stem) <= _WHOLE_WORD_LENGTH
    if not _SPACED_SCRIPTS.match(stem):
        index.anywhere.append((stem, purpose))
        if stem.isascii():
            index.anywhere_ascii.append((stem, purpose))
    elif len(words) > 1 or whole:
        # The last word may go on in the text, unless the stem is short.
        phrase, required = (f" {stem} ", words) if whole else (f" {stem}", words[:-1])
        last = frozenset() if whole or len(words[-1]) < _KEY else frozenset({words[-1][:_KEY]})
        index.phrases.setdefault(words[0], []).append((phrase, frozenset(required), last, purpose))
    else:
        index.beginnings.setdefault(stem[:_KEY], []).append((stem, purpose))
