"""Hiding styles: whether the declarations of an element hide its text, or may hide it.

Every rule answers for one property. What it cannot compute is doubtful: a mail program that knows
more may show something else.
"""

import math
import re
from collections.abc import Callable, Mapping
from enum import IntEnum

Values = Mapping[str, str]


class Visibility(IntEnum):
    """Whether a reader sees a text; the higher one prevails."""

    VISIBLE = 0
    #: it depends on what we do not compute
    DOUBTFUL = 1
    HIDDEN = 2


VISIBLE, DOUBTFUL, HIDDEN = Visibility

#: largest factors by which a text is invisible, and hardly visible
_INVISIBLE, _FAINT = 0.05, 0.2
#: largest sizes in pixels of a box that shows no text, and of one that shows hardly any
_NO_SIZE, _LITTLE_SIZE = 2.0, 8.0
#: offsets in pixels beyond any window
_OFF_SCREEN_BEFORE, _OFF_SCREEN_BEHIND = -300.0, 3_000.0
#: and offsets that may be beyond one, or put a text under another
_FAR_BEFORE, _FAR_BEHIND = -80.0, 600.0
#: pixels of space inside a box that may push its text out of it, and of a box for a few letters
_PUSHED, _NARROW = 100.0, 60.0
#: pixels of a shadow or an outline that covers a text
_COVERING = 16.0
#: pixels of a blur that leaves nothing to read, and of spacing that puts letters on each other
_BLURRED, _OVERLAPPING = 3.0, -3.0
_UNSHARP = 1.0
#: of the font size
_LETTER_WIDTH = 0.3
_ZOOMED_OUT = 0.15
#: percentages: of a box that is cut off completely, and of one that is hardly cut
_ALL_CUT, _HARDLY_CUT = 95.0, 20.0
#: degrees: a side view, and upside down
_SIDE_VIEW, _TURNED = 5.0, 135.0

NUMBER = re.compile(
    r"([-+]?(?:[0-9]{1,9}(?:\.[0-9]{0,9})?|\.[0-9]{1,9})(?:e[-+]?[0-9]{1,2})?)\s*([a-z%]*)"
)
_FUNCTION = re.compile(r"([a-z0-9-]+)\(([^()]*)\)")
#: pixels of other units; percentages are of a window of 1,000 pixels
_PIXELS = {
    "em": 16.0, "rem": 16.0, "ex": 8.0, "ch": 8.0, "%": 10.0, "vw": 30.0, "vh": 30.0, "vmin": 30.0,
    "vmax": 30.0, "pt": 4 / 3, "pc": 16.0, "in": 96.0, "cm": 38.0, "mm": 3.8,
}  # fmt: skip
_DEGREES = {"turn": 360.0, "rad": 57.2958, "grad": 0.9}
#: values without an effect
_NEUTRAL = frozenset({"", "none", "auto", "normal", "initial", "unset", "revert", "inherit"})


def length(text: str, otherwise: float) -> float:
    """Return the number at the beginning of a value in pixels."""
    found = NUMBER.match(text.strip())
    return otherwise if found is None else float(found[1]) * _PIXELS.get(found[2], 1.0)


def fraction(text: str) -> float:
    """Return the ratio at the beginning of a value; 1 if there is none."""
    found = NUMBER.match(text.strip())
    return 1.0 if found is None else float(found[1]) / (100 if found[2] == "%" else 1)


def fade(values: Values) -> float:
    """Return the opacity of an element, from 0 to 1."""
    opacity = fraction(values.get("opacity", ""))
    for name, inside in _FUNCTION.findall(values.get("filter", "")):
        if name == "opacity":
            opacity *= fraction(inside)
    return opacity


def fade_visibility(opacity: float) -> Visibility:
    """Say whether text of this opacity, or of this scale, can be read."""
    return HIDDEN if opacity <= _INVISIBLE else DOUBTFUL if opacity <= _FAINT else VISIBLE


