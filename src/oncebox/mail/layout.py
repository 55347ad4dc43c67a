"""Layout: how the text of a part is laid out, so that what stands apart can be told."""

from collections.abc import Sequence
from itertools import pairwise
from typing import Literal

import msgspec

from oncebox.mail.faces import Face, Link

#: What parts a text from the one before: a cell's border, the end of a line, and the border of a
#: cell in the line that begins then. These tell what becomes of it where such a thing is met.
_CELL_BEFORE, _LINE, _CELL_BEHIND = 1, 2, 4
UNPARTED = 0
NO_END = tuple(range(8))
CELL_END = tuple(p | (_CELL_BEHIND if p & _LINE else _CELL_BEFORE) for p in range(8))
LINE_END = tuple(p & _CELL_BEFORE | _LINE for p in range(8))
#: more stretches and links than this no reader looks at
_MOST = 20_000
_MOST_ANCHORS = 2_000
_LONGEST_ALT = 200

_Flat = Literal["line", "cell"]
_Kind = Literal["line", "cell", "heading", "button", "run"]


class Block(msgspec.Struct, frozen=True, kw_only=True):
    """A stretch of text that stands by itself: a line, a cell, a heading, a button.

    Cells of one line are neighbours: only a space stands between them, as only a line's end
    stands between lines. A ``run`` is bold, large or spaced out inside of a line or a cell.
    """

    start: int
    end: int
    kind: _Kind = "line"
    #: bold, large (in pixels, 0 if it is not) or spaced out
    strong: bool = False
    size: int = 0
    spaced: bool = False


class Anchor(msgspec.Struct, frozen=True, kw_only=True):
    """A link that can be clicked, and where its text stands."""

    href: str
    start: int
    end: int
    #: it looks like a button
    button: bool = False
    #: what is said for a picture in it
    alt: str = ""


class Page(msgspec.Struct, frozen=True, kw_only=True):
    """The visible text of one part of a mail, with its layout; offsets are into ``text``."""

    origin: Literal["plain", "html"]
    text: str
    blocks: tuple[Block, ...]
    anchors: tuple[Anchor, ...] = ()


#: a piece of text and how it looks, and where it stands; plain ones have no face
_Piece = tuple[str, Face | None]
_Run = tuple[int, int, Face]


def of_plain(text: str) -> Page:
    """Return plain text with a block for every line that is not empty."""
    blocks = []
    at = 0
    for line in text.split("\n"):
        bare = line.strip()
        if bare:
            start = at + line.index(bare)
            blocks.append(Block(start=start, end=start + len(bare)))
            if len(blocks) == _MOST:
                break
        at += len(line) + 1
    return Page(origin="plain", text=text, blocks=tuple(blocks))


class Draft:
    """A page of HTML while it is being read: texts are put down, and lines and cells between them.

    There will be one space between words, and no empty line.
    """

    def __init__(self) -> None:
        """Begin with nothing."""
        self._lines: list[str] = []
        self._blocks: list[Block] = []
        self._links: dict[int, tuple[Link, list[_Run]]] = {}
        #: the cells of the line, and the pieces of the last of them
        self._cells: list[list[_Piece]] = []
        self._cell: list[_Piece] = []
        #: a cell begins or ends in the line
        self._celled = False
        self._at = 0

    def put(self, text: str, face: Face | None, parted: int) -> None:
        """Put down a text that looks so (None: plain), and what parts it from the one before."""
        if parted:
            self._end(parted)
        self._cell.append((text, face))

    def page(self) -> Page:
        """Return the page."""
        self._end(LINE_END[UNPARTED])
        text = "\n".join(self._lines)
        return Page(
            origin="html",
            text=text,
            blocks=tuple(self._blocks[:_MOST]),
            anchors=self._anchors(len(text)),
        )

    def _end(self, parted: int) -> None:
        """End a cell, and perhaps its line."""
        if self._cell:
            self._cells.append(self._cell)
            self._cell = []
        if parted & _CELL_BEFORE:
            self._celled = True
        if parted & _LINE:
            if self._cells:
                self._end_line("cell" if self._celled else "line")
            self._celled = parted & _CELL_BEHIND > 0

    def _end_line(self, kind: _Flat) -> None:
        texts = []
        for cell in self._cells:
            at = self._at
            if len(cell) == 1:
                text, face = cell[0]
                bare = _spaced(text)
                runs = [(at, at + len(bare), face)] if face is not None else []
            else:
                bare = _spaced("".join([text for text, _ in cell]))
                runs = _runs(cell, at)
            if runs:
                self._note(runs)
                if bare:
                    self._blocks += _blocks(at, at + len(bare), kind, runs)
            elif bare:
                self._blocks.append(Block(start=at, end=at + len(bare), kind=kind))
            if bare:
                texts.append(bare)
                self._at += len(bare) + 1
        if texts:
            self._lines.append(" ".join(texts))
        self._cells = []

    def _note(self, runs: Sequence[_Run]) -> None:
        """Note the links among the pieces of a cell."""
        for run in runs:
            link = run[2].link
            if link is not None and len(self._links) < _MOST_ANCHORS:
                self._links.setdefault(id(link), (link, []))[1].append(run)

    def _anchors(self, end: int) -> tuple[Anchor, ...]:
        """Return the links with all of their text, which ends there."""
        return tuple([
            _anchor(link, [run for run in runs if run[1] > run[0]], min(runs[0][0], end))
            for link, runs in self._links.values()
            if link.alts or any(run[1] > run[0] for run in runs)
        ])  # fmt: skip


