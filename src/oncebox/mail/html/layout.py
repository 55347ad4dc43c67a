"""Page layout: lines, cells, buttons, emphasis and links of the visible text of a part."""

from collections.abc import Mapping, Sequence
from itertools import pairwise
from typing import Literal

import msgspec

from oncebox.mail.html.colours import TRANSPARENT, Colour
from oncebox.mail.html.styles import Style

HEADING_TAGS = frozenset({"h1", "h2", "h3", "h4", "h5", "h6"})
#: elements that emphasise their text
EMPHASIS_TAGS = HEADING_TAGS | {"b", "strong", "th", "big", "code", "kbd", "samp", "a"}
#: parts of class names that denote a button
_BUTTON_NAMES = ("btn", "button", "cta")
#: font size in pixels from which text is large
_LARGE_SIZE = 18
_DEFAULT_SIZE = 16
#: a background whose channels are all lighter counts as white
_PAPER_WHITE = 225


class LinkElement(msgspec.Struct):
    """A link element that is being read."""

    href: str
    #: it has a background, a border or a class name, as buttons have
    button: bool = False
    #: the alternative texts of its images
    alts: list[str] = []


class Emphasis(msgspec.Struct):
    """The emphasis of a piece of text."""

    strong: bool = False
    #: font size in pixels; 0 unless it is large
    size: int = 0
    spaced: bool = False
    heading: bool = False
    #: it has a coloured background
    painted: bool = False
    #: it is inside a quoted mail
    quoted: bool = False
    link: LinkElement | None = None

    @property
    def plain(self) -> bool:
        """Whether only its background distinguishes it."""
        return not (self.strong or self.size or self.spaced or self.heading)


NO_EMPHASIS = Emphasis()


def child_emphasis(
    emphasis: Emphasis | None, tag: str, style: Style, background: Colour | None
) -> Emphasis | None:
    """Return the emphasis of text inside an element; None if it is plain."""
    was = emphasis or NO_EMPHASIS
    heading = was.heading or tag in HEADING_TAGS
    bold = was.strong or tag in {"b", "strong", "th"} or tag in HEADING_TAGS
    new = Emphasis(
        strong=bold if style.strong is None else style.strong,
        size=_emphasis_size(was.size, style),
        spaced=was.spaced if style.spaced is None else style.spaced,
        heading=heading,
        painted=is_painted(background),
        quoted=was.quoted,
        link=was.link,
    )
    return None if new.plain and not new.quoted and new.link is None else new


def quoted_emphasis(emphasis: Emphasis | None) -> Emphasis:
    """Return the emphasis of text inside a quoted mail."""
    return msgspec.structs.replace(emphasis or NO_EMPHASIS, quoted=True)


def _emphasis_size(was: int, style: Style) -> int:
    if not style.size:  # neither None nor 0
        return was
    size = style.size * (was or _DEFAULT_SIZE) if style.relative else style.size
    return round(min(size, 999)) if size >= _LARGE_SIZE else 0


def link_emphasis(
    emphasis: Emphasis | None,
    attributes: Mapping[str, str],
    style: Style,
    background: Colour | None,
) -> Emphasis | None:
    """Return the emphasis of text inside a link; every link has its own."""
    was = emphasis or NO_EMPHASIS
    href = attributes.get("href")
    if not href:
        return emphasis
    named = f"{attributes.get('class', '')} {attributes.get('role', '')}".lower()
    own = style.background is not False and style.background != TRANSPARENT
    painted = own and (is_painted(background) or background is None)
    button = painted or style.boxed or any(name in named for name in _BUTTON_NAMES)
    return Emphasis(
        strong=was.strong, size=was.size, spaced=was.spaced, heading=was.heading,
        painted=is_painted(background), quoted=was.quoted, link=LinkElement(href, button, []),
    )  # fmt: skip


def is_painted(background: Colour | None) -> bool:
    """Say whether a background has a colour other than white."""
    return background is not None and min(background) < _PAPER_WHITE


#: What separates a text from the one before, as bits: the border of a cell, the end of a line,
#: the border of a cell in the next line. The tables give the next state at each tag.
_CELL_BEFORE, _LINE, _CELL_BEHIND = 1, 2, 4
NO_BREAK = 0
INLINE_BREAKS = tuple(range(8))
CELL_BREAKS = tuple(p | (_CELL_BEHIND if p & _LINE else _CELL_BEFORE) for p in range(8))
LINE_BREAKS = tuple(p & _CELL_BEFORE | _LINE for p in range(8))
#: white space in ASCII, but for spaces and line ends
ODD_SPACES = "\t\v\f\r\x1c\x1d\x1e\x1f"
#: limits of a page: blocks, links
_MOST_BLOCKS = 20_000
_MOST_ANCHORS = 2_000
_LONGEST_ALT = 200

_Flat = Literal["line", "cell"]
_Kind = Literal["line", "cell", "heading", "button", "run"]


