"""Styles: what CSS says about whether an element can be seen."""

import re
from collections.abc import Iterable
from functools import lru_cache

import msgspec

from oncebox.mail import colours
from oncebox.mail.colours import Colour

#: the properties that can hide a text, or set it apart
_PROPERTIES = frozenset({
    "display", "visibility", "opacity", "font-size", "font", "color", "background",
    "background-color", "background-image", "height", "max-height", "width", "max-width",
    "overflow", "overflow-x", "overflow-y", "position", "left", "top", "right", "bottom",
    "text-indent", "margin", "margin-left", "margin-top", "clip", "clip-path", "transform",
    "mso-hide", "content-visibility", "-webkit-transform", "-webkit-text-fill-color", "filter",
    "white-space",
    # and those that set it apart
    "font-weight", "letter-spacing", "border", "border-radius", "padding",
})  # fmt: skip
_DECLARATION = re.compile(
    r"([a-z-]+)\s*+:\s*+((?:[^;()\"']++|\([^()]*+\)?|\)|\"[^\"]*+\"?|'[^']*+'?)*+)"
)
_COMMENT = re.compile(r"/\*.*?(?:\*/|\Z)", re.DOTALL)
_ESCAPE = re.compile(r"\\(?:([0-9a-f]{1,6})\s?|(.))", re.DOTALL)
_NUMBER = re.compile(r"(-?(?:[0-9]{1,9}(?:\.[0-9]{0,9})?|\.[0-9]{1,9}))\s*([a-z%]*)")
_LAST_CHARACTER = 0x10FFFF

#: smaller than this nobody can read it: pixels or points, and shares of the text around it
_TINY_PIXELS = 1.5
_TINY_SHARE = 0.1
_INVISIBLE = 0.05
#: units that are a share of the letters around, and others in pixels
_SHARES = {"em": 1.0, "%": 0.01, "ex": 0.5, "ch": 0.5}
_PIXELS = {"pt": 4 / 3, "rem": 16.0, "vw": 6.0, "vh": 6.0}
#: weights and spaces that set a text apart
_BOLD = 600
_APART, _APART_SHARE = 2.0, 0.12
#: further out than any window is large
_FAR, _BEYOND = -300.0, 3_000.0
#: what becomes of text for which there is no room
_CUT_OFF = re.compile("hidden|clip|auto|scroll")
_LEFT = 3
#: what a browser leaves out of account unless it is one of these
_KNOWN = {
    "display": re.compile(
        "none|contents|block|inline|inherit|initial|unset|revert|list-item|flow|flow-root|flex"
        "|grid|ruby|table|run-in|(?:inline-|table-|block |inline |-webkit-|-ms-|-moz-)[a-z -]+"
    ),
    "visibility": re.compile("visible|hidden|collapse|inherit|initial|unset|revert"),
    "opacity": re.compile("[a-z-]*\\(.*|-?[0-9.]+%?|inherit|initial|unset|revert"),
}

#: values by property; the second for those marked as important
Declarations = tuple[dict[str, str], dict[str, str]]
_NONE: Declarations = ({}, {})


class Style(msgspec.Struct, frozen=True):
    """What the styles of one element say; None where they say nothing."""

    #: it and all that is in it cannot be seen
    hides: bool = False
    #: as before, but in Outlook alone
    outlook: bool = False
    #: what is in it may say otherwise
    visible: bool | None = None
    tiny: bool | None = None
    #: of its text and of its ground: a colour, transparent, or False if not mentioned; the text
    #: may say with True that it takes what is around it
    ink: Colour | str | bool | None = False
    ground: Colour | str | bool | None = False
    #: white space counts
    kept: bool | None = None
    #: it stands in a line with its neighbours, though its element would begin a line
    beside: bool = False
    strong: bool | None = None
    spaced: bool | None = None
    #: in pixels, or as a share of the size around it; 0 if not mentioned
    size: float = 0.0
    relative: bool = False
    #: it is padded or framed, as buttons are
    boxed: bool = False


PLAIN = Style()


@lru_cache(2048)
def declarations(text: str) -> Declarations:
    """Return the declarations of a ``style`` attribute or a rule that matter here."""
    lowered = text.lower()
    if "/*" in lowered:
        lowered = _COMMENT.sub("", lowered)
    if "\\" in lowered:
        lowered = _ESCAPE.sub(_character, lowered)
    usual: dict[str, str] = {}
    important: dict[str, str] = {}
    for name, raw in _DECLARATION.findall(lowered):
        if name in _PROPERTIES:
            value, mark, _ = (each.strip() for each in raw.partition("!"))
            if name in _KNOWN and not _KNOWN[name].fullmatch(value):
                continue
            if mark:
                important[name] = value
            else:
                usual[name] = value
    return (usual, important) if usual or important else _NONE


def combined(rules: Iterable[Declarations], inline: Declarations) -> Style:
    """Return what rules and the element's own declarations come to."""
    values: dict[str, str] = {}
    several = list(rules)
    for usual, _ in several:
        values |= usual
    values |= inline[0]
    for _, important in several:
        values |= important
    return judge(values | inline[1])


@lru_cache(2048)
def inline(text: str) -> Style:
    """Return what a ``style`` attribute alone comes to."""
    usual, important = declarations(text)
    return judge(usual | important)


