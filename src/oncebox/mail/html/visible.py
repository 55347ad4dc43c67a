"""Visible text of HTML: parsed, serialised, then walked once; hidden text is returned separately.

The HTML parser repairs broken markup. Its serialisation has every tag, in one spelling, and no
text or value that could be mistaken for a tag. So no tree is needed: the serialised text is split
at tags, and the result for a tag that occurred before is cached.

Hidden text may carry instructions for models that people do not see. A text is hidden by its
element (``title``, ``noscript``), by an attribute or by style: not displayed, transparent,
tiny, clipped, off the screen, or in the colour of its background.
"""

import re

import msgspec
from selectolax.lexbor import LexborHTMLParser, LexborNode

from oncebox.mail.html import layout, styles
from oncebox.mail.html.layout import (
    CELL_BREAKS,
    INLINE_BREAKS,
    LINE_BREAKS,
    NO_BREAK,
    Emphasis,
    Page,
    PageBuilder,
)
from oncebox.mail.html.styles import Colour, Declarations, Style
from oncebox.mail.html.stylesheets import NO_MATCH_STATE, MatchState, StyleSheet
from oncebox.mail.limits import ParseLimits

_TAG_NAME = re.compile(r"</?[a-zA-Z][a-zA-Z0-9]*")
_LONG_TAG = re.compile(r"<[a-zA-Z](?:[^>=]++|=\s*+(?:\"[^\"]*+(?:\"|\Z)|'[^']*+(?:'|\Z))?)*+")
_QUOTED = re.compile(r"\"[^\"]*+\"?|'[^']*+'?")
#: elements that are reopened in every paragraph until they are closed
_FORMATTING_TAGS = frozenset({
    "a", "b", "big", "code", "em", "font", "i", "nobr", "s", "small", "strike", "strong", "tt", "u",
})  # fmt: skip
#: elements with an optional end tag, or without one
_SELF_CLOSING_TAGS = frozenset({
    "area", "base", "br", "col", "dd", "dt", "embed", "hr", "img", "input", "li", "link", "meta",
    "optgroup", "option", "p", "param", "source", "tbody", "td", "tfoot", "th", "thead", "tr",
    "track", "wbr", "html", "head", "body",
})  # fmt: skip
#: limits below which HTML is not examined: characters, tags
_SMALL, _FEW = 32 * 1024, 1_200
_MOST_REOPENED, _MOST_WRITTEN = 250_000, 32 * 1024 * 1024
_LONGEST_TAG = 4_096


def truncate_html(html: str, limits: ParseLimits, warnings: set[str]) -> str:
    """Return the HTML up to the point where it exceeds a limit.

    Parsing takes time that grows with the square of open elements, and of attributes.
    """
    if len(html) <= _SMALL and html.count("<") <= _FEW:
        return html
    end = min(_nesting_end(html, limits), _attributes_end(html))
    if end < len(html):
        warnings.add("html_limit")
    return html[:end]


def _nesting_end(html: str, limits: ParseLimits) -> int:
    """Return the offset at which too many elements are open, or too many tags have been read."""
    open_now: dict[str, int] = {}
    reopened = _ReopenedElements(html)
    tags: dict[str, tuple[str, int]] = {}
    total = 0
    for number, found in enumerate(_TAG_NAME.finditer(html)):
        written = found[0]
        tag = tags.get(written)
        if tag is None:
            tag = tags[written] = _name_and_step(written)
        name, step = tag
        count = open_now.get(name, 0)
        if step > 0 or (step and count):
            open_now[name] = count + step
            total += step
            if name in _FORMATTING_TAGS:
                reopened.change(name, step, found.start())
        if (
            total > limits.nesting
            or number >= limits.tags
            or (reopened.open and reopened.is_limit_exceeded())
        ):
            return found.start()
    return len(html)


def _name_and_step(written: str) -> tuple[str, int]:
    """Return the name of a tag and by how much it changes the nesting."""
    name = written.lower().lstrip("</")
    if name in _SELF_CLOSING_TAGS:
        return name, 0
    return name, -1 if written[1] == "/" else 1


