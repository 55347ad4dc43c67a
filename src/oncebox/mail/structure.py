"""Structure: the parts of a mail, found in one pass over each level and within the limits."""

import re

import msgspec

from oncebox.mail import parameters
from oncebox.mail.fields import Header, split
from oncebox.mail.limits import ParseLimits

_TYPE = re.compile(r"[a-z0-9!#$&^_.+-]{1,127}/[a-z0-9!#$&^_.+-]{1,127}")
_PLAIN = "text/plain"
_DIGEST = "multipart/digest"
_NOTHING = Header([], 0)


class Leaf(msgspec.Struct):
    """A part with content: text, or something attached."""

    media_type: str
    #: of Content-Type and Content-Disposition, raw; see ``mail/parameters.py``
    parameters: dict[str, str]
    disposition: str
    disposition_parameters: dict[str, str]
    encoding: str
    content_id: bytes
    #: where its content stands in the raw mail
    start: int
    end: int
    #: leaves of one alternative share a number: a reader is shown one of them
    choice: int


class _Branch(msgspec.Struct):
    """A part that is still to be looked at."""

    start: int
    end: int
    depth: int
    #: the alternative it belongs to, if any
    choice: int | None
    default: str


class _Walk:
    """One walk over a mail; keeps what was found."""

    def __init__(self, raw: bytes, limits: ParseLimits, warnings: set[str]) -> None:
        self.leaves: list[Leaf] = []
        self._raw = raw
        self._limits = limits
        self._warnings = warnings
        self._parts = 0
        self._choices = 0

    def visit(self, branch: _Branch, header: Header) -> list[_Branch]:
        """Note a leaf, or return the branches of a multipart."""
        media_type, given = parameters.read(header.first("content-type"))
        if not _TYPE.fullmatch(media_type):
            media_type = branch.default if not media_type else _PLAIN
        if media_type.startswith("multipart/"):
            boundary = _boundary(given)
            if boundary is None:
                self._warnings.add("structure_broken")
                media_type = _PLAIN
            elif branch.depth < self._limits.depth:
                return self._branches(branch, media_type, boundary)
            else:
                self._warnings.add("parts_limit")
        self.leaves.append(self._leaf(branch, header, media_type, given))
        return []

    def _branches(self, branch: _Branch, media_type: str, boundary: bytes) -> list[_Branch]:
        choice = branch.choice
        if choice is None and media_type == "multipart/alternative":
            choice = self._next_choice()
        default = "message/rfc822" if media_type == _DIGEST else _PLAIN
        room = self._limits.parts - self._parts
        spans = pieces(self._raw, branch.start, branch.end, boundary, room + 1)
        if len(spans) > room:
            self._warnings.add("parts_limit")
            spans = spans[:room]
        self._parts += len(spans)
        return [_Branch(start, end, branch.depth + 1, choice, default) for start, end in spans]

    def _leaf(
        self, branch: _Branch, header: Header, media_type: str, given: dict[str, str]
    ) -> Leaf:
        disposition, disposed = parameters.read(header.first("content-disposition"))
        encoding = header.first("content-transfer-encoding") or b""
        return Leaf(
            media_type=media_type,
            parameters=given,
            disposition=disposition,
            disposition_parameters=disposed,
            encoding=encoding.strip().decode("latin-1").lower(),
            content_id=header.first("content-id") or b"",
            start=branch.start,
            end=branch.end,
            choice=self._next_choice() if branch.choice is None else branch.choice,
        )

    def _next_choice(self) -> int:
        self._choices += 1
        return self._choices


def leaves(raw: bytes, header: Header, limits: ParseLimits, warnings: set[str]) -> list[Leaf]:
    """Return the parts that have content, in their order; a mail inside a mail is one of them."""
    walk = _Walk(raw, limits, warnings)
    whole = _Branch(header.body, len(raw), 0, None, _PLAIN)
    waiting = walk.visit(whole, header)[::-1]
    while waiting:
        branch = waiting.pop()
        inner = split(raw, branch.start, branch.end, limits)
        if inner.cut:
            warnings.add("header_limit")
        branch.start = inner.body
        waiting += walk.visit(branch, inner)[::-1]
    return walk.leaves


def pieces(raw: bytes, start: int, end: int, boundary: bytes, most: int) -> list[tuple[int, int]]:
    """Return where the parts between boundary lines stand, at most so many.

    Only whole lines count, so a boundary that begins another one is not taken for it.
    """
    spans: list[tuple[int, int]] = []
    line = b"--" + boundary
    mark = b"\n" + line
    opened: int | None = None
    # The first boundary may stand at the very beginning, with no line end before it.
    at = start - 1 if raw.startswith(line, start, end) else raw.find(mark, start, end)
    while at >= 0 and len(spans) < most:
        after = at + len(mark)
        next_line, closing = _rest_of_line(raw, after, end)
        if next_line is not None:
            if opened is not None:
                spans.append((opened, max(opened, _before(raw, at, opened))))
            opened = None if closing else next_line
            if closing:
                return spans
        at = raw.find(mark, max(after - 1, (next_line or after) - 1), end)
    if opened is not None and len(spans) < most:
        spans.append((opened, end))  # never closed: it ends with the mail
    return spans


def _rest_of_line(raw: bytes, at: int, end: int) -> tuple[int | None, bool]:
    """Return where the next line begins if this one is a boundary, and whether it is the last."""
    closing = raw.startswith(b"--", at, end)
    stop = raw.find(b"\n", at, end)
    rest = raw[at + 2 if closing else at : end if stop < 0 else stop]
    if rest.strip(b" \t\r"):
        return None, False
    return (end if stop < 0 else stop + 1), closing


def _before(raw: bytes, at: int, opened: int) -> int:
    """Return the end of a part: the line end before a boundary belongs to the boundary."""
    return at - 1 if at > opened and raw[at - 1] == 13 else at  # noqa: PLR2004 - CR


def _boundary(given: dict[str, str]) -> bytes | None:
    if "boundary" not in given:
        text = parameters.text(given, "boundary", set())
        return text.encode("latin-1", "replace") if text else None
    return given["boundary"].rstrip().encode("latin-1", "replace")
