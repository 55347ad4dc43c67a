"""The lexicon: the tables of all languages made into one pattern that is matched in one pass."""

import functools
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from enum import StrEnum

import msgspec

from oncebox.mail import codes_folding
from oncebox.mail.codewords import (
    baltic_finnic,
    east_asian,
    english,
    germanic,
    indic,
    right_to_left,
    romance,
    slavic,
    southeast_asian,
    turkic,
)
from oncebox.mail.codewords.words import Words

LANGUAGES: Mapping[str, Words] = {
    language: words
    for room in (
        english,
        germanic,
        romance,
        slavic,
        baltic_finnic,
        turkic,
        right_to_left,
        indic,
        east_asian,
        southeast_asian,
    )
    for language, words in room.TABLE.items()
}


class Sense(StrEnum):
    """What a word says of a number near it."""

    CODE = "code"
    PURPOSE = "purpose"
    ASK = "ask"
    LIMIT = "limit"
    OTHER = "other"
    GIFT = "gift"
    STANDING = "standing"
    EVENT = "event"


class Hit(msgspec.Struct, frozen=True):
    """A word that was met."""

    sense: Sense
    start: int
    end: int


#: where one word has two senses, the one that counts; the later wins
_ORDER = (
    Sense.LIMIT,
    Sense.ASK,
    Sense.PURPOSE,
    Sense.EVENT,
    Sense.OTHER,
    Sense.CODE,
    Sense.STANDING,
    Sense.GIFT,
)
_RANK = {sense: -rank for rank, sense in enumerate(_ORDER)}
_WORD = re.compile(r"[^\W\d_]+")
#: the same, for plain text that is ASCII alone
_ASCII_WORD = re.compile("[a-z]+")
_Trie = dict[str, "_Trie"]
_END = ""
#: scripts from here on have no accents to drop, and many no spaces between words
_RUNNING = "\u0590"
#: such scripts, and not the marks that stand in every text
_WITHOUT_SPACES = re.compile("[\u0590-\u1fff\u2c00-\U0010ffff]")
#: words of this length and so many are remembered
_USUAL, _REMEMBERED = 24, 4_000
#: and by so many sets of languages
_MOST_CHOIRS = 16
#: so much of a text shows its language
_SAMPLE = 1_500
#: so many frequent words must be in it, and so many languages come into question
_ENOUGH_WORDS, _MOST_LANGUAGES = 2, 4
#: it is certain with so many, and if one word in so many is frequent
_SURE_WORDS, _SURE_SHARE = 3, 8
#: a shorter word means something else in some other language
_LONG_WORD = 5
#: English stands in mails of every language
_EVERYWHERE = "en"


class Tongues(msgspec.Struct, frozen=True):
    """The languages that a text is in, as far as is known."""

    names: tuple[str, ...] = ()
    #: so clearly that a word that is missing says something
    sure: bool = False


class Vocabulary:
    """Words as patterns: inside of a word, phrases, and in scripts without spaces."""

    def __init__(self, words: Iterable[tuple[str, Sense]]) -> None:
        """Compile the words; of two senses of one word the later counts."""
        single: dict[str, dict[str, Sense]] = {"=": {}, "": {}, "~": {}}
        self._phrases: dict[str, Sense] = {}
        self._running: dict[str, Sense] = {}
        for word, sense in words:
            mark = word[0] if word[0] in "~=" else ""
            bare = word[len(mark) :]
            if mark == "~" and max(bare) >= _RUNNING:
                self._running[bare] = sense
            elif _WORD.fullmatch(bare):
                single[mark][bare] = sense
            else:
                self._phrases[bare] = sense
        self._whole = single["="]
        self._senses = {**single["~"], **single[""]}
        self._inside = re.compile(f"^(?:{_any(single[''])})|(?:{_any(single['~'])})")
        self._phrase = re.compile(_any(self._phrases))
        self._openings = frozenset(
            opening[0] for phrase in self._phrases if (opening := _WORD.match(phrase))
        )
        self._anywhere = re.compile(_any(self._running))

    @property
    def openings(self) -> Iterable[str]:
        """The words that phrases begin with."""
        return self._openings

    def running(self, text: str, start: int, end: int) -> Iterator[Hit]:
        """Yield the words of scripts without spaces in a stretch of plain text."""
        if self._running:
            for match in self._anywhere.finditer(text, start, end):
                yield Hit(self._running[match[0]], *match.span())

    def phrase(self, text: str, start: int, end: int) -> Iterator[Hit]:
        """Yield the phrase that begins in a place, if one does."""
        phrase = self._phrase.match(text, start, end)
        if phrase is not None:
            yield Hit(self._phrases[phrase[0]], *phrase.span())

    def inside(self, word: str) -> Iterator[Hit]:
        """Yield what is in a word."""
        if word in self._whole:
            yield Hit(self._whole[word], 0, len(word))
        elif self._senses:
            for match in self._inside.finditer(word):
                yield Hit(self._senses[match[0]], *match.span())


