"""Link occurrences: the links of a mail with position, label and surrounding sentence."""

import re
from bisect import bisect_right
from collections.abc import Iterator, Sequence
from html import unescape
from itertools import islice

import msgspec

from oncebox.mail.html.layout import Block, Page
from oncebox.model.inboxes.received_mail import CandidateLocation

_MOST_URLS = 300
_LONGEST = 8_192
#: printable ASCII except for characters that enclose links
_URL_CHARACTER = r"[!#-;=?-\[\]_a-z{-~]"
_HREF = re.compile(
    r"""\shref\s{0,8}=\s{0,8}(?:"([^"]{0,8192})"|'([^']{0,8192})'|([^\s"'<>]{1,8192}))""",
    re.IGNORECASE,
)
_WITH_SCHEME = re.compile(rf"https?://{_URL_CHARACTER}+", re.IGNORECASE)
#: the end of a host, and a path
_HOST_END_AND_PATH = re.compile(rf"\.[a-z]{{2,18}}/{_URL_CHARACTER}+", re.IGNORECASE)
_HOST_BEFORE = re.compile(r"(?:[a-z0-9-]+\.)*[a-z0-9-]+\Z", re.IGNORECASE)
_LONGEST_HOST = 253
#: punctuation and markup
_TRAILING_MARKS = ".,;:!?'*|"
_BRACKETS = {")": "(", "]": "[", "}": "{"}
#: remains of HTML
_ENTITY = re.compile(r"&(?:gt|lt|quot|nbsp|#39|apos);?", re.IGNORECASE)
#: line lengths at which programs wrap
_WRAP_COLUMNS = range(70, 79)
_CONTINUED = re.compile(rf"{_URL_CHARACTER}+(?=\n|\Z)")


def find_urls(text: str) -> Iterator[tuple[int, int, str]]:
    """Yield the ranges and URLs of the links in a text, in order, without overlaps."""
    found = list(_with_scheme(text))
    if "/" in text:
        taken = {start: end for start, end, _ in found}
        found += _without_scheme(text, taken)
        found.sort()
    yield from found[:_MOST_URLS]


def all_urls(html: str, text: str) -> list[str]:
    """Return the web links of a mail, each once: those of its HTML elements, then of its text."""
    hrefs = (unescape(found[1] or found[2] or found[3] or "") for found in _HREF.finditer(html))
    found = [each.strip() for each in islice(hrefs, _MOST_URLS)]
    found += (url for _, _, url in find_urls(text))
    web = (each for each in found if _WITH_SCHEME.match(each))
    return list(dict.fromkeys(web))[:_MOST_URLS]


def _with_scheme(text: str) -> Iterator[tuple[int, int, str]]:
    if "://" not in text:
        return
    done = 0
    for number, match in enumerate(_WITH_SCHEME.finditer(text)):
        if number >= _MOST_URLS:
            return
        if match.start() < done:
            continue
        for start, last in _markdown_links(text, match.start(), match.end()):
            end = _trimmed_end(text, start, min(last, start + _LONGEST))
            url = text[start:end]
            tail = _wrapped_tail(text, start, end) if end == match.end() else ""
            done = end
            yield start, end + len(tail), _joined_url(url, tail)


def _markdown_links(text: str, start: int, end: int) -> Iterator[tuple[int, int]]:
    """Yield a link, or both links of ``[link](link)``."""
    middle = text.find("](http", start, end) if text[start - 1 : start] == "[" else -1
    if middle < 0:
        yield start, end
    else:
        yield start, middle
        yield middle + 2, end


def _without_scheme(text: str, taken: dict[int, int]) -> Iterator[tuple[int, int, str]]:
    done = number = 0
    inside = sorted(taken.items())
    for match in _HOST_END_AND_PATH.finditer(text):
        host = _HOST_BEFORE.search(text, max(done, match.start() - _LONGEST_HOST), match.start())
        if number >= _MOST_URLS:
            return
        if host is None:
            continue
        start = host.start()
        before = text[start - 1 : start]
        if before and ((before.isascii() and before.isalnum()) or before in "@/:_%=&.-"):
            continue
        end = _trimmed_end(text, start, min(match.end(), start + _LONGEST))
        done = end
        if any(first <= start < last for first, last in inside):
            continue
        number += 1
        yield start, end, text[start:end]


