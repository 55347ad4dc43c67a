"""Computed styles: what an element inherits, adds and shows, from its tag, attributes and CSS."""

import re
from collections.abc import Mapping
from functools import lru_cache

import msgspec

from oncebox.mail.html import colours, hiding, layout, styles
from oncebox.mail.html.colours import TRANSPARENT, UNKNOWN_COLOUR, Colour
from oncebox.mail.html.hiding import DOUBTFUL, HIDDEN, VISIBLE, Visibility
from oncebox.mail.html.layout import Emphasis
from oncebox.mail.html.styles import Style
from oncebox.mail.html.stylesheets import NO_MATCH_STATE, NO_RULES, MatchState, StyleSheet

Attributes = Mapping[str, str]

#: elements with code, not text
_CODE_TAGS = frozenset({"script", "style"})
#: elements whose text is a fallback, or is not shown in the page
_UNRENDERED_TAGS = frozenset({
    "title", "noscript", "template", "noframes", "noembed", "iframe", "object", "audio", "video",
    "canvas", "datalist", "desc", "metadata", "rp", "meter", "progress", "applet", "annotation",
    "annotation-xml", "defs", "symbol", "clippath", "mask", "pattern", "marker",
})  # fmt: skip
#: elements that show their text in another way than it is written: in another order, struck
#: through, one line of many, or by rules that are not computed
_DOUBTFUL_TAGS = frozenset({
    "bdo", "del", "s", "strike", "option", "svg", "marquee", "math", "textarea",
})  # fmt: skip
_SMALLER_TAGS = frozenset({"small", "sub", "sup"})
_SMALLER = 0.83
_HIDDEN_TAGS = frozenset({"mphantom"})
#: elements whose attributes hide their text
_SWITCHED_TAGS = frozenset({"dialog", "details", "blockquote"})
PREFORMATTED_TAGS = frozenset({"pre", "textarea", "xmp", "listing", "plaintext"})
#: elements with a style of their own
_STYLED_TAGS = (
    _UNRENDERED_TAGS | PREFORMATTED_TAGS | _CODE_TAGS | _DOUBTFUL_TAGS | _HIDDEN_TAGS
    | layout.EMPHASIS_TAGS | _SMALLER_TAGS | {"summary"}
)  # fmt: skip
#: presentational attributes, and those that hide
_STYLE_ATTRIBUTES = frozenset({
    "hidden", "popover", "bgcolor", "background", "color", "text", "link",
})  # fmt: skip
#: elements around quoted mail, and their classes and ids
_QUOTING_TAGS = frozenset({"blockquote", "div", "span", "table"})
_QUOTATION = re.compile(r"quot|moz-cite|\bcite\b|divrplyfwdmsg|outlookmessageheader")
#: font sizes in pixels that nobody can read, and that hardly anybody can
_TINY, _SMALL = 1.5, 4.0
_DEFAULT_SIZE = 16.0
_WHITE: Colour = (255, 255, 255)
_BLACK: Colour = (0, 0, 0)
#: the colour of a text for which none is specified
_DEFAULT_COLOUR = "default"
#: an animation that does not simply run to its end
_LASTING = re.compile(r"paused|reverse|infinite|alternate|[0-9]{2}(?:\.[0-9]{1,9})?s|[0-9]{5}ms|\(")
#: variables of an element, and values with variables in all
_MOST_VARIABLES, _MOST_USES = 1_000, 20_000
#: a variable that nothing defines
_UNKNOWN_VARIABLE = "var(--unknown)"


