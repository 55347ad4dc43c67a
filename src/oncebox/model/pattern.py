"""Patterns for a line of text: ``*`` is anything, ``?`` any one character, in any case.

All places of a pattern at which a text may stand are kept as the bits of one number, so that
every character is looked at once, whatever the pattern.
"""

from collections import defaultdict

_ANYTHING, _ANY_ONE = "*", "?"


def fits(pattern: str, text: str) -> bool:
    """Say whether a text is, from its first to its last character, what a pattern describes."""
    words = _folded(pattern)
    stays, moves = 0, defaultdict[str, int](int)
    for place, word in enumerate(words):
        if word == _ANYTHING:
            stays |= 1 << place
        else:
            moves[word] |= 1 << place
    any_one = moves.pop(_ANY_ONE, 0)
    places = _past(1, stays)
    for character in text.lower():
        step = moves.get(character, 0) | any_one
        places = _past((places & stays) | (places & step) << 1, stays)
    return bool(places >> len(words) & 1)


def _past(places: int, stays: int) -> int:
    """Add what comes behind a ``*``, which may be nothing at all."""
    return places | (places & stays) << 1


def _folded(pattern: str) -> str:
    """Return a pattern in lower case, with one ``*`` where there are several in a row."""
    lowered = pattern.lower()
    return "".join(
        each
        for place, each in enumerate(lowered)
        if each != _ANYTHING or not lowered.startswith(_ANYTHING, place - 1) or not place
    )