def visibility(values: Values) -> Visibility:
    """Say whether declarations hide the text of an element; colours and fonts count elsewhere."""
    worst = VISIBLE
    for name in _RULES.keys() & values.keys():
        found = _RULES[name](values, values[name])
        if found is HIDDEN:
            return found
        worst = max(worst, found)
    return worst


def _display(_: Values, value: str) -> Visibility:
    return HIDDEN if value == "none" else DOUBTFUL if "(" in value else VISIBLE


def _computed(_: Values, value: str) -> Visibility:
    """Judge a value that must be a plain one to be understood."""
    return DOUBTFUL if "(" in value else VISIBLE


def _content_visibility(_: Values, value: str) -> Visibility:
    return HIDDEN if value == "hidden" else VISIBLE


def _filter(_: Values, value: str) -> Visibility:
    worst = DOUBTFUL if "url(" in value else VISIBLE
    for name, inside in _FUNCTION.findall(value):
        if name == "blur" and length(inside, 0.0) >= _BLURRED:
            return HIDDEN
        if name == "blur" and length(inside, 0.0) >= _UNSHARP:
            worst = DOUBTFUL
        if name in {"brightness", "contrast"} and not 1 / 3 <= fraction(inside) <= 3:  # noqa: PLR2004
            worst = DOUBTFUL
    return worst


def _mask(_: Values, value: str) -> Visibility:
    if value in _NEUTRAL:
        return VISIBLE
    stops = [stop for stops in re.findall(r"gradient\((.*)\)", value) for stop in stops.split(",")]
    clear = [stop.strip().startswith("transparent") for stop in stops if "deg" not in stop]
    return HIDDEN if clear and all(clear) else DOUBTFUL


def _clip(_: Values, value: str) -> Visibility:
    found = _FUNCTION.fullmatch(value)
    if found is None or found[1] != "rect":
        return VISIBLE
    sides = found[2].replace(",", " ").split()
    if len(sides) != 4:  # noqa: PLR2004 - top, right, bottom, left
        return DOUBTFUL
    top, right, bottom, left = (
        length(side, default) for side, default in zip(sides, (0.0, 9e9, 9e9, 0.0), strict=True)
    )
    return _box(right - left, bottom - top)


def _box(width: float, height: float) -> Visibility:
    """Say whether a box of this size in pixels shows text."""
    least = min(width, height)
    return HIDDEN if least <= _NO_SIZE else DOUBTFUL if least <= _LITTLE_SIZE else VISIBLE


def _clip_path(_: Values, value: str) -> Visibility:
    if value in _NEUTRAL or ("(" not in value and value.endswith("-box")):
        return VISIBLE
    found = _FUNCTION.fullmatch(value)
    shape = _SHAPES.get(found[1]) if found else None
    return DOUBTFUL if found is None or shape is None else shape(found[2])


def _inset(text: str) -> Visibility:
    sides = text.partition("round")[0].split()
    if not 1 <= len(sides) <= 4:  # noqa: PLR2004
        return DOUBTFUL
    top, right = sides[0], sides[1 % len(sides)]
    bottom, left = sides[2] if len(sides) > 2 else top, sides[3] if len(sides) > 3 else right  # noqa: PLR2004
    cut = max(_percent(top) + _percent(bottom), _percent(right) + _percent(left))
    return HIDDEN if cut >= _ALL_CUT else DOUBTFUL if cut > _HARDLY_CUT else VISIBLE


def _percent(text: str) -> float:
    """Return a percentage; pixels are of a box of 200."""
    found = NUMBER.match(text)
    if found is None:
        return 0.0
    return float(found[1]) if found[2] == "%" else length(text, 0.0) / 2


def _round_shape(text: str) -> Visibility:
    radius, _, centre = text.partition("at")
    if any(length(each, 999.0) <= _NO_SIZE for each in radius.split()):
        return HIDDEN
    large = all(_percent(each) >= 40 for each in radius.split())  # noqa: PLR2004
    return VISIBLE if large and centre.strip() in {"", "center", "50% 50%"} else DOUBTFUL


