"""Shapes: everything in a text that is written as one-time codes are written.

Every pattern is bounded and begins where nothing of its kind precedes, so a text is read once.
It is asked only where it can match at all: ``codes_spots`` knows where that is. Zero-width
characters and soft hyphens inside of a code are not part of it.
"""

import re
from collections.abc import Iterator
from enum import StrEnum
from itertools import islice

import msgspec

from oncebox.mail.codes_spots import ZERO_WIDTH, Spots

#: what stands between the groups of a code
_BETWEEN = " \u00a0\u2002-\u200a\u202f\u3000\\-\u2010-\u2013\u2212\u00b7\u2022\u30fb|"
_A = f"A-Za-z0-9{ZERO_WIDTH}"
#: what goes on as an amount, a time or a date is none
_ATOM = re.compile(rf"(?<![{_A}])(?=[A-Za-z{ZERO_WIDTH}]{{0,24}}+[0-9])[{_A}]++(?![.,:/\\][0-9])")
_GROUPS = re.compile(
    rf"(?<![{_A}])[0-9]{{2,5}}([{_BETWEEN}]{{1,3}})[0-9]{{2,5}}(?:\1[0-9]{{2,5}}){{0,6}}(?![{_A}])"
)
_SINGLES = re.compile(
    rf"(?<![{_A}])[A-Za-z0-9](?:[{_BETWEEN}\n]{{1,3}}[A-Za-z0-9]){{3,11}}(?![{_A}])"
)
_DASHED = re.compile(
    rf"(?<![{_A}/_.@#%=&+\-])[A-Za-z0-9]{{1,12}}(?:[\-\u2010\u2011\u2013][A-Za-z0-9]{{1,12}}){{1,5}}"
    rf"(?![{_A}/_@\-])"
)
_CAPITALS = re.compile(rf"(?<![{_A}'\-])[A-Z]{{4,10}}(?![{_A}'\-\u2019])")
_MANY_GROUPS = re.compile(
    r"(?<![A-Za-z0-9])\+?\(?[0-9]{1,4}(?:[ \u00a0.\-/()]{1,2}[0-9]{2,5}){2,5}(?![A-Za-z0-9])"
)
#: so far it goes at most
_REACH = 45
_LONG_NUMBER = 9
_INVISIBLE = re.compile(f"[{ZERO_WIDTH}]")
_DASH = re.compile("[\\-\u2010\u2011\u2013]")
_GROUP = re.compile("[A-Za-z0-9]+")
_PHRASE = re.compile(r"[a-z]{2,12}(?:[ -][a-z]{2,12}){1,5}")
_PAIRS = re.compile(r"[A-Z0-9]{2,5}(?: [A-Z0-9]{2,5}){1,3}")
#: all three of these
_OF_WORDS = re.compile("[A-Za-z0-9]{2,12}(?:[ -][A-Za-z0-9]{2,12}){0,5}")
_MIXED = re.compile(r"(?=[^ ]*[a-z][A-Z])[A-Za-z]{5,10}")
#: a number and its unit, or a name with a number behind it
_UNIT = re.compile(
    r"[0-9]{1,4}[a-z]{1,5}|[0-9]{1,4}(?:AM|PM|GB|MB|KB|TB|K|M|D|X|P|W|H|V|MHZ|GHZ|PX)"
)
_NAME = re.compile(r"[A-Z]?[a-z]{2,}[0-9]+|v[0-9]+|[A-Z][a-z]+[0-9A-Z][A-Za-z0-9]*")
#: a word and a number, as vouchers are named
_OFFER = re.compile(r"[A-Z]{4,}[0-9]{1,3}|[0-9]{1,2}OFF")
_UUID = re.compile(r"[0-9a-fA-F]{8}(?:-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}")
#: digits, steps or hours
_HOW_MANY = re.compile(r"[0-9]{1,2}(?:-[A-Za-z]+)+")
_YEAR = re.compile(r"(?:19|20)[0-9]{2}")
_DAY = re.compile(r"(?:19|20)[0-9]{2}(?:0[1-9]|1[0-2])(?:0[1-9]|[12][0-9]|3[01])")
_SHORT_DAY = re.compile(r"(?:0[1-9]|[12][0-9]|3[01])(?:0[1-9]|1[0-2])[0-9]{2}")

_CALLED = frozenset({"OTP", "PIN", "TAN", "CODE"})
_COUNTING = "0123456789"
#: so many are looked at in one text; more are in no mail that is about a code
MOST = 120
#: and so many that turn out to be written otherwise, of so many places where they could begin
_MOST_MATCHES, _MOST_SPOTS = 4_000, 12_000
_LONGEST, _LONGEST_PHRASE = 16, 80


