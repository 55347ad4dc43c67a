"""CSS declarations and colours: which styles hide a text, and which emphasise it."""

import re
from collections.abc import Iterable
from colorsys import hls_to_rgb
from functools import lru_cache

import msgspec

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
_COLOUR_WORD = re.compile(r"[a-z]{3,20}")
#: text is unreadable if no channel differs by more than this from the background
_INDISTINGUISHABLE = 12
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
        return UNKNOWN_COLOUR
    return _from_channels(*parts.groups(), hue=value.startswith("hsl"))


def background_colour(text: str) -> Colour | str | None:
    """Return the colour of a ``background``; images and gradients are ``UNKNOWN_COLOUR``."""
    if "url(" in text or "gradient" in text:
        return UNKNOWN_COLOUR
    whole = read_colour(text)
    if whole is not UNKNOWN_COLOUR:
        return whole
    seen = [
        read_colour(word)
        for word in text.split()
        if word.startswith("#") or _COLOUR_WORD.fullmatch(word)
    ]
    return next((colour for colour in seen if colour is not UNKNOWN_COLOUR), UNKNOWN_COLOUR)


def are_indistinguishable(one: Colour, other: Colour) -> bool:
    """Say whether text of one colour is unreadable on a background of the other."""
    return (
        max(abs(mine - yours) for mine, yours in zip(one, other, strict=True)) <= _INDISTINGUISHABLE
    )


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


def _channel_value(text: str, whole: float) -> float:
    """Return a number, or a percentage of the whole; the whole if it is no number."""
    try:
        return float(text[:-1]) / 100 * whole if text.endswith("%") else float(text)
    except ValueError:
        return whole


#: the properties that can hide or emphasise a text
_PROPERTIES = frozenset({
    "display", "visibility", "opacity", "font-size", "font", "color", "background",
    "background-color", "background-image", "height", "max-height", "width", "max-width",
    "overflow", "overflow-x", "overflow-y", "position", "left", "top", "right", "bottom",
    "text-indent", "margin", "margin-left", "margin-top", "clip", "clip-path", "transform",
    "mso-hide", "content-visibility", "-webkit-transform", "-webkit-text-fill-color", "filter",
    "white-space",
    # and those that emphasise it
    "font-weight", "letter-spacing", "border", "border-radius", "padding",
})  # fmt: skip
_DECLARATION = re.compile(
    r"([a-z-]+)\s*+:\s*+((?:[^;()\"']++|\([^()]*+\)?|\)|\"[^\"]*+\"?|'[^']*+'?)*+)"
)
_COMMENT = re.compile(r"/\*.*?(?:\*/|\Z)", re.DOTALL)
_ESCAPE = re.compile(r"\\(?:([0-9a-f]{1,6})\s?|(.))", re.DOTALL)
_NUMBER = re.compile(r"(-?(?:[0-9]{1,9}(?:\.[0-9]{0,9})?|\.[0-9]{1,9}))\s*([a-z%]*)")
_LAST_CHARACTER = 0x10FFFF

#: largest unreadable font sizes: pixels or points, and relative to the surrounding text
_TINY_PIXELS = 1.5
_TINY_SHARE = 0.1
_INVISIBLE = 0.05
#: relative units of font size, and absolute units in pixels
_SHARES = {"em": 1.0, "%": 0.01, "ex": 0.5, "ch": 0.5}
_PIXELS = {"pt": 4 / 3, "rem": 16.0, "vw": 6.0, "vh": 6.0}
#: font weights and letter spacing that emphasise a text
_BOLD = 600
_SPACED_PIXELS, _SPACED_SHARE = 2.0, 0.12
#: an offset beyond any window
_OFF_SCREEN_BEFORE, _OFF_SCREEN_BEHIND = -300.0, 3_000.0
#: values of ``overflow`` that hide the excess text
_CLIPPED_OVERFLOW = re.compile("hidden|clip|auto|scroll")
_LEFT_MARGIN = 3
#: valid values by property; browsers ignore others
_VALID_VALUES = {
    "display": re.compile(
        "none|contents|block|inline|inherit|initial|unset|revert|list-item|flow|flow-root|flex"
        "|grid|ruby|table|run-in|(?:inline-|table-|block |inline |-webkit-|-ms-|-moz-)[a-z -]+"
    ),
    "visibility": re.compile("visible|hidden|collapse|inherit|initial|unset|revert"),
    "opacity": re.compile("[a-z-]*\\(.*|-?[0-9.]+%?|inherit|initial|unset|revert"),
}