class Block(msgspec.Struct, frozen=True, gc=False):
    """A block of text: a line, a table cell, a heading, a button.

    Cells of one line are separated by one space, lines by one line end. A ``run`` is a bold,
    large or letter-spaced part of a line or a cell.
    """

    start: int
    end: int
    kind: _Kind = "line"
    #: bold, large (in pixels, 0 if it is not) or letter-spaced
    strong: bool = False
    size: int = 0
    spaced: bool = False


class Anchor(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """A link element, and the range of its text."""

    href: str
    start: int
    end: int
    #: it looks like a button
    button: bool = False
    #: the alternative text of its images
    alt: str = ""


class Page(msgspec.Struct, frozen=True, kw_only=True):
    """The visible text of one part of a mail, with its layout; offsets are into ``text``."""

    origin: Literal["plain", "html"]
    text: str
    blocks: tuple[Block, ...]
    anchors: tuple[Anchor, ...] = ()
    #: the ranges of quoted mail, in order
    quoted: tuple[tuple[int, int], ...] = ()


#: a piece of text with its emphasis (None if plain), and a range with its emphasis
_Piece = tuple[str, Emphasis | None]
_Run = tuple[int, int, Emphasis]


def plain_page(text: str) -> Page:
    """Return plain text with a block for every line that is not empty."""
    blocks = []
    at = 0
    for line in text.split("\n"):
        bare = line.strip()
        if bare:
            start = at + line.index(bare)
            blocks.append(Block(start, start + len(bare)))
            if len(blocks) == _MOST_BLOCKS:
                break
        at += len(line) + 1
    return Page(origin="plain", text=text, blocks=tuple(blocks))


def truncated(page: Page, most: int) -> Page:
    """Return the beginning of a page, without the blocks and links that are cut."""
    if len(page.text) <= most:
        return page
    return msgspec.structs.replace(
        page,
        text=page.text[:most],
        blocks=tuple(block for block in page.blocks if block.end <= most),
        anchors=tuple(anchor for anchor in page.anchors if anchor.end <= most),
    )


class PageBuilder:
    """Builds a page from pieces of text and the breaks between them.

    The page has one space between words and no empty lines. ``odd_spaces`` says whether a text
    may have white space in ASCII other than spaces and line ends.
    """

    def __init__(self, *, odd_spaces: bool) -> None:
        self._odd_spaces = odd_spaces
        self._lines: list[str] = []
        self._blocks: list[Block] = []
        self._links: dict[int, tuple[LinkElement, list[_Run]]] = {}
        self._quoted: list[tuple[int, int]] = []
        #: the cells of the current line, and the pieces of the current cell
        self._cells: list[list[_Piece]] = []
        self._cell: list[_Piece] = []
        #: a table cell begins or ends in the line
        self._has_cells = False
        self._at = 0

    def put(self, text: str, emphasis: Emphasis | None, parted: int) -> None:
        """Add a text with its emphasis, after the break ``parted``."""
        if not parted:
            self._cell.append((text, emphasis))
            return
        if self._cell:
            self._cells.append(self._cell)
        self._cell = [(text, emphasis)]
        if parted & _CELL_BEFORE:
            self._has_cells = True
        if parted & _LINE:
            self._end_line()
            self._has_cells = parted & _CELL_BEHIND > 0

    def page(self) -> Page:
        """Return the page."""
        if self._cell:
            self._cells.append(self._cell)
        self._end_line()
        text = "\n".join(self._lines)
        return Page(
            origin="html",
            text=text,
            blocks=tuple(self._blocks[:_MOST_BLOCKS]),
            anchors=self._anchors(len(text)),
            quoted=tuple(self._quoted[:_MOST_BLOCKS]),
        )

    def _end_line(self) -> None:
        """Add the cells of the current line to the page."""
        kind: _Flat = "cell" if self._has_cells else "line"
        at, texts, blocks, odd_spaces = self._at, [], self._blocks, self._odd_spaces
        for cell in self._cells:
            text, emphasis = cell[0]
            if len(cell) > 1 or (emphasis is not None and emphasis.link is not None):
                bare = self._add_runs(cell, at, kind)
            else:
                bare = _single_spaced(text, odd_spaces)
                if bare and emphasis is None:
                    blocks.append(Block(at, at + len(bare), kind))
                elif bare and emphasis is not None:
                    seen = "heading" if emphasis.heading else kind
                    blocks.append(_block(at, at + len(bare), seen, emphasis))
                    if emphasis.quoted:
                        self._quoted.append((at, at + len(bare)))
            if bare:
                texts.append(bare)
                at += len(bare) + 1
        if texts:
            self._lines.append(" ".join(texts))
        self._at, self._cells = at, []

    def _add_runs(self, cell: Sequence[_Piece], at: int, kind: _Flat) -> str:
        """Add a cell with several pieces or a link; return its text."""
        bare = _single_spaced("".join([text for text, _ in cell]), self._odd_spaces)
        runs = _emphasised_runs(cell, at, self._odd_spaces)
        self._note_links(runs)
        if any(emphasis.quoted for _, _, emphasis in runs):
            self._quoted += [run[:2] for run in runs if run[2].quoted and run[1] > run[0]]
            runs = [run for run in runs if not run[2].plain or run[2].link is not None]
        if bare and runs:
            self._blocks += _blocks(at, at + len(bare), kind, runs)
        elif bare:
            self._blocks.append(Block(start=at, end=at + len(bare), kind=kind))
        return bare

    def _note_links(self, runs: Sequence[_Run]) -> None:
        for run in runs:
            link = run[2].link
            if link is not None and len(self._links) < _MOST_ANCHORS:
                self._links.setdefault(id(link), (link, []))[1].append(run)

    def _anchors(self, end: int) -> tuple[Anchor, ...]:
        """Return the links with their text; ``end`` is the length of the page."""
        found = []
        for link, runs in self._links.values():
            shown = [run for run in runs if run[1] > run[0]]
            if not shown and not link.alts:
                continue
            # A link without text has the position of its image.
            position = min(runs[0][0], end)
            found.append(
                Anchor(
                    href=link.href,
                    start=shown[0][0] if shown else position,
                    end=shown[-1][1] if shown else position,
                    button=link.button,
                    alt=" ".join(" ".join(link.alts).split())[:_LONGEST_ALT],
                )
            )
        return tuple(found)


def _single_spaced(text: str, odd_spaces: bool) -> str:  # noqa: FBT001 - called for every text
    """Return a text with single spaces between words."""
    bare = text.strip()
    # Other white space is not printable, so most texts are returned unchanged.
    if "  " not in bare and (
        bare.isprintable() if odd_spaces or not bare.isascii() else "\n" not in bare
    ):
        return bare
    return " ".join(bare.split())


def _emphasised_runs(cell: Sequence[_Piece], at: int, odd_spaces: bool) -> list[_Run]:  # noqa: FBT001
    """Return the ranges of the emphasised pieces of a cell.

    White space becomes single spaces, so the ranges can be computed from the lengths.
    """
    found: list[_Run] = []
    start = at
    apart = False
    for text, emphasis in cell:
        bare = _single_spaced(text, odd_spaces)
        if bare:
            at += len(bare) + (at > start and (apart or text[0].isspace()))
            apart = text[-1].isspace()
        elif text:
            apart = True
        if emphasis is not None:
            found.append((at - len(bare), at, emphasis))
    return found


def _blocks(start: int, end: int, kind: _Flat, runs: Sequence[_Run]) -> list[Block]:
    """Return the block of a line or cell, followed by the runs that stand out in it."""
    if len(runs) == 1 and runs[0][:2] == (start, end):
        emphasis = runs[0][2]
        if emphasis.link is not None:
            return [_block(start, end, _kind([emphasis], kind), emphasis)]
        return [_block(start, end, "heading" if emphasis.heading else kind, emphasis)]
    shown = [run for run in runs if run[1] > run[0]]
    if shown and _cover_whole(shown, start, end):
        emphases = [emphasis for _, _, emphasis in shown]
        return [
            Block(
                start=start,
                end=end,
                kind=_kind(emphases, kind),
                strong=all(emphasis.strong for emphasis in emphases),
                size=min(emphasis.size for emphasis in emphases),
                spaced=all(emphasis.spaced for emphasis in emphases),
            )
        ]
    found = [Block(start=start, end=end, kind=kind)]
    found += [_block(first, last, "run", emphasis) for first, last, emphasis in _merged_runs(shown)]
    return found


def _block(start: int, end: int, kind: _Kind, emphasis: Emphasis) -> Block:
    return Block(start, end, kind, emphasis.strong, emphasis.size, emphasis.spaced)


def _cover_whole(runs: Sequence[_Run], start: int, end: int) -> bool:
    """Say whether runs cover a range except for white space."""
    if runs[0][0] > start or runs[-1][1] < end:
        return False
    return all(after[0] - before[1] <= 1 for before, after in pairwise(runs))


def _kind(emphases: Sequence[Emphasis], otherwise: _Flat) -> _Kind:
    link = emphases[0].link
    if link is not None and all(emphasis.link is link for emphasis in emphases):
        # A link alone on a coloured background is a button, whichever element has the background.
        link.button = link.button or all(emphasis.painted for emphasis in emphases)
        if link.button:
            return "button"
    return "heading" if all(emphasis.heading for emphasis in emphases) else otherwise


def _merged_runs(runs: Sequence[_Run]) -> list[_Run]:
    """Return the runs that stand out; adjacent runs with the same emphasis are merged."""
    found: list[_Run] = []
    for run in runs:
        start, end, emphasis = run
        if emphasis.plain:
            continue
        if found and start == found[-1][1] and _appearance(found[-1][2]) == _appearance(emphasis):
            found[-1] = (found[-1][0], end, emphasis)
        else:
            found.append(run)
    return found


def _appearance(emphasis: Emphasis) -> tuple[bool, int, bool]:
    return emphasis.strong, emphasis.size, emphasis.spaced