class Shape(StrEnum):
    """How a code is written."""

    DIGITS = "digits"
    GROUPS = "digits_in_groups"
    SINGLES = "characters_apart"
    MIXED = "letters_and_digits"
    DASHED = "groups_with_hyphens"
    LETTERS = "letters"
    PHRASE = "words"


class Token(msgspec.Struct, frozen=True):
    """Something that is written like a code."""

    value: str
    start: int
    end: int
    shape: Shape
    #: how much its shape says for it
    points: int


def tokens(text: str) -> list[Token]:
    """Return what is written like a code, in its order; of two that overlap the longer."""
    spots = Spots(text)
    found = [*_first(_groups(text, spots)), *_first(_singles(text, spots))]
    found += [*_first(_dashed(text, spots)), *_first(_atoms(text, spots))]
    found += _first(_capitals(text, spots))
    found.sort(key=lambda token: (token.start, -token.end))
    kept: list[Token] = []
    for token in found:
        if (not kept or token.start >= kept[-1].end) and not _is_part(text, token):
            kept.append(token)
    return kept


def _is_part(text: str, token: Token) -> bool:
    """Say whether it is a piece of a longer number, as telephones and accounts have."""
    low, high = max(0, token.start - _REACH), token.end + _REACH
    return any(
        match.start() <= token.start
        and token.end <= match.end()
        and token.end - token.start < match.end() - match.start()
        and sum(map(str.isdigit, match[0])) >= _LONG_NUMBER
        for match in _MANY_GROUPS.finditer(text, low, high)
    )


def _all(pattern: re.Pattern[str], text: str, spots: Iterator[int]) -> Iterator[re.Match[str]]:
    """Yield the matches that begin at one of some spots, as ``finditer`` would."""
    return islice(_matches(pattern, text, spots), _MOST_MATCHES)


def _matches(pattern: re.Pattern[str], text: str, spots: Iterator[int]) -> Iterator[re.Match[str]]:
    end = 0
    for spot in islice(spots, _MOST_SPOTS):
        if spot >= end and (match := pattern.match(text, spot)):
            yield match
            end = match.end()


def _first(every: Iterator[Token]) -> Iterator[Token]:
    return islice(every, MOST)


def whole(text: str, start: int, end: int) -> Token | None:
    """Return a block as a code that is written in words or in pairs, if it is."""
    if end - start > _LONGEST_PHRASE or not text[start].isalnum():
        return None
    bare = text[start:end]
    if not _OF_WORDS.fullmatch(bare):
        return None
    if _PHRASE.fullmatch(bare):
        return Token(bare, start, end, Shape.PHRASE, 6 if "-" in bare else 0)
    if _PAIRS.fullmatch(bare):
        groups = bare.split(" ")
        if len({len(group) for group in groups}) == 1 and not bare.isalpha() and _mixed(bare):
            return Token("".join(groups), start, end, Shape.SINGLES, 16)
    if _MIXED.fullmatch(bare):
        return Token(bare, start, end, Shape.LETTERS, 0)
    return None


def _mixed(text: str) -> bool:
    return any(each.isdigit() for each in text) and any(each.isalpha() for each in text)


def of_digits(value: str) -> int:
    """Return how much a number of digits says for itself."""
    points = {4: 20, 5: 20, 6: 30, 7: 22, 8: 24, 9: 10, 10: 10}.get(len(value), -100)
    if _YEAR.fullmatch(value):
        return 2
    if _DAY.fullmatch(value):
        return 6
    return points - 10 if value.endswith("00") and len(value) <= 5 else points  # noqa: PLR2004


def _atoms(text: str, spots: Spots) -> Iterator[Token]:
    for match in _all(_ATOM, text, spots.words):
        shown = match[0]
        value = shown if shown.isascii() else _INVISIBLE.sub("", shown)
        start, end = match.span()
        if not value or len(value) > _LONGEST:
            continue
        if value.isdigit():
            points = of_digits(value)
            if points > 0:
                yield Token(value, start, end, Shape.DIGITS, points)
        elif len(value) >= 4 and not _UNIT.fullmatch(value):  # noqa: PLR2004
            yield Token(value, start, end, Shape.MIXED, _of_mixed(value))