class ComputedStyle(msgspec.Struct, kw_only=True):
    """The computed style of an element, inherited by its children."""

    hidden: bool = False
    unrendered: bool = False
    #: it holds code, not text
    code: bool = False
    invisible: bool = False
    #: a style or an element that is not computed applies to it
    doubtful: bool = False
    #: it is painted, and may lie on other elements
    covers: bool = False
    #: it is inside ``details`` that are closed
    collapsed: bool = False
    #: doubtful text counts as hidden
    strict: bool = False
    font_size: float = _DEFAULT_SIZE
    opacity: float = 1.0
    scale: float = 1.0
    text_colour: Colour | str | None = _DEFAULT_COLOUR
    #: None if it is unknown; then ``backdrop`` is the last known colour
    background: Colour | None = _WHITE
    backdrop: Colour = _WHITE
    variables: Mapping[str, str] = {}
    #: white space counts
    preserves_space: bool = False
    #: its element is displayed inline
    is_inline: bool = False
    #: whether text is visible here, and whether that is doubtful
    readable: bool = True
    is_doubtful: bool = False
    #: text is visible here, and its white space does not count
    flows: bool = True
    #: the emphasis of its text; None if plain
    emphasis: Emphasis | None = None
    #: the state of complex selectors
    match_state: MatchState = NO_MATCH_STATE
    #: cached styles of children by style
    by_style: dict[tuple[str, str, MatchState], "ComputedStyle"] = {}
    #: cached styles of children by tag text, with the breaks at the tag
    by_tag: dict[str, tuple["ComputedStyle", tuple[int, ...]]] = {}

    def __post_init__(self) -> None:
        self.update()

    def update(self) -> None:
        """Compute what follows from the other fields."""
        visibility = self._visibility()
        self.is_doubtful = visibility is DOUBTFUL
        self.readable = visibility is VISIBLE or (self.is_doubtful and not self.strict)
        self.flows = visibility is VISIBLE and not self.preserves_space

    def _visibility(self) -> Visibility:
        if self.hidden or self.unrendered or self.code or self.invisible or self.font_size < _TINY:
            return HIDDEN
        seen = _colour_visibility(self.text_colour, self.background, self.backdrop)
        if self.opacity != 1.0 or self.scale != 1.0:
            seen = max(seen, hiding.fade_visibility(min(self.opacity, abs(self.scale))))
        doubtful = self.doubtful or self.collapsed or self.scale < 0 or self.font_size < _SMALL
        return DOUBTFUL if doubtful and seen is VISIBLE else seen


@lru_cache(4096)
def _colour_visibility(
    colour: Colour | str | None, background: Colour | None, backdrop: Colour
) -> Visibility:
    """Say whether text can be told from its background."""
    if colour is UNKNOWN_COLOUR:
        return VISIBLE
    if colour == TRANSPARENT:
        return HIDDEN
    if isinstance(colour, str):  # the default; a reader may have another one
        black = background is not None and colours.are_indistinguishable(_BLACK, background)
        return DOUBTFUL if black else VISIBLE
    if background is not None and colours.are_indistinguishable(colour, background):
        return HIDDEN
    return DOUBTFUL if colours.are_similar(colour, background or backdrop) else VISIBLE