#: values by property; the second mapping is for ``!important``
Declarations = tuple[dict[str, str], dict[str, str]]
_NO_DECLARATIONS: Declarations = ({}, {})


class Style(msgspec.Struct, frozen=True):
    """The computed styles of one element; None where nothing is specified."""

    #: the element and its content are hidden
    hides: bool = False
    #: as before, in Outlook only
    hidden_in_outlook: bool = False
    #: hidden unless a descendant overrides it
    visible: bool | None = None
    tiny: bool | None = None
    #: of text and background: a colour, transparent, or False if not specified; True for text
    #: that inherits its colour
    text_colour: Colour | str | bool | None = False
    background: Colour | str | bool | None = False
    #: white space is preserved
    preserves_space: bool | None = None
    #: displayed inline, although its element is a block
    is_inline: bool = False
    strong: bool | None = None
    spaced: bool | None = None
    #: in pixels, or relative to the surrounding text; 0 if not specified
    size: float = 0.0
    relative: bool = False
    #: it has padding or a border, as buttons have
    boxed: bool = False


_VISIBILITY = {"hidden": False, "collapse": False, "visible": True}
NO_STYLE = Style()


@lru_cache(2048)
def declarations(text: str) -> Declarations:
    """Return the relevant declarations of a ``style`` attribute or a rule."""
    lowered = text.lower()
    if "/*" in lowered:
        lowered = _COMMENT.sub("", lowered)
    if "\\" in lowered:
        lowered = _ESCAPE.sub(_escaped_character, lowered)
    usual: dict[str, str] = {}
    important: dict[str, str] = {}
    for name, raw in _DECLARATION.findall(lowered):
        if name in _PROPERTIES:
            value, mark, _ = (each.strip() for each in raw.partition("!"))
            if name in _VALID_VALUES and not _VALID_VALUES[name].fullmatch(value):
                continue
            if mark:
                important[name] = value
            else:
                usual[name] = value
    return (usual, important) if usual or important else _NO_DECLARATIONS


def combined_style(rules: Iterable[Declarations], inline: Declarations) -> Style:
    """Return the style computed from rules and the element's own declarations."""
    values: dict[str, str] = {}
    several = list(rules)
    for usual, _ in several:
        values |= usual
    values |= inline[0]
    for _, important in several:
        values |= important
    return style_of(values | inline[1])


@lru_cache(2048)
def inline_style(text: str) -> Style:
    """Return the style of a ``style`` attribute alone."""
    usual, important = declarations(text)
    return style_of(usual | important)


def style_of(values: dict[str, str]) -> Style:
    """Return the style of declarations."""
    if not values:
        return NO_STYLE
    font = _font_size(values)
    size, relative = _size_in_pixels(font)
    return Style(
        hides=_hides(values),
        hidden_in_outlook=values.get("mso-hide") == "all",
        visible=_VISIBILITY.get(values.get("visibility", "")),
        tiny=_tiny(font),
        text_colour=_text_colour(values.get("-webkit-text-fill-color", values.get("color"))),
        background=_background(values),
        preserves_space=values["white-space"].startswith("pre")
        if "white-space" in values
        else None,
        is_inline=values.get("display", "").startswith(("inline", "table-cell")),
        strong=_strong(values),
        spaced=_letter_spaced(values.get("letter-spacing")),
        size=size,
        relative=relative,
        boxed=_boxed(values),
    )


def _text_colour(value: str | None) -> Colour | str | bool | None:
    if value is None:
        return False
    return True if value in {"inherit", "currentcolor"} else read_colour(value)


def _hides(values: dict[str, str]) -> bool:
    return (
        values.get("display") == "none"
        or values.get("content-visibility") == "hidden"
        or _fraction(values.get("opacity", "")) <= _INVISIBLE
        or _fraction(values.get("filter", "").partition("opacity(")[2]) <= _INVISIBLE
        or _clipped(values)
        or _has_no_size(values)
        or _off_screen(values)
    )


def _font_size(values: dict[str, str]) -> tuple[float, str] | None:
    """Return the font size: a number and its unit."""
    size = values.get("font-size")
    if size is None and "font" in values:
        size = next(
            (word.partition("/")[0] for word in values["font"].split() if word[:1].isdigit()), None
        )
    found = _NUMBER.match(size.removeprefix("calc(")) if size else None
    return None if found is None else (float(found[1]), found[2])


def _tiny(font: tuple[float, str] | None) -> bool | None:
    if font is None:
        return None
    number, unit = font
    if unit in _SHARES:
        return True if number * _SHARES[unit] < _TINY_SHARE else None
    return number < (_TINY_SHARE if unit in {"rem", "vw", "vh"} else _TINY_PIXELS)