def _of_mixed(value: str) -> int:
    """Return how much letters and digits say for themselves."""
    if _NAME.fullmatch(value):
        return -12
    if _OFFER.fullmatch(value):
        return 0
    upper = value.upper() == value
    usual = 5 <= len(value) <= 8  # noqa: PLR2004
    points = (18 if upper else 8) if usual else (8 if upper else 2)
    return points if len(value) <= 12 else points - 8  # noqa: PLR2004


def _groups(text: str, spots: Spots) -> Iterator[Token]:
    for match in _all(_GROUPS, text, spots.digits):
        groups = [_INVISIBLE.sub("", part) for part in re.split(re.escape(match[1]), match[0])]
        alike = 1
        while alike < len(groups) and len(groups[alike]) == len(groups[0]):
            alike += 1
        value = "".join(groups[:alike])
        rest = groups[alike:]
        if alike == 1 or len(rest) > 1 or len(groups[0]) == 5:  # noqa: PLR2004
            continue
        if rest and len(rest[0]) > 2:  # noqa: PLR2004 - a telephone's number
            continue
        points = {4: 14, 6: 30, 8: 22, 9: 10, 10: 2, 12: 2}.get(len(value), -100)
        if points < 0:
            continue
        if match[1] in "-\u2013" and _SHORT_DAY.fullmatch(value):
            points -= 12
        end = match.start() + sum(map(len, groups[:alike])) + len(match[1]) * (alike - 1)
        yield Token(value, match.start(), end, Shape.GROUPS, points)


def _singles(text: str, spots: Spots) -> Iterator[Token]:
    for match in _all(_SINGLES, text, spots.singles):
        value = "".join(_GROUP.findall(match[0]))
        points = max(of_digits(value), 12) if value.isdigit() else (12 if _mixed(value) else -8)
        if value in _COUNTING:
            points = 0  # pages, or marks to be given
        yield Token(value, match.start(), match.end(), Shape.SINGLES, points)


def _dashed(text: str, spots: Spots) -> Iterator[Token]:
    for match in _all(_DASHED, text, spots.dashed):
        shown = match[0]
        value = shown if shown.isascii() else _DASH.sub("-", shown)
        groups = value.split("-")
        bare = "".join(groups)
        if bare.isdigit() or _UUID.fullmatch(value) or _HOW_MANY.fullmatch(value):
            continue
        number = _number(groups)
        if number is not None:
            start, end = match.span()
            if groups[0] == number:
                end = start + len(number)
            elif len(groups[0]) > 1:
                start = end - len(number)
            yield Token(number, start, end, Shape.DASHED, of_digits(number) - 2)
            continue
        points = _of_dashed(value, groups, bare)
        if points is not None:
            shape = Shape.PHRASE if bare.isalpha() and bare.islower() else Shape.DASHED
            yield Token(value, match.start(), match.end(), shape, points)


def _number(groups: list[str]) -> str | None:
    """Return the number of two groups of which the other is not typed.

    A letter before it names the sender, a word such as OTP what it is; what is behind it in
    small letters is an ending.
    """
    if len(groups) != 2:  # noqa: PLR2004
        return None
    first, last = groups
    if last.isdigit() and len(last) >= 4 and first.isalpha():  # noqa: PLR2004
        named = len(first) == 1 or first.upper() in _CALLED or not first.isupper()
        return last if named else None
    ending = last.isalpha() and last.islower() and len(last) <= 5  # noqa: PLR2004
    return first if ending and first.isdigit() and len(first) >= 4 else None  # noqa: PLR2004


def _of_dashed(value: str, groups: list[str], bare: str) -> int | None:
    """Return how much groups with hyphens say for themselves; none: they are no code."""
    alike = len({len(group) for group in groups}) == 1
    if bare.isalpha() and bare.islower():
        return 0 if all(len(group) > 1 for group in groups) else None
    if bare.isalpha() and not bare.isupper():
        return 4 if alike and not all(group.istitle() for group in groups) else None
    if bare.isalpha():
        return 20 if alike and len(groups[0]) >= 3 else -10  # noqa: PLR2004
    if alike and len(groups[0]) >= 3:  # noqa: PLR2004
        return 18 if value.isupper() else 10
    if groups[0].isalpha() and "".join(groups[1:]).isdigit():
        # as orders and tickets are numbered, and codes behind the sender's initials
        return 10 if len(groups) == 2 and len(groups[0]) <= 3 and len(bare) <= 9 else 4  # noqa: PLR2004
    return 8 if value.isupper() else 2


def _capitals(text: str, spots: Spots) -> Iterator[Token]:
    for match in _all(_CAPITALS, text, spots.capitals):
        yield Token(match[0], match.start(), match.end(), Shape.LETTERS, 4)