class _ReopenedElements:
    """Formatting elements that a tree builder opens again at every tag, and their size."""

    def __init__(self, html: str) -> None:
        self._html = html
        self._lengths: dict[str, list[int]] = {}
        self.open = self._length = 0
        self._opened = self._written = 0

    def change(self, name: str, step: int, at: int) -> None:
        """Open the element at an offset, or close the last one of its name."""
        lengths = self._lengths.setdefault(name, [])
        if step > 0:
            tag = _LONG_TAG.match(self._html, at)
            lengths.append(len(tag[0]) if tag else 0)
            self._length += lengths[-1]
        else:
            self._length -= lengths.pop()
        self.open += step

    def is_limit_exceeded(self) -> bool:
        """Count all of them once more, and say whether the tree would be too large."""
        self._opened += self.open
        self._written += self._length
        return self._opened > _MOST_REOPENED or self._written > _MOST_WRITTEN


def _attributes_end(html: str) -> int:
    """Return the offset of the first tag with too many attributes."""
    for found in _LONG_TAG.finditer(html):
        long = found.end() - found.start() > _LONGEST_TAG
        if long and len(_QUOTED.sub("", found[0])) > _LONGEST_TAG:
            return found.start()
    return len(html)


#: elements whose content is no visible text
_STRIPPED_TAGS = ("script", "style", "template")
_HAS_REMOVED = re.compile("<(?:[sS][cCtTvV]|[tT][eE]|[mM][aA])")
_HAS_STRIPPED = re.compile("<(?:[sS][cCtT]|[tT][eE])")
_HAS_FOREIGN = re.compile("<(?:[sS][vV]|[mM][aA])")
#: elements with another meaning inside SVG and MathML
_MISNAMED = ", ".join(
    f"{foreign} {name}"
    for foreign in ("svg", "math")
    for name in (
        "area", "base", "basefont", "bgsound", "col", "frame", "iframe", "input", "keygen", "link",
        "noembed", "noframes", "param", "plaintext", "source", "track", "wbr", "xmp",
    )
)  # fmt: skip
#: elements without an end tag
VOID_TAGS = frozenset({
    "area", "base", "basefont", "bgsound", "br", "col", "embed", "frame", "hr", "img", "input",
    "keygen", "link", "meta", "param", "source", "track", "wbr",
})  # fmt: skip
#: elements whose text is serialised without escaping
RAW_TEXT_TAGS = frozenset({"iframe", "noembed", "noframes", "plaintext", "xmp"})
_SAFE_NAME = r"[^\s\"'<>/=]+"
_ODD_NAME = re.compile(rf"(?!{_SAFE_NAME}\Z)", re.DOTALL)
_SERIALIZED_TAG = re.compile(rf"({_SAFE_NAME})((?: {_SAFE_NAME}=\"[^\"]*\")*)")
_ATTRIBUTE = re.compile(rf" ({_SAFE_NAME})=\"([^\"]*)\"")

Attributes = dict[str, str]


class SerializedHtml(msgspec.Struct, frozen=True):
    """Serialised HTML, and its style sheets."""

    html: str
    css: str


def serialize_html(html: str, *, straight: bool = False) -> SerializedHtml:
    """Return HTML as parsed; ``straight`` drops ambiguous names."""
    tree = LexborHTMLParser(html)
    css = ""
    removed = _HAS_REMOVED.search(html)
    if removed and _HAS_STRIPPED.search(html, removed.start()):
        css = "\n".join([node.text() for node in tree.css("style")])
        tree.strip_tags(list(_STRIPPED_TAGS))
    if removed and _HAS_FOREIGN.search(html, removed.start()):
        for node in tree.css(_MISNAMED):
            node.decompose()
    if tree.root is None:
        return SerializedHtml("", css)
    if straight:
        _drop_odd_names(tree.root)
    return SerializedHtml(tree.root.html or "", css)


def _drop_odd_names(root: LexborNode) -> None:
    for node in list(root.traverse(include_text=False)):
        for name in filter(_ODD_NAME.match, list(node.attributes)):
            del node.attrs[name]
        if _ODD_NAME.match(node.tag or ""):
            node.unwrap(delete_empty=True)


def parse_tag(text: str) -> tuple[str, Attributes] | None:
    """Return the name and the attributes of a tag; None if they are ambiguous."""
    found = _SERIALIZED_TAG.fullmatch(text)
    if found is None:
        return None
    attributes = {name: unescape_text(value) for name, value in _ATTRIBUTE.findall(found[2])}
    return found[1].lower(), attributes