class StyleComputer:
    """Computes the style inside an element from the style around it."""

    def __init__(self, sheet: StyleSheet | None) -> None:
        self._sheet = sheet
        self._has_variables = sheet is not None and sheet.has_variables
        #: variables whose value their registration decides too
        self._registered = dict.fromkeys(sheet.registered if sheet else (), _UNKNOWN_VARIABLE)
        #: values with variables so far, and whether a limit was exceeded
        self._uses, self.exhausted = 0, False
        #: names in a style that make a text doubtful
        self._names = sheet.hiding_animations | sheet.embedded_fonts if sheet else set[str]()
        self._is_animated = sheet is not None and bool(sheet.passing_animations)

    def style_inside(
        self, current: ComputedStyle, tag: str, attributes: Attributes
    ) -> ComputedStyle:
        """Return the style inside an element."""
        own = attributes.get("style", "")
        match_state, rules = current.match_state, NO_RULES
        if self._sheet is not None:
            match_state = self._sheet.below(match_state, tag, attributes)
            rules = self._sheet.rules(match_state, tag, attributes)
        named = self._names or self._is_animated
        if rules is NO_RULES and not named and _is_simple(tag, own, attributes):
            if tag == "a":  # every link has its own emphasis
                style = styles.inline_style(own)
                return _link_style(
                    _child_style(current, tag, style, match_state), attributes, style
                )
            return _cached_style(current, tag, own, match_state)
        declared = styles.declarations(own)
        values = styles.combined_values((rules.certain,) if rules.certain else (), declared)
        new = self._computed(current, tag, attributes, values, match_state)
        if rules.possible is not None:
            values = styles.combined_values((rules.possible,), declared)
            possible = self._computed(current, tag, attributes, values, match_state)
            _add_doubt(new, possible)
        return new

    def _computed(
        self,
        current: ComputedStyle,
        tag: str,
        attributes: Attributes,
        values: dict[str, str],
        match_state: MatchState,
    ) -> ComputedStyle:
        variables, doubtful = current.variables, False
        if "overflow" in values:
            values = {**_box_attributes(attributes), **values}
        if self._has_variables or "--" in attributes.get("style", ""):
            variables = {**variables, **styles.custom_properties(values), **self._registered}
            self._uses += sum("var(" in value for value in values.values())
            if len(variables) > _MOST_VARIABLES or self._uses > _MOST_USES:
                self.exhausted, variables = True, {}
            values, doubtful = styles.resolved(values, variables)
        if (self._names or self._is_animated) and self._has_doubtful_name(values):
            doubtful = True
        style = styles.style_of(values)
        if tag in _SWITCHED_TAGS or not _STYLE_ATTRIBUTES.isdisjoint(attributes):
            style = _with_html_attributes(style, tag, attributes)
        new = _child_style(current, tag, style, match_state)
        new.variables = variables
        if doubtful or (tag == "details" and "open" not in attributes):
            new.doubtful = new.doubtful or doubtful
            new.collapsed = new.collapsed or tag == "details"
            new.update()
        if _is_quotation(tag, attributes):
            new.emphasis = layout.quoted_emphasis(new.emphasis)
        return _link_style(new, attributes, style) if tag == "a" else new

    def _has_doubtful_name(self, values: Mapping[str, str]) -> bool:
        """Say whether an animation hides the text, or its font comes with the mail."""
        used = " ".join(
            value for name, value in values.items() if "animation" in name or "font" in name
        )
        if any(name in used for name in self._names):
            return True
        passing = self._sheet.passing_animations if self._sheet else ()
        return any(name in used for name in passing) and bool(_LASTING.search(used))


def _link_style(new: ComputedStyle, attributes: Attributes, style: Style) -> ComputedStyle:
    new.emphasis = layout.link_emphasis(new.emphasis, attributes, style, new.background)
    return new


def _box_attributes(attributes: Attributes) -> dict[str, str]:
    return {name: attributes[name] for name in ("height", "width") if name in attributes}


def _add_doubt(new: ComputedStyle, possible: ComputedStyle) -> None:
    """Make a style doubtful if it is hidden by rules that may apply."""
    if new.readable and (possible.is_doubtful or not possible.readable):
        new.doubtful = True
    if possible.variables != new.variables:
        unsure = {
            name: _UNKNOWN_VARIABLE
            for name, value in possible.variables.items()
            if new.variables.get(name) != value
        }
        new.variables = {**new.variables, **unsure}
    new.update()


def _is_simple(tag: str, own: str, attributes: Attributes) -> bool:
    """Say whether the style follows from the tag and the ``style`` attribute alone."""
    return (
        tag not in _SWITCHED_TAGS
        and "--" not in own
        and _STYLE_ATTRIBUTES.isdisjoint(attributes)
        and not _is_quotation(tag, attributes)
        and not ("overflow" in own and ("height" in attributes or "width" in attributes))
    )


def _is_quotation(tag: str, attributes: Attributes) -> bool:
    """Say whether an element holds a quoted mail, by what mail programs call it."""
    if tag not in _QUOTING_TAGS or not (
        "class" in attributes or "id" in attributes or tag[0] == "b"
    ):
        return False
    named = f"{attributes.get('class', '')} {attributes.get('id', '')}".lower()
    cited = tag == "blockquote" and attributes.get("type") == "cite"
    return cited or (named != " " and _QUOTATION.search(named) is not None)