def _trimmed_end(text: str, start: int, end: int) -> int:
    """Return the end of a link, without the punctuation of the sentence."""
    entity = _ENTITY.search(text, start, end)
    if entity:
        end = entity.start()
    if start and text[start - 1] in "_~" and text[end - 1] == text[start - 1]:
        end -= 1  # emphasis
    spare = {
        closing: text.count(closing, start, end) - text.count(opening, start, end)
        for closing, opening in _BRACKETS.items()
    }
    while end > start:
        last = text[end - 1]
        if spare.get(last, 0) > 0:
            spare[last] -= 1
        elif last not in _TRAILING_MARKS:
            break
        end -= 1
    return end


def _wrapped_tail(text: str, start: int, end: int) -> str:
    """Return the rest of a wrapped link on the next line."""
    line = text.rfind("\n", 0, start) + 1
    if text[end : end + 1] != "\n" or end - line not in _WRAP_COLUMNS:
        return ""
    rest = _CONTINUED.match(text, end + 1)
    if rest is None or rest[0].lower().startswith(("http:", "https:", "www.")):
        return ""
    return "\n" + rest[0] if any(map(str.isdigit, rest[0])) else ""


def _joined_url(url: str, tail: str) -> str:
    """Join a wrapped link, and decode remains of quoted-printable."""
    if not tail:
        return url
    soft = url.endswith("=") and "=3D" in url
    joined = (url[:-1] if soft else url) + tail[1:]
    return joined.replace("=3D", "=") if soft else joined


_MOST_OCCURRENCES = 400
#: longest part of a sentence
_NEARBY_CHARACTERS = 200
#: the end of a sentence; not a full stop inside a name or number, and not a question mark, because
#: the link after a question often answers it
_SENTENCE_END = re.compile("[.!](?=\\s|\\Z)|[\u3002\uff01\u0964\n]|[;\uff1b]\\s")
#: characters between a sentence and its link
_OPENING = " \t\n\r\u00a0<([\"'"
_BLANKS = re.compile(r"[\t\n\r]+")
_SCHEME = re.compile(r"https?://", re.IGNORECASE)
_SCHEMELESS = re.compile(r"(?://)?(?:[a-z0-9-]+\.)+[a-z]{2,18}(?:[/?#].*)?", re.IGNORECASE)
_HTTP_URL = re.compile(r"https?://\S+", re.IGNORECASE)
_LIKE_URL = re.compile(r"(?:https?://|www\.)\S+|(?:[\w-]+\.)+[a-z]{2,18}(?:/\S*)?", re.IGNORECASE)


class LinkOccurrence(msgspec.Struct, frozen=True, kw_only=True):
    """One occurrence of a link."""

    url: str
    where: CandidateLocation
    #: number of the page, and offsets in its text
    page: int
    start: int
    end: int
    #: the text of the link, unless it is the URL itself; or the alternative text of its image
    label: str = ""
    #: the sentence around it, and the last sentence of the block before if it is alone in its block
    before: str = ""
    after: str = ""
    lead: str = ""
    button: bool = False
    #: it is an image, and the label its alternative text
    picture: bool = False
    #: the text of the link is a URL: this one, or another
    spelled_out: bool = False
    other: bool = False


def find_occurrences(pages: Sequence[Page]) -> list[LinkOccurrence]:
    """Return the link occurrences of a mail, in order, up to a limit."""
    found: list[LinkOccurrence] = []
    for number, page in enumerate(pages):
        found += _page_occurrences(number, page)
        if len(found) >= _MOST_OCCURRENCES:
            break
    return found[:_MOST_OCCURRENCES]


def _page_occurrences(number: int, page: Page) -> Iterator[LinkOccurrence]:
    texts = list(find_urls(page.text))
    if not texts and not page.anchors:
        return
    around = _PageSurroundings(page)
    taken: list[tuple[int, int]] = []
    for anchor in page.anchors[:_MOST_OCCURRENCES]:
        taken.append((anchor.start, anchor.end))
        url = _clean_href(anchor.href)
        if url:
            before, after, lead = around.of(anchor.start, anchor.end)
            text = page.text[anchor.start : anchor.end].strip()
            shown = bool(_LIKE_URL.fullmatch(text))
            yield LinkOccurrence(
                url=url, where="html", page=number, start=anchor.start, end=anchor.end,
                label="" if shown else text or anchor.alt, button=anchor.button,
                picture=not text,
                spelled_out=shown and "/" in text, other=shown and _shows_other_host(text, url),
                before=before, after=after, lead=lead,
            )  # fmt: skip
    for start, end, url in texts:
        if not any(first <= start < last for first, last in taken):
            before, after, lead = around.of(start, end)
            # A URL in plain text may have remains of HTML.
            whole = unescape(url) if "&amp;" in url or "&#" in url else url
            yield LinkOccurrence(
                url=whole, where=page.origin, page=number, start=start, end=end,
                label=_markdown_label(page.text, start), spelled_out=True,
                before=before, after=after, lead=lead,
            )  # fmt: skip


