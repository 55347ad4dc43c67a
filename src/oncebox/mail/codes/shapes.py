"""Shapes of codes: tokens written like a one-time code, and numbers that are not one.

Trying a pattern at every character of a mail costs more than parsing the mail. So the text is
translated to a few classes of characters first, and patterns are tried only where a rare sequence
of classes occurs.

Every pattern is bounded and starts where nothing of its kind precedes, so a text is scanned once.
Zero-width characters and soft hyphens inside a code are not part of its value.
"""

import re
import string
from collections.abc import Iterator
from enum import StrEnum
from functools import cached_property
from itertools import islice

import msgspec

from oncebox.mail.languages import readability

_DASH = re.compile("[\\-\u2010\u2011\u2013]")
#: invisible characters, which do not end a word; as a character class
ZERO_WIDTH = (
    "\u00ad\u034f\u061c\u180e\u200b-\u200f\u202a-\u202d\u2060-\u2064\u2066-\u2069"
    "\ufe0e\ufe0f\ufeff\u20e3"
)
_LETTERS = frozenset(string.ascii_letters)
_CHARACTERS = _LETTERS | frozenset(string.digits)
#: letters and invisible characters
_LETTERS_OR_INVISIBLE = _LETTERS | frozenset(
    re.findall(f"[{ZERO_WIDTH}]", "".join(map(chr, range(0x10000))))
)
#: limit of tokens; a mail with a code has fewer numbers
_MOST_NUMBERS = 12_000
#: characters by which a word is followed back to its start
_LONGEST_WORD = 40
#: digits of a number, and of the first of several groups
_LONG_DIGITS = 4
_FEWEST_DIGITS, _MOST_DIGITS = 2, 5

_DIGIT, _NEITHER = b"0", b"."
_CHARACTER_KINDS = (
    (string.ascii_uppercase, b"A"),
    (string.ascii_lowercase, b"a"),
    (string.digits, _DIGIT),
    # Other characters become a question mark, which may be a gap.
    (" ?-|\n", b" "),
    # A number may go on behind them.
    (".,:/\\", b","),
)
_CLASSES = bytes(
    next(
        (ord(kind) for characters, kind in _CHARACTER_KINDS if chr(code) in characters),
        ord(_NEITHER),
    )
    for code in range(256)
)
_LETTER_OR_DIGIT = bytes.maketrans(b"A0", b"aa")
#: a literal at the beginning makes the search faster
_DIGITS = re.compile(rb"00*+")
#: numbers that are long, touch a letter, or are followed by another number
_NOTABLE_DIGITS = re.compile(
    rb"0(?<!00)(?:0{3,}+(?!,0)|0*+(?=[Aa])|(?<=[Aa]0)0*+(?!,0)|0{1,4}(?= {1,3}00))"
)
_FOUR_LARGE = re.compile(rb"AAAAA*")
#: a single character, and two in a row; four of them contain such a pair
_SINGLE = b" a "
_SINGLE_PAIRS = (b" a a ", b" a  a ", b" a   a ")
_SINGLE_PAIR = re.compile(rb" a(?= {1,3}a )")


