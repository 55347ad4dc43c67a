"""Visible text: HTML reduced to what a person would see, and apart from it what is hidden.

Hidden text carries instructions to machines that no person reads. A text is hidden by its
element (``title``, ``noscript``), by an attribute or by style: not displayed, transparent,
tiny, without room, off the screen, or in the colour of its ground.
"""

import re

import msgspec
from selectolax.lexbor import LexborHTMLParser, LexborNode

from oncebox.mail import colours, faces, layout, markup, styles
from oncebox.mail.colours import Colour
from oncebox.mail.faces import Face
from oncebox.mail.layout import CELL, Page
from oncebox.mail.limits import ParseLimits
from oncebox.mail.sheets import Sheet
from oncebox.mail.styles import Style

#: text for programs, which is no text at all
_CODE = frozenset({"script", "style"})
#: text that is shown only where something else fails, or elsewhere
_APART = frozenset({
    "title", "noscript", "template", "noframes", "noembed", "iframe", "object", "audio", "video",
    "canvas", "datalist", "desc", "metadata",
})  # fmt: skip
#: elements that begin and end a line
_LINES = frozenset({
    "address", "article", "aside", "blockquote", "body", "center", "dd", "details", "dialog",
    "div", "dl", "dt", "fieldset", "figcaption", "figure", "footer", "form", "h1", "h2", "h3",
    "h4", "h5", "h6", "header", "hr", "li", "main", "nav", "ol", "option", "p", "pre", "section",
    "summary", "table", "tbody", "tfoot", "thead", "tr", "ul",
})  # fmt: skip
#: what stands before and behind an element
_ENDS = {**dict.fromkeys(_LINES, "\n"), "td": CELL, "th": CELL}
_KEPT = frozenset({"pre", "textarea", "xmp", "listing", "plaintext"})
_SPECIAL = _APART | _KEPT | _CODE | faces.TAGS
#: what only Outlook reads: the markup stays, the condition goes
_CONDITION = re.compile(r"\[(?:if|endif)[^\]]{0,200}\]>?")
_MARKUP = re.compile(r"<[^<>]*+>?")
_STYLE = re.compile("<style", re.IGNORECASE)
_WHITE: Colour = (255, 255, 255)


class Sight(msgspec.Struct):
    """What HTML shows and what it does not."""

    shown: Page
    #: by elements and styles; comments and the title come behind it
    hidden: str
    apart: str


class _Look(msgspec.Struct, kw_only=True):
    """How text looks at one place; handed down from element to element."""

    hidden: bool = False
    apart: bool = False
    #: it holds no text, but a program
    code: bool = False
    unseen: bool = False
    tiny: bool = False
    ink: Colour | str | None = None
    ground: Colour | None = _WHITE
    #: white space counts
    kept: bool = False
    #: its element stands in a line with its neighbours
    beside: bool = False
    #: whether a text can be read here
    shows: bool = True
    #: how text looks that is more than plain
    face: Face | None = None
    #: how it looks inside of elements met before, by tag and style
    inner: dict[tuple[str, str], "_Look"] = {}

    def __post_init__(self) -> None:
        unreadable = self.hidden or self.apart or self.code or self.unseen or self.tiny
        self.shows = not (unreadable or _is_lost(self.ink, self.ground))


def _is_lost(ink: Colour | str | None, ground: Colour | None) -> bool:
    """Say whether a text cannot be told from its ground."""
    if isinstance(ink, tuple):
        return ground is not None and colours.alike(ink, ground)
    return ink == colours.TRANSPARENT


def read(html: str, limits: ParseLimits, warnings: set[str]) -> Sight:
    """Return what HTML shows, in time that grows with its size."""
    tree = LexborHTMLParser(markup.cut(html, limits, warnings))
    sheet = _sheet(tree, html)
    walk = _Walk(sheet)
    root = tree.root
    if root is not None:
        walk.over(root)
    if sheet is not None and sheet.spent:
        warnings.add("html_limit")
    return Sight(
        layout.of_html(walk.shown, walk.faces),
        _lines("\n".join(walk.hidden)),
        _lines("\n".join(walk.apart)),
    )


def _sheet(tree: LexborHTMLParser, html: str) -> Sheet | None:
    root = tree.root
    if root is None or not _STYLE.search(html):
        return None
    css = "\n".join(node.text() for node in tree.css("style"))
    sheet = Sheet(css, root)
    return None if sheet.empty else sheet