def _markdown_label(text: str, start: int) -> str:
    """Return the text of a Markdown link, ``[text](link)``."""
    if text[max(0, start - 2) : start] != "](":
        return ""
    opening = text.rfind("[", max(0, start - _NEARBY_CHARACTERS), start - 2)
    label = text[opening + 1 : start - 2] if opening >= 0 else ""
    return "" if _SCHEME.match(label) else label


def _clean_href(href: str) -> str:
    """Return the target of a link as browsers read it; empty if it is not http or https."""
    url = _BLANKS.sub("", href.strip(" \t\n\r\f"))[:_LONGEST]
    if _SCHEME.match(url):
        return url
    return url.removeprefix("//") if _SCHEMELESS.fullmatch(url) and "/" in url else ""


def _host(text: str) -> str:
    bare = _SCHEME.sub("", text).lower()
    return re.split(r"[/?#:]", bare, maxsplit=1)[0].removeprefix("www.")


def _shows_other_host(text: str, url: str) -> bool:
    """Say whether the text of a link names another host than its target."""
    shown, real = _host(text), _host(url)
    return shown != real and not real.endswith(f".{shown}")


#: the sentence before and after a link, and the text that leads to it
_Surrounding = tuple[str, str, str]


class _PageSurroundings:
    """Finds the text around a range of a page."""

    def __init__(self, page: Page) -> None:
        self._text = page.text
        self._plain = page.origin == "plain"
        self._blocks: list[Block] = [each for each in page.blocks if each.kind != "run"]
        self._starts = [each.start for each in self._blocks]

    def of(self, start: int, end: int) -> _Surrounding:
        """Return the sentence around a range, and the text before it."""
        if self._plain:
            return self._of_plain(start, end)
        at = bisect_right(self._starts, start) - 1
        if at < 0:
            return "", "", ""
        block = self._blocks[at]
        before = _last_sentence(self._text[max(block.start, start - _NEARBY_CHARACTERS) : start])
        last = min(max(block.end, end), end + _NEARBY_CHARACTERS)
        after = _first_sentence(self._text[end:last])
        lead = ""
        if not any(map(str.isalnum, before)) and at > 0:
            above = self._blocks[at - 1]
            first = max(above.start, above.end - _NEARBY_CHARACTERS)
            lead = _last_sentence(self._text[first : above.end])
        return before, after, lead

    def _of_plain(self, start: int, end: int) -> _Surrounding:
        """Return the same for plain text, in which lines end anywhere in a sentence."""
        nearby = self._text[max(0, start - 2 * _NEARBY_CHARACTERS) : start]
        above, _, same = nearby.rpartition("\n\n")
        before = _last_sentence(_on_one_line(same)[-_NEARBY_CHARACTERS:])
        behind = self._text[end : end + _NEARBY_CHARACTERS].partition("\n\n")[0]
        after = _first_sentence(_on_one_line(behind))
        lead = ""
        if not any(map(str.isalnum, before)):
            paragraph = above.rstrip().rpartition("\n\n")[2]
            lead = _last_sentence(_on_one_line(paragraph)[-_NEARBY_CHARACTERS:])
        return before, _HTTP_URL.split(after)[0], lead


def _on_one_line(text: str) -> str:
    """Return text on one line, after the last URL in it."""
    return " ".join(_HTTP_URL.split(text)[-1].split())


def _last_sentence(text: str) -> str:
    """Return the last sentence of a text, complete or not."""
    whole = text.rstrip(_OPENING)
    bare = whole.rstrip(".!?\u3002\uff01\uff1f")
    ends = [found.end() for found in _SENTENCE_END.finditer(bare)]
    return bare[ends[-1] :] if ends else bare


def _first_sentence(text: str) -> str:
    found = _SENTENCE_END.search(text)
    return text[: found.start()] if found else text