def unescape_text(written: str) -> str:
    """Return a serialised text or value without escapes."""
    if "&" not in written:
        return written
    written = written.replace("&lt;", "<").replace("&gt;", ">").replace("&nbsp;", "\u00a0")
    return written.replace("&quot;", '"').replace("&amp;", "&")


#: elements with code, not text
_CODE_TAGS = frozenset({"script", "style"})
#: elements whose text is a fallback, or is not shown in the page
_UNRENDERED_TAGS = frozenset({
    "title", "noscript", "template", "noframes", "noembed", "iframe", "object", "audio", "video",
    "canvas", "datalist", "desc", "metadata",
})  # fmt: skip
#: elements that break lines
_BLOCK_TAGS = frozenset({
    "address", "article", "aside", "blockquote", "body", "center", "dd", "details", "dialog",
    "div", "dl", "dt", "fieldset", "figcaption", "figure", "footer", "form", "h1", "h2", "h3",
    "h4", "h5", "h6", "header", "hr", "li", "main", "nav", "ol", "option", "p", "pre", "section",
    "summary", "table", "tbody", "tfoot", "thead", "tr", "ul",
})  # fmt: skip
#: the breaks before and after an element
_BREAKS = {**dict.fromkeys(_BLOCK_TAGS, LINE_BREAKS), "td": CELL_BREAKS, "th": CELL_BREAKS}
_PREFORMATTED_TAGS = frozenset({"pre", "textarea", "xmp", "listing", "plaintext"})
_STYLED_TAGS = _UNRENDERED_TAGS | _PREFORMATTED_TAGS | _CODE_TAGS | layout.EMPHASIS_TAGS
#: conditional comments for Outlook
_CONDITION = re.compile(r"\[(?:if|endif)[^\]]{0,200}\]>?")
_MARKUP = re.compile(r"<[^<>]*+>?")
_WHITE: Colour = (255, 255, 255)


class VisibleText(msgspec.Struct):
    """The visible and the hidden text of HTML."""

    shown: Page
    #: text hidden by elements and styles
    hidden: str
    unrendered: str


class _ComputedStyle(msgspec.Struct, kw_only=True):
    """The computed style of an element, inherited by its children."""

    hidden: bool = False
    unrendered: bool = False
    #: it holds code, not text
    code: bool = False
    invisible: bool = False
    tiny: bool = False
    text_colour: Colour | str | None = None
    background: Colour | None = _WHITE
    #: white space counts
    preserves_space: bool = False
    #: its element is displayed inline
    is_inline: bool = False
    #: whether text is visible here
    readable: bool = True
    #: text is visible here, and its white space does not count
    flows: bool = True
    #: the emphasis of its text; None if plain
    emphasis: Emphasis | None = None
    #: the state of complex selectors
    match_state: MatchState = NO_MATCH_STATE
    #: cached styles of children by style
    by_style: dict[tuple[str, str, MatchState], "_ComputedStyle"] = {}
    #: cached styles of children by tag text
    by_tag: dict[str, "_ElementStep"] = {}

    def __post_init__(self) -> None:
        unreadable = self.hidden or self.unrendered or self.code or self.invisible or self.tiny
        self.readable = not (unreadable or _is_unreadable(self.text_colour, self.background))
        self.flows = self.readable and not self.preserves_space


#: the style inside an element, and its breaks
_ElementStep = tuple[_ComputedStyle, tuple[int, ...]]


def _is_unreadable(colour: Colour | str | None, background: Colour | None) -> bool:
    """Say whether text has the colour of its background."""
    if isinstance(colour, tuple):
        return background is not None and styles.are_indistinguishable(colour, background)
    return colour == styles.TRANSPARENT


def read_html(html: str, limits: ParseLimits, warnings: set[str]) -> VisibleText:
    """Return the visible and hidden text of HTML, in linear time."""
    bounded = truncate_html(html, limits, warnings)
    try:
        walk = _Renderer(serialize_html(bounded))
    except _AmbiguousTag:
        walk = _Renderer(serialize_html(bounded, straight=True))
    if walk.exhausted:
        warnings.add("html_limit")
    return VisibleText(
        walk.draft.page(),
        _normalised_lines("\n".join(walk.hidden)),
        _normalised_lines("\n".join(walk.unrendered)),
    )


class _AmbiguousTag(Exception):
    pass


