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
_MOST_AGAIN = 250_000
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
    total = formatting = opened_again = 0
    for number, found in enumerate(_TAG.finditer(html)):
        tag = found[0].lower()
        name = tag.lstrip("</")
        if name not in _SELF_ENDING:
            step = 1 if tag[1] != "/" else -min(1, open_now.get(name, 0))
            open_now[name] = open_now.get(name, 0) + step
            total += step
            formatting += step if name in _FORMATTING else 0
        opened_again += formatting
        if total > limits.nesting or number >= limits.tags or opened_again > _MOST_AGAIN:
            return found.start()
    return len(html)


def _slim_until(html: str) -> int:
    """Return where a tag has more attributes than any writer gives it."""
    for found in _LONG_TAG.finditer(html):
        if found.end() - found.start() > _LONGEST_TAG:
            rest = _QUOTED.sub("", found[0])
            if len(rest) > _LONGEST_TAG:
                return found.start()
    return len(html)
