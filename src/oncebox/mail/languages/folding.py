"""Text folding before word lookup: case, accents, digits and spaces, in four ways.

``fold_digits`` writes the digits and full-width forms of all scripts in ASCII.
``fold_same_length`` keeps the length of the text: code words are reported with their offsets.
``fold_text`` compares link words. It drops every accent and mark (NFKD), which changes the length.
``fold_words`` compares purpose words. It keeps accents: without them "confirmă" (Romanian) is found
in "confirmation", and 57 of 1,117 sample mails get other purposes.

The tables were written for these foldings, and 218 code words and 141 link and purpose words would
not match under another one.
"""

import re
import unicodedata

#: the zeros of all scripts with decimal digits; the other nine digits follow each
_ZEROS = (
    0x0660, 0x06F0, 0x07C0, 0x0966, 0x09E6, 0x0A66, 0x0AE6, 0x0B66, 0x0BE6, 0x0C66, 0x0CE6, 0x0D66,
    0x0DE6, 0x0E50, 0x0ED0, 0x0F20, 0x1040, 0x1090, 0x17E0, 0x1810, 0x1946, 0x19D0, 0x1A80, 0x1A90,
    0x1B50, 0x1BB0, 0x1C40, 0x1C50, 0xA620, 0xA8D0, 0xA900, 0xA9D0, 0xA9F0, 0xAA50, 0xABF0, 0xFF10,
    0x104A0, 0x10D30, 0x11066, 0x110F0, 0x11136, 0x111D0, 0x112F0, 0x11450, 0x114D0, 0x11650,
    0x116C0, 0x11730, 0x118E0, 0x11950, 0x11C50, 0x11D50, 0x11DA0, 0x16A60, 0x16AC0, 0x16B50,
    0x1D7CE, 0x1D7D8, 0x1D7E2, 0x1D7EC, 0x1D7F6, 0x1E140, 0x1E2F0, 0x1E950, 0x1FBF0,
)  # fmt: skip
#: letters without a canonical decomposition into base and accent
_BASE_LETTERS = {
    "đ": "d", "ł": "l", "ø": "o", "\u0131": "i", "ħ": "h", "ŧ": "t", "ß": "ß", "æ": "æ",
}  # fmt: skip
_SPACES = "-\u2010\u2011\u2012\u2013\u2014\u2212\u00a0\u202f\u3000\u200c\n\t\r"
_APOSTROPHES = "'\u2018\u2019\u02bc`\u00b4"
#: scripts whose accents are dropped: Latin, Greek, Cyrillic
_ACCENTED = ((0x00C0, 0x0530), (0x1E00, 0x2000))

_ZERO, _FULL_WIDTH_ZERO, _FULL_WIDTH_COMMA = 0x30, 0xFF10, 0xFF0C
_DIGITS = {zero + number: 48 + number for zero in _ZEROS for number in range(10)}
#: full-width letters and punctuation; not the ideographic space, and not the full-width comma,
#: which ends a number
_DIGITS |= {
    0xFF01 + step: 0x21 + step
    for step in range(0x5E)
    if 0xFF01 + step not in _DIGITS and 0xFF01 + step != _FULL_WIDTH_COMMA
}

#: Latin, Greek, Cyrillic, Hebrew and punctuation have no digits of their own
_OTHER_DIGIT = re.compile("[^\\x00-\\u065f\\u2000-\\u2bff]")


class _FoldingTable(dict[int, str]):
    """Folded characters, computed at first use."""

    def __missing__(self, number: int) -> str:
        character = chr(number)
        lower = character.lower()
        if len(lower) > 1:  # the dotted capital I has two characters in lower case
            lower = lower[0]
        if any(first <= number < last for first, last in _ACCENTED):
            lower = _BASE_LETTERS.get(lower) or unicodedata.normalize("NFD", lower)[0]
        plain = chr(_DIGITS[number]).lower() if number in _DIGITS else lower
        if len(self) < _MAX_CACHED:
            self[number] = plain
        return plain


_MAX_CACHED = 4_000
_FOLDED = _FoldingTable({
    **{ord(space): " " for space in _SPACES},
    **{ord(mark): "'" for mark in _APOSTROPHES},
})  # fmt: skip
_FOLDED_ASCII = bytes(range(256)).lower().translate(bytes.maketrans(b"-\n\t\r`", b"    '"))


def fold_digits(text: str) -> str:
    """Return a text of the same length with ASCII digits and without full-width letters."""
    if text.isascii() or _OTHER_DIGIT.search(text) is None:
        return text
    return text.translate(_DIGITS)


def fold_same_length(text: str) -> str:
    """Return a text of the same length in lower case, without accents, with plain spaces."""
    if not text.isascii():
        return text.translate(_FOLDED)
    return text.encode("ascii").translate(_FOLDED_ASCII).decode("ascii")


def has_mixed_digits(text: str) -> bool:
    """Say whether a text mixes digits of several scripts; full-width digits count as ASCII."""
    if text.isascii():
        return False
    zeros = {ord(each) - unicodedata.decimal(each) for each in text if each.isdecimal()}
    return len(zeros - {_FULL_WIDTH_ZERO} | ({_ZERO} if _FULL_WIDTH_ZERO in zeros else set())) > 1


#: accents, vowel points of Arabic and Hebrew, and invisible characters
_COMBINING_MARKS = re.compile(
    "[\u0300-\u036f\u0591-\u05c7\u064b-\u0655\u0670\u0640\u00ad\u200b-\u200f\u2060\ufe0f\ufeff]"
)
#: letters without a decomposition in Unicode
_LETTER_FORMS = str.maketrans({
    "\u0131": "i", "ł": "l", "ø": "o", "đ": "d", "ð": "d", "þ": "th", "æ": "ae", "œ": "oe",
    "ħ": "h", "ə": "e", "\u2019": "'", "\u02bb": "", "\u02bc": "", "\u2018": "",
    # Persian and Urdu spellings of Arabic letters
    "\u06cc": "\u064a", "\u0649": "\u064a", "\u06a9": "\u0643", "\u06c1": "\u0647",
})  # fmt: skip


def fold_text(text: str) -> str:
    """Return a text in lower case, without accents and other marks, in NFC."""
    if text.isascii():
        return text.lower()
    plain = _COMBINING_MARKS.sub("", unicodedata.normalize("NFKD", text.casefold()))
    return unicodedata.normalize("NFC", plain).translate(_LETTER_FORMS)


_NON_WORD = re.compile(r"[\W_]+")
_ASCII_WORDS = bytes(
    ord(chr(code).lower()) if code < 128 and chr(code).isalnum() else 0x20  # noqa: PLR2004
    for code in range(256)
)


def fold_words(text: str) -> list[str]:
    """Return the words of a text in lower case, with accents."""
    return _folded_words(text).split()


def fold_phrases(text: str) -> str:
    """Return the same words with one space between them."""
    folded = _folded_words(text)
    while "  " in folded:
        folded = folded.replace("  ", " ")
    return folded.strip()


def _folded_words(text: str) -> str:
    """Return a text in lower case, with accents, and with spaces in place of all other marks."""
    if text.isascii():
        return text.encode("ascii").translate(_ASCII_WORDS).decode("ascii")
    # Lower case of the dotted and the dotless Turkish I differ; both become a plain i.
    folded = text.casefold().replace("\u0131", "i").replace("\u0307", "")
    return _NON_WORD.sub(" ", folded)