def _polygon(text: str) -> Visibility:
    points = [point.split() for point in text.split(",")]
    points = [point for point in points if len(point) == 2]  # noqa: PLR2004 - not the fill rule
    across, down = ([_percent(point[axis]) for point in points] for axis in (0, 1))
    if not points or min(max(across) - min(across), max(down) - min(down)) <= 1:
        return HIDDEN
    whole = all(min(axis) <= 5 and max(axis) >= _ALL_CUT for axis in (across, down))  # noqa: PLR2004
    return VISIBLE if whole else DOUBTFUL


def _rectangle(text: str) -> Visibility:
    return HIDDEN if all(length(each, 9.0) <= _NO_SIZE for each in text.split()) else DOUBTFUL


_SHAPES: dict[str, Callable[[str], Visibility]] = {
    "inset": _inset, "circle": _round_shape, "ellipse": _round_shape, "polygon": _polygon,
    "rect": _rectangle, "xywh": _rectangle,
}  # fmt: skip


def scale(values: Values) -> float:
    """Return the scale of an element; negative if it is mirrored."""
    whole = fraction(values.get("zoom", ""))
    for name, arguments in _transforms(values):
        numbers = [fraction(each) for each in arguments]
        if name in {"scale", "scalex", "scaley", "scale3d"}:
            factor = min(numbers[:2], key=abs)
            whole *= -abs(factor) if min(numbers[:2]) < 0 else factor
        elif name == "matrix" and len(numbers) == 6:  # noqa: PLR2004
            area = numbers[0] * numbers[3] - numbers[1] * numbers[2]
            whole *= math.copysign(math.sqrt(abs(area)), area)
        elif name in {"rotatex", "rotatey"}:
            whole *= math.cos(math.radians(_angle(arguments[0])))
    return whole


def _transforms(values: Values) -> list[tuple[str, list[str]]]:
    """Return the functions of all transform properties, with their arguments."""
    found = [
        (name, inside.split(","))
        for each in _TRANSFORMS & values.keys()
        for name, inside in _FUNCTION.findall(values[each])
    ]
    found += [
        (name, values[name].split())
        for name in ("scale", "translate")
        if values.get(name, "none") not in _NEUTRAL
    ]
    rotated = values.get("rotate", "").split()
    if rotated:
        axis = rotated[0] if rotated[0] in {"x", "y"} else "" if len(rotated) == 1 else "3d"
        found.append((f"rotate{axis}", [rotated[-1]]))
    return found


_TRANSFORMS = frozenset({"transform", "-webkit-transform", "-ms-transform", "-moz-transform"})


def _angle(text: str) -> float:
    found = NUMBER.match(text.strip())
    return 0.0 if found is None else float(found[1]) * _DEGREES.get(found[2], 1.0)


def _transform(values: Values, value: str) -> Visibility:
    """Judge shifts and turns; scales count elsewhere."""
    if _FUNCTION.sub("", value).strip(" ,") not in _NEUTRAL and "(" in value:
        return DOUBTFUL
    worst = VISIBLE
    for name, arguments in _transforms(values):
        angle = abs(_angle(arguments[0])) % 360
        if name.startswith("translate") and name != "translatez":
            worst = max(worst, *(_shift(each) for each in arguments))
        elif name == "matrix":
            worst = max(worst, *(_shift(each) for each in arguments[4:]), VISIBLE)
        elif name.startswith("skew") and abs(angle % 180 - 90) <= _SIDE_VIEW:
            return HIDDEN
        elif _is_unusual_turn(name, arguments):
            worst = max(worst, DOUBTFUL)
    return worst


