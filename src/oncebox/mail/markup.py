"""Markup: HTML is cut where it would cost its reader more than its size."""

import re

from oncebox.mail.limits import ParseLimits

_TAG = re.compile(r"</?[a-zA-Z][a-zA-Z0-9]*")
_LONG_TAG = re.compile(r"<[a-zA-Z](?:[^>=]++|=\s*+(?:\"[^\"]*+(?:\"|\Z)|'[^']*+(?:'|\Z))?)*+")
_QUOTED = re.compile(r"\"[^\"]*+\"?|'[^']*+'?")
#: elements that open again in every paragraph until they are closed
_FORMATTING = frozenset({
    "a", "b", "big", "code", "em", "font", "i", "nobr", "s", "small", "strike", "strong", "tt", "u",
})  # fmt: skip
#: elements that end by themselves
_SELF_ENDING = frozenset({
    "area", "base", "br", "col", "dd", "dt", "embed", "hr", "img", "input", "li", "link", "meta",
    "optgroup", "option", "p", "param", "source", "tbody", "td", "tfoot", "th", "thead", "tr",
    "track", "wbr", "html", "head", "body",
})  # fmt: skip
#: up to here nothing can go wrong that is worth a closer look
_SMALL, _FEW = 32 * 1024, 1_200
_MOST_AGAIN, _MOST_WRITTEN = 250_000, 32 * 1024 * 1024
_LONGEST_TAG = 4_096


def cut(html: str, limits: ParseLimits, warnings: set[str]) -> str:
    """Return the HTML up to where it is nested too deep, or has too much of anything.

    Tree builders need time that grows with the square of open elements, and of attributes.
    """
    if len(html) <= _SMALL and html.count("<") <= _FEW:
        return html
    end = min(_nested_until(html, limits), _slim_until(html))
    if end < len(html):
        warnings.add("html_limit")
    return html[:end]


def _nested_until(html: str, limits: ParseLimits) -> int:
    """Return where too many elements are open, or there have been too many."""
    open_now: dict[str, int] = {}
    again = _Again(html)
    total = 0
    for number, found in enumerate(_TAG.finditer(html)):
        tag = found[0].lower()
        name = tag.lstrip("</")
        if name not in _SELF_ENDING:
            step = 1 if tag[1] != "/" else -min(1, open_now.get(name, 0))
            open_now[name] = open_now.get(name, 0) + step
            total += step
            if step and name in _FORMATTING:
                again.change(name, step, found.start())
        again.count()
        if total > limits.nesting or number >= limits.tags or again.too_much:
            return found.start()
    return len(html)


class _Again:
    """Elements that may open again at every tag, with all that is written in them."""

    def __init__(self, html: str) -> None:
        self._html = html
        self._lengths: dict[str, list[int]] = {}
        self._open = self._length = 0
        self._opened = self._written = 0

    def change(self, name: str, step: int, at: int) -> None:
        """Open one that stands there, or close the last of a name."""
        lengths = self._lengths.setdefault(name, [])
        if step > 0:
            tag = _LONG_TAG.match(self._html, at)
            lengths.append(len(tag[0]) if tag else 0)
            self._length += lengths[-1]
        else:
            self._length -= lengths.pop()
        self._open += step

    def count(self) -> None:
        """Open all of them again."""
        self._opened += self._open
        self._written += self._length

    @property
    def too_much(self) -> bool:
        """Whether a tree of all this would be too large."""
        return self._opened > _MOST_AGAIN or self._written > _MOST_WRITTEN


def _slim_until(html: str) -> int:
    """Return where a tag has more attributes than any writer gives it."""
    for found in _LONG_TAG.finditer(html):
        if found.end() - found.start() > _LONGEST_TAG:
            rest = _QUOTED.sub("", found[0])
            if len(rest) > _LONGEST_TAG:
                return found.start()
    return len(html)