def _cached_style(
    current: ComputedStyle, tag: str, own: str, match_state: MatchState
) -> ComputedStyle:
    """Return the style inside an element, cached by style."""
    special = tag if tag in _STYLED_TAGS else ""
    if not own and not special and match_state == current.match_state:
        return current
    key = (special, own, match_state)
    inner = current.by_style.get(key)
    if inner is None:
        inner = current.by_style[key] = _child_style(
            current, tag, styles.inline_style(own), match_state
        )
    return inner


def _with_html_attributes(style: Style, tag: str, attributes: Attributes) -> Style:
    """Add presentational attributes; styles take precedence."""
    colour, background = style.text_colour, style.background
    if background is False and "background" in attributes:
        background = UNKNOWN_COLOUR
    if background is False and "bgcolor" in attributes:
        background = colours.read_colour(attributes["bgcolor"].lower())
    painted = {"font": "color", "body": "text"}.get(tag, "")
    if colour is False and painted in attributes:
        colour = colours.read_colour(attributes[painted].lower())
    visibility = max(style.visibility, _attribute_visibility(style, tag, attributes))
    links = colours.read_colour(attributes.get("link", "").lower()) if tag == "body" else None
    if isinstance(links, tuple) and colours.are_similar(links, _WHITE):
        visibility = max(visibility, DOUBTFUL)
    return msgspec.structs.replace(
        style, text_colour=colour, background=background, visibility=visibility
    )


def _attribute_visibility(style: Style, tag: str, attributes: Attributes) -> Visibility:
    """Say whether attributes hide an element; ``display`` shows it again."""
    closed = tag == "dialog" and "open" not in attributes
    if closed or "popover" in attributes or ("hidden" in attributes and tag != "input"):
        return DOUBTFUL if style.displayed else HIDDEN
    return VISIBLE


def _child_style(
    current: ComputedStyle, tag: str, style: Style, match_state: MatchState
) -> ComputedStyle:
    colour: Colour | str | None = current.text_colour
    if not isinstance(style.text_colour, bool):
        colour = style.text_colour
    elif tag == "a" and not style.text_colour:
        colour = UNKNOWN_COLOUR  # links have their own default colour
    background = current.background
    if not isinstance(style.background, bool) and style.background != TRANSPARENT:
        background = style.background if isinstance(style.background, tuple) else None
    # Buttons drawn in VML for Outlook have a second link that is hidden from Outlook only.
    outlook = style.hidden_in_outlook and tag != "a"
    size = current.font_size
    if style.size is not None:
        size = style.size * size if style.relative else style.size
    elif tag in _SMALLER_TAGS:
        size *= _SMALLER
    return ComputedStyle(
        hidden=current.hidden or style.visibility is HIDDEN or outlook or tag in _HIDDEN_TAGS,
        unrendered=current.unrendered or tag in _UNRENDERED_TAGS,
        code=current.code or tag in _CODE_TAGS,
        invisible=current.invisible if style.visible is None else not style.visible,
        doubtful=current.doubtful or style.visibility is DOUBTFUL or tag in _DOUBTFUL_TAGS,
        covers=style.lifted and style.background not in {False, TRANSPARENT},
        collapsed=current.collapsed and tag != "summary",
        strict=current.strict,
        font_size=size,
        opacity=current.opacity * style.opacity,
        scale=current.scale * style.scale,
        text_colour=colour,
        background=background,
        backdrop=background or current.backdrop,
        variables=current.variables,
        preserves_space=tag in PREFORMATTED_TAGS
        or (current.preserves_space if style.preserves_space is None else style.preserves_space),
        is_inline=style.is_inline,
        emphasis=layout.child_emphasis(current.emphasis, tag, style, background),
        match_state=match_state,
    )
