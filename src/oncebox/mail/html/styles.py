"""CSS declarations: the style of one element, and whether it hides or emphasises a text."""

import re
from collections.abc import Iterable, Mapping
from functools import lru_cache

import msgspec

from oncebox.mail.html import hiding
from oncebox.mail.html.colours import UNKNOWN_COLOUR, Colour, background_colour, read_colour
from oncebox.mail.html.hiding import DOUBTFUL, HIDDEN, VISIBLE, Visibility

#: the properties that can hide or emphasise a text
_PROPERTIES = hiding.HIDING_PROPERTIES | {
    "font", "color", "background", "background-color", "background-image", "background-clip",
    "-webkit-background-clip", "mso-hide", "-webkit-text-fill-color", "white-space",
    "font-family", "animation", "animation-name", "-webkit-animation", "-webkit-animation-name",
    "animation-duration", "animation-delay", "animation-direction", "animation-play-state",
    "animation-iteration-count",
    # and those that emphasise it
    "font-weight", "letter-spacing", "border", "border-radius", "padding",
}  # fmt: skip
_DECLARATION = re.compile(
    r"(--[\w-]++|[a-z-]++)\s*+:\s*+"
    r"((?:[^;()\"']++|\([^()]*+\)?|\)|\"[^\"\n]*+\"?|'[^'\n]*+'?)*+)"
)
_COMMENT = re.compile(r"/\*.*?(?:\*/|\Z)", re.DOTALL)
_ESCAPE = re.compile(r"\\(?:([0-9a-f]{1,6})\s?|(.))", re.DOTALL)
_CUSTOM_NAME = re.compile(r"--[\w-]+")
_CAPITAL = re.compile("([A-Z])")
_VARIABLE = re.compile(r"var\(\s*(--[\w-]+)\s*(?:,([^()]*(?:\([^()]*\)[^()]*)*))?\)")
_LAST_CHARACTER = 0x10FFFF

#: relative units of font size, absolute units in pixels, and words for absolute sizes
_SHARES = {"em": 1.0, "%": 0.01, "ex": 0.5, "ch": 0.5}
_PIXELS = {"pt": 4 / 3, "rem": 16.0, "vw": 6.0, "vh": 6.0}
_SIZE_WORDS = frozenset({
    "xx-small", "x-small", "small", "medium", "large", "x-large", "xx-large", "initial",
})  # fmt: skip
_DEFAULT_SIZE = 16.0
_RELATIVE_WORDS = {"smaller": 0.83, "larger": 1.2}
#: font weights and letter spacing that emphasise a text
_BOLD = 600
_SPACED_PIXELS, _SPACED_SHARE = 2.0, 0.12
#: valid values by property; browsers ignore others
_VALID_VALUES = {
    "display": re.compile(
        "none|contents|block|inline|inherit|initial|unset|revert|list-item|flow|flow-root|flex"
        "|grid|ruby|table|run-in|(?:inline-|table-|block |inline |-webkit-|-ms-|-moz-)[a-z -]+"
        "|[a-z-]+\\(.*"
    ),
    "visibility": re.compile("visible|hidden|collapse|inherit|initial|unset|revert|[a-z-]+\\(.*"),
    "opacity": re.compile(
        "[a-z-]*\\(.*|[-+]?[0-9.]+(?:e[-+]?[0-9]{1,2})?%?|inherit|initial|unset|revert"
    ),
}
#: substitutions of variables in one value, and its length
_MOST_SUBSTITUTIONS, _LONGEST_VALUE = 16, 1_000

#: values by property; the second mapping is for ``!important``
Declarations = tuple[dict[str, str], dict[str, str]]
_NO_DECLARATIONS: Declarations = ({}, {})


