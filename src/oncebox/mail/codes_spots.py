"""Spots: where in a text the patterns of codes can begin, found without asking them everywhere.

A pattern that is asked at every character of a mail costs more than reading the mail does. So
every character is put into one of a few classes at once, and rare sequences of classes are looked
for, which is what computers are quickest at.
"""

import re
import string
from collections.abc import Iterator
from functools import cached_property

_DASHES = re.compile("[\\-\u2010\u2011\u2013]")
#: nobody sees these, and words go on behind them; as a class of characters
ZERO_WIDTH = (
    "\u00ad\u034f\u061c\u180e\u200b-\u200f\u202a-\u202d\u2060-\u2064\u2066-\u2069"
    "\ufe0e\ufe0f\ufeff\u20e3"
)
_LETTERS = frozenset(string.ascii_letters)
_CHARACTERS = _LETTERS | frozenset(string.digits)
#: letters, and what nobody sees
_SILENT = _LETTERS | frozenset(
    chr(code) for code in range(0x10000) if re.fullmatch(f"[{ZERO_WIDTH}]", chr(code))
)
#: more numbers are in no mail that is about a code
_MOST = 12_000
#: how far a word is followed back to its beginning
_FAR = 40
#: digits of a number that is a word by itself, and of the first of several groups
_LONG = 4
_FEW, _MANY = 2, 5

_DIGIT, _LETTER, _NEITHER = b"0", b"Aa", b"."
_KINDS = (
    (string.ascii_uppercase, b"A"),
    (string.ascii_lowercase, b"a"),
    (string.digits, _DIGIT),
    # What is not ASCII is read as a question mark, and may be a gap.
    (" ?-|\n", b" "),
)
_CLASSES = bytes(
    next((ord(kind) for characters, kind in _KINDS if chr(code) in characters), ord(_NEITHER))
    for code in range(256)
)
_ALIKE = bytes.maketrans(b"A0", b"aa")
#: the last class is none, so it is always found
_NOT_DIGIT = re.compile(b"[^0]")
_FOUR_LARGE = re.compile(rb"AAAAA*")
#: two characters that stand alone, one behind the other: four of them hold such a pair
_ALONE = (b" a a ", b" a  a ", b" a   a ")


class Spots:
    """Where patterns can begin in one text; a spot may be named twice, but always in order."""

    def __init__(self, text: str) -> None:
        """Put every character into its class."""
        self._text = text
        self._ascii = text.isascii()
        self._classes = text.encode("ascii", "replace").translate(_CLASSES) + _NEITHER

    @property
    def digits(self) -> Iterator[int]:
        """Where a number begins that is neither one digit nor long."""
        return (start for start, end in self._numbers if _FEW <= end - start <= _MANY)

    @property
    def words(self) -> Iterator[int]:
        """Where a word begins that has a digit in it, unless it is a short number."""
        text = self._text
        for start, end in self._numbers:
            at = start
            while at > 0 and start - at < _FAR and text[at - 1] in _SILENT:
                at -= 1
            if at < start or end - start >= _LONG or text[end : end + 1] in _SILENT:
                yield at

    @property
    def dashed(self) -> Iterator[int]:
        """Where a word begins that has a hyphen behind it."""
        text = self._text
        for dash in self._dashes():
            at = dash
            while at > 0 and dash - at < _FAR and text[at - 1] in _CHARACTERS:
                at -= 1
            yield at

    def _dashes(self) -> Iterator[int]:
        if not self._ascii:
            yield from (dash.start() for dash in _DASHES.finditer(self._text))
            return
        at = -1
        while (at := self._text.find("-", at + 1)) >= 0:
            yield at

    @property
    def capitals(self) -> Iterator[int]:
        """Where four large letters begin."""
        if b"AAAA" not in self._classes:
            return iter(())
        return (match.start() for match in _FOUR_LARGE.finditer(self._classes))

    @property
    def singles(self) -> Iterator[int]:
        """Where a character stands alone, if there are several in a row anywhere."""
        alike = self._classes.translate(_ALIKE)
        if not any(pair in alike for pair in _ALONE):
            return iter(())
        return (match.start() for match in _CHARACTER.finditer(self._text))

    @cached_property
    def _numbers(self) -> list[tuple[int, int]]:
        """Where numbers stand; one digit by itself is none."""
        found: list[tuple[int, int]] = []
        classes, end = self._classes, 0
        for _ in range(_MOST):
            start = classes.find(_DIGIT, end)
            if start < 0:
                break
            end = start + 1
            if classes[end] == _DIGIT[0]:
                end = _NOT_DIGIT.search(classes, end).start()  # type: ignore[union-attr]
            touched = classes[start - 1] in _LETTER or classes[end] in _LETTER
            if end - start > 1 or touched or not self._ascii:
                found.append((start, end))
        return found


#: a character with a gap behind it
_CHARACTER = re.compile("[A-Za-z0-9](?![A-Za-z0-9])")