class MatchPositions:
    """Offsets in a text at which patterns can start, in order; one may occur twice."""

    def __init__(self, text: str) -> None:
        self._text = text
        self._ascii = text.isascii()
        self._classes = text.encode("ascii", "replace").translate(_CLASSES) + _NEITHER

    @property
    def digits(self) -> Iterator[int]:
        """Starts of numbers of several digits that are not long."""
        return (
            start for start, end in self._numbers if _FEWEST_DIGITS <= end - start <= _MOST_DIGITS
        )

    @property
    def words(self) -> Iterator[int]:
        """Starts of words with a digit, except short numbers."""
        text = self._text
        for start, end in self._numbers:
            at = start
            while at > 0 and start - at < _LONGEST_WORD and text[at - 1] in _LETTERS_OR_INVISIBLE:
                at -= 1
            if (
                at < start
                or end - start >= _LONG_DIGITS
                or text[end : end + 1] in _LETTERS_OR_INVISIBLE
            ):
                yield at

    @property
    def dashed(self) -> Iterator[int]:
        """Starts of words that are followed by a hyphen."""
        text = self._text
        for dash in self._dashes():
            at = dash
            while at > 0 and dash - at < _LONGEST_WORD and text[at - 1] in _CHARACTERS:
                at -= 1
            yield at

    def _dashes(self) -> Iterator[int]:
        if not self._ascii:
            yield from (dash.start() for dash in _DASH.finditer(self._text))
            return
        at = -1
        while (at := self._text.find("-", at + 1)) >= 0:
            yield at

    @property
    def capitals(self) -> Iterator[int]:
        """Starts of four capitals."""
        if b"AAAA" not in self._classes:
            return iter(())
        return (match.start() for match in _FOUR_LARGE.finditer(self._classes))

    @property
    def singles(self) -> Iterator[int]:
        """Starts of single characters, if several occur in a row."""
        alike = self._classes.translate(_LETTER_OR_DIGIT)
        # In a text of so few characters, a search from the end takes a quarter of the time.
        if alike.rfind(_SINGLE) < 0 or all(alike.rfind(pair) < 0 for pair in _SINGLE_PAIRS):
            return
        after = 0
        for pair in _SINGLE_PAIR.finditer(alike):
            # The first of four precedes the second by a gap of up to three characters.
            gap = pair.start()
            yield from range(max(after, gap - 3), gap)
            after = gap

    @cached_property
    def _numbers(self) -> list[tuple[int, int]]:
        """Ranges of numbers that may belong to a code, up to the limit of numbers."""
        classes = self._classes
        # Any number may touch an invisible character, which has no class of its own.
        if not self._ascii or classes.count(_DIGIT) > _MOST_NUMBERS:
            return [match.span() for match in islice(_DIGITS.finditer(classes), _MOST_NUMBERS)]
        return [match.span() for match in _NOTABLE_DIGITS.finditer(classes)]