class Style(msgspec.Struct, frozen=True):
    """The computed styles of one element; None where nothing is specified."""

    #: whether the element and its content are visible
    visibility: Visibility = VISIBLE
    #: hidden in Outlook only
    hidden_in_outlook: bool = False
    #: ``display`` is specified, and it is not hidden by it
    displayed: bool = False
    #: hidden unless a descendant overrides it
    visible: bool | None = None
    opacity: float = 1.0
    #: negative if it is mirrored
    scale: float = 1.0
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
    #: in pixels, or relative to the surrounding text; None if not specified
    size: float | None = None
    relative: bool = False
    #: it has padding or a border, as buttons have
    boxed: bool = False
    #: it may lie on other elements
    lifted: bool = False


_VISIBILITY = {"hidden": False, "collapse": False, "visible": True}
NO_STYLE = Style()


@lru_cache(2048)
def declarations(text: str) -> Declarations:
    """Return the relevant declarations of a ``style`` attribute or a rule."""
    lowered = _lowered(text)
    usual: dict[str, str] = {}
    important: dict[str, str] = {}
    for name, raw in _DECLARATION.findall(lowered):
        if name in _PROPERTIES or name[:2] == "--":
            value, mark, _ = (each.strip() for each in raw.partition("!"))
            if "(" in value:
                value = hiding.evaluated(value)
            if name in _VALID_VALUES and not _VALID_VALUES[name].fullmatch(value):
                continue
            if mark:
                important[name] = value
            else:
                usual[name] = value
    return (usual, important) if usual or important else _NO_DECLARATIONS


def _lowered(text: str) -> str:
    """Return declarations in lower case, without comments and escapes."""
    if "--" in text:  # only the names of variables differ by case
        text = _CUSTOM_NAME.sub(lambda found: _CAPITAL.sub(r"\1__", found[0]), text)
    lowered = text.lower()
    if "/*" in lowered:
        lowered = _COMMENT.sub("", lowered)
    return _ESCAPE.sub(_escaped_character, lowered) if "\\" in lowered else lowered


def combined_values(rules: Iterable[Declarations], inline: Declarations) -> dict[str, str]:
    """Return the values of rules and of the element's own declarations."""
    values: dict[str, str] = {}
    several = list(rules)
    for usual, _ in several:
        values |= usual
    values |= inline[0]
    for _, important in several:
        values |= important
    return values | inline[1]


def custom_properties(values: Mapping[str, str]) -> dict[str, str]:
    """Return the variables that an element defines."""
    return {name: value for name, value in values.items() if name.startswith("--")}


def resolved(values: dict[str, str], variables: Mapping[str, str]) -> tuple[dict[str, str], bool]:
    """Return values with their variables replaced, and whether one of them is unknown."""
    found: dict[str, str] = {}
    unknown = False
    for name, value in values.items():
        if "var(" not in value or name[:2] == "--":  # that is replaced where it is used
            found[name] = value
            continue
        plain = _substituted(value, variables)
        if plain is None:
            unknown = True
        elif name not in _VALID_VALUES or _VALID_VALUES[name].fullmatch(plain):
            found[name] = plain
    return found, unknown


def _substituted(value: str, variables: Mapping[str, str]) -> str | None:
    """Return a value with its variables replaced; None if that is not possible."""
    for _ in range(_MOST_SUBSTITUTIONS):
        found = _VARIABLE.search(value)
        if found is None:
            return hiding.evaluated(value) if "var(" not in value else None
        fallback: str | None = found[2]
        replacement = variables.get(found[1], fallback)
        if replacement is None or len(value) + len(replacement) > _LONGEST_VALUE:
            return None
        value = value[: found.start()] + replacement.strip() + value[found.end() :]
    return None


@lru_cache(2048)
def inline_style(text: str) -> Style:
    """Return the style of a ``style`` attribute alone."""
    usual, important = declarations(text)
    return style_of(usual | important)


