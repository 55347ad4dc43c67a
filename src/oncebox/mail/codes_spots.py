"""Spots: where in a text the patterns of codes can begin, found without asking them everywhere.

A pattern that is asked at every character of a mail costs more than reading the mail does. So
every character is put into one of a few classes at once, and rare sequences of classes are looked
for, which is what computers are quickest at.
"""

import re
import string
from collections.abc import Iterator
from functools import cached_property
from itertools import islice

_NUMBER = re.compile("[0-9]+")
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

_LARGE, _OTHER, _GAP = b"A", b"a", b" "
_CLASSES = bytes(
    ord(
        _LARGE
        if chr(code) in string.ascii_uppercase
        else _OTHER
        if chr(code) in _CHARACTERS
        # What is not ASCII is read as a question mark, and may be a gap.
        else _GAP
        if chr(code) in " ?-|\n"
        else b"."
    )
    for code in range(256)
)
_FOUR_LARGE = re.compile(rb"AAAAA*")
#: two characters that stand alone, one behind the other: four of them hold such a pair
_ALONE = re.compile(rb" [Aa] {1,3}[Aa] ")


class Spots:
    """Where patterns can begin in one text; a spot may be named twice, but always in order."""

    def __init__(self, text: str) -> None:
        """Put every character into its class."""
        self._text = text
        self._classes = text.encode("ascii", "replace").translate(_CLASSES)

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
    def numbers(self) -> Iterator[int]:
        """Where a number begins, with a plus sign and a parenthesis before it."""
        text = self._text
        for start, _ in self._numbers:
            at = start - 1 if text[start - 1 : start] == "(" else start
            if text[at - 1 : at] == "+":
                yield at - 1
            if at < start:
                yield at
            yield start

    @property
    def dashed(self) -> Iterator[int]:
        """Where a word begins that has a hyphen behind it."""
        text = self._text
        for dash in _DASHES.finditer(text):
            at = dash.start()
            while at > 0 and dash.start() - at < _FAR and text[at - 1] in _CHARACTERS:
                at -= 1
            yield at

    @property
    def capitals(self) -> Iterator[int]:
        """Where four large letters begin."""
        return (match.start() for match in _FOUR_LARGE.finditer(self._classes))

    @property
    def singles(self) -> Iterator[int]:
        """Where a character stands alone, if there are several in a row anywhere."""
        if _ALONE.search(self._classes) is None:
            return iter(())
        return (match.start() for match in _CHARACTER.finditer(self._text))

    @cached_property
    def _numbers(self) -> list[tuple[int, int]]:
        return [match.span() for match in islice(_NUMBER.finditer(self._text), _MOST)]


#: a character with a gap behind it
_CHARACTER = re.compile("[A-Za-z0-9](?![A-Za-z0-9])")