#: separators between the groups of a code
_SEPARATORS = " \u00a0\u2002-\u200a\u202f\u3000\\-\u2010-\u2013\u2212\u00b7\u2022\u30fb|"
_CODE_CHARACTER = f"A-Za-z0-9{ZERO_WIDTH}"
#: not followed by the rest of an amount, a time or a date
_WORD_WITH_DIGIT = re.compile(
    rf"(?<![{_CODE_CHARACTER}])(?=[A-Za-z{ZERO_WIDTH}]{{0,24}}+[0-9])[{_CODE_CHARACTER}]++(?![.,:/\\][0-9])"
)
_GROUPS = re.compile(
    rf"(?<![{_CODE_CHARACTER}])[0-9]{{2,5}}([{_SEPARATORS}]{{1,3}})[0-9]{{2,5}}(?:\1[0-9]{{2,5}}){{0,6}}(?![{_CODE_CHARACTER}])"
)
#: letters of scripts with spaces between words: Latin, Greek, Cyrillic, Armenian, Georgian
_SPACED_LETTER = "\u00c0-\u058f\u10a0-\u10ff\u1e00-\u1fff"
_NO_WORD = f"{_CODE_CHARACTER}{_SPACED_LETTER}"
#: a letter in another line belongs to the code only if it is alone there
_SINGLES = re.compile(
    rf"(?<![{_NO_WORD}])[A-Za-z0-9](?:[{_SEPARATORS}]{{1,3}}[A-Za-z0-9]"
    rf"|[{_SEPARATORS}\n]{{1,3}}(?:[0-9]|[A-Za-z](?=\n|\Z))){{3,11}}(?![{_NO_WORD}])"
)
#: the digits of a code between words of one letter
_SINGLE_DIGITS = re.compile(rf"[0-9](?:[{_SEPARATORS}\n]{{1,3}}[0-9]){{3,}}")
_WORD_BEFORE = re.compile(r"\w[ \u00a0]{1,2}\Z")
_WORD_BEHIND = re.compile(r"[ \u00a0]{1,2}\w")
_DASHED = re.compile(
    rf"(?<![{_CODE_CHARACTER}/_.@#%=&+\-])[A-Za-z0-9]{{1,12}}(?:[\-\u2010\u2011\u2013][A-Za-z0-9]{{1,12}}){{1,5}}"
    rf"(?![{_CODE_CHARACTER}/_@\-])"
)
_CAPITALS = re.compile(rf"(?<![{_CODE_CHARACTER}'\-])[A-Z]{{4,10}}(?![{_CODE_CHARACTER}'\-\u2019])")
_MANY_GROUPS = re.compile(
    r"(?<![A-Za-z0-9])\+?\(?[0-9]{1,4}(?:[ \u00a0.\-/()]{1,2}[0-9]{2,5}){2,5}(?![A-Za-z0-9])"
)
#: longest number that is followed, and shortest long number
_LONGEST_NUMBER = 45
_LONG_NUMBER = 9
_INVISIBLE = re.compile(f"[{ZERO_WIDTH}]")
_GROUP = re.compile("[A-Za-z0-9]+")
_PHRASE = re.compile(r"[a-z]{2,12}(?:[ -][a-z]{2,12}){1,5}")
_PAIRS = re.compile(r"[A-Z0-9]{2,5}(?: [A-Z0-9]{2,5}){1,3}")
#: a superset of the phrases, pairs and mixed words
_WORDS_OR_PAIRS = re.compile("[A-Za-z0-9]{2,12}(?:[ -][A-Za-z0-9]{2,12}){0,5}")
_MIXED = re.compile(r"(?=[^ ]*[a-z][A-Z])[A-Za-z]{5,10}")
#: a number with its unit, or a name with a number
_NUMBER_WITH_UNIT = re.compile(
    r"[0-9]{1,4}[a-z]{1,5}|[0-9]{1,4}(?:AM|PM|GB|MB|KB|TB|K|M|D|X|P|W|H|V|MHZ|GHZ|PX)"
)
_NAME_WITH_NUMBER = re.compile(r"[A-Z]?[a-z]{2,}[0-9]+|v[0-9]+|[A-Z][a-z]+[0-9A-Z][A-Za-z0-9]*")
#: a word and a number, as in vouchers
_VOUCHER_NAME = re.compile(r"[A-Z]{4,}[0-9]{1,3}|[0-9]{1,2}OFF")
_UUID = re.compile(r"[0-9a-fA-F]{8}(?:-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}")
#: digits, steps or hours
_HOW_MANY = re.compile(r"[0-9]{1,2}(?:-[A-Za-z]+)+")
_YEAR = re.compile(r"(?:19|20)[0-9]{2}")
_DAY = re.compile(r"(?:19|20)[0-9]{2}(?:0[1-9]|1[0-2])(?:0[1-9]|[12][0-9]|3[01])")
_SHORT_DAY = re.compile(r"(?:0[1-9]|[12][0-9]|3[01])(?:0[1-9]|1[0-2])[0-9]{2}")

_CODE_PREFIXES = frozenset({"OTP", "PIN", "TAN", "CODE"})
_COUNTING_DIGITS = "0123456789"
#: limit of matches in one text; a mail with a code has fewer
MOST_TOKENS = 120
#: limits of matches before filtering, and of offsets that are tried
_MOST_MATCHES, _MOST_POSITIONS = 4_000, 12_000
_LONGEST, _LONGEST_PHRASE = 16, 80
#: a long code has hexadecimal digits only
_LONG_HEX = re.compile(r"(?=[0-9]*[a-fA-F])(?:[0-9a-f]{17,64}|[0-9A-F]{17,64})")
_LONG_HEX_POINTS = -4
#: letters of a word that may be a code if it is none of any language
_RANDOM_LETTERS = range(6, 13)