def _spaced(text: str) -> str:
    """Return a text with one space between words."""
    bare = text.strip()
    # Spaces of other kinds are not printable, so here is nothing to do, as in most texts.
    if "  " not in bare and bare.isprintable():
        return bare
    return " ".join(bare.split())


def _runs(cell: Sequence[_Piece], at: int) -> list[_Run]:
    """Return the pieces of a cell that do not look plain, and where they will stand.

    Between two words there will be one space, so it is enough to count.
    """
    found: list[_Run] = []
    start = at
    apart = False
    for text, face in cell:
        bare = _spaced(text)
        if bare:
            at += len(bare) + (at > start and (apart or text[0].isspace()))
            apart = text[-1].isspace()
        elif text:
            apart = True
        if face is not None:
            found.append((at - len(bare), at, face))
    return found


def _anchor(link: Link, shown: Sequence[_Run], otherwise: int) -> Anchor:
    """Return a link; one without text stands where its picture does."""
    return Anchor(
        href=link.href,
        start=shown[0][0] if shown else otherwise,
        end=shown[-1][1] if shown else otherwise,
        button=link.button,
        alt=" ".join(" ".join(link.alts).split())[:_LONGEST_ALT],
    )


def _blocks(start: int, end: int, kind: _Flat, runs: Sequence[_Run]) -> list[Block]:
    """Return a line or cell with how it looks, or behind it what stands out in it."""
    if len(runs) == 1 and runs[0][:2] == (start, end):
        face = runs[0][2]
        if face.link is not None:
            return [_block(start, end, _kind([face], kind), face)]
        return [_block(start, end, "heading" if face.heading else kind, face)]
    shown = [run for run in runs if run[1] > run[0]]
    if shown and _cover(shown, start, end):
        faces = [face for _, _, face in shown]
        return [
            Block(
                start=start,
                end=end,
                kind=_kind(faces, kind),
                strong=all(face.strong for face in faces),
                size=min(face.size for face in faces),
                spaced=all(face.spaced for face in faces),
            )
        ]
    found = [Block(start=start, end=end, kind=kind)]
    found += [_block(first, last, "run", face) for first, last, face in _joined(shown)]
    return found


def _block(start: int, end: int, kind: _Kind, face: Face) -> Block:
    return Block(
        start=start, end=end, kind=kind, strong=face.strong, size=face.size, spaced=face.spaced
    )


def _cover(runs: Sequence[_Run], start: int, end: int) -> bool:
    """Say whether runs leave nothing out but white space."""
    if runs[0][0] > start or runs[-1][1] < end:
        return False
    return all(after[0] - before[1] <= 1 for before, after in pairwise(runs))


def _kind(faces: Sequence[Face], otherwise: _Flat) -> _Kind:
    link = faces[0].link
    if link is not None and all(face.link is link for face in faces):
        # A link alone on a painted ground is a button, whoever painted the ground.
        link.button = link.button or all(face.painted for face in faces)
        if link.button:
            return "button"
    return "heading" if all(face.heading for face in faces) else otherwise


def _joined(runs: Sequence[_Run]) -> list[_Run]:
    """Return what stands out, neighbours of one look as one."""
    found: list[_Run] = []
    for run in runs:
        start, end, face = run
        if face.plain:
            continue
        if found and start == found[-1][1] and _alike(found[-1][2], face):
            found[-1] = (found[-1][0], end, face)
        else:
            found.append(run)
    return found


def _alike(one: Face, other: Face) -> bool:
    return (one.strong, one.size, one.spaced) == (other.strong, other.size, other.spaced)
