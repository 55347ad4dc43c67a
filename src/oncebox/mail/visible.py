"""Visible text: HTML reduced to what a person would see, and apart from it what is hidden.

Hidden text carries instructions to machines that no person reads. A text is hidden by its
element (``title``, ``noscript``), by an attribute or by style: not displayed, transparent,
tiny, without room, off the screen, or in the colour of its ground.
"""

import re

import msgspec

from oncebox.mail import colours, faces, markup, styles, wellformed
from oncebox.mail.colours import Colour
from oncebox.mail.faces import Face
from oncebox.mail.layout import CELL_END, LINE_END, NO_END, UNPARTED, Draft, Page
from oncebox.mail.limits import ParseLimits
from oncebox.mail.selectors import NO_TRAIL, Trail
from oncebox.mail.sheets import Sheet
from oncebox.mail.styles import Declarations, Style
from oncebox.mail.wellformed import Attributes, Wellformed

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
_ENDS = {**dict.fromkeys(_LINES, LINE_END), "td": CELL_END, "th": CELL_END}
_KEPT = frozenset({"pre", "textarea", "xmp", "listing", "plaintext"})
_SPECIAL = _APART | _KEPT | _CODE | faces.TAGS
#: what only Outlook reads: the markup stays, the condition goes
_CONDITION = re.compile(r"\[(?:if|endif)[^\]]{0,200}\]>?")
_MARKUP = re.compile(r"<[^<>]*+>?")
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
    #: what selectors with ancestors must know
    trail: Trail = NO_TRAIL
    #: how it looks inside of elements like others met before
    alike: dict[tuple[str, str, Trail], "_Look"] = {}
    #: what is inside of tags met before, by all that is written in them
    inner: dict[str, "_Step"] = {}

    def __post_init__(self) -> None:
        unreadable = self.hidden or self.apart or self.code or self.unseen or self.tiny
        self.shows = not (unreadable or _is_lost(self.ink, self.ground))


#: how things look inside an element, and what its tags do to lines
_Step = tuple[_Look, tuple[int, ...]]


def _is_lost(ink: Colour | str | None, ground: Colour | None) -> bool:
    """Say whether a text cannot be told from its ground."""
    if isinstance(ink, tuple):
        return ground is not None and colours.alike(ink, ground)
    return ink == colours.TRANSPARENT


def read(html: str, limits: ParseLimits, warnings: set[str]) -> Sight:
    """Return what HTML shows, in time that grows with its size."""
    bounded = markup.cut(html, limits, warnings)
    try:
        walk = _Walk(wellformed.read(bounded))
    except _Misread:
        walk = _Walk(wellformed.read(bounded, straight=True))
    if walk.spent:
        warnings.add("html_limit")
    return Sight(walk.draft.page(), _lines("\n".join(walk.hidden)), _lines("\n".join(walk.apart)))


class _Misread(Exception):
    """A tag cannot be told from what is around it."""


