"""What the text of a link, or the sentence around it, says: heard by words of many languages."""

import re
from collections.abc import Iterator
from enum import IntFlag, auto

from oncebox.mail.folding import fold
from oncebox.mail.linkwords import TABLE

#: longer texts are heard by their beginning
_LONGEST = 400
_KEY, _DENSE_KEY = 3, 2
#: scripts in which words begin with a letter behind something else: Latin, Greek, Cyrillic,
#: Armenian, Georgian; in all others particles, or nothing at all, may stand before a word
_LAST_SPACED = "\u058f"
_GEORGIAN = ("\u10a0", "\u10ff")
_MARKS = str.maketrans("", "", "*_")
#: where a word may begin
_ASCII_STARTS = re.compile(r"(?<![a-z0-9])[a-z0-9]")
_STARTS = re.compile(f"(?<![^\\W_])[^\\W_]|[{chr(ord(_LAST_SPACED) + 1)}-\u109f\u1100-\U0010ffff]")


class Said(IntFlag):
    """What was heard."""

    NOTHING = 0
    #: what is done with a link that was made for one person
    DO = auto()
    #: what is done with such links, and with others
    SOFT = auto()
    #: what other links are for
    NEVER = auto()
    #: as before, but in the text of a link alone
    ASIDE = auto()
    #: what undoes, reports or refuses
    AGAINST = auto()
    #: "if it was not you"
    UNLESS = auto()
    #: that a mail may be left alone
    IGNORE = auto()
    #: what else people confirm and accept
    BUSINESS = auto()


def hear(text: str) -> Said:
    """Return all that is said in a text."""
    # A phrase may end with the end of a word; stars and underscores are marks of importance.
    folded = fold(text[:_LONGEST]).translate(_MARKS) + " "
    starts = _ASCII_STARTS if folded.isascii() else _STARTS
    said = 0
    for start in starts.finditer(folded):
        at = start.start()
        known = _INDEX.get(folded[at : at + _KEY])
        if known is None and folded[at] > _LAST_SPACED:
            known = _DENSE.get(folded[at : at + _DENSE_KEY])
        if known is not None and folded.startswith(known[0], at):
            for phrase, meaning in known[1]:
                if folded.startswith(phrase, at):
                    said |= meaning
    return Said(said)


def _is_dense(letter: str) -> bool:
    """Say whether a word may begin behind another letter."""
    return letter > _LAST_SPACED and not _GEORGIAN[0] <= letter <= _GEORGIAN[1]


#: all phrases with a beginning, and what each means
_Known = tuple[tuple[str, ...], list[tuple[str, int]]]


def _index(*, dense: bool) -> dict[str, _Known]:
    """Return phrases by how they begin."""
    found: dict[str, dict[str, int]] = {}
    for written, meaning in _phrases():
        phrase = fold(written.lstrip("!?"))
        if _is_dense(phrase[0]) is dense:
            by_phrase = found.setdefault(phrase[: _DENSE_KEY if dense else _KEY], {})
            known = by_phrase.get(phrase, 0)
            by_phrase[phrase] = known | int(_meaning(written, phrase, meaning))
    return {start: (tuple(each), list(each.items())) for start, each in found.items()}


def _phrases() -> Iterator[tuple[str, Said]]:
    for words in TABLE.values():
        for phrases, meaning in (
            (words.do, Said.DO),
            (words.soft, Said.SOFT),
            (words.never, Said.NEVER),
            (words.against, Said.AGAINST),
            (words.ignore, Said.IGNORE),
            (words.business, Said.BUSINESS),
        ):
            for written in filter(None, phrases.split("|")):
                yield written, meaning


def _meaning(written: str, phrase: str, meaning: Said) -> Said:
    if meaning is Said.NEVER and written.startswith("!"):
        return Said.ASIDE
    several = " " in phrase.strip() or _is_dense(phrase[0]) or written.startswith("?")
    if meaning is Said.AGAINST and several and not written.startswith("!"):
        return meaning | Said.UNLESS
    return meaning


_INDEX = _index(dense=False)
_DENSE = _index(dense=True)