def style_of(values: dict[str, str]) -> Style:
    """Return the style of declarations."""
    if not values:
        return NO_STYLE
    size, relative = _size_in_pixels(_font_size(values))
    display = values.get("display", "")
    return Style(
        visibility=max(hiding.visibility(values), _colour_visibility(values)),
        hidden_in_outlook=values.get("mso-hide") == "all",
        displayed=display not in {"", "none"},
        visible=_VISIBILITY.get(values.get("visibility", "")),
        opacity=hiding.fade(values) if "opacity" in values or "filter" in values else 1.0,
        scale=1.0 if hiding.SCALING_PROPERTIES.isdisjoint(values) else hiding.scale(values),
        text_colour=_text_colour(values),
        background=_background(values),
        preserves_space=values["white-space"].startswith("pre")
        if "white-space" in values
        else None,
        is_inline=display.startswith(("inline", "table-cell")),
        strong=_strong(values),
        spaced=_letter_spaced(values.get("letter-spacing")),
        size=size,
        relative=relative,
        boxed=_boxed(values),
        lifted=hiding.is_lifted(values),
    )


def _colour_visibility(values: dict[str, str]) -> Visibility:
    """Say whether colours hide a text, whatever is around it."""
    if "currentcolor" in {values.get("background-color"), values.get("background")}:
        return HIDDEN
    colour = values.get("color", "")
    strange = "(" in colour and read_colour(colour) is UNKNOWN_COLOUR
    return DOUBTFUL if strange or _is_clipped_to_text(values) else VISIBLE


def _is_clipped_to_text(values: dict[str, str]) -> bool:
    return "text" in {values.get("background-clip"), values.get("-webkit-background-clip")}


def _text_colour(values: dict[str, str]) -> Colour | str | bool | None:
    value = values.get("-webkit-text-fill-color", values.get("color"))
    if value is None:
        return False
    if _is_clipped_to_text(values):
        return UNKNOWN_COLOUR
    return True if value in {"inherit", "currentcolor"} else read_colour(value)


def _font_size(values: dict[str, str]) -> tuple[float, str] | None:
    """Return the font size: a number and its unit."""
    size = values.get("font-size")
    if size is None and "font" in values:
        size = next(filter(_is_size, re.split(r"[\s/]+", values["font"])), None)
    if size is not None and size in _SIZE_WORDS:
        return _DEFAULT_SIZE, "px"
    if size is not None and size in _RELATIVE_WORDS:
        return _RELATIVE_WORDS[size], "em"
    found = hiding.NUMBER.match(size) if size else None
    return None if found is None else (float(found[1]), found[2])


def _is_size(word: str) -> bool:
    """Say whether a word of ``font`` is a size: a number with a unit, or 0; others are weights."""
    found = hiding.NUMBER.fullmatch(word)
    sized = found is not None and (bool(found[2]) or float(found[1]) == 0)
    return sized or word in _RELATIVE_WORDS


def _size_in_pixels(font: tuple[float, str] | None) -> tuple[float | None, bool]:
    """Return the font size, and whether it is relative to the surrounding text."""
    if font is None:
        return None, False
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
    return weight in {"bold", "bolder"} or hiding.length(weight, 0.0) >= _BOLD


def _letter_spaced(value: str | None) -> bool | None:
    if value is None or value == "inherit":
        return None
    found = hiding.NUMBER.match(value)
    if found is None:
        return False
    return float(found[1]) >= (_SPACED_SHARE if found[2] in {"em", "rem"} else _SPACED_PIXELS)


def _boxed(values: dict[str, str]) -> bool:
    """Say whether an element has padding, and a border or round corners."""
    framed = values.get("border", "none").split(" ")[0] not in {"none", "0", "0px", ""}
    return hiding.length(values.get("padding", ""), 0.0) > 0 and (
        framed or "border-radius" in values
    )


def _background(values: dict[str, str]) -> Colour | str | bool | None:
    picture = values.get("background-image")
    if picture and picture not in {"none", "initial"}:
        return background_colour(picture) if "gradient" in picture else UNKNOWN_COLOUR
    value = values.get("background-color", values.get("background"))
    return False if value is None or value in {"", "inherit"} else background_colour(value)


def _escaped_character(found: re.Match[str]) -> str:
    if found[1] is None:
        return str(found[2])
    number = int(found[1], 16)
    return chr(number) if 0 < number <= _LAST_CHARACTER else "\ufffd"