def _is_unusual_turn(name: str, arguments: list[str]) -> bool:
    """Say whether a function turns a text over, or moves it in a third dimension."""
    if name in {"matrix3d", "rotate3d", "perspective"}:
        return True
    if name in {"rotate", "rotatez"}:
        return _TURNED < abs(_angle(arguments[0])) % 360 < 360 - _TURNED
    deep = {"translatez": 0.0, "translate3d": 0.0, "scalez": 1.0, "scale3d": 1.0}.get(name)
    return deep is not None and length(arguments[-1], deep) != deep


def _shift(text: str) -> Visibility:
    moved = length(text, 0.0)
    if moved <= _OFF_SCREEN_BEFORE or moved >= _OFF_SCREEN_BEHIND:
        return HIDDEN
    return DOUBTFUL if moved <= _FAR_BEFORE or "(" in text else VISIBLE


def _indent(values: Values, value: str) -> Visibility:
    far = length(value, 0.0) >= _FAR_BEHIND
    return max(_margin(values, value), DOUBTFUL if far else VISIBLE)


def _zoom(_: Values, value: str) -> Visibility:
    return HIDDEN if fraction(value) <= _ZOOMED_OUT else VISIBLE


_CLIPPED_OVERFLOW = re.compile("hidden|clip|auto|scroll|paint|strict|content")
_SIZES = (
    "height", "max-height", "width", "max-width", "block-size", "max-block-size", "inline-size",
    "max-inline-size",
)  # fmt: skip


def _overflow(values: Values, value: str) -> Visibility:
    """Judge an element whose overflow is hidden, by its size."""
    if not _CLIPPED_OVERFLOW.search(value):
        return VISIBLE
    if values.get("line-height") in {"0", "0px", "0%", "0em"} or "100%" in values.get(
        "text-indent", ""
    ):
        return HIDDEN
    least = min((length(values[name], 99.0) for name in _SIZES if name in values), default=99.0)
    return max(_box(least, least), DOUBTFUL if _is_cropped(values, value) else VISIBLE)


def _is_cropped(values: Values, value: str) -> bool:
    """Say whether a box may cut its text off: after some lines, or behind empty space."""
    inner = [part for name in _PADDINGS if name in values for part in values[name].split()]
    return (
        any(length(part, 0.0) >= _PUSHED for part in inner)
        or any(length(values[name], 0.0) > 0 for name in _HEIGHTS if name in values)
        or any(name in values for name in (*_LINE_CLAMPS, "aspect-ratio"))
        or (
            "nowrap" in values.get("white-space", "")
            and length(values.get("width", ""), 99.0) <= _NARROW
        )
        or bool(re.search("strict|size", f"{value} {values.get('contain', '')}"))
    )


def _margin(_: Values, value: str) -> Visibility:
    return max(map(_shift, value.split()), default=VISIBLE)


_OFFSETS = (
    "left", "top", "right", "bottom", "inset", "inset-inline-start", "inset-inline-end",
    "inset-block-start", "inset-block-end", "inset-inline", "inset-block",
)  # fmt: skip
_HEIGHTS = ("height", "max-height", "block-size", "max-block-size")
_PADDINGS = (
    "padding", "padding-left", "padding-top", "padding-inline", "padding-inline-start",
    "padding-block", "padding-block-start",
)  # fmt: skip
_GRID_PLACES = frozenset({"grid-area", "grid-row", "grid-column"})
_LINE_CLAMPS = ("-webkit-line-clamp", "line-clamp")


def _position(values: Values, value: str) -> Visibility:
    """Judge a positioned element, by its offsets and its layer."""
    if value not in {"absolute", "fixed", "relative", "sticky"}:
        return VISIBLE
    offsets = [part for name in _OFFSETS if name in values for part in values[name].split()]
    worst = max(map(_shift, offsets), default=VISIBLE)
    # Beside the whole window, or behind everything else.
    outside = value != "relative" and any(
        (part.endswith("%") and _percent(part) >= 100)  # noqa: PLR2004
        or length(part, 0.0) <= -_COVERING
        for part in offsets
    )
    behind = values.get("z-index", "").startswith("-")
    return max(worst, DOUBTFUL if outside or behind else VISIBLE)


