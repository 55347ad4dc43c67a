"""Visible text of HTML: parsed, serialised, then walked once; hidden text is returned separately.

The HTML parser repairs broken markup. Its serialisation has every tag, in one spelling, and no
text or value that could be mistaken for a tag. So no tree is needed: the serialised text is split
at tags, and the result for a tag that occurred before is cached.

Hidden text may carry instructions for models that people do not see. A text is hidden by its
element (``title``, ``noscript``), by an attribute or by style: not displayed, transparent,
tiny, clipped, off the screen, or in the colour of its background. Text under a style that is not
computed is doubtful: it is shown, and there is a second page without it.
"""

import re

import msgspec
from selectolax.lexbor import LexborHTMLParser, LexborNode

from oncebox.mail.html import layout
from oncebox.mail.html.computed import ComputedStyle, StyleComputer
from oncebox.mail.html.layout import (
    CELL_BREAKS,
    INLINE_BREAKS,
    LINE_BREAKS,
    NO_BREAK,
    Page,
    PageBuilder,
)
from oncebox.mail.html.styles import inline_style
from oncebox.mail.html.stylesheets import StyleSheet
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
    #: it has a shadow tree, which is shown in place of the text of an element
    shadowed: bool = False


def serialize_html(html: str, *, straight: bool = False) -> SerializedHtml:
    """Return HTML as parsed; ``straight`` drops ambiguous names."""
    tree = LexborHTMLParser(html)
    css, shadowed = "", False
    removed = _HAS_REMOVED.search(html)
    if removed and _HAS_STRIPPED.search(html, removed.start()):
        css = "\n".join(map(_style_text, tree.css("style")))
        shadowed = tree.css_first("template[shadowrootmode]") is not None
        tree.strip_tags(list(_STRIPPED_TAGS))
    if removed and _HAS_FOREIGN.search(html, removed.start()):
        for node in tree.css(_MISNAMED):
            node.decompose()
    if tree.root is None:
        return SerializedHtml("", css)
    if straight:
        _drop_odd_names(tree.root)
    return SerializedHtml(tree.root.html or "", css, shadowed)


def _style_text(node: LexborNode) -> str:
    """Return the rules of a ``style`` element, for its media only."""
    text, media = node.text(), (node.attributes.get("media") or "").strip()
    kind = (node.attributes.get("type") or "text/css").strip().lower()
    if kind != "text/css":
        return ""
    return f"@media {media}{{{text}}}" if media and not set(media) & set("{};") else text


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


#: elements that break lines
_BLOCK_TAGS = frozenset({
    "address", "article", "aside", "blockquote", "body", "center", "dd", "details", "dialog",
    "div", "dl", "dt", "fieldset", "figcaption", "figure", "footer", "form", "h1", "h2", "h3",
    "h4", "h5", "h6", "header", "hr", "li", "main", "nav", "ol", "option", "p", "pre", "section",
    "summary", "table", "tbody", "tfoot", "thead", "tr", "ul",
})  # fmt: skip
#: the breaks before and after an element
_BREAKS = {**dict.fromkeys(_BLOCK_TAGS, LINE_BREAKS), "td": CELL_BREAKS, "th": CELL_BREAKS}
#: conditional comments for Outlook
_CONDITION = re.compile(r"\[(?:if|endif)[^\]]{0,200}\]>?")
_LETTER_OR_DIGIT = re.compile(r"[^\W_]")
_MARKUP = re.compile(r"<[^<>]*+>?")
#: style sheets that are not read, and columns that are not shown
_UNREAD_STYLE = re.compile(
    r"<link [^>]*(?:data|cid):|<col(?:group)? [^>]*(?:collapse|background)"
    r"|@import[^;]{0,99}(?:data|cid):",
    re.IGNORECASE,
)


class VisibleText(msgspec.Struct):
    """The visible and the hidden text of HTML."""

    shown: Page
    #: the same without doubtful text; None if there is none
    certain: Page | None
    #: text hidden by elements and styles
    hidden: str
    unrendered: str


#: the style inside an element, and its breaks
_ElementStep = tuple[ComputedStyle, tuple[int, ...]]


