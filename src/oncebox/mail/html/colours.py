"""CSS colours: reading them, and whether a text can be told from its background."""

import re
from colorsys import hls_to_rgb
from functools import lru_cache

#: red, green, blue from 0 to 255
Colour = tuple[int, int, int]

#: fully transparent
TRANSPARENT = "transparent"
#: an unknown colour: an image, or a name that is not in the table
UNKNOWN_COLOUR = None

_NAMED_COLOURS: dict[str, Colour] = {
    "white": (255, 255, 255), "black": (0, 0, 0), "snow": (255, 250, 250),
    "ivory": (255, 255, 240), "ghostwhite": (248, 248, 255), "floralwhite": (255, 250, 240),
    "whitesmoke": (245, 245, 245), "mintcream": (245, 255, 250), "azure": (240, 255, 255),
    "gainsboro": (220, 220, 220), "lightgray": (211, 211, 211), "lightgrey": (211, 211, 211),
    "silver": (192, 192, 192), "gray": (128, 128, 128), "grey": (128, 128, 128),
    "red": (255, 0, 0), "green": (0, 128, 0), "blue": (0, 0, 255), "yellow": (255, 255, 0),
    "orange": (255, 165, 0), "navy": (0, 0, 128), "purple": (128, 0, 128), "teal": (0, 128, 128),
    "aliceblue": (240, 248, 255), "honeydew": (240, 255, 240), "seashell": (255, 245, 238),
    "lavenderblush": (255, 240, 245), "oldlace": (253, 245, 230), "linen": (250, 240, 230),
    "lightyellow": (255, 255, 224), "lightcyan": (224, 255, 255), "cornsilk": (255, 248, 220),
    "lavender": (230, 230, 250), "beige": (245, 245, 220), "canvas": (255, 255, 255),
    # system colours
    **dict.fromkeys(("window", "field", "base", "buttonhighlight", "-moz-field"), (255, 255, 255)),
    **dict.fromkeys(("canvastext", "windowtext", "fieldtext", "buttontext"), (0, 0, 0)),
}  # fmt: skip
_HEX = re.compile(r"#?([0-9a-f]{3,8})")
_RGB = re.compile(
    r"rgba?\(\s*([0-9.]{1,9}%?)[\s,]+([0-9.]{1,9}%?)[\s,]+([0-9.]{1,9}%?)"
    r"(?:[\s,/]+([0-9.]{1,9}%?))?\s*\)"
)
_HSL = re.compile(
    r"hsla?\(\s*(-?[0-9.]{1,9})(?:deg)?[\s,]+([0-9.]{1,9}%)[\s,]+([0-9.]{1,9}%)"
    r"(?:[\s,/]+([0-9.]{1,9}%?))?\s*\)"
)
_HWB = re.compile(
    r"hwb\(\s*(-?[0-9.]{1,9})(?:deg)?\s+([0-9.]{1,9}%)\s+([0-9.]{1,9}%)"
    r"(?:\s*/\s*([0-9.]{1,9}%?))?\s*\)"
)
_COLOUR_WORD = re.compile(r"[a-z]{3,20}")
_GRADIENT = re.compile(r"[a-z-]*gradient\(((?:[^()]|\([^()]*\))*)\)")
_STOP = re.compile(r"(?:[^,()]|\([^()]*\))+")
#: text is unreadable if no channel differs by more than this from the background, and hardly
#: readable up to the second number
_INDISTINGUISHABLE, _FAINT = 12, 30
_ALMOST_TRANSPARENT = 0.05


@lru_cache(1024)
def read_colour(text: str) -> Colour | str | None:
    """Return the colour of a value: three channels, ``TRANSPARENT`` or ``UNKNOWN_COLOUR``."""
    value = text.strip()
    if value in {TRANSPARENT, "none"}:
        return TRANSPARENT
    if value in _NAMED_COLOURS:
        return _NAMED_COLOURS[value]
    found = _HEX.fullmatch(value)
    if found:
        return _from_hex(found[1])
    parts = _RGB.fullmatch(value) or _HSL.fullmatch(value)
    if parts is None:
        return _from_hwb(value)
    return _from_channels(*parts.groups(), hue=value.startswith("hsl"))