class Shape(StrEnum):
    """The shape of a code."""

    DIGITS = "digits"
    GROUPS = "digits_in_groups"
    SINGLES = "characters_apart"
    MIXED = "letters_and_digits"
    DASHED = "groups_with_hyphens"
    LETTERS = "letters"
    PHRASE = "words"


class Token(msgspec.Struct, frozen=True, gc=False):
    """A token with the shape of a code."""

    value: str
    start: int
    end: int
    shape: Shape
    #: points of its shape
    points: int


def find_tokens(text: str) -> list[Token]:
    """Return the tokens of a text, in order; the longer of two that overlap."""
    positions = MatchPositions(text)
    found: list[Token] = []
    for find in (_group_tokens, _single_tokens, _dashed_tokens, _word_tokens, _capital_tokens):
        found += islice(find(text, positions), MOST_TOKENS)
    found.sort(key=lambda token: (token.start, -token.end))
    chosen: list[Token] = []
    for token in found:
        if (not chosen or token.start >= chosen[-1].end) and not _is_part_of_number(text, token):
            chosen.append(token)
    return chosen


def _is_part_of_number(text: str, token: Token) -> bool:
    """Say whether a token is part of a longer number, such as a phone or account number."""
    low, high = max(0, token.start - _LONGEST_NUMBER), token.end + _LONGEST_NUMBER
    return any(
        match.start() <= token.start
        and token.end <= match.end()
        and token.end - token.start < match.end() - match.start()
        and sum(map(str.isdigit, match[0])) >= _LONG_NUMBER
        for match in _MANY_GROUPS.finditer(text, low, high)
    )


def _bounded_matches(
    pattern: re.Pattern[str], text: str, positions: Iterator[int]
) -> Iterator[re.Match[str]]:
    """Yield the matches that start at given offsets, like ``finditer``."""
    end = matches = 0
    for position in islice(positions, _MOST_POSITIONS):
        if position >= end and (match := pattern.match(text, position)):
            yield match
            end = match.end()
            matches += 1
            if matches == _MOST_MATCHES:
                return


def block_token(text: str, start: int, end: int) -> Token | None:
    """Return a block as a code of several words or pairs, if it is one."""
    if end - start > _LONGEST_PHRASE or not text[start].isalnum():
        return None
    bare = text[start:end]
    if not _WORDS_OR_PAIRS.fullmatch(bare):
        return None
    if _PHRASE.fullmatch(bare):
        return Token(bare, start, end, Shape.PHRASE, 6 if "-" in bare else 0)
    if _PAIRS.fullmatch(bare):
        groups = bare.split(" ")
        if len({len(group) for group in groups}) == 1 and _has_letters_and_digits(bare):
            return Token("".join(groups), start, end, Shape.SINGLES, 16)
    if _MIXED.fullmatch(bare) or _is_random(bare):
        return Token(bare, start, end, Shape.LETTERS, 0)
    return None


def _is_random(word: str) -> bool:
    """Say whether letters are no word of any language."""
    return len(word) in _RANDOM_LETTERS and word.isalpha() and not readability.is_readable(word)


def _has_letters_and_digits(text: str) -> bool:
    return any(each.isdigit() for each in text) and any(each.isalpha() for each in text)


def digits_points(value: str) -> int:
    """Return the points of a number by its length."""
    points = {4: 20, 5: 20, 6: 30, 7: 22, 8: 24, 9: 10, 10: 10}.get(len(value), -100)
    if _YEAR.fullmatch(value):
        return 2
    if _DAY.fullmatch(value):
        return 6
    return points - 10 if value.endswith("00") and len(value) <= 5 else points  # noqa: PLR2004


def _word_tokens(text: str, positions: MatchPositions) -> Iterator[Token]:
    for match in _bounded_matches(_WORD_WITH_DIGIT, text, positions.words):
        shown = match[0]
        value = shown if shown.isascii() else _INVISIBLE.sub("", shown)
        start, end = match.span()
        if not value or len(value) > _LONGEST:
            if _LONG_HEX.fullmatch(value):
                yield Token(value, start, end, Shape.MIXED, _LONG_HEX_POINTS)
            continue
        if value.isdigit():
            points = digits_points(value)
            if points > 0:
                yield Token(value, start, end, Shape.DIGITS, points)
        elif len(value) >= 4 and not _NUMBER_WITH_UNIT.fullmatch(value):  # noqa: PLR2004
            yield Token(value, start, end, Shape.MIXED, _mixed_points(value))


