"""Spots: every place of a mail where a link stands, with the words that belong to it."""

import re
from bisect import bisect_right
from collections.abc import Iterator, Sequence
from html import unescape

import msgspec

from oncebox.mail import linktexts
from oncebox.mail.layout import Block, Page
from oncebox.model.candidate import Where

_MOST = 400
_LONGEST = 8_192
#: how much of a sentence counts
_NEAR = 200
#: the end of a sentence; a full stop inside of a name or number is none, and a question is often
#: answered by the link behind it
_END = re.compile("[.!](?=\\s|\\Z)|[\u3002\uff01\u0964\n]|[;\uff1b]\\s")
#: what may stand between a sentence and its link
_OPENING = " \t\n\r\u00a0<([\"'"
_BLANKS = re.compile(r"[\t\n\r]+")
_SCHEME = re.compile(r"https?://", re.IGNORECASE)
_SCHEMELESS = re.compile(r"(?://)?(?:[a-z0-9-]+\.)+[a-z]{2,18}(?:[/?#].*)?", re.IGNORECASE)
_ADDRESS = re.compile(r"https?://\S+", re.IGNORECASE)
_LIKE_URL = re.compile(r"(?:https?://|www\.)\S+|(?:[\w-]+\.)+[a-z]{2,18}(?:/\S*)?", re.IGNORECASE)


class Spot(msgspec.Struct, frozen=True, kw_only=True):
    """One place where a link stands."""

    url: str
    where: Where
    #: which of the pages, and where in its text
    page: int
    start: int
    end: int
    #: what can be clicked, unless that is the link itself; or what is said for a picture
    label: str = ""
    #: the sentence around it, and the last sentence of the block before if it stands alone
    before: str = ""
    after: str = ""
    lead: str = ""
    button: bool = False
    #: the text shows a link: this one, or another
    spelled: bool = False
    other: bool = False


def find(pages: Sequence[Page]) -> list[Spot]:
    """Return the spots of a mail, in order, bounded."""
    found: list[Spot] = []
    for number, page in enumerate(pages):
        found += _of_page(number, page)
        if len(found) >= _MOST:
            break
    return found[:_MOST]


def _of_page(number: int, page: Page) -> Iterator[Spot]:
    texts = list(linktexts.find(page.text))
    if not texts and not page.anchors:
        return
    around = _Surroundings(page)
    taken: list[tuple[int, int]] = []
    for anchor in page.anchors[:_MOST]:
        taken.append((anchor.start, anchor.end))
        url = _cleaned(anchor.href)
        if url:
            near = around.of(anchor.start, anchor.end)
            text = page.text[anchor.start : anchor.end].strip()
            shown = bool(_LIKE_URL.fullmatch(text))
            yield Spot(
                url=url, where="html", page=number, start=anchor.start, end=anchor.end,
                label="" if shown else text or anchor.alt, button=anchor.button,
                spelled=shown and "/" in text, other=shown and _differs(text, url),
                before=near.before, after=near.after, lead=near.lead,
            )  # fmt: skip
    for start, end, url in texts:
        if not any(first <= start < last for first, last in taken):
            near = around.of(start, end)
            yield Spot(
                url=_entities(url), where=page.origin, page=number, start=start, end=end,
                label=_written_label(page.text, start), spelled=True,
                before=near.before, after=near.after, lead=near.lead,
            )  # fmt: skip


def _written_label(text: str, start: int) -> str:
    """Return the text of a link that is written as ``[text](link)``."""
    if text[max(0, start - 2) : start] != "](":
        return ""
    opening = text.rfind("[", max(0, start - _NEAR), start - 2)
    label = text[opening + 1 : start - 2] if opening >= 0 else ""
    return "" if _SCHEME.match(label) else label


def _cleaned(href: str) -> str:
    """Return where a click leads, as browsers read it; empty if it leads nowhere we know."""
    url = _BLANKS.sub("", href.strip(" \t\n\r\f"))[:_LONGEST]
    if _SCHEME.match(url):
        return url
    return url.removeprefix("//") if _SCHEMELESS.fullmatch(url) and "/" in url else ""


def _entities(url: str) -> str:
    """Return a link of plain text without what HTML left in it."""
    return unescape(url) if "&amp;" in url or "&#" in url else url


def _host(text: str) -> str:
    bare = _SCHEME.sub("", text).lower()
    return re.split(r"[/?#:]", bare, maxsplit=1)[0].removeprefix("www.")


def _differs(text: str, url: str) -> bool:
    """Say whether the text of a link names another host than it leads to."""
    shown, real = _host(text), _host(url)
    return shown != real and not real.endswith(f".{shown}")


class _Around(msgspec.Struct, frozen=True):
    """The words around a place."""

    before: str = ""
    after: str = ""
    lead: str = ""


class _Surroundings:
    """Which words stand around a place."""

    def __init__(self, page: Page) -> None:
        self._text = page.text
        self._plain = page.origin == "plain"
        self._blocks: list[Block] = [each for each in page.blocks if each.kind != "run"]
        self._starts = [each.start for each in self._blocks]

    def of(self, start: int, end: int) -> _Around:
        """Return the sentence around a stretch, and what leads to it."""
        if self._plain:
            return self._of_plain(start, end)
        at = bisect_right(self._starts, start) - 1
        if at < 0:
            return _Around()
        block = self._blocks[at]
        before = _last(self._text[max(block.start, start - _NEAR) : start])
        after = _first(self._text[end : min(max(block.end, end), end + _NEAR)])
        lead = ""
        if not any(map(str.isalnum, before)) and at > 0:
            above = self._blocks[at - 1]
            lead = _last(self._text[max(above.start, above.end - _NEAR) : above.end])
        return _Around(before, after, lead)

    def _of_plain(self, start: int, end: int) -> _Around:
        """Return the same of plain text, whose lines end anywhere in a sentence."""
        above, _, same = self._text[max(0, start - 2 * _NEAR) : start].rpartition("\n\n")
        before = _last(_flat(same)[-_NEAR:])
        after = _first(_flat(self._text[end : end + _NEAR].partition("\n\n")[0]))
        alone = not any(map(str.isalnum, before))
        lead = _last(_flat(above.rstrip().rpartition("\n\n")[2])[-_NEAR:]) if alone else ""
        return _Around(before, _ADDRESS.split(after)[0], lead)


def _flat(text: str) -> str:
    """Return text on one line, from behind the last address in it."""
    return " ".join(_ADDRESS.split(text)[-1].split())


def _last(text: str) -> str:
    """Return the last sentence, which may have ended just before."""
    whole = text.rstrip(_OPENING)
    bare = whole.rstrip(".!?\u3002\uff01\uff1f")
    ends = [found.end() for found in _END.finditer(bare)]
    return bare[ends[-1] :] if ends else bare


def _first(text: str) -> str:
    found = _END.search(text)
    return text[: found.start()] if found else text