def judge(values: dict[str, str]) -> Style:
    """Return what declarations come to."""
    if not values:
        return PLAIN
    font = _font(values)
    size, relative = _size(font)
    return Style(
        hides=_hides(values),
        outlook=values.get("mso-hide") == "all",
        visible=_visible(values.get("visibility")),
        tiny=_tiny(font),
        ink=_ink(values.get("-webkit-text-fill-color", values.get("color"))),
        ground=_ground(values),
        kept=values["white-space"].startswith("pre") if "white-space" in values else None,
        beside=values.get("display", "").startswith(("inline", "table-cell")),
        strong=_strong(values),
        spaced=_spaced(values.get("letter-spacing")),
        size=size,
        relative=relative,
        boxed=_boxed(values),
    )


def _ink(value: str | None) -> Colour | str | bool | None:
    if value is None:
        return False
    return True if value in {"inherit", "currentcolor"} else colours.read(value)


def _hides(values: dict[str, str]) -> bool:
    return (
        values.get("display") == "none"
        or values.get("content-visibility") == "hidden"
        or _share(values.get("opacity", "")) <= _INVISIBLE
        or _share(values.get("filter", "").partition("opacity(")[2]) <= _INVISIBLE
        or _clipped(values)
        or _no_room(values)
        or _off_screen(values)
    )


def _visible(value: str | None) -> bool | None:
    if value in {"hidden", "collapse"}:
        return False
    return True if value == "visible" else None


def _font(values: dict[str, str]) -> tuple[float, str] | None:
    """Return the size of letters: a number and its unit."""
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


def _size(font: tuple[float, str] | None) -> tuple[float, bool]:
    """Return the size of letters in pixels, or as a share of those around, and which it is."""
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
    return weight in {"bold", "bolder"} or _number(weight, 0.0) >= _BOLD


def _spaced(value: str | None) -> bool | None:
    """Say whether letters stand apart."""
    if value is None or value == "inherit":
        return None
    found = _NUMBER.match(value)
    if found is None:
        return False
    return float(found[1]) >= (_APART_SHARE if found[2] in {"em", "rem"} else _APART)


def _boxed(values: dict[str, str]) -> bool:
    """Say whether an element has room inside, and a frame or round corners."""
    framed = values.get("border", "none").split(" ")[0] not in {"none", "0", "0px", ""}
    return _number(values.get("padding", ""), 0.0) > 0 and (framed or "border-radius" in values)


def _ground(values: dict[str, str]) -> Colour | str | bool | None:
    picture = values.get("background-image")
    if picture and picture not in {"none", "initial"}:
        return colours.UNKNOWN
    value = values.get("background-color", values.get("background"))
    return False if value is None or value in {"", "inherit"} else colours.ground(value)


def _clipped(values: dict[str, str]) -> bool:
    clip = values.get("clip", "").replace(" ", "").replace(",", "").replace("px", "")
    path = values.get("clip-path", "").replace(" ", "")
    shape = _shape(values)
    scale = _share(shape.partition("(")[2]) if shape.startswith("scale") else 1.0
    return (
        clip in {"rect(0000)", "rect(1111)", "rect(0101)"}
        or path.startswith(("inset(50%", "inset(100%", "circle(0"))
        or abs(scale) <= _INVISIBLE
    )


def _no_room(values: dict[str, str]) -> bool:
    """Say whether an element has no size, and what flows over is cut off."""
    flows = (values.get(name) for name in ("overflow", "overflow-x", "overflow-y"))
    if not any(flow is not None and _CUT_OFF.search(flow) for flow in flows):
        return False
    sizes = (values.get(name) for name in ("height", "max-height", "width", "max-width"))
    return any(size is not None and _number(size, 99.0) <= 1 for size in sizes)


def _off_screen(values: dict[str, str]) -> bool:
    sides = values.get("margin", "").split() or [""]
    shifts = [values.get("text-indent"), values.get("margin-left"), values.get("margin-top")]
    shifts += [sides[0], sides[3] if len(sides) > _LEFT else sides[-1]]
    if values.get("position") in {"absolute", "fixed", "relative"}:
        shifts += [values.get(side) for side in ("left", "top", "right", "bottom")]
    shape = _shape(values)
    if shape.startswith("translate"):
        shifts += shape.partition("(")[2].rstrip(")").split(",")
    moves = [_number(shift, 0.0) for shift in shifts if shift]
    return any(move <= _FAR or move >= _BEYOND for move in moves)


def _shape(values: dict[str, str]) -> str:
    return values.get("transform", values.get("-webkit-transform", "")).replace(" ", "")


def _share(text: str) -> float:
    """Return the share that a value begins with; all of it if that is none."""
    found = _NUMBER.match(text.strip().removeprefix("calc("))
    if found is None:
        return 1.0
    return float(found[1]) / (100 if found[2] == "%" else 1)


def _number(text: str, otherwise: float) -> float:
    """Return the number a value begins with; ems count as pixels of a usual text."""
    found = _NUMBER.match(text.strip().removeprefix("calc("))
    if found is None:
        return otherwise
    scale = {"em": 16.0, "rem": 16.0, "vw": 10.0, "vh": 10.0, "%": 10.0}.get(found[2], 1.0)
    return float(found[1]) * scale


def _character(found: re.Match[str]) -> str:
    if found[1] is None:
        return str(found[2])
    number = int(found[1], 16)
    return chr(number) if 0 < number <= _LAST_CHARACTER else "\ufffd"