def _mixed_points(value: str) -> int:
    if _NAME_WITH_NUMBER.fullmatch(value):
        return -12
    if _VOUCHER_NAME.fullmatch(value):
        return 0
    upper = value.upper() == value
    usual = 5 <= len(value) <= 8  # noqa: PLR2004
    points = (18 if upper else 8) if usual else (8 if upper else 2)
    return points if len(value) <= 12 else points - 8  # noqa: PLR2004


def _group_tokens(text: str, positions: MatchPositions) -> Iterator[Token]:
    for match in _bounded_matches(_GROUPS, text, positions.digits):
        groups = [_INVISIBLE.sub("", part) for part in re.split(re.escape(match[1]), match[0])]
        alike = 1
        while alike < len(groups) and len(groups[alike]) == len(groups[0]):
            alike += 1
        value = "".join(groups[:alike])
        rest = groups[alike:]
        if alike == 1 or len(rest) > 1 or len(groups[0]) == 5:  # noqa: PLR2004
            continue
        if rest and len(rest[0]) > 2:  # noqa: PLR2004 - a phone number
            continue
        points = {4: 14, 6: 30, 8: 22, 9: 10, 10: 2, 12: 2}.get(len(value), -100)
        if points < 0:
            continue
        if match[1] in "-\u2013" and _SHORT_DAY.fullmatch(value):
            points -= 12
        end = match.start() + sum(map(len, groups[:alike])) + len(match[1]) * (alike - 1)
        yield Token(value, match.start(), end, Shape.GROUPS, points)


def _single_tokens(text: str, positions: MatchPositions) -> Iterator[Token]:
    for match in _bounded_matches(_SINGLES, text, positions.singles):
        start, end = _without_words(text, match)
        value = "".join(_GROUP.findall(text, start, end))
        points = 12 if _has_letters_and_digits(value) else -8
        if value.isdigit():
            points = max(digits_points(value), 12)
        if value in _COUNTING_DIGITS:
            points = 0  # page numbers or ratings
        yield Token(value, start, end, Shape.SINGLES, points)


def _without_words(text: str, match: re.Match[str]) -> tuple[int, int]:
    """Return the range of single characters without the words of one letter around digits."""
    start, end = match.span()
    digits = _SINGLE_DIGITS.search(text, start, end)
    if digits is None or digits.span() == (start, end):
        return start, end
    if _WORD_BEFORE.search(text, max(0, start - 3), start):
        start = digits.start()
    if _WORD_BEHIND.match(text, end):
        end = digits.end()
    return start, end


def _dashed_tokens(text: str, positions: MatchPositions) -> Iterator[Token]:
    for match in _bounded_matches(_DASHED, text, positions.dashed):
        shown = match[0]
        value = shown if shown.isascii() else _DASH.sub("-", shown)
        groups = value.split("-")
        bare = "".join(groups)
        if bare.isdigit() or _UUID.fullmatch(value) or _HOW_MANY.fullmatch(value):
            continue
        number = _number_in_groups(groups)
        if number is not None:
            start, end = match.span()
            if groups[0] == number:
                end = start + len(number)
            elif groups[0].upper() in _CODE_PREFIXES:
                start = end - len(number)
            yield Token(number, start, end, Shape.DASHED, digits_points(number) - 2)
            continue
        points = _dashed_points(value, groups, bare)
        if points is not None:
            shape = Shape.PHRASE if bare.isalpha() and bare.islower() else Shape.DASHED
            yield Token(value, match.start(), match.end(), shape, points)