def _spacing(values: Values, value: str) -> Visibility:
    size = length(values.get("font-size", ""), _PIXELS["em"])
    overlapping = max(_OVERLAPPING, -_LETTER_WIDTH * size)
    return DOUBTFUL if length(value, 0.0) <= overlapping else VISIBLE


def _fixed_table(values: Values, value: str) -> Visibility:
    narrow = length(values.get("width", ""), 99.0) <= _NARROW
    return DOUBTFUL if value == "fixed" and narrow else VISIBLE


def _grid(_: Values, value: str) -> Visibility:
    return DOUBTFUL if re.match(r"0(?:fr|px|%|\s|$)", value) else VISIBLE


def _order(_: Values, value: str) -> Visibility:
    """Judge what puts elements into another order than that of the text."""
    return VISIBLE if value in _NEUTRAL or value == "0" else DOUBTFUL


def _reversed(_: Values, value: str) -> Visibility:
    return DOUBTFUL if "reverse" in value else VISIBLE


def _bidi(_: Values, value: str) -> Visibility:
    return DOUBTFUL if value.endswith("override") else VISIBLE


def _unusual(_: Values, value: str) -> Visibility:
    return VISIBLE if value in _NEUTRAL else DOUBTFUL


def _content(_: Values, value: str) -> Visibility:
    return DOUBTFUL if "(" in value else VISIBLE


def _masked_letters(_: Values, value: str) -> Visibility:
    return VISIBLE if value in _NEUTRAL else HIDDEN


def _size_adjust(_: Values, value: str) -> Visibility:
    return HIDDEN if fraction(value) <= _INVISIBLE else VISIBLE


def _text_size_adjust(_: Values, value: str) -> Visibility:
    return DOUBTFUL if fraction(value) <= _FAINT else VISIBLE


def _inner_shadow(_: Values, value: str) -> Visibility:
    large = any(length(part, 0.0) >= _COVERING for part in value.split())
    return DOUBTFUL if "inset" in value and large else VISIBLE


def _stroke(_: Values, value: str) -> Visibility:
    wide = any(length(part, 0.0) >= _NO_SIZE for part in value.split())
    return DOUBTFUL if wide else VISIBLE


def is_lifted(values: Values) -> bool:
    """Say whether an element may lie on others: out of the flow, or moved up."""
    if values.get("position", "") in {"absolute", "fixed"}:
        return True
    if not _GRID_PLACES.isdisjoint(values):
        return True
    margins = (values.get("margin", "").partition(" ")[0], values.get("margin-top", ""))
    return any(length(each, 0.0) <= -_COVERING for each in margins)


def _line_through(_: Values, value: str) -> Visibility:
    return DOUBTFUL if "line-through" in value else VISIBLE


