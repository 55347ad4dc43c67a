"""Lexicon of code words: language detection, and word matching by compiled patterns."""

import functools
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from enum import StrEnum

import msgspec

from oncebox.mail.languages import folding
from oncebox.mail.languages.tables import CodeWords, Language, load_languages


class Sense(StrEnum):
    """What a word says about a number near it."""

    CODE = "code"
    PURPOSE = "purpose"
    ASK = "ask"
    LIMIT = "limit"
    OTHER = "other"
    GIFT = "gift"
    STANDING = "standing"
    EVENT = "event"


class Hit(msgspec.Struct, frozen=True, gc=False):
    """A word that was found, with its offsets."""

    sense: Sense
    start: int
    end: int


#: the keys of the word tables; of two senses of one word the later one counts
_KEY_BY_SENSE = {
    Sense.LIMIT: "validity",
    Sense.ASK: "instruction",
    Sense.PURPOSE: "purpose",
    Sense.EVENT: "event",
    Sense.OTHER: "other_number",
    Sense.CODE: "name",
    Sense.STANDING: "password",
    Sense.GIFT: "voucher",
}
_SENSE_RANK = {sense: -rank for rank, sense in enumerate(_KEY_BY_SENSE)}
_WORD = re.compile(r"[^\W\d_]+")
#: the same for folded ASCII text
_ASCII_WORD = re.compile("[a-z]+")
_Trie = dict[str, "_Trie"]
_END = ""
#: scripts from here on keep their marks, and many have no spaces between words
_FIRST_UNSPACED = "\u0590"
#: such scripts, without the punctuation of all texts
_UNSPACED_SCRIPT = re.compile("[\u0590-\u1fff\u2c00-\U0010ffff]")
#: limits of the word cache: length of a word, number of words
_LONGEST_CACHED, _MAX_CACHED = 24, 4_000
#: number of vocabulary sets that are cached
_MOST_SETS = 16
#: characters by which the language is detected
_SAMPLE = 1_500
#: frequent words that a language needs, and number of languages that are returned
_ENOUGH_WORDS, _MOST_LANGUAGES = 2, 4
#: a language is certain with so many frequent words, and one in so many words
_CERTAIN_WORDS, _CERTAIN_SHARE = 3, 8
#: shorter words often mean something else in another language
_LONG_WORD = 5
#: mails in every language contain English
_ALWAYS_INCLUDED = "en"


class DetectedLanguages(msgspec.Struct, frozen=True):
    """The languages of a text."""

    names: tuple[str, ...] = ()
    #: certain enough that the absence of a word is evidence
    certain: bool = False


class Vocabulary:
    """Compiled words: stems, phrases, and words in scripts without spaces."""

    def __init__(self, words: Iterable[tuple[str, Sense]]) -> None:
        """Compile the words; the later of two senses of a word counts."""
        single: dict[str, dict[str, Sense]] = {"=": {}, "": {}, "~": {}}
        self._phrases: dict[str, Sense] = {}
        self._unspaced: dict[str, Sense] = {}
        for word, sense in words:
            mark = word[0] if word[0] in "~=" else ""
            bare = word[len(mark) :]
            if mark == "~" and max(bare) >= _FIRST_UNSPACED:
                self._unspaced[bare] = sense
            elif _WORD.fullmatch(bare):
                single[mark][bare] = sense
            else:
                self._phrases[bare] = sense
        self._whole = single["="]
        self._senses = {**single["~"], **single[""]}
        self._inside = re.compile(
            f"^(?:{_alternation(self._senses)})|(?:{_alternation(single['~'])})"
        )
        self._phrase = re.compile(_alternation(self._phrases))
        #: the first words of the phrases
        self.openings = frozenset(
            opening[0] for phrase in self._phrases if (opening := _WORD.match(phrase))
        )
        self._anywhere = re.compile(_alternation(self._unspaced))

    def unspaced(self, text: str, start: int, end: int) -> Iterator[Hit]:
        """Yield words in scripts without spaces from a range of folded text."""
        if self._unspaced:
            for match in self._anywhere.finditer(text, start, end):
                yield Hit(self._unspaced[match[0]], *match.span())

    def phrase(self, text: str, start: int, end: int) -> Iterator[Hit]:
        """Yield the phrase that begins at an offset, if there is one."""
        phrase = self._phrase.match(text, start, end)
        if phrase is not None:
            yield Hit(self._phrases[phrase[0]], *phrase.span())

    def inside(self, word: str) -> Iterator[Hit]:
        """Yield the stems in a word."""
        if word in self._whole:
            yield Hit(self._whole[word], 0, len(word))
        elif self._senses:
            for match in self._inside.finditer(word):
                yield Hit(self._senses[match[0]], *match.span())