class _Renderer:
    """Reads serialised HTML once, from left to right."""

    def __init__(self, page: SerializedHtml) -> None:
        self.draft = PageBuilder(odd_spaces=any(map(page.html.__contains__, layout.ODD_SPACES)))
        self.hidden: list[str] = []
        self.unrendered: list[str] = []
        sheet = StyleSheet(page.css) if page.css else None
        self._sheet = None if sheet is None or sheet.empty else sheet
        self._pieces = iter(page.html.split("<"))
        next(self._pieces)  # no text precedes the first tag
        self._walk()

    @property
    def exhausted(self) -> bool:
        """Whether the limit of style tests was exceeded."""
        return self._sheet is not None and self._sheet.exhausted

    def _walk(self) -> None:  # noqa: C901, PLR0912, PLR0915 - inlined for speed
        """Read all pieces; tags that occurred before in the same context are cached.

        Most pieces are tags without a text, and are looked up as they are.
        """
        put = self.draft.put
        end_tags: set[str] = set()
        parted = NO_BREAK
        inside = current, ends = _ComputedStyle(), INLINE_BREAKS
        around: list[_ElementStep] = []
        for piece in self._pieces:
            if piece in end_tags:
                parted = ends[parted]
                inside = current, ends = around.pop()
                continue
            if (step := current.by_tag.get(piece)) is not None:
                around.append(inside)
                inside = current, ends = step
                parted = ends[parted]
                continue
            tag, closed, text = piece.partition(">")
            tag += closed
            if tag[:1] == "/":
                parted = ends[parted]
                inside = current, ends = around.pop()
                if not text:
                    end_tags.add(tag)
            elif (step := current.by_tag.get(tag)) is not None:
                around.append(inside)
                inside = current, ends = step
                parted = ends[parted]
            else:
                step, text, parted = self._enter_element(current, piece, parted)
                if step is not None:
                    around.append(inside)
                    inside = current, ends = step
            if text:
                if "&" in text:
                    text = unescape_text(text)
                if not current.flows:
                    parted = self._put(text, current, parted)
                elif not (parted and text.isspace()):
                    put(text, current.emphasis, parted)
                    parted = NO_BREAK

    def _enter_element(
        self, current: _ComputedStyle, piece: str, parted: int
    ) -> tuple[_ElementStep | None, str, int]:
        """Return the style inside an element, the text after its tag, and the break before it.

        There is no style for void and raw-text elements: they are complete.
        """
        if piece.startswith("!--"):
            return None, self._comment(piece), parted
        tag, closed, text = piece.partition(">")
        read = parse_tag(tag) if closed else None
        if read is None:
            raise _AmbiguousTag
        name, attributes = read
        if name in VOID_TAGS:
            return None, text, self._void(name, attributes, current, parted)
        inner = self._style_inside(current, name, attributes)
        ends = _BREAKS.get(name, INLINE_BREAKS)
        if ends is LINE_BREAKS and inner.is_inline and inner is not current:
            ends = CELL_BREAKS
        parted = ends[parted]
        if name in RAW_TEXT_TAGS:
            inside, text = self._raw(name, text)
            return None, text, self._put(inside, inner, parted)
        if name != "a":  # every link has its own emphasis
            current.by_tag[tag + closed] = (inner, ends)
        return (inner, ends), text, parted

    def _comment(self, piece: str) -> str:
        """Record a comment; return the text after it."""
        inside = []
        while "-->" not in piece:
            inside.append(piece)
            piece = next(self._pieces)
        end, _, text = piece.partition("-->")
        comment = "<".join([*inside, end])[3:]
        self.unrendered.append(_MARKUP.sub(" ", _CONDITION.sub("", comment)))
        return text

    def _raw(self, name: str, text: str) -> tuple[str, str]:
        """Return the raw text of an element, and the text after it."""
        inside = [text]
        end = f"/{name}>"
        for piece in self._pieces:
            if piece.startswith(end) and name != "plaintext":
                return "<".join(inside), piece.removeprefix(end)
            inside.append(piece)
        # A plaintext element has no end tag, so every end tag belongs to its ancestors.
        return "<".join(inside).rpartition(f"<{end}")[0], ""

    def _void(self, name: str, attributes: Attributes, current: _ComputedStyle, parted: int) -> int:
        """Handle a void element; return the break after it."""
        if name in {"br", "hr"}:
            return LINE_BREAKS[parted]
        link = current.emphasis and current.emphasis.link
        if name == "img" and current.readable and link:
            link.alts.append(attributes.get("alt") or attributes.get("title", ""))
            self.draft.put("", current.emphasis, parted)
            return NO_BREAK
        return parted

    def _put(self, text: str, current: _ComputedStyle, parted: int) -> int:
        """Add a hidden or preformatted text; return the break after it."""
        if not current.readable:
            if not current.code and not text.isspace():
                (self.unrendered if current.unrendered else self.hidden).append(text)
            return parted
        for number, line in enumerate(text.split("\n") if current.preserves_space else (text,)):
            if number:
                parted = LINE_BREAKS[parted]
            if line and not (parted and line.isspace()):
                self.draft.put(line, current.emphasis, parted)
                parted = NO_BREAK
        return parted

    def _style_inside(
        self, current: _ComputedStyle, tag: str, attributes: Attributes
    ) -> _ComputedStyle:
        own = attributes.get("style", "")
        match_state, rules = current.match_state, _NO_RULES
        if self._sheet is not None:
            match_state = self._sheet.below(match_state, tag, attributes)
            rules = self._sheet.rules(match_state, tag, attributes)
        if rules or not _STYLE_ATTRIBUTES.isdisjoint(attributes):
            style = styles.combined_style(rules, styles.declarations(own))
            style = _with_html_attributes(style, tag, attributes)
        elif tag == "a":
            style = styles.inline_style(own)
        else:
            return _cached_style(current, tag, own, match_state)
        new = _child_style(current, tag, style, match_state)
        if tag == "a":
            new.emphasis = layout.link_emphasis(new.emphasis, attributes, style, new.background)
        return new