def _number_in_groups(groups: list[str]) -> str | None:
    """Return the number of two groups of which only one is typed.

    A letter before it names the sender, a word such as OTP the kind of code. Lower-case letters
    after it are a grammatical ending.
    """
    if len(groups) != 2:  # noqa: PLR2004
        return None
    first, last = groups
    if last.isdigit() and len(last) >= 4 and first.isalpha():  # noqa: PLR2004
        named = len(first) == 1 or first.upper() in _CODE_PREFIXES or not first.isupper()
        return last if named else None
    ending = last.isalpha() and last.islower() and len(last) <= 5  # noqa: PLR2004
    return first if ending and first.isdigit() and len(first) >= 4 else None  # noqa: PLR2004


def _dashed_points(value: str, groups: list[str], bare: str) -> int | None:
    """Return the points of groups with hyphens; None if they are no code."""
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
        # like the numbers of orders and tickets, and codes with the sender's initials
        return 10 if len(groups) == 2 and len(groups[0]) <= 3 and len(bare) <= 9 else 4  # noqa: PLR2004
    return 8 if value.isupper() else 2


def _capital_tokens(text: str, positions: MatchPositions) -> Iterator[Token]:
    for match in _bounded_matches(_CAPITALS, text, positions.capitals):
        yield Token(match[0], match.start(), match.end(), Shape.LETTERS, 4)


_CURRENCY = "$€£¥₹₽₩₺₴₫₪₦฿₱₸₾₼₿¢"
_MONEY = (
    "(?:(?-i:USD|EUR|GBP|CHF|CAD|AUD|INR|BRL|MXN|PLN|CZK|HUF|SEK|NOK|DKK|JPY|CNY|RMB|KRW|TRY|RUB|"
    "UAH|VND|IDR|THB|PHP|SAR|AED|ZAR|TWD|SGD|HKD|ILS|RON|BGN)"
    "|kr|zl|z\u0142|kc|k\u010d|ft|lei|\u0440\u0443\u0431|\u0433\u0440\u043d|\u5143|\u5186|\uc6d0|\u0e1a\u0e32\u0e17|\u0111)"
)
_MONEY_BEFORE = re.compile(
    rf"(?:[{_CURRENCY}]|(?<![^\W\d_])(?:{_MONEY}|rs|rp)\.?)\s?$", re.IGNORECASE
)
_MONEY_BEHIND = re.compile(
    rf"\s?(?:[{_CURRENCY}%\u2030\u00b0]|{_MONEY}(?![^\W\d_])|[,.]-(?!\w))", re.IGNORECASE
)
#: continued as a number, a date, a time, a version or an address
_CONTINUES_BEHIND = re.compile(
    r"[.,:/\\]\d|['\u2019]\d|[-\u2013/]\d|[@=_~^]|&(?!(?:[lg]t|quot|nbsp|#\d+);)|[/\\][\w]|\.[a-z]{2}|%\d"
)
_CONTINUES_BEFORE = re.compile(
    r"\d[.,:/'\u2019-]$|[@=_&~^#+\\/?%]$|[*\u2022\u00b7xX\u2026]{2,}[ -]?$|\.[*]$"
    r"|\+\d{1,3}[ .-]?$|\(\d{2,5}\)[ -]?$"
)
_ADDRESS = re.compile(r"://|www\.|@|[a-z0-9-]\.[a-z]{2,12}/|=", re.IGNORECASE)
_UNBROKEN_RUN = re.compile(r"[!-~]{1,300}$")
_MASKED = re.compile(r"(?:[*\u2022\u00b7.xX#]\s?){3,}$")
_BEHIND_UNIT = re.compile(
    r"\s?(?:kg|km|cm|mm|ml|gb|mb|kb|px|sq|mph|kwh|kcal|utc|gmt|cet|年|月|日|号|號|点|%|ч)(?![a-z])",
    re.IGNORECASE,
)
_AM_OR_PM = re.compile(r"\s?[ap]\.?m\b", re.IGNORECASE)
#: asterisks and underscores on both sides are emphasis
_EMPHASIS = re.compile(r"(?<![*_])(\*{1,3}|_{1,3})$")
_AMOUNT = re.compile(rf"[{_CURRENCY}]\s?\d|\d\s?[{_CURRENCY}]")
_NAMED_AMOUNT = re.compile(rf"\d[.,]\d\d\s?(?i:{_MONEY})(?![^\W\d_])")
#: a year after a day, a month, or a time with its zone
_DATED = re.compile(
    r"(?<!\d)[0-3]?\d(?:st|nd|rd|th|\.|\u00ba)?(?:,? (?:de |of )?[^\W\d_]{3,12}\.?)?"
    r",? (?:de |of |del )?$"
    r"|\d:\d\d(?::\d\d)?(?: [A-Z]{1,5}| [+-]\d{4})? $"
)
_CALENDAR_YEAR = re.compile(r"(?:19|20)\d\d")
_OVERRIDE, _POP = "\u202e", "\u202c"
_CONTEXT_CHARACTERS = 24
_APP_HASH_LENGTH = 11
_OVERRIDE_REACH = 500