class VocabularySet:
    """Several vocabularies; a text is scanned once for all of them."""

    def __init__(self, vocabularies: Sequence[Vocabulary]) -> None:
        self._vocabularies = vocabularies
        self._openings: dict[str, list[Vocabulary]] = {}
        for each in vocabularies:
            for word in each.openings:
                self._openings.setdefault(word, []).append(each)
        self._cached_words: dict[str, _KnownWord | None] = {}

    def hits(self, text: str, start: int, end: int) -> list[Hit]:
        """Return the words in a range of folded text, in order; the longest of overlapping ones."""
        found: list[Hit] = []
        if not text.isascii():
            for each in self._vocabularies:
                found += each.unspaced(text, start, end)
        cached = self._cached_words
        for match in _word_pattern(text).finditer(text, start, end):
            word = match[0]
            known = cached[word] if word in cached else self._look_up(word)
            if known is not None:
                at = match.start()
                found += [Hit(hit.sense, at + hit.start, at + hit.end) for hit in known[0]]
                for each in known[1]:
                    found += each.phrase(text, at, end)
        return _longest_hits(found) if len(found) > 1 else found

    def _look_up(self, word: str) -> "_KnownWord | None":
        """Return what a word means, and cache it unless the word is too long."""
        inside = [hit for each in self._vocabularies for hit in each.inside(word)]
        openings = self._openings.get(word, [])
        found = (inside, openings) if inside or openings else None
        if len(word) <= _LONGEST_CACHED and len(self._cached_words) < _MAX_CACHED:
            self._cached_words[word] = found
        return found


#: the stems in a word, and the vocabularies with phrases that begin with it
_KnownWord = tuple[list[Hit], list[Vocabulary]]


def _word_pattern(plain: str) -> re.Pattern[str]:
    """Return the faster pattern for the words of a folded text."""
    return _ASCII_WORD if plain.isascii() else _WORD


def _longest_hits(found: list[Hit]) -> list[Hit]:
    """Return the hits without those that overlap a longer one."""
    found.sort(key=lambda hit: (hit.start, -hit.end, _SENSE_RANK[hit.sense]))
    chosen: list[Hit] = []
    for hit in found:
        if not chosen or hit.start >= chosen[-1].end:
            chosen.append(hit)
    return chosen


