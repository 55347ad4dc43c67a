"""Folding: one text made comparable, character by character, so that places stay where they are.

``digits`` makes ASCII of every decimal digit and of full-width letters. ``plain`` also drops case
and accents and makes one space of every kind of space, line end, hyphen and apostrophe.
"""

import re
import unicodedata

#: the zeros of all scripts that count by ten; nine digits follow each
_ZEROS = (
    0x0660, 0x06F0, 0x07C0, 0x0966, 0x09E6, 0x0A66, 0x0AE6, 0x0B66, 0x0BE6, 0x0C66, 0x0CE6, 0x0D66,
    0x0DE6, 0x0E50, 0x0ED0, 0x0F20, 0x1040, 0x1090, 0x17E0, 0x1810, 0x1946, 0x19D0, 0x1A80, 0x1A90,
    0x1B50, 0x1BB0, 0x1C40, 0x1C50, 0xA620, 0xA8D0, 0xA900, 0xA9D0, 0xA9F0, 0xAA50, 0xABF0, 0xFF10,
    0x104A0, 0x10D30, 0x11066, 0x110F0, 0x11136, 0x111D0, 0x112F0, 0x11450, 0x114D0, 0x11650,
    0x116C0, 0x11730, 0x118E0, 0x11950, 0x11C50, 0x11D50, 0x11DA0, 0x16A60, 0x16AC0, 0x16B50,
    0x1D7CE, 0x1D7D8, 0x1D7E2, 0x1D7EC, 0x1D7F6, 0x1E140, 0x1E2F0, 0x1E950, 0x1FBF0,
)  # fmt: skip
#: letters that do not fall apart into a base and an accent
_BASES = {"đ": "d", "ł": "l", "ø": "o", "\u0131": "i", "ħ": "h", "ŧ": "t", "ß": "ß", "æ": "æ"}
_SPACES = "-\u2010\u2011\u2012\u2013\u2014\u2212\u00a0\u202f\u3000\u200c\n\t\r"
_APOSTROPHES = "'\u2018\u2019\u02bc`\u00b4"
#: scripts whose accents say nothing here: Latin, Greek, Cyrillic
_ACCENTED = ((0x00C0, 0x0530), (0x1E00, 0x2000))

_ZERO, _FULL_WIDTH_ZERO, _FULL_WIDTH_COMMA = 0x30, 0xFF10, 0xFF0C
_DIGITS = {zero + number: 48 + number for zero in _ZEROS for number in range(10)}
#: full-width letters and marks; the ideographic space stays a space of its own, and the comma,
#: behind which a number does not go on, a comma of its own
_DIGITS |= {
    0xFF01 + step: 0x21 + step
    for step in range(0x5E)
    if 0xFF01 + step not in _DIGITS and 0xFF01 + step != _FULL_WIDTH_COMMA
}

#: Latin, Greek, Cyrillic, Hebrew and punctuation have no digits of their own
_OTHER_DIGIT = re.compile("[^\\x00-\\u065f\\u2000-\\u2bff]")


class _Plain(dict[int, str]):
    """Every character's plain form, found out when it is first met."""

    def __missing__(self, number: int) -> str:
        character = chr(number)
        lower = character.lower()
        if len(lower) > 1:  # the dotted capital I falls apart
            lower = lower[0]
        if any(first <= number < last for first, last in _ACCENTED):
            lower = _BASES.get(lower) or unicodedata.normalize("NFD", lower)[0]
        plain = chr(_DIGITS[number]).lower() if number in _DIGITS else lower
        if len(self) < _REMEMBERED:
            self[number] = plain
        return plain


_REMEMBERED = 4_000
_PLAIN = _Plain({
    **{ord(space): " " for space in _SPACES},
    **{ord(mark): "'" for mark in _APOSTROPHES},
})  # fmt: skip
_PLAIN_ASCII = bytes.maketrans(b"-\n\t\r`", b"    '")


def digits(text: str) -> str:
    """Return a text of the same length with ASCII digits and without full-width letters."""
    if text.isascii() or _OTHER_DIGIT.search(text) is None:
        return text  # as most are
    return text.translate(_DIGITS)


def plain(text: str) -> str:
    """Return a text of the same length without case, accents and kinds of spaces."""
    if not text.isascii():
        return text.translate(_PLAIN)
    return text.encode("ascii").lower().translate(_PLAIN_ASCII).decode("ascii")


def is_mixed(text: str) -> bool:
    """Say whether digits of different scripts stand together; full-width ones are ASCII's own."""
    if text.isascii():
        return False
    zeros = {ord(each) - unicodedata.decimal(each) for each in text if each.isdecimal()}
    return len(zeros - {_FULL_WIDTH_ZERO} | ({_ZERO} if _FULL_WIDTH_ZERO in zeros else set())) > 1