#: the rule of each property
_RULES: dict[str, Callable[[Values, str], Visibility]] = {
    "display": _display, "visibility": _computed, "opacity": _computed, "font-size": _computed,
    "font": _computed,
    "content-visibility": _content_visibility, "filter": _filter, "-webkit-filter": _filter,
    **dict.fromkeys(("mask", "mask-image", "-webkit-mask", "-webkit-mask-image"), _mask),
    "clip": _clip, "clip-path": _clip_path, "-webkit-clip-path": _clip_path,
    **dict.fromkeys((*_TRANSFORMS, "translate", "rotate"), _transform), "zoom": _zoom,
    **dict.fromkeys(("overflow", "overflow-x", "overflow-y", "contain"), _overflow),
    **dict.fromkeys((
        "margin", "margin-left", "margin-top", "margin-right", "margin-inline",
        "margin-inline-start", "margin-block", "margin-block-start", "margin-bottom",
        "margin-block-end", "word-spacing",
    ), _margin),
    "text-indent": _indent,
    **dict.fromkeys((
        "mask-border", "mask-border-source", "-webkit-mask-box-image",
        "-webkit-mask-box-image-source",
    ), _unusual),
    "box-shadow": _inner_shadow, "-webkit-text-stroke": _stroke,
    "-webkit-text-stroke-width": _stroke,
    "text-size-adjust": _text_size_adjust, "-webkit-text-size-adjust": _text_size_adjust,
    "position": _position, "letter-spacing": _spacing, "table-layout": _fixed_table,
    "grid-template-rows": _grid,
    "grid-template-columns": _grid, "order": _order, "flex-direction": _reversed,
    "flex-flow": _reversed, "unicode-bidi": _bidi, "mix-blend-mode": _unusual,
    "offset-path": _unusual, "offset": _unusual, "content": _content,
    "-webkit-text-security": _masked_letters, "font-size-adjust": _size_adjust,
    "text-decoration": _line_through, "text-decoration-line": _line_through,
}  # fmt: skip
#: properties that rules look at besides their own
_BESIDE = frozenset({
    *_SIZES, *_OFFSETS, *_PADDINGS, *_LINE_CLAMPS, *_GRID_PLACES, "line-height", "z-index", "scale",
    "aspect-ratio",
})  # fmt: skip
#: all properties that may hide a text
HIDING_PROPERTIES = frozenset(_RULES) | _BESIDE
#: those that change the scale
SCALING_PROPERTIES = frozenset({*_TRANSFORMS, "scale", "rotate", "zoom"})


_ARITHMETIC = re.compile(r"(?<![\w-])(calc|min|max|clamp|)\(([^()]*)\)")
_TERM = re.compile(
    r"\s*(?:([-+*/])\s+|([*/]))?\s*([-+]?(?:\d{1,9}(?:\.\d{0,9})?|\.\d{1,9}))([a-z%]*)\s*"
)
_MOST_ROUNDS = 8


def evaluated(value: str) -> str:
    """Return a value with its arithmetic computed; what cannot be computed stays."""
    for _ in range(_MOST_ROUNDS):
        found = _ARITHMETIC.search(value)
        if found is None:
            return value
        result = _arithmetic(found[1], found[2])
        if result is None:
            return value
        value = value[: found.start()] + result + value[found.end() :]
    return value


def _arithmetic(name: str, inside: str) -> str | None:
    """Return the result of one function; None if it is not understood."""
    results = [_sum(part) for part in inside.split(",")]
    known = [each for each in results if each is not None]
    if len(known) < len(results) or not known:
        return None
    units = {unit for _, unit in known}
    unit = units.pop() if len(units) == 1 else "px"
    numbers = [number if own == unit else _as_pixels(number, own) for number, own in known]
    if name == "clamp" and len(numbers) == 3:  # noqa: PLR2004 - least, preferred, most
        return f"{max(numbers[0], min(numbers[1], numbers[2])):.6f}{unit}"
    if name == "clamp" or (name in {"calc", ""} and len(numbers) > 1):
        return None
    chosen = min(numbers) if name == "min" else max(numbers)
    return f"{chosen:.6f}{unit}"


def _as_pixels(number: float, unit: str) -> float:
    return number * _PIXELS.get(unit, 1.0)


def _sum(text: str) -> tuple[float, str] | None:
    """Return a sum of products with its unit; several units become pixels."""
    terms: list[tuple[float, str]] = []
    at = 0
    while at < len(text.rstrip()):
        found = _TERM.match(text, at)
        sign = (found[1] or found[2]) if found else None
        if found is None or bool(terms) != bool(sign):
            return None
        number, unit = float(found[3]), found[4]
        if sign in {"*", "/"}:
            before, own = terms[-1]
            if sign == "/" and number == 0:
                return None
            terms[-1] = (before * number if sign == "*" else before / number, own or unit)
        else:
            terms.append((-number if sign == "-" else number, unit))
        at = found.end()
    units = {unit for _, unit in terms}
    if not units:
        return None
    if len(units) == 1:
        return sum(number for number, _ in terms), units.pop()
    return sum(_as_pixels(number, unit) for number, unit in terms), "px"
