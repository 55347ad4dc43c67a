"""Colours of CSS and HTML, as far as it takes to see that a text has the colour of its ground."""

import re
from colorsys import hls_to_rgb
from functools import lru_cache

#: red, green, blue from 0 to 255
Colour = tuple[int, int, int]

#: painted with nothing: shows what is below, or as text nothing at all
TRANSPARENT = "transparent"
#: it is painted, but nobody can say with what: a picture, or a name we do not know
UNKNOWN = None

_NAMES: dict[str, Colour] = {
    "white": (255, 255, 255),
    "black": (0, 0, 0),
    "snow": (255, 250, 250),
    "ivory": (255, 255, 240),
    "ghostwhite": (248, 248, 255),
    "floralwhite": (255, 250, 240),
    "whitesmoke": (245, 245, 245),
    "mintcream": (245, 255, 250),
    "azure": (240, 255, 255),
    "gainsboro": (220, 220, 220),
    "lightgray": (211, 211, 211),
    "lightgrey": (211, 211, 211),
    "silver": (192, 192, 192),
    "gray": (128, 128, 128),
    "grey": (128, 128, 128),
    "red": (255, 0, 0),
    "green": (0, 128, 0),
    "blue": (0, 0, 255),
    "yellow": (255, 255, 0),
    "orange": (255, 165, 0),
    "navy": (0, 0, 128),
    "purple": (128, 0, 128),
    "teal": (0, 128, 128),
}
_HEX = re.compile(r"#?([0-9a-f]{3,8})")
_RGB = re.compile(
    r"rgba?\(\s*([0-9.]{1,9}%?)[\s,]+([0-9.]{1,9}%?)[\s,]+([0-9.]{1,9}%?)"
    r"(?:[\s,/]+([0-9.]{1,9}%?))?\s*\)"
)
_HSL = re.compile(
    r"hsla?\(\s*(-?[0-9.]{1,9})(?:deg)?[\s,]+([0-9.]{1,9}%)[\s,]+([0-9.]{1,9}%)"
    r"(?:[\s,/]+([0-9.]{1,9}%?))?\s*\)"
)
_WORD = re.compile(r"[a-z]{3,20}")
#: channels may differ by so much and still nobody reads the text
_NEAR = 12
_ALMOST_NOTHING = 0.05


@lru_cache(1024)
def read(text: str) -> Colour | str | None:
    """Return the colour that a value names: three channels, ``TRANSPARENT`` or ``UNKNOWN``."""
    value = text.strip()
    if value in {TRANSPARENT, "none"}:
        return TRANSPARENT
    if value in _NAMES:
        return _NAMES[value]
    found = _HEX.fullmatch(value)
    if found:
        return _hexadecimal(found[1])
    parts = _RGB.fullmatch(value) or _HSL.fullmatch(value)
    return UNKNOWN if parts is None else _by_parts(*parts.groups(), hue=value.startswith("hsl"))


def ground(text: str) -> Colour | str | None:
    """Return the colour of a ``background``; a picture or a gradient may be of any colour."""
    if "url(" in text or "gradient" in text:
        return UNKNOWN
    whole = read(text)
    if whole is not UNKNOWN:
        return whole
    seen = [read(word) for word in text.split() if word.startswith("#") or _WORD.fullmatch(word)]
    return next((colour for colour in seen if colour is not UNKNOWN), UNKNOWN)


def alike(one: Colour, other: Colour) -> bool:
    """Say whether a text of one colour cannot be read on a ground of the other."""
    return max(abs(mine - yours) for mine, yours in zip(one, other, strict=True)) <= _NEAR


def _hexadecimal(digits: str) -> Colour | str | None:
    if len(digits) in {3, 4}:
        digits = "".join(digit * 2 for digit in digits)
    if len(digits) not in {6, 8}:
        return UNKNOWN
    if len(digits) == 8 and int(digits[6:], 16) <= _ALMOST_NOTHING * 255:  # noqa: PLR2004 - #rrggbbaa
        return TRANSPARENT
    return (int(digits[:2], 16), int(digits[2:4], 16), int(digits[4:6], 16))


def _by_parts(one: str, two: str, three: str, alpha: str | None, *, hue: bool) -> Colour | str:
    if alpha is not None and _share(alpha, 1) <= _ALMOST_NOTHING:
        return TRANSPARENT
    if hue:
        return _by_hue(_share(one, 0), _share(two, 1), _share(three, 1))
    return (_channel(one), _channel(two), _channel(three))


def _by_hue(hue: float, saturation: float, lightness: float) -> Colour:
    red, green, blue = hls_to_rgb(hue % 360 / 360, min(1.0, lightness), min(1.0, saturation))
    return (round(red * 255), round(green * 255), round(blue * 255))


def _channel(text: str) -> int:
    return min(255, round(_share(text, 255)))


def _share(text: str, whole: float) -> float:
    """Return a number, or a percentage of the whole; what is no number counts as the whole."""
    try:
        return float(text[:-1]) / 100 * whole if text.endswith("%") else float(text)
    except ValueError:
        return whole
