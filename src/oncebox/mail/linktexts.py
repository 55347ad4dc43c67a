"""Links in plain text: where they begin, and what of the marks behind them is no part of them."""

import re
from collections.abc import Iterator

_MOST = 300
_LONGEST = 8_192
#: all of ASCII that is printed, but for what encloses links
_REST = r"[!#-;=?-\[\]_a-z{-~]"
_WITH_SCHEME = re.compile(rf"https?://{_REST}+", re.IGNORECASE)
#: the end of a host, and a path behind it
_WITHOUT = re.compile(rf"\.[a-z]{{2,18}}/{_REST}+", re.IGNORECASE)
_HOST_BEFORE = re.compile(r"(?:[a-z0-9-]+\.)*[a-z0-9-]+\Z", re.IGNORECASE)
_LONGEST_HOST = 253
#: marks of sentences and of markup
_BEHIND = ".,;:!?'*|"
_BRACKETS = {")": "(", "]": "[", "}": "{"}
#: what is left of HTML
_ENTITY = re.compile(r"&(?:gt|lt|quot|nbsp|#39|apos);?", re.IGNORECASE)
#: where programs break long lines
_WRAPPED = range(70, 79)
_CONTINUED = re.compile(rf"{_REST}+(?=\n|\Z)")


def find(text: str) -> Iterator[tuple[int, int, str]]:
    """Yield where links stand in a text, and what they are, in order, without overlaps."""
    found = list(_with_scheme(text))
    if "/" in text:
        taken = {start: end for start, end, _ in found}
        found += _without_scheme(text, taken)
        found.sort()
    yield from found[:_MOST]


def _with_scheme(text: str) -> Iterator[tuple[int, int, str]]:
    if "://" not in text:
        return
    done = 0
    for number, match in enumerate(_WITH_SCHEME.finditer(text)):
        if number >= _MOST:
            return
        if match.start() < done:
            continue
        for start, last in _written(text, match.start(), match.end()):
            end = _trimmed(text, start, min(last, start + _LONGEST))
            url = text[start:end]
            tail = _continued(text, start, end) if end == match.end() else ""
            done = end
            yield start, end + len(tail), _whole(url, tail)


def _written(text: str, start: int, end: int) -> Iterator[tuple[int, int]]:
    """Yield a link, or both of ``[link](link)``, whose text is a link too."""
    middle = text.find("](http", start, end) if text[start - 1 : start] == "[" else -1
    if middle < 0:
        yield start, end
    else:
        yield start, middle
        yield middle + 2, end


def _without_scheme(text: str, taken: dict[int, int]) -> Iterator[tuple[int, int, str]]:
    done = number = 0
    inside = sorted(taken.items())
    for match in _WITHOUT.finditer(text):
        host = _HOST_BEFORE.search(text, max(done, match.start() - _LONGEST_HOST), match.start())
        if number >= _MOST:
            return
        if host is None:
            continue
        start = host.start()
        before = text[start - 1 : start]
        if before and ((before.isascii() and before.isalnum()) or before in "@/:_%=&.-"):
            continue
        end = _trimmed(text, start, min(match.end(), start + _LONGEST))
        done = end
        if any(first <= start < last for first, last in inside):
            continue
        number += 1
        yield start, end, text[start:end]


def _trimmed(text: str, start: int, end: int) -> int:
    """Return where a link ends, without marks that belong to the sentence around it."""
    entity = _ENTITY.search(text, start, end)
    if entity:
        end = entity.start()
    if start and text[start - 1] in "_~" and text[end - 1] == text[start - 1]:
        end -= 1  # marked as important
    spare = {
        closing: text.count(closing, start, end) - text.count(opening, start, end)
        for closing, opening in _BRACKETS.items()
    }
    while end > start:
        last = text[end - 1]
        if spare.get(last, 0) > 0:
            spare[last] -= 1
        elif last not in _BEHIND:
            break
        end -= 1
    return end


def _continued(text: str, start: int, end: int) -> str:
    """Return what of a link stands in the next line, where a program broke it."""
    line = text.rfind("\n", 0, start) + 1
    if text[end : end + 1] != "\n" or end - line not in _WRAPPED:
        return ""
    rest = _CONTINUED.match(text, end + 1)
    if rest is None or rest[0].lower().startswith(("http:", "https:", "www.")):
        return ""
    return "\n" + rest[0] if any(map(str.isdigit, rest[0])) else ""


def _whole(url: str, tail: str) -> str:
    """Join a link that was broken, and undo what is left of quoted-printable."""
    if not tail:
        return url
    soft = url.endswith("=") and "=3D" in url
    joined = (url[:-1] if soft else url) + tail[1:]
    return joined.replace("=3D", "=") if soft else joined