def foreign_reason(text: str, token: Token) -> str:
    """Return why a token cannot be a code, by the adjacent characters; empty if it can."""
    before = text[max(0, token.start - _CONTEXT_CHARACTERS) : token.start]
    behind = text[token.end : token.end + _CONTEXT_CHARACTERS]
    emphasis = _EMPHASIS.search(before)
    if emphasis and behind.startswith(emphasis[0]):
        before, behind = before[: emphasis.start()], behind[len(emphasis[0]) :]
    near = max(0, token.start - _OVERRIDE_REACH)
    if text.rfind(_OVERRIDE, near, token.start) > text.rfind(_POP, near, token.start):
        return "reversed"
    # The app hash at the end of a text message for SMS retrieval.
    app_hash = len(token.value) == _APP_HASH_LENGTH and text.lstrip().startswith(("<#>", "[#]"))
    if _CONTINUES_BEHIND.match(behind) or _CONTINUES_BEFORE.search(before) or app_hash:
        return "part_of_more"
    if token.shape is not Shape.LETTERS and token.shape is not Shape.PHRASE:
        counted = _quantity_reason(token, before, behind)
        if counted:
            return counted
    return "address" if _in_address(text, token) else ""


def _quantity_reason(token: Token, before: str, behind: str) -> str:
    """Return the unit of a number, by the adjacent characters; empty if none."""
    if _MONEY_BEFORE.search(before) or _MONEY_BEHIND.match(behind):
        return "amount"
    if _BEHIND_UNIT.match(behind) or (len(token.value) <= 4 and _AM_OR_PM.match(behind)):  # noqa: PLR2004
        return "measure"
    if _MASKED.search(before):
        return "masked"
    return "date" if _CALENDAR_YEAR.fullmatch(token.value) and _DATED.search(before) else ""


def _in_address(text: str, token: Token) -> bool:
    if token.start == 0 or text[token.start - 1].isspace():
        return False
    run = _UNBROKEN_RUN.search(text[max(0, token.start - 300) : token.start])
    return run is not None and _ADDRESS.search(run[0]) is not None


def touches_letters(text: str, token: Token) -> bool:
    """Say whether a token touches letters of a script with spaces between words."""
    before = text[token.start - 1 : token.start]
    behind = text[token.end : token.end + 1]
    return _is_alphabetic(before) or _is_alphabetic(behind)


def _is_alphabetic(character: str) -> bool:
    """Say whether a character is a Latin, Greek, Cyrillic, Armenian or Georgian letter."""
    if not character or not character.isalpha():
        return False
    number = ord(character)
    return number < 0x0590 or 0x10A0 <= number < 0x1100 or 0x1E00 <= number < 0x2000  # noqa: PLR2004


def has_amount(text: str) -> bool:
    """Say whether a text contains an amount of money."""
    signs = "$" in text or not text.isascii()
    return bool((signs and _AMOUNT.search(text)) or _NAMED_AMOUNT.search(text))