class _Walk:
    """One walk over a tree; no recursion, so that no depth can break it."""

    def __init__(self, sheet: Sheet | None) -> None:
        self.shown: list[str] = []
        self.faces: list[tuple[int, Face]] = []
        self.hidden: list[str] = []
        self.apart: list[str] = []
        self._sheet = sheet

    def over(self, root: LexborNode) -> None:  # noqa: C901, PLR0912, PLR0915 - calls cost most
        """Walk over everything below a node, parents before their children."""
        shown, faced = self.shown, self.faces
        look = _Look()
        inside, closing = root.mem_id, ""
        around: list[tuple[int, str, _Look]] = []
        everywhere = self._sheet is not None and self._sheet.everywhere
        watched = _SPECIAL if self._sheet is None else _SPECIAL | self._sheet.tags
        nodes = root.traverse(include_text=True)
        next(nodes, None)  # the root itself
        for node in nodes:
            parent = node.parent.mem_id  # type: ignore[union-attr]  # only the root has none
            while inside != parent and around:
                shown.append(closing)
                inside, closing, look = around.pop()
            tag = node.tag or ""
            if tag == "-text":
                if look.shows:
                    if look.face is not None:
                        faced.append((len(shown), look.face))
                    text = node.text_content or ""
                    shown.append(text if look.kept else text.replace("\n", " "))
                else:
                    self._put_aside(node, look)
            elif tag == "br" or tag[:1] == "-":
                self._mark(node, tag)
            else:
                around.append((inside, closing, look))
                inside, closing = node.mem_id, _ENDS.get(tag, "")
                attributes = node.attributes
                if attributes or tag in watched or everywhere:
                    before, look = look, self._look(node, tag, attributes, look)
                    if look.beside and closing == "\n" and look is not before:
                        closing = CELL
                shown.append(closing)

    def _put_aside(self, node: LexborNode, look: _Look) -> None:
        text = node.text_content or ""
        if not look.code and not text.isspace():
            (self.apart if look.apart else self.hidden).append(text)

    def _mark(self, node: LexborNode, tag: str) -> None:
        """Note the end of a line, or a comment."""
        if tag == "br":
            self.shown.append("\n")
        elif text := node.comment_content:
            self.apart.append(_MARKUP.sub(" ", _CONDITION.sub("", text)))

    def _look(
        self, node: LexborNode, tag: str, attributes: dict[str, str | None], look: _Look
    ) -> _Look:
        """Return how things look inside an element."""
        if tag == "img":
            self._picture(attributes, look)
            return look
        own = attributes.get("style") or ""
        rules = self._sheet.rules(tag, node, attributes) if self._sheet else ()
        if rules or not _OTHERS.isdisjoint(attributes):
            style = styles.combined(rules, styles.declarations(own))
            style = _with_attributes(style, tag, attributes)
        elif tag == "a":
            style = styles.inline(own)
        else:
            return _remembered(look, tag, own)
        new = _changed(look, tag, style)
        if tag == "a":
            new.face = faces.linked(new.face, attributes, style, new.ground)
        return new

    def _picture(self, attributes: dict[str, str | None], look: _Look) -> None:
        """Note what is said for a picture that can be clicked."""
        if look.shows and look.face is not None and look.face.link is not None:
            look.face.link.alts.append(attributes.get("alt") or attributes.get("title") or "")
            self.faces.append((len(self.shown), look.face))
            self.shown.append("")


def _remembered(look: _Look, tag: str, own: str) -> _Look:
    """Return how things look inside an element, as they did inside of others like it."""
    special = tag if tag in _SPECIAL else ""
    if not own and not special:
        return look
    inner = look.inner.get((special, own))
    if inner is None:
        inner = look.inner[special, own] = _changed(look, tag, styles.inline(own))
    return inner


#: attributes that speak of looks
_OTHERS = frozenset({"hidden", "bgcolor", "background", "color", "text"})


def _with_attributes(style: Style, tag: str, attributes: dict[str, str | None]) -> Style:
    """Add what old attributes say; a style wins over them."""
    ink, ground = style.ink, style.ground
    if ground is False and "background" in attributes:
        ground = colours.UNKNOWN
    if ground is False and "bgcolor" in attributes:
        ground = colours.read((attributes["bgcolor"] or "").lower())
    painted = {"font": "color", "body": "text"}.get(tag, "")
    if ink is False and painted in attributes:
        ink = colours.read((attributes[painted] or "").lower())
    hides = style.hides or ("hidden" in attributes and tag != "input")
    return msgspec.structs.replace(style, ink=ink, ground=ground, hides=hides)


def _changed(look: _Look, tag: str, style: Style) -> _Look:
    """Return how things look inside an element."""
    ink: Colour | str | None = look.ink
    if not isinstance(style.ink, bool):
        ink = style.ink
    elif tag == "a" and not style.ink:
        ink = colours.UNKNOWN  # links have a colour of their own
    ground = look.ground
    if not isinstance(style.ground, bool) and style.ground != colours.TRANSPARENT:
        ground = style.ground if isinstance(style.ground, tuple) else None
    # A button that Outlook draws by other means is a link that is hidden from Outlook alone.
    outlook = style.outlook and tag != "a"
    return _Look(
        hidden=look.hidden or style.hides or outlook,
        apart=look.apart or tag in _APART,
        code=look.code or tag in _CODE,
        unseen=look.unseen if style.visible is None else not style.visible,
        tiny=look.tiny if style.tiny is None else style.tiny,
        ink=ink,
        ground=ground,
        kept=tag in _KEPT or (look.kept if style.kept is None else style.kept),
        beside=style.beside,
        face=faces.changed(look.face, tag, style, ground),
    )


def _lines(text: str) -> str:
    """Put white space in order: one space between words, no empty lines."""
    lines = (" ".join(line.split()) for line in text.split("\n"))
    return "\n".join(line for line in lines if line)
