"""What a message is about, by the words that such messages have in many languages."""

import re
from enum import StrEnum

from oncebox.model import purpose_words


class Purpose(StrEnum):
    """What an inbox waits for."""

    ANY = "any"
    SIGNUP = "signup"
    LOGIN = "login"
    RESET = "reset"
    INVITE = "invite"


_TABLES: dict[Purpose, dict[str, str]] = {
    Purpose.SIGNUP: purpose_words.SIGNUP,
    Purpose.LOGIN: purpose_words.LOGIN,
    Purpose.RESET: purpose_words.RESET,
    Purpose.INVITE: purpose_words.INVITE,
}
#: what stands between words; signs that belong to letters fall here too, in text and stems alike
_GAPS = re.compile(r"[\W_]+")
#: letters of alphabets whose words stand apart and begin with their stem
_APART = re.compile("[a-z\u00df-\u024f\u0370-\u058f\u10d0-\u10ff]")
#: a shorter stem is a whole word
_SHORT = 4


def _plain(text: str) -> str:
    # Turkish has an i with a dot and one without, which large letters swap.
    folded = text.casefold().replace("\u0131", "i").replace("\u0307", "")
    return f" {_GAPS.sub(' ', folded)} "


def _stem(text: str) -> str:
    """Return a stem as it is looked for in plain text."""
    bare = _plain(text).strip()
    if not _APART.match(bare):
        return bare
    return f" {bare} " if len(bare) <= _SHORT else f" {bare}"


_STEMS: dict[Purpose, tuple[str, ...]] = {
    purpose: tuple(
        dict.fromkeys(_stem(each) for stems in table.values() for each in stems.split("|"))
    )
    for purpose, table in _TABLES.items()
}


def purposes(text: str) -> set[Purpose]:
    """Return what a text may be about; one text may tell of several, or of none."""
    plain = _plain(text)
    return {purpose for purpose, stems in _STEMS.items() if any(stem in plain for stem in stems)}
