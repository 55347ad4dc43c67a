"""CSS selectors: those that we match, and for others a wider one whose match is doubtful.

``:is()`` and ``:where()`` are written out. A condition on siblings, positions or anything else that
is not computed is left out, so that the selector matches more elements than it should; text that
it would hide is then doubtful. A selector that needs a user's action never matches.
"""

import re
from collections.abc import Iterator
from typing import NamedTuple

#: alternatives into which one selector is written out, and rounds of doing so
_MOST_ALTERNATIVES, _MOST_ROUNDS = 32, 8
_LONGEST_SELECTOR = 2_000

_PARTS = re.compile(r"[,()\[\]]|\"[^\"]*\"?|'[^']*'?")
_COMBINATOR = re.compile(r"\s*+([>+~](?!=))\s*+|\s++")
_PSEUDO = re.compile(r"::?([a-z-]++)(?:\(((?:[^()]++|\([^()]*+\))*+)\))?")
_ALTERNATIVES = re.compile(
    r":(?:is|where|matches|-webkit-any|-moz-any)"
    r"\(((?:[^()]++|\((?:[^()]++|\([^()]*+\))*+\))*+)\)"
)
_TAG = re.compile(r"[a-z*][\w-]*")
_COMPOUND_START = re.compile(r"[\s>]")
#: pseudo-classes that need a user's action, and pseudo-elements beside the text
_NEVER = frozenset({
    "hover", "active", "focus", "focus-within", "focus-visible", "visited", "target",
    "target-within", "empty", "before", "after", "marker", "selection", "placeholder", "backdrop",
    "fullscreen", "modal", "popover-open", "autofill", "invalid", "user-invalid", "playing",
})  # fmt: skip
#: pseudo-classes that every element of their kind matches
_ALWAYS = {"root": "html", "link": "[href]", "any-link": "[href]", "defined": ""}


class PlainSelector(NamedTuple):
    """A selector without pseudo-classes."""

    text: str
    #: it matches more than what was written
    doubtful: bool = False


def plain_selectors(text: str) -> Iterator[PlainSelector]:
    """Yield selectors without pseudo-classes for a list of selectors in lower case."""
    for each in split_list(text):
        if ":" in each or "+" in each or "~" in each:
            yield from _written_out(each)
        else:
            yield PlainSelector(each)


def split_list(text: str) -> list[str]:
    """Return the selectors of a list; commas in brackets and strings do not count."""
    if "(" not in text and '"' not in text and "'" not in text and "[" not in text:
        return [each.strip() for each in text.split(",")]
    found, depth, start = [], 0, 0
    for part in _PARTS.finditer(text):
        if part[0] in "([":
            depth += 1
        elif part[0] in ")]":
            depth -= 1
        elif part[0] == "," and depth <= 0:
            found.append(text[start : part.start()].strip())
            start = part.end()
    return [*found, text[start:].strip()]


def _written_out(text: str) -> Iterator[PlainSelector]:
    """Yield the alternatives of ``:is()`` and ``:where()``, each without other conditions."""
    if len(text) > _LONGEST_SELECTOR:
        yield PlainSelector("*", doubtful=True)
        return
    waiting, doubtful = [text], False
    for _ in range(_MOST_ROUNDS):
        if len(waiting) > _MOST_ALTERNATIVES or not any(map(_ALTERNATIVES.search, waiting)):
            break
        waiting, wider = _alternatives(waiting)
        doubtful = doubtful or wider
    if len(waiting) > _MOST_ALTERNATIVES or any(map(_ALTERNATIVES.search, waiting)):
        waiting, doubtful = [_without_alternatives(text)], True
    for each in waiting:
        plain = _without_conditions(each)
        if plain is not None:
            yield PlainSelector(plain.text, plain.doubtful or doubtful)


def _without_alternatives(text: str) -> str:
    for _ in range(_MOST_ROUNDS):
        text = _ALTERNATIVES.sub("", text)
    return text


def _alternatives(selectors: list[str]) -> tuple[list[str], bool]:
    """Write out the first ``:is()`` of each selector; say whether that matches more."""
    written: list[str] = []
    wider = False
    for text in selectors:
        found = _ALTERNATIVES.search(text)
        if found is None:
            written.append(text)
            continue
        before, after = text[: found.start()], text[found.end() :]
        for inside in split_list(found[1])[: _MOST_ALTERNATIVES + 1]:
            # What is around the last element of an alternative is left out.
            is_wider = bool(before and _COMPOUND_START.search(inside))
            wider = wider or is_wider
            joined = _joined(
                before, _COMPOUND_START.split(inside)[-1] if is_wider else inside, after
            )
            if joined is not None:
                written.append(joined)
    return written, wider


def _joined(before: str, inside: str, after: str) -> str | None:
    """Put an alternative in its place; None if an element would need two names."""
    at = max((found.end() for found in _COMPOUND_START.finditer(before)), default=0)
    tag, own = _TAG.match(inside), _TAG.match(before, at)
    if tag is None or at == len(before):
        return before + inside + after
    if own is not None and "*" not in {own[0], tag[0]} and own[0] != tag[0]:
        return None
    named = own[0] if own and own[0] != "*" else tag[0]
    rest = before[own.end() if own else at :]
    return before[:at] + named + rest + inside[tag.end() :] + after


def _without_conditions(text: str) -> PlainSelector | None:
    """Return a selector without pseudo-classes and siblings; None if it never matches."""
    doubtful = False
    while (found := _PSEUDO.search(text)) is not None:
        name, inside = found.groups()
        if name in _NEVER:
            return None
        if name not in _ALWAYS and not (name == "not" and _never_matches(inside)):
            doubtful = True
        before, after = text[: found.start()], text[found.end() :]
        alone = not before or before[-1] in " >+~"
        kept = _ALWAYS.get(name, "")
        if kept == "html" and not alone:
            kept = ""
        text = before + (kept or ("*" if alone else "")) + after
    if "+" not in text and "~" not in text:
        return PlainSelector(text, doubtful)
    plain = _without_siblings(text)
    return PlainSelector(plain, doubtful or plain != text)


def _without_siblings(text: str) -> str:
    """Return a selector without the elements that precede another one."""
    pieces = _COMBINATOR.split(text)
    kept = [pieces[0]]
    for combinator, step in zip(pieces[1::2], pieces[2::2], strict=True):
        if combinator in {"+", "~"}:
            kept[-1] = step
        else:
            kept += [combinator or " ", step]
    return "".join(kept)


def _never_matches(inside: str | None) -> bool:
    """Say whether the argument of ``:not()`` never matches."""
    names = _PSEUDO.findall(inside or "")
    return bool(names) and all(name in _NEVER for name, _ in names)
