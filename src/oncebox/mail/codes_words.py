"""Labels: what the words beside something call it."""

import re
from collections.abc import Sequence
from enum import StrEnum

from oncebox.mail.codes_lexicon import Hit, Sense

_NOUNS = frozenset({Sense.CODE, Sense.OTHER, Sense.GIFT, Sense.STANDING, Sense.EVENT})
#: in "code promo" and in "tracking code" so much stands between the two at most
_JOINED_BEHIND, _JOINED_BEFORE = 7, 2
_NEAR = 14
#: a number between a word and something has the word for itself
_NUMBER = re.compile(r"(?<![^\W_])\d{2,}(?![^\W\d_])")
_COMMA = re.compile("[,\u060c\u3001\uff0c]")
_LONG_NUMBER = re.compile(r"(?<![^\W_])\d{3,}(?![^\W\d_])")


class Label(StrEnum):
    """What something is called."""

    CODE = "code"
    #: a code, for something whose name is nearer
    CODE_FOR = "code_for"
    OTHER = "other"
    GIFT = "gift"
    STANDING = "standing"
    EVENT = "event"


#: what is said between a code and what it is for: ``code for``, in some languages
_FOR = re.compile(r"\s(?:for|of|fur|pour|para|per|voor|dla|till|til|untuk|\u0434\u043b\u044f)\s$")
#: and what has a code before its name: ``482913 is your code``
_IS = r" (?:is|est|es|ist|e|jest|ar|er|je|este|adalah|la|\u2014|\u0435) (?:[^\W\d_]{1,12} ){0,3}$"
_SAYS = re.compile(_IS)
_SAID_OF_ANOTHER = re.compile(rf"(?<![^\W_])\d{{4,8}}{_IS}")
_LABELS = {sense: Label(sense.value) for sense in _NOUNS}


def before(
    hits: Sequence[Hit], plain: str, at: int, after: tuple[Label, Hit] | None = None
) -> tuple[Label, Hit] | None:
    """Return what is called by the words before it: by the last that has no number yet.

    ``after``: what the words behind it call it.
    """
    nouns = [hit for hit in hits if hit.sense in _NOUNS]
    for number in range(len(nouns) - 1, -1, -1):
        hit = nouns[number]
        if hit.sense is not Sense.CODE and _is_taken(plain, hit.end, at):
            continue
        label = _called(nouns, number)
        if label in {Label.CODE, Label.CODE_FOR} and _is_said_of_another(nouns, number, plain):
            return Label.OTHER, hit
        if label is Label.CODE:
            return (Label.CODE_FOR if _FOR.match(plain, hit.end, at) else label), hit
        if label is not Label.CODE_FOR and after is not None and _is_sender(hit, after, plain, at):
            return None
        return label, hit
    return None


def is_said_of(plain: str, end: int, hit: Hit) -> bool:
    """Say whether a name behind something is said to be its own: ``482913 is your code``."""
    return _SAYS.match(plain, end, hit.start) is not None


def _is_said_of_another(nouns: Sequence[Hit], number: int, plain: str) -> bool:
    """Say whether the code that is spoken of stands before its name."""
    code = next((each for each in nouns[: number + 1] if each.sense is Sense.CODE), None)
    if code is None:
        return False
    return _SAID_OF_ANOTHER.search(plain[max(0, code.start - 40) : code.start]) is not None


def _called(nouns: Sequence[Hit], number: int) -> Label:
    """Return what a noun says together with the one before it."""
    hit, earlier = nouns[number], nouns[:number]
    before_it = earlier[-1] if earlier else None
    if before_it is not None and _qualifies(before_it, hit):
        return _LABELS[before_it.sense]
    if hit.sense in {Sense.CODE, Sense.GIFT}:
        return _LABELS[hit.sense]
    codes = [each for each in earlier if each.sense is Sense.CODE]
    if not codes:
        return _LABELS[hit.sense]
    if hit.sense is Sense.STANDING:
        return Label.CODE
    joined = hit.start - codes[-1].end <= _JOINED_BEHIND
    return _LABELS[hit.sense] if joined else Label.CODE_FOR


def _qualifies(one: Hit, hit: Hit) -> bool:
    """Say whether a noun says which code or password the next one is: ``tracking code``."""
    if hit.sense not in {Sense.CODE, Sense.STANDING}:
        return False
    if one.sense is Sense.GIFT:
        return hit.start - one.end <= _NEAR
    return one.sense in {Sense.OTHER, Sense.EVENT} and hit.start - one.end <= _JOINED_BEFORE


def behind(hits: Sequence[Hit], plain: str, at: int) -> tuple[Label, Hit] | None:
    """Return what something is called by the words behind it."""
    nouns = [hit for hit in hits if hit.sense in _NOUNS and not _has_number(plain, hit)]
    if not nouns or _LONG_NUMBER.search(plain, at, nouns[0].start):
        return None
    first = nouns[0]
    following = nouns[1].sense if len(nouns) > 1 else None
    if first.sense is Sense.CODE:
        return Label.CODE, first
    if following is Sense.CODE and first.sense is not Sense.GIFT:
        near = nouns[1].start - first.end
        joined = first.sense is Sense.OTHER and near <= _JOINED_BEFORE
        return (_LABELS[first.sense] if joined else Label.CODE), nouns[1]
    return _LABELS[first.sense], first


def _is_sender(hit: Hit, after: tuple[Label, Hit], plain: str, at: int) -> bool:
    """Say whether a name before a colon is that of who writes: ``Tickets: 1234 is your code``."""
    label, behind = after
    if label is not Label.CODE or not plain[hit.end : at].rstrip().endswith(":"):
        return False
    return _NUMBER.search(plain, behind.end, behind.end + _NEAR) is None


def _has_number(plain: str, hit: Hit) -> bool:
    """Say whether a name of other numbers has its own right behind it."""
    if hit.sense is not Sense.OTHER:
        return False
    return _NUMBER.search(plain, hit.end, hit.end + _NEAR) is not None


def _is_taken(plain: str, start: int, end: int) -> bool:
    """Say whether a name is not for what comes behind: a number or a comma is between."""
    return (
        _NUMBER.search(plain, start, end) is not None
        or _COMMA.search(plain, start, end) is not None
    )
