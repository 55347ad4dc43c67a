"""Readability: whether letters may be a word of some language, or are random.

The word tables hold words of all languages. Most sequences of three letters in a word occur in
these tables too; of random letters, few do.
"""

import functools
import re
from collections.abc import Iterator

from oncebox.mail.languages.folding import fold_text
from oncebox.mail.languages.tables import Language, load_languages

_LATIN_WORD = re.compile("[a-z]+")
_LENGTH = 3
#: known sequences in ten
_KNOWN_IN_TEN = 6
_VOWELS = frozenset("aeiouy")
#: letters that are examined
_LONGEST = 64


@functools.lru_cache(maxsize=256)
def is_readable(word: str) -> bool:
    """Say whether letters without accents may be a word; an abbreviation is none."""
    folded = word[:_LONGEST].lower()
    if _VOWELS.isdisjoint(folded):
        return False
    known = _known_sequences()
    sequences = [folded[at : at + _LENGTH] for at in range(len(folded) - _LENGTH + 1)]
    return sum(map(known.__contains__, sequences)) * 10 >= len(sequences) * _KNOWN_IN_TEN


@functools.cache
def _known_sequences() -> frozenset[str]:
    return frozenset(
        word[at : at + _LENGTH]
        for language in load_languages().values()
        for word in _latin_words(language)
        for at in range(len(word) - _LENGTH + 1)
    )


def _latin_words(language: Language) -> Iterator[str]:
    """Yield the words of a language that are written in Latin letters, without accents."""
    lists = [language.frequent]
    for section in (language.code, language.link, language.purpose):
        if section is not None:
            lists += [getattr(section, key) for key in section.__struct_fields__]
    for words in lists:
        yield from _LATIN_WORD.findall(fold_text(" ".join(words)))