def _size_in_pixels(font: tuple[float, str] | None) -> tuple[float, bool]:
    """Return the font size, and whether it is relative to the surrounding text."""
    if font is None:
        return 0.0, False
    number, unit = font
    if unit in _SHARES:
        return number * _SHARES[unit], True
    return number * _PIXELS.get(unit, 1.0), False


def _strong(values: dict[str, str]) -> bool | None:
    weight = values.get("font-weight", "")
    if not weight and "font" in values:
        weight = next((each for each in values["font"].split() if each in {"bold", "bolder"}), "")
    if weight in {"", "inherit"}:
        return None
    return weight in {"bold", "bolder"} or _length(weight, 0.0) >= _BOLD


def _letter_spaced(value: str | None) -> bool | None:
    if value is None or value == "inherit":
        return None
    found = _NUMBER.match(value)
    if found is None:
        return False
    return float(found[1]) >= (_SPACED_SHARE if found[2] in {"em", "rem"} else _SPACED_PIXELS)


def _boxed(values: dict[str, str]) -> bool:
    """Say whether an element has padding, and a border or round corners."""
    framed = values.get("border", "none").split(" ")[0] not in {"none", "0", "0px", ""}
    return _length(values.get("padding", ""), 0.0) > 0 and (framed or "border-radius" in values)


def _background(values: dict[str, str]) -> Colour | str | bool | None:
    picture = values.get("background-image")
    if picture and picture not in {"none", "initial"}:
        return UNKNOWN_COLOUR
    value = values.get("background-color", values.get("background"))
    return False if value is None or value in {"", "inherit"} else background_colour(value)


def _clipped(values: dict[str, str]) -> bool:
    clip = values.get("clip", "").replace(" ", "").replace(",", "").replace("px", "")
    path = values.get("clip-path", "").replace(" ", "")
    shape = _transform(values)
    scale = _fraction(shape.partition("(")[2]) if shape.startswith("scale") else 1.0
    return (
        clip in {"rect(0000)", "rect(1111)", "rect(0101)"}
        or path.startswith(("inset(50%", "inset(100%", "circle(0"))
        or abs(scale) <= _INVISIBLE
    )


def _has_no_size(values: dict[str, str]) -> bool:
    """Say whether an element has no size and its overflow is hidden."""
    flows = (values.get(name) for name in ("overflow", "overflow-x", "overflow-y"))
    if not any(flow is not None and _CLIPPED_OVERFLOW.search(flow) for flow in flows):
        return False
    sizes = (values.get(name) for name in ("height", "max-height", "width", "max-width"))
    return any(size is not None and _length(size, 99.0) <= 1 for size in sizes)


def _off_screen(values: dict[str, str]) -> bool:
    sides = values.get("margin", "").split() or [""]
    shifts = [values.get("text-indent"), values.get("margin-left"), values.get("margin-top")]
    shifts += [sides[0], sides[3] if len(sides) > _LEFT_MARGIN else sides[-1]]
    if values.get("position") in {"absolute", "fixed", "relative"}:
        shifts += [values.get(side) for side in ("left", "top", "right", "bottom")]
    shape = _transform(values)
    if shape.startswith("translate"):
        shifts += shape.partition("(")[2].rstrip(")").split(",")
    moves = [_length(shift, 0.0) for shift in shifts if shift]
    return any(move <= _OFF_SCREEN_BEFORE or move >= _OFF_SCREEN_BEHIND for move in moves)


def _transform(values: dict[str, str]) -> str:
    return values.get("transform", values.get("-webkit-transform", "")).replace(" ", "")


def _fraction(text: str) -> float:
    """Return the ratio at the beginning of a value; 1 if there is none."""
    found = _NUMBER.match(text.strip().removeprefix("calc("))
    if found is None:
        return 1.0
    return float(found[1]) / (100 if found[2] == "%" else 1)


def _length(text: str, otherwise: float) -> float:
    """Return the number at the beginning of a value in pixels; ems have the default size."""
    found = _NUMBER.match(text.strip().removeprefix("calc("))
    if found is None:
        return otherwise
    scale = {"em": 16.0, "rem": 16.0, "vw": 10.0, "vh": 10.0, "%": 10.0}.get(found[2], 1.0)
    return float(found[1]) * scale


def _escaped_character(found: re.Match[str]) -> str:
    if found[1] is None:
        return str(found[2])
    number = int(found[1], 16)
    return chr(number) if 0 < number <= _LAST_CHARACTER else "\ufffd"