class Choir:
    """Some vocabularies together: a text is read once, and a word looked up once, for all."""

    def __init__(self, vocabularies: Sequence[Vocabulary]) -> None:
        """Begin with no word met."""
        self._vocabularies = vocabularies
        self._openings: dict[str, list[Vocabulary]] = {}
        for each in vocabularies:
            for word in each.openings:
                self._openings.setdefault(word, []).append(each)
        self._met: dict[str, tuple[Hit, ...]] = {}

    def hits(self, text: str, start: int, end: int) -> list[Hit]:
        """Return the words in a stretch of plain text, in their order, the longer before others."""
        found: list[Hit] = []
        if not text.isascii():
            for each in self._vocabularies:
                found += each.running(text, start, end)
        for match in _words(text).finditer(text, start, end):
            word = match[0]
            inside = self._met.get(word)
            if inside is None:
                inside = self._meet(word)
            if inside:
                at = match.start()
                found += [Hit(hit.sense, at + hit.start, at + hit.end) for hit in inside]
            if word in self._openings:
                for each in self._openings[word]:
                    found += each.phrase(text, match.start(), end)
        return _kept(found) if len(found) > 1 else found

    def _meet(self, word: str) -> tuple[Hit, ...]:
        """Return what is in a word, and remember it if it is no longer than words are."""
        found = tuple([hit for each in self._vocabularies for hit in each.inside(word)])
        if len(word) <= _USUAL and len(self._met) < _REMEMBERED:
            self._met[word] = found
        return found


def _words(plain: str) -> re.Pattern[str]:
    """Return the pattern for words that is quicker for a plain text."""
    return _ASCII_WORD if plain.isascii() else _WORD


def _kept(found: list[Hit]) -> list[Hit]:
    """Return what is left where some stand in others."""
    found.sort(key=lambda hit: (hit.start, -hit.end, _RANK[hit.sense]))
    kept: list[Hit] = []
    for hit in found:
        if not kept or hit.start >= kept[-1].end:
            kept.append(hit)
    return kept


