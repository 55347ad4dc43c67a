"""Layout: how the text of a part is laid out, so that what stands apart can be told."""

from collections.abc import Sequence
from itertools import accumulate, pairwise
from typing import Literal

import msgspec

from oncebox.mail.faces import Face, Link

#: stands between cells of one line; white space to everybody else
CELL = "\x1f"
#: more stretches and links than this no reader looks at
_MOST = 20_000
_MOST_ANCHORS = 2_000
_LONGEST_ALT = 200
_NEVER = 1 << 62


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


#: where a piece of text stands, and how it looks
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


def of_html(pieces: Sequence[str], faces: Sequence[tuple[int, Face]]) -> Page:  # noqa: C901
    """Return the text of pieces with white space in order, and its layout.

    There is one space between words, and no empty line. ``faces`` tells how some of the pieces
    look, by their number and in their order.
    """
    faced = _Faced(pieces, faces)
    lines: list[str] = []
    blocks: list[Block] = []
    at = read = 0
    for line in "".join(pieces).split("\n"):
        if not line and faced.soon > read:
            read += 1
            continue
        kind: _Flat = "cell" if CELL in line else "line"
        cells = []
        for text in line.split(CELL):
            begin, read = read, read + len(text) + 1
            if not text and faced.soon > begin:
                continue
            bare = " ".join(text.split())
            if faced.soon < read:
                blocks += faced.blocks(text, begin, bare, at, kind)
            elif bare:
                blocks.append(Block(start=at, end=at + len(bare), kind=kind))
            if bare:
                cells.append(bare)
                at += len(bare) + 1
        if cells:
            lines.append(" ".join(cells))
    shown = "\n".join(lines)
    return Page(
        origin="html",
        text=shown,
        blocks=tuple(blocks[:_MOST]),
        anchors=faced.anchors(len(shown)),
    )


class _Faced:
    """The pieces that do not look plain, while lines and cells are read one after the other."""

    def __init__(self, pieces: Sequence[str], faces: Sequence[tuple[int, Face]]) -> None:
        offsets = list(accumulate(map(len, pieces), initial=0)) if faces else []
        #: those to come, last first, with offsets before white space was put in order
        self._raw = [(offsets[at], offsets[at + 1], face) for at, face in reversed(faces)]
        #: where the next one begins
        self.soon = self._raw[-1][0] if faces else _NEVER
        self.links: dict[int, tuple[Link, list[_Run]]] = {}

    def blocks(self, text: str, begin: int, bare: str, at: int, kind: _Flat) -> list[Block]:
        """Return the blocks of a line or a cell some of which does not look plain."""
        _, last, face = self._raw[-1]
        if bare and self.soon == begin and last == begin + len(text) and face.link is None:
            # All of it looks alike, as most do.
            self._raw.pop()
            self.soon = self._raw[-1][0] if self._raw else _NEVER
            return [_block(at, at + len(bare), "heading" if face.heading else kind, face)]
        runs = self._runs(text, begin, at)
        for run in runs:
            link = run[2].link
            if link is not None and len(self.links) < _MOST_ANCHORS:
                self.links.setdefault(id(link), (link, []))[1].append(run)
        return _blocks(at, at + len(bare), kind, runs) if bare else []

    def anchors(self, end: int) -> tuple[Anchor, ...]:
        """Return the links with all of their text, which ends there."""
        return tuple(
            [
                _anchor(link, [run for run in runs if run[1] > run[0]], min(runs[0][0], end))
                for link, runs in self.links.values()
                if link.alts or any(run[1] > run[0] for run in runs)
            ]
        )

    def _runs(self, text: str, begin: int, at: int) -> list[_Run]:
        """Return the pieces of a text that do not look plain, and where they will stand.

        Between two words there will be one space, so it is enough to count.
        """
        found: list[_Run] = []
        start, read = at, begin
        apart = False
        end = begin + len(text)
        while self.soon <= end:
            first, last, face = self._raw.pop()
            bare = ""
            for piece in (text[read - begin : first - begin], text[first - begin : last - begin]):
                bare = " ".join(piece.split())
                if bare:
                    at += len(bare) + (at > start and (apart or piece[0].isspace()))
                    apart = piece[-1].isspace()
                elif piece:
                    apart = True
            found.append((at - len(bare), at, face))
            read = last
            if last > end:  # white space that counts: the piece goes on in the next line
                self._raw.append((end + 1, last, face))
            self.soon = self._raw[-1][0] if self._raw else _NEVER
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
        return [_block(start, end, _kind([runs[0][2]], kind), runs[0][2])]
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