def background_colour(text: str) -> Colour | str | None:
    """Return the colour of a ``background``; images and most gradients are ``UNKNOWN_COLOUR``."""
    if "url(" in text:
        return UNKNOWN_COLOUR
    if "gradient" in text:
        return _gradient_colour(text)
    whole = read_colour(text)
    if whole is not UNKNOWN_COLOUR:
        return whole
    seen = [
        read_colour(word)
        for word in text.split()
        if word.startswith("#") or _COLOUR_WORD.fullmatch(word)
    ]
    return next((colour for colour in seen if colour is not UNKNOWN_COLOUR), UNKNOWN_COLOUR)


def _gradient_colour(text: str) -> Colour | str | None:
    """Return the colour of a gradient that has only one."""
    found = _GRADIENT.fullmatch(text)
    stops = [stop.strip() for stop in _STOP.findall(found[1])] if found else []
    seen = [read_colour(stop) or read_colour(stop.rpartition(" ")[0]) for stop in stops[:20]]
    if seen and seen[0] is UNKNOWN_COLOUR:  # the direction
        del seen[0]
    return seen[0] if len(set(seen)) == 1 else UNKNOWN_COLOUR


def contrast(one: Colour, other: Colour) -> int:
    """Return the largest difference of two colours in one channel."""
    return max(abs(mine - yours) for mine, yours in zip(one, other, strict=True))


def are_indistinguishable(one: Colour, other: Colour) -> bool:
    """Say whether text of one colour is unreadable on a background of the other."""
    return contrast(one, other) <= _INDISTINGUISHABLE


def are_similar(one: Colour, other: Colour) -> bool:
    """Say whether text of one colour is hardly readable on a background of the other."""
    return contrast(one, other) <= _FAINT


def _from_hex(digits: str) -> Colour | str | None:
    if len(digits) in {3, 4}:
        digits = "".join(digit * 2 for digit in digits)
    if len(digits) not in {6, 8}:
        return UNKNOWN_COLOUR
    if len(digits) == 8 and int(digits[6:], 16) <= _ALMOST_TRANSPARENT * 255:  # noqa: PLR2004 - #rrggbbaa
        return TRANSPARENT
    return (int(digits[:2], 16), int(digits[2:4], 16), int(digits[4:6], 16))


def _from_channels(one: str, two: str, three: str, alpha: str | None, *, hue: bool) -> Colour | str:
    if alpha is not None and _channel_value(alpha, 1) <= _ALMOST_TRANSPARENT:
        return TRANSPARENT
    if not hue:
        red, green, blue = (
            min(255, round(_channel_value(each, 255))) for each in (one, two, three)
        )
        return (red, green, blue)
    saturation, lightness = min(1.0, _channel_value(two, 1)), min(1.0, _channel_value(three, 1))
    channels = hls_to_rgb(_channel_value(one, 0) % 360 / 360, lightness, saturation)
    red, green, blue = (round(each * 255) for each in channels)
    return (red, green, blue)


def _from_hwb(value: str) -> Colour | str | None:
    found = _HWB.fullmatch(value)
    if found is None:
        return UNKNOWN_COLOUR
    if found[4] is not None and _channel_value(found[4], 1) <= _ALMOST_TRANSPARENT:
        return TRANSPARENT
    white, black = _channel_value(found[2], 1), _channel_value(found[3], 1)
    if white + black >= 1:
        white, black = white / (white + black), black / (white + black)
    pure = hls_to_rgb(_channel_value(found[1], 0) % 360 / 360, 0.5, 1.0)
    red, green, blue = (round(255 * (each * (1 - white - black) + white)) for each in pure)
    return (red, green, blue)


def _channel_value(text: str, whole: float) -> float:
    """Return a number, or a percentage of the whole; the whole if it is no number."""
    try:
        return float(text[:-1]) / 100 * whole if text.endswith("%") else float(text)
    except ValueError:
        return whole
