"""Folding: text in the one form in which words are compared, whatever accents it was given."""

import re
import unicodedata

#: accents, marks of vowels in Arabic and Hebrew, and what nobody sees
_MARKS = re.compile(
    "[\u0300-\u036f\u0591-\u05c7\u064b-\u0655\u0670\u0640\u00ad\u200b-\u200f\u2060\ufe0f\ufeff]"
)
#: letters of which Unicode knows no simpler form
_LETTERS = str.maketrans({
    "\u0131": "i", "ł": "l", "ø": "o", "đ": "d", "ð": "d", "þ": "th", "æ": "ae", "œ": "oe",
    "ħ": "h", "ə": "e", "\u2019": "'", "\u02bb": "", "\u02bc": "", "\u2018": "",
    # Persian and Urdu spellings of Arabic letters
    "\u06cc": "\u064a", "\u0649": "\u064a", "\u06a9": "\u0643", "\u06c1": "\u0647",
})  # fmt: skip


def fold(text: str) -> str:
    """Return a text in lower case, without accents and other marks, in NFC."""
    if text.isascii():
        return text.lower()
    plain = _MARKS.sub("", unicodedata.normalize("NFKD", text.casefold()))
    return unicodedata.normalize("NFC", plain).translate(_LETTERS)