class _Walk:
    """One walk over a page, from left to right."""

    def __init__(self, page: Wellformed) -> None:
        self.draft = Draft()
        self.hidden: list[str] = []
        self.apart: list[str] = []
        sheet = Sheet(page.css) if page.css else None
        self._sheet = None if sheet is None or sheet.empty else sheet
        self._pieces = iter(page.html.split("<"))
        next(self._pieces)  # nothing is before the first tag
        self._over()

    @property
    def spent(self) -> bool:
        """Whether there was more to look at than was looked at."""
        return self._sheet is not None and self._sheet.spent

    def _over(self) -> None:  # noqa: C901, PLR0912 - calls cost most
        """Walk over everything; a tag that was met before in the same place is known."""
        put = self.draft.put
        look, ends, parted = _Look(), NO_END, UNPARTED
        around: list[_Step] = []
        for piece in self._pieces:
            tag, closed, text = piece.partition(">")
            if tag[:1] == "/":
                parted = ends[parted]
                look, ends = around.pop()
            elif (step := look.inner.get(tag)) is not None and closed:
                around.append((look, ends))
                look, ends = step
                parted = ends[parted]
            else:
                step, text, parted = self._met(look, piece, parted)
                if step is not None:
                    around.append((look, ends))
                    look, ends = step
            if text:
                if "&" in text:
                    text = wellformed.text_of(text)
                if look.kept or not look.shows:
                    parted = self._put(text, look, parted)
                elif not (parted and text.isspace()):
                    put(text, look.face, parted)
                    parted = UNPARTED

    def _met(self, look: _Look, piece: str, parted: int) -> tuple[_Step | None, str, int]:
        """Return what is inside of an element, the text behind its tag, and what parts it.

        What has no inside, or none with tags in it, is over with then.
        """
        if piece.startswith("!--"):
            return None, self._comment(piece), parted
        tag, closed, text = piece.partition(">")
        read = wellformed.tag(tag) if closed else None
        if read is None:
            raise _Misread
        name, attributes = read
        if name in wellformed.VOID:
            return None, text, self._void(name, attributes, look, parted)
        inner = self._inner(look, name, attributes)
        ends = _ENDS.get(name, NO_END)
        if ends is LINE_END and inner.beside and inner is not look:
            ends = CELL_END
        parted = ends[parted]
        if name in wellformed.RAW:
            inside, text = self._raw(name, text)
            return None, text, self._put(inside, inner, parted)
        if name != "a":  # every link is one by itself
            look.inner[tag] = (inner, ends)
        return (inner, ends), text, parted

    def _comment(self, piece: str) -> str:
        """Note a comment; return the text behind it."""
        inside = []
        while "-->" not in piece:
            inside.append(piece)
            piece = next(self._pieces)
        end, _, text = piece.partition("-->")
        comment = "<".join([*inside, end])[3:]
        self.apart.append(_MARKUP.sub(" ", _CONDITION.sub("", comment)))
        return text

    def _raw(self, name: str, text: str) -> tuple[str, str]:
        """Return a text that is written as it is, and the text behind its element."""
        inside = [text]
        end = f"/{name}>"
        for piece in self._pieces:
            if piece.startswith(end) and name != "plaintext":
                return "<".join(inside), piece.removeprefix(end)
            inside.append(piece)
        # Nothing ends a plain text, so all ends are those of what is around it.
        return "<".join(inside).rpartition(f"<{end}")[0], ""

    def _void(self, name: str, attributes: Attributes, look: _Look, parted: int) -> int:
        """Note an element without an inside; return what parts it from what comes."""
        if name in {"br", "hr"}:
            return LINE_END[parted]
        if name == "img" and look.shows and look.face is not None and look.face.link is not None:
            look.face.link.alts.append(attributes.get("alt") or attributes.get("title", ""))
            self.draft.put("", look.face, parted)
            return UNPARTED
        return parted

    def _put(self, text: str, look: _Look, parted: int) -> int:
        """Put down a text of which nothing is seen, or every line end counts."""
        if not look.shows:
            if not look.code and not text.isspace():
                (self.apart if look.apart else self.hidden).append(text)
            return parted
        for number, line in enumerate(text.split("\n") if look.kept else (text,)):
            if number:
                parted = LINE_END[parted]
            if line and not (parted and line.isspace()):
                self.draft.put(line, look.face, parted)
                parted = UNPARTED
        return parted

    def _inner(self, look: _Look, tag: str, attributes: Attributes) -> _Look:
        """Return how things look inside an element."""
        own = attributes.get("style", "")
        trail, rules = look.trail, _NO_RULES
        if self._sheet is not None:
            trail = self._sheet.below(trail, tag, attributes)
            rules = self._sheet.rules(trail, tag, attributes)
        if rules or not _OTHERS.isdisjoint(attributes):
            style = styles.combined(rules, styles.declarations(own))
            style = _with_attributes(style, tag, attributes)
        elif tag == "a":
            style = styles.inline(own)
        else:
            return _remembered(look, tag, own, trail)
        new = _changed(look, tag, style, trail)
        if tag == "a":
            new.face = faces.linked(new.face, attributes, style, new.ground)
        return new


def _remembered(look: _Look, tag: str, own: str, trail: Trail) -> _Look:
    """Return how things look inside an element, as they did inside of others like it."""
    special = tag if tag in _SPECIAL else ""
    if not own and not special and trail == look.trail:
        return look
    key = (special, own, trail)
    inner = look.alike.get(key)
    if inner is None:
        inner = look.alike[key] = _changed(look, tag, styles.inline(own), trail)
    return inner


_NO_RULES: tuple[Declarations, ...] = ()
#: attributes that speak of looks
_OTHERS = frozenset({"hidden", "bgcolor", "background", "color", "text"})


def _with_attributes(style: Style, tag: str, attributes: Attributes) -> Style:
    """Add what old attributes say; a style wins over them."""
    ink, ground = style.ink, style.ground
    if ground is False and "background" in attributes:
        ground = colours.UNKNOWN
    if ground is False and "bgcolor" in attributes:
        ground = colours.read(attributes["bgcolor"].lower())
    painted = {"font": "color", "body": "text"}.get(tag, "")
    if ink is False and painted in attributes:
        ink = colours.read(attributes[painted].lower())
    hides = style.hides or ("hidden" in attributes and tag != "input")
    return msgspec.structs.replace(style, ink=ink, ground=ground, hides=hides)


def _changed(look: _Look, tag: str, style: Style, trail: Trail) -> _Look:
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
        trail=trail,
    )


def _lines(text: str) -> str:
    """Put white space in order: one space between words, no empty lines."""
    lines = (" ".join(line.split()) for line in text.split("\n"))
    return "\n".join(line for line in lines if line)
