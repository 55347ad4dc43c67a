"""What a number is when it is no code: part of an address, a price, a date, a time, a colour."""

import re

from oncebox.mail.codes_shapes import Shape, Token

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
#: what goes on as a number, a date, a time, a version or an address
_GOES_ON = re.compile(r"[.,:/\\]\d|['\u2019]\d|[-\u2013/]\d|[@=_&~^]|[/\\][\w]|\.[a-z]{2}|%\d")
_CAME_ON = re.compile(
    r"\d[.,:/'\u2019-]$|[@=_&~^#+\\/?%]$|[*\u2022\u00b7xX\u2026]{2,}[ -]?$|\.[*]$"
    r"|\+\d{1,3}[ .-]?$|\(\d{2,5}\)[ -]?$"
)
_ADDRESS = re.compile(r"://|www\.|@|[a-z0-9-]\.[a-z]{2,12}/|=", re.IGNORECASE)
_WORDS_OF_ADDRESS = re.compile(r"[!-~]{1,300}$")
_MASKED = re.compile(r"(?:[*\u2022\u00b7.xX#]\s?){3,}$")
_BEHIND_UNIT = re.compile(
    r"\s?(?:kg|km|cm|mm|ml|gb|mb|kb|px|sq|mph|kwh|kcal|utc|gmt|cet|年|月|日|号|號|点|%|ч)(?![a-z])",
    re.IGNORECASE,
)
_HALF = re.compile(r"\s?[ap]\.?m\b", re.IGNORECASE)
#: stars and strokes on both sides only make it bold
_EMPHASIS = re.compile(r"(?<![*_])(\*{1,3}|_{1,3})$")
_AMOUNT = re.compile(rf"[{_CURRENCY}]\s?\d|\d\s?[{_CURRENCY}]")
_NAMED_AMOUNT = re.compile(rf"\d[.,]\d\d\s?(?i:{_MONEY})(?![^\W\d_])")
#: a year behind the rest of its date: a day, a month, or a time and its zone
_DATED = re.compile(
    r"(?<!\d)[0-3]?\d(?:st|nd|rd|th|\.|\u00ba)?(?:,? (?:de |of )?[^\W\d_]{3,12}\.?)?"
    r",? (?:de |of |del )?$"
    r"|\d:\d\d(?::\d\d)?(?: [A-Z]{1,5}| [+-]\d{4})? $"
)
_YEAR = re.compile(r"(?:19|20)\d\d")
_OVERRIDE, _POP = "\u202e", "\u202c"
_LOOK = 24
_STAMP = 11
_OVERRIDDEN = 500


def is_foreign(text: str, token: Token) -> str:
    """Say why something is certainly no code, by what touches it; empty if nothing does."""
    before = text[max(0, token.start - _LOOK) : token.start]
    behind = text[token.end : token.end + _LOOK]
    emphasis = _EMPHASIS.search(before)
    if emphasis and behind.startswith(emphasis[0]):
        before, behind = before[: emphasis.start()], behind[len(emphasis[0]) :]
    near = max(0, token.start - _OVERRIDDEN)
    if text.rfind(_OVERRIDE, near, token.start) > text.rfind(_POP, near, token.start):
        return "reversed"
    if _GOES_ON.match(behind) or _CAME_ON.search(before) or _is_stamp(text, token):
        return "part_of_more"
    if token.shape is not Shape.LETTERS and token.shape is not Shape.PHRASE:
        counted = _counted(token, before, behind)
        if counted:
            return counted
    return "address" if _in_address(text, token) else ""


def _is_stamp(text: str, token: Token) -> bool:
    """Say whether it is the stamp of an app, with which texts that begin so end."""
    return len(token.value) == _STAMP and text.lstrip().startswith(("<#>", "[#]"))


def _counted(token: Token, before: str, behind: str) -> str:
    """Say what a number counts by what touches it; empty if nothing."""
    if _MONEY_BEFORE.search(before) or _MONEY_BEHIND.match(behind):
        return "amount"
    if _BEHIND_UNIT.match(behind) or (len(token.value) <= 4 and _HALF.match(behind)):  # noqa: PLR2004
        return "measure"
    if _MASKED.search(before):
        return "masked"
    return "date" if _YEAR.fullmatch(token.value) and _DATED.search(before) else ""


def _in_address(text: str, token: Token) -> bool:
    """Say whether something is part of a URL or an address of mail."""
    if token.start == 0 or text[token.start - 1].isspace():
        return False
    run = _WORDS_OF_ADDRESS.search(text[max(0, token.start - 300) : token.start])
    return run is not None and _ADDRESS.search(run[0]) is not None


def touches_letters(text: str, token: Token) -> bool:
    """Say whether a code is glued to letters that are written with spaces between words."""
    before = text[token.start - 1 : token.start]
    behind = text[token.end : token.end + 1]
    return _is_alphabetic(before) or _is_alphabetic(behind)


def _is_alphabetic(character: str) -> bool:
    """Say whether it is a letter of Latin, Greek, Cyrillic, Armenian or Georgian."""
    if not character or not character.isalpha():
        return False
    number = ord(character)
    return number < 0x0590 or 0x10A0 <= number < 0x1100 or 0x1E00 <= number < 0x2000  # noqa: PLR2004


def has_amount(text: str) -> bool:
    """Say whether there is an amount of money in a text."""
    signs = "$" in text or not text.isascii()
    return bool((signs and _AMOUNT.search(text)) or _NAMED_AMOUNT.search(text))
