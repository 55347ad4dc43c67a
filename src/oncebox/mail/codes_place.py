"""Places: where something stands on its page, and what stands around it."""

import functools
import re
from bisect import bisect_right

import msgspec

from oncebox.mail import codes_folding
from oncebox.mail.codes_shapes import Token
from oncebox.mail.layout import Block, Page

#: what may stand around a code that has a line to itself
_AROUND = " \t\u00a0\"'`*_.,:;!?()[]{}<>|#=~>\u2013\u2014\u2022\u00ab\u00bb\u201c\u201d\u2018\u2019"
_AROUND += (
    "\u300c\u300d\u3010\u3011\uff1a\uff0c\u3002\u200e\u200f\u200b\u200c\u200d\u2060\ufeff\u00ad-"
)
_SENTENCE = re.compile(r"[.!?;](?=\s)|[\u3002\uff01\uff1f\uff1b\u0964\u061f\u06d4\u0589]|\n")
#: in plain text hyphens are spaces
_QUOTED = ("     original ", "forwarded message", "     forwarded by")
#: how far is looked
_BESIDE = 160
_ABOVE, _BELOW = 320, 260
_LINES = 3
#: a line of text that is longer goes on in the next: it was wrapped
_WRAPPED = 55
_LARGE = 20


class Span(msgspec.Struct, frozen=True):
    """A stretch of a page."""

    start: int
    end: int


class Sheet:
    """A page made ready to be looked at: its text folded, its lines and blocks in order."""

    def __init__(self, page: Page) -> None:
        """Fold what is always asked for."""
        self.page = page
        self.text = codes_folding.digits(page.text)
        self._flat = [block for block in page.blocks if block.kind != "run"]
        self._links = page.anchors

    @functools.cached_property
    def plain(self) -> str:
        """The text as words are compared."""
        return codes_folding.plain(self.page.text)

    @functools.cached_property
    def _starts(self) -> list[int]:
        return [block.start for block in self._flat]

    @functools.cached_property
    def _runs(self) -> list[Block]:
        return [block for block in self.page.blocks if block.kind == "run"]

    @functools.cached_property
    def _run_starts(self) -> list[int]:
        return [block.start for block in self._runs]

    @functools.cached_property
    def quoted(self) -> int:
        """Where an older mail begins that was forwarded or answered; the end if none is."""
        found = [at for mark in _QUOTED if (at := self.plain.find(mark)) >= 0]
        return min(found, default=len(self.text))

    def is_clicked(self, token: Token) -> bool:
        """Say whether it is the text of a link."""
        number = bisect_right(self._links, token.start, key=lambda link: link.start) - 1
        return number >= 0 and self._links[number].end >= token.end

    def blocks(self) -> list[Block]:
        """Return the lines and cells."""
        return self._flat

    def block(self, at: int) -> Block | None:
        """Return the line or cell in which something stands."""
        number = bisect_right(self._starts, at) - 1
        if number < 0 or self._flat[number].end <= at:
            return None
        return self._flat[number]

    def run(self, token: Token) -> Block | None:
        """Return what stands out and is nothing but this."""
        number = bisect_right(self._run_starts, token.start) - 1
        if number < 0:
            return None
        run = self._runs[number]
        if run.end < token.end or not self.fills(token, run.start, run.end):
            return None
        return run

    def fills(self, token: Token, start: int, end: int) -> bool:
        """Say whether there is nothing else in a stretch."""
        if token.start - start > _BESIDE or end - token.end > _BESIDE:
            return False
        rest = self.text[start : token.start] + self.text[token.end : end]
        return not rest.strip(_AROUND)

    def line(self, token: Token) -> Span:
        """Return the line or lines in which something stands, without their ends."""
        start = self.text.rfind("\n", max(0, token.start - _BESIDE), token.start) + 1
        start = start or max(0, token.start - _BESIDE)
        end = self.text.find("\n", token.end, token.end + _BESIDE)
        return Span(start, end if end >= 0 else min(len(self.text), token.end + _BESIDE))

    def left(self, token: Token) -> Span:
        """Return what stands before something in its sentence."""
        low = max(0, token.start - _BESIDE)
        start = low
        for match in _SENTENCE.finditer(self.text, low, token.start):
            if match[0] != "\n" or not self._goes_on(match.start()):
                start = match.end()
        return Span(start, token.start)

    def right(self, token: Token) -> Span:
        """Return what stands behind something in its sentence."""
        high = min(len(self.text), token.end + _BESIDE)
        for match in _SENTENCE.finditer(self.text, token.end, high):
            if match[0] != "\n" or not self._goes_on(match.start()):
                return Span(token.end, match.start())
        return Span(token.end, high)

    def _goes_on(self, at: int) -> bool:
        """Say whether a line was wrapped here, by its length."""
        if self.page.origin == "html" or self.text[at + 1 : at + 2] == "\n":
            return False
        return at - self.text.rfind("\n", max(0, at - _BESIDE), at) > _WRAPPED

    def above(self, at: int) -> list[Span]:
        """Return the lines before a line, nearest first."""
        found: list[Span] = []
        low, end = max(0, at - _ABOVE), at
        while len(found) < _LINES and end > low:
            start = max(self.text.rfind("\n", low, end - 1) + 1, low)
            if self.text[start:end].strip():
                found.append(Span(start, end))
            end = start - 1 if start > low else low
        return found

    def below(self, at: int) -> list[Span]:
        """Return the lines behind a line, nearest first."""
        found: list[Span] = []
        high, start = min(len(self.text), at + _BELOW), at
        while len(found) < _LINES and start < high:
            end = self.text.find("\n", start, high)
            end = high if end < 0 else end
            if self.text[start:end].strip():
                found.append(Span(start, end))
            start = end + 1
        return found


def stands_out(block: Block) -> tuple[bool, bool]:
    """Say whether a block is made to be seen, and to be read off character by character."""
    seen = block.strong or block.kind in {"heading", "button"} or block.size >= _LARGE
    return seen or block.spaced, block.spaced or block.size >= _LARGE