class Lexicon:
    """The words of many languages; each is compiled when a mail is first written in it."""

    def __init__(self, languages: Mapping[str, Words]) -> None:
        """Take the tables."""
        self._tables = languages
        self._compiled: dict[str, Vocabulary] = {}
        self._choirs: dict[Tongues, Choir] = {}
        self._common: dict[str, frozenset[str]] = {}
        self._syllables: dict[str, tuple[str, ...]] = {}
        self._spoken_in: dict[str, list[str]] = {}
        for language, words in languages.items():
            common = list(split(words.common))
            self._common[language] = frozenset(
                word for word in common if word[0] != "~" and len(word) > 1
            )
            self._syllables[language] = tuple(word[1:] for word in common if word[0] == "~")
            for word in self._common[language]:
                self._spoken_in.setdefault(word, []).append(language)

    def languages(self, text: str) -> Tongues:
        """Return the languages that a plain text seems to be in, likeliest first."""
        sample = text[:_SAMPLE]
        words = _words(sample).findall(sample)
        counts: Counter[str] = Counter()
        for word in self._spoken_in.keys() & words:
            for language in self._spoken_in[word]:
                counts[language] += 1
        if not sample.isascii() and _WITHOUT_SPACES.search(sample):
            for language, syllables in self._syllables.items():
                counts[language] += sum(syllable in sample for syllable in syllables)
        most = max(counts.values(), default=0)
        enough = max(_ENOUGH_WORDS, most // 2)
        ranked = sorted(counts, key=lambda language: -counts[language])
        names = tuple([each for each in ranked if counts[each] >= enough][:_MOST_LANGUAGES])
        return Tongues(names, sure=bool(names) and self._is_sure(names[0], counts[names[0]], words))

    def _is_sure(self, language: str, count: int, words: Sequence[str]) -> bool:
        """Say whether a text is certainly in a language: frequent words are frequent in it."""
        if count < _SURE_WORDS:
            return False
        if self._syllables[language]:
            return True
        common = self._common[language]
        return sum(word in common for word in words) * _SURE_SHARE >= len(words)

    def hits(self, text: str, start: int, end: int, tongues: Tongues) -> list[Hit]:
        """Return the words of some languages in a stretch of plain text, in their order.

        Where no language is known, the longer words of all of them are looked for.
        """
        choir = self._choirs.get(tongues)
        if choir is None:
            names = {*tongues.names, _EVERYWHERE, *(() if tongues.sure else ("",))}
            choir = Choir([self._vocabulary(name) for name in names])
            if len(self._choirs) >= _MOST_CHOIRS:
                self._choirs.clear()
            self._choirs[tongues] = choir
        return choir.hits(text, start, end)

    def is_spoken(self, text: str, tongues: Tongues) -> bool:
        """Say whether plain words are what people say: some are in the tables, or frequent."""
        names = (*tongues.names, _EVERYWHERE)
        words = set(text.split())
        if any(words & self._common.get(name, frozenset()) for name in names):
            return True
        return bool(self.hits(text, 0, len(text), tongues))

    def _vocabulary(self, language: str) -> Vocabulary:
        """Return the words of a language; of none, the words for codes in all."""
        if language not in self._compiled:
            self._compiled[language] = Vocabulary(self._words(language))
        return self._compiled[language]

    def _words(self, language: str) -> Iterator[tuple[str, Sense]]:
        if language:
            for sense in _ORDER:
                for word in split(getattr(self._tables.get(language), sense.value, "")):
                    yield word, sense
            return
        for sense in _ORDER:
            for table in self._tables.values():
                for word in split(getattr(table, sense.value)):
                    if sense is Sense.CODE or word[0] == "~" or len(word) >= _LONG_WORD:
                        yield word, sense


def split(words: str) -> Iterator[str]:
    """Yield the words of a table in their plain form, with their marks."""
    for word in words.split(","):
        plain = codes_folding.plain(word.strip()).strip()
        if plain.strip("~="):
            yield plain


@functools.cache
def standard() -> Lexicon:
    """Return the lexicon of all languages, compiled when it is first asked for."""
    return Lexicon(LANGUAGES)


def _any(words: Iterable[str]) -> str:
    """Return a pattern for the longest of some words; what they begin with is asked first."""
    trie = _trie(words)
    if not trie:
        return "(?!)"
    firsts = "".join(re.escape(first) for first in trie)
    return f"(?=[{firsts}]){_branch(trie)}"


def _trie(words: Iterable[str]) -> _Trie:
    root: _Trie = {}
    for word in words:
        node = root
        for character in word:
            node = node.setdefault(character, {})
        node[_END] = {}
    return root


def _branch(node: _Trie) -> str:
    """Return a trie as a pattern that prefers what is longer."""
    ends = _END in node
    branches = [
        re.escape(character) + _branch(child) for character, child in node.items() if character
    ]
    if not branches:
        return "" if ends else "(?!)"
    joined = branches[0] if len(branches) == 1 and not ends else f"(?:{'|'.join(branches)})"
    return f"{joined}?" if ends else joined