class Lexicon:
    """The code words of many languages; a language is compiled for the first mail in it."""

    def __init__(self, languages: Mapping[str, Language]) -> None:
        self._tables: dict[str, CodeWords] = {}
        self._compiled: dict[str, Vocabulary] = {}
        self._vocabulary_sets: dict[DetectedLanguages, VocabularySet] = {}
        self._frequent: dict[str, frozenset[str]] = {}
        self._syllables: dict[str, tuple[str, ...]] = {}
        self._languages_of: dict[str, list[str]] = {}
        for tag, language in languages.items():
            if language.code is None:
                continue
            self._tables[tag] = language.code
            frequent = [folding.fold_same_length(word) for word in language.frequent]
            self._frequent[tag] = frozenset(
                word for word in frequent if word[0] != "~" and len(word) > 1
            )
            self._syllables[tag] = tuple(word[1:] for word in frequent if word[0] == "~")
            for word in self._frequent[tag]:
                self._languages_of.setdefault(word, []).append(tag)

    def detect_languages(self, text: str) -> DetectedLanguages:
        """Return the likely languages of a folded text, the most likely first."""
        sample = text[:_SAMPLE]
        words = _word_pattern(sample).findall(sample)
        counts = Counter(
            [tag for word in self._languages_of.keys() & words for tag in self._languages_of[word]]
        )
        if not sample.isascii() and _UNSPACED_SCRIPT.search(sample):
            for language, syllables in self._syllables.items():
                counts[language] += sum(syllable in sample for syllable in syllables)
        most = max(counts.values(), default=0)
        enough = max(_ENOUGH_WORDS, most // 2)
        # Languages with equal counts are ordered by tag: the result must not depend on hash seeds.
        ranked = sorted(counts, key=lambda language: (-counts[language], language))
        names = tuple([each for each in ranked if counts[each] >= enough][:_MOST_LANGUAGES])
        return DetectedLanguages(
            names, certain=bool(names) and self._is_certain(names[0], counts[names[0]], words)
        )

    def _is_certain(self, language: str, count: int, words: Sequence[str]) -> bool:
        """Say whether the share of frequent words is that of a text in the language."""
        if count < _CERTAIN_WORDS:
            return False
        if self._syllables[language]:
            return True
        frequent = self._frequent[language]
        return sum(map(frequent.__contains__, words)) * _CERTAIN_SHARE >= len(words)

    def vocabularies(self, detected: DetectedLanguages) -> "VocabularySet":
        """Return the vocabularies of some languages and of English.

        Unless the language is certain, the longer words of all languages are included.
        """
        known = self._vocabulary_sets.get(detected)
        if known is None:
            names = (*detected.names, _ALWAYS_INCLUDED, *(() if detected.certain else ("",)))
            known = VocabularySet([self._vocabulary(name) for name in dict.fromkeys(names)])
            if len(self._vocabulary_sets) >= _MOST_SETS:
                self._vocabulary_sets.clear()
            self._vocabulary_sets[detected] = known
        return known

    def is_ordinary_text(self, text: str, detected: DetectedLanguages) -> bool:
        """Say whether any word of a folded text is frequent or a code word."""
        names = (*detected.names, _ALWAYS_INCLUDED)
        words = set(text.split())
        if any(words & self._frequent.get(name, frozenset()) for name in names):
            return True
        return bool(self.vocabularies(detected).hits(text, 0, len(text)))

    def _vocabulary(self, language: str) -> Vocabulary:
        """Return the words of a language; for the empty tag, the longer words of all."""
        if language not in self._compiled:
            self._compiled[language] = Vocabulary(self._words(language))
        return self._compiled[language]

    def _words(self, language: str) -> Iterator[tuple[str, Sense]]:
        table = self._tables.get(language)
        tables = [table] if table is not None else [] if language else self._tables.values()
        for sense, key in _KEY_BY_SENSE.items():
            for each in tables:
                for written in getattr(each, key):
                    word = folding.fold_same_length(written)
                    if language or sense is Sense.CODE or word[0] == "~" or len(word) >= _LONG_WORD:
                        yield word, sense


@functools.cache
def standard_lexicon() -> Lexicon:
    """Return the lexicon of all languages."""
    return Lexicon(load_languages())


def _alternation(words: Iterable[str]) -> str:
    """Return a pattern for the longest of some words; a lookahead tests the first character."""
    trie = _trie(words)
    if not trie:
        return "(?!)"
    firsts = "".join(re.escape(first) for first in trie)
    return f"(?=[{firsts}]){_trie_pattern(trie)}"


def _trie(words: Iterable[str]) -> _Trie:
    root: _Trie = {}
    for word in words:
        node = root
        for character in word:
            node = node.setdefault(character, {})
        node[_END] = {}
    return root


def _trie_pattern(node: _Trie) -> str:
    """Return a trie as a pattern that prefers longer words."""
    ends = _END in node
    branches = [
        re.escape(character) + _trie_pattern(child)
        for character, child in node.items()
        if character
    ]
    if not branches:
        return "" if ends else "(?!)"
    joined = branches[0] if len(branches) == 1 and not ends else f"(?:{'|'.join(branches)})"
    return f"{joined}?" if ends else joined