def read_html(html: str, limits: ParseLimits, warnings: set[str]) -> VisibleText:
    """Return the visible and hidden text of HTML, in linear time."""
    bounded = truncate_html(html, limits, warnings)
    try:
        walk = _Renderer(page := serialize_html(bounded))
    except _AmbiguousTag:
        walk = _Renderer(page := serialize_html(bounded, straight=True))
    certain = None
    if walk.exhausted or walk.is_covered or _has_unread_style(page):
        certain = PageBuilder(odd_spaces=False).page()
    elif walk.has_doubtful_text:
        certain = _Renderer(page, strict=True).draft.page()
    if walk.exhausted:
        warnings.add("html_limit")
    if certain is not None:
        warnings.add("doubtful_text")
    return VisibleText(
        walk.draft.page(),
        certain,
        _normalised_lines("\n".join(walk.hidden)),
        _normalised_lines("\n".join(walk.unrendered)),
    )


def _has_unread_style(page: SerializedHtml) -> bool:
    """Say whether the mail has styles that are not read, so that all its text is doubtful."""
    if "@import" in page.css and _UNREAD_STYLE.search(page.css):
        return True
    if page.shadowed or ("<col" in page.html and "collapse" in page.css):
        return True
    return ("<link " in page.html or "<col" in page.html) and (
        _UNREAD_STYLE.search(page.html) is not None
    )


class _AmbiguousTag(Exception):
    pass


class _Renderer:
    """Reads serialised HTML once, from left to right."""

    def __init__(self, page: SerializedHtml, *, strict: bool = False) -> None:
        self.draft = PageBuilder(odd_spaces=any(map(page.html.__contains__, layout.ODD_SPACES)))
        self.hidden: list[str] = []
        self.unrendered: list[str] = []
        sheet = StyleSheet(page.css) if page.css else None
        self._sheet = None if sheet is None or sheet.empty else sheet
        self._styles = StyleComputer(self._sheet)
        self._root = ComputedStyle(strict=strict)
        self.has_doubtful_text = False
        #: something may lie on the text
        self.is_covered = sheet is not None and sheet.covers
        self._pieces = iter(page.html.split("<"))
        next(self._pieces)  # no text precedes the first tag
        self._walk()

    @property
    def exhausted(self) -> bool:
        """Whether the limit of style tests was exceeded."""
        return self._styles.exhausted or (self._sheet is not None and self._sheet.exhausted)

    def _walk(self) -> None:  # noqa: C901, PLR0912, PLR0915 - inlined for speed
        """Read all pieces; tags that occurred before in the same context are cached.

        Most pieces are tags without a text, and are looked up as they are.
        """
        put = self.draft.put
        end_tags: set[str] = set()
        parted = NO_BREAK
        inside = current, ends = self._root, INLINE_BREAKS
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
        self, current: ComputedStyle, piece: str, parted: int
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
        inner = self._styles.style_inside(current, name, attributes)
        self.is_covered = self.is_covered or (inner.covers and inner.readable)
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

    def _void(self, name: str, attributes: Attributes, current: ComputedStyle, parted: int) -> int:
        """Handle a void element; return the break after it."""
        if name in {"br", "hr"}:
            return LINE_BREAKS[parted]
        link = current.emphasis and current.emphasis.link
        if name == "img" and "position" in attributes.get("style", ""):
            self.is_covered = self.is_covered or inline_style(attributes["style"]).lifted
        if name == "img" and current.readable and link:
            link.alts.append(attributes.get("alt") or attributes.get("title", ""))
            self.draft.put("", current.emphasis, parted)
            return NO_BREAK
        return parted

    def _put(self, text: str, current: ComputedStyle, parted: int) -> int:
        """Add a hidden, doubtful or preformatted text; return the break after it."""
        if current.is_doubtful and _LETTER_OR_DIGIT.search(text):
            self.has_doubtful_text = True
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


def _normalised_lines(text: str) -> str:
    """Return text with single spaces between words and no empty lines."""
    lines = (" ".join(line.split()) for line in text.split("\n"))
    return "\n".join(line for line in lines if line)