def _cached_style(
    current: _ComputedStyle, tag: str, own: str, match_state: MatchState
) -> _ComputedStyle:
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


_NO_RULES: tuple[Declarations, ...] = ()
#: presentational attributes
_STYLE_ATTRIBUTES = frozenset({"hidden", "bgcolor", "background", "color", "text"})


def _with_html_attributes(style: Style, tag: str, attributes: Attributes) -> Style:
    """Add presentational attributes; styles take precedence."""
    colour, background = style.text_colour, style.background
    if background is False and "background" in attributes:
        background = styles.UNKNOWN_COLOUR
    if background is False and "bgcolor" in attributes:
        background = styles.read_colour(attributes["bgcolor"].lower())
    painted = {"font": "color", "body": "text"}.get(tag, "")
    if colour is False and painted in attributes:
        colour = styles.read_colour(attributes[painted].lower())
    hides = style.hides or ("hidden" in attributes and tag != "input")
    return msgspec.structs.replace(style, text_colour=colour, background=background, hides=hides)


def _child_style(
    current: _ComputedStyle, tag: str, style: Style, match_state: MatchState
) -> _ComputedStyle:
    colour: Colour | str | None = current.text_colour
    if not isinstance(style.text_colour, bool):
        colour = style.text_colour
    elif tag == "a" and not style.text_colour:
        colour = styles.UNKNOWN_COLOUR  # links have their own default colour
    background = current.background
    if not isinstance(style.background, bool) and style.background != styles.TRANSPARENT:
        background = style.background if isinstance(style.background, tuple) else None
    # Buttons drawn in VML for Outlook have a second link that is hidden from Outlook only.
    outlook = style.hidden_in_outlook and tag != "a"
    return _ComputedStyle(
        hidden=current.hidden or style.hides or outlook,
        unrendered=current.unrendered or tag in _UNRENDERED_TAGS,
        code=current.code or tag in _CODE_TAGS,
        invisible=current.invisible if style.visible is None else not style.visible,
        tiny=current.tiny if style.tiny is None else style.tiny,
        text_colour=colour,
        background=background,
        preserves_space=tag in _PREFORMATTED_TAGS
        or (current.preserves_space if style.preserves_space is None else style.preserves_space),
        is_inline=style.is_inline,
        emphasis=layout.child_emphasis(current.emphasis, tag, style, background),
        match_state=match_state,
    )


def _normalised_lines(text: str) -> str:
    """Return text with single spaces between words and no empty lines."""
    lines = (" ".join(line.split()) for line in text.split("\n"))
    return "\n".join(line for line in lines if line)
