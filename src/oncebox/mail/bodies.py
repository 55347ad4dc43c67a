"""Bodies: the text of a mail, chosen from its parts as a reader would see them."""

import re
from collections.abc import Iterator
from typing import Literal

import msgspec

from oncebox.mail import charset, layout, parameters, transfer, visible
from oncebox.mail.layout import Page
from oncebox.mail.limits import ParseLimits
from oncebox.mail.structure import Leaf

#: what may stand around a word
_AROUND = ".,:;!?*_-()[]{}<>\"'|#=~\u2013\u2014\u2026\u2018\u2019\u201c\u201d\u200c\u200b"
_LONG_NUMBER = 4
#: the line before a signature ends with a space of its own
_SIGNATURE = "-- "
#: a longer text is compared by its beginning: for its numbers, and for its words
_COMPARED, _COMPARED_WORDS = 100_000, 6_000
_FOUR_DIGITS = re.compile(r"\d{4}")
_ZEROS = bytes.maketrans(b"123456789", b"000000000")
_FEW_WORDS = 5
#: parts in HTML that are read; each costs more than its size
_MOST_HTML = 10


Origin = Literal["plain", "html", "none"]


class Text(msgspec.Struct):
    """The text of a mail."""

    text: str
    hidden: str
    origin: Origin
    #: all that was written, chosen or not
    others: list[str]
    #: every part with its layout, chosen or not
    pages: list[Page]


class _Choice(msgspec.Struct):
    """Parts of which a reader is shown one."""

    plain: list[str]
    html: list[str]


def read(raw: bytes, leaves: list[Leaf], limits: ParseLimits, warnings: set[str]) -> Text:
    """Return the text of a mail: of every alternative the plain one, else what HTML shows."""
    choices = _choices(raw, leaves, limits, warnings)
    found = Text(text="", hidden="", origin="none", others=[], pages=[])
    shown: list[str] = []
    hidden: list[str] = []
    apart: list[str] = []
    for choice in choices:
        plain = "\n".join(choice.plain).strip()
        sights = [visible.read(html, limits, warnings) for html in choice.html]
        seen = "\n".join(sight.shown.text for sight in sights)
        hidden += [sight.hidden for sight in sights if sight.hidden]
        apart += [sight.apart for sight in sights if sight.apart]
        found.pages += [layout.of_plain(text) for text in choice.plain]
        found.pages += [sight.shown for sight in sights]
        found.others.append(seen if plain else "")
        shown.append(plain or seen)
        if plain and seen and _differ(plain, seen):
            warnings.add("text_html_differ")
        if plain or seen:
            found.origin = "html" if not plain or found.origin == "html" else "plain"
    if hidden:
        warnings.add("hidden_text")
    found.text = "\n".join(filter(None, shown))
    found.hidden = "\n".join([*hidden, *apart])
    return found


def _choices(
    raw: bytes, leaves: list[Leaf], limits: ParseLimits, warnings: set[str]
) -> list[_Choice]:
    """Return the texts of all parts, those together of which a reader is shown one."""
    choices: dict[int, _Choice] = {}
    room = limits.text
    for leaf in _readable(leaves, warnings):
        text, room = _text(raw, leaf, room, warnings)
        choice = choices.setdefault(leaf.choice, _Choice([], []))
        (choice.plain if leaf.media_type == "text/plain" else choice.html).append(text)
    return list(choices.values())


def _readable(leaves: list[Leaf], warnings: set[str]) -> Iterator[Leaf]:
    """Yield the parts that are read."""
    html = 0
    for leaf in leaves:
        html += leaf.media_type == "text/html"
        if html > _MOST_HTML and leaf.media_type == "text/html":
            warnings.add("html_limit")
        else:
            yield leaf


def _text(raw: bytes, leaf: Leaf, room: int, warnings: set[str]) -> tuple[str, int]:
    """Return the text of a part, and how many bytes others may have."""
    data = transfer.decode(raw[leaf.start : leaf.end], leaf.encoding, warnings)
    if len(data) > room:
        warnings.add("text_limit")
        data = data[:room]
    name = parameters.text(leaf.parameters, "charset", warnings)
    if not name and leaf.media_type == "text/html":
        name = charset.named_in_html(data)
    text = charset.decode(data, name, warnings).replace("\r\n", "\n").replace("\r", "\n")
    if leaf.parameters.get("format", "").lower() == "flowed" and leaf.media_type == "text/plain":
        text = _unwrapped(text, drop=leaf.parameters.get("delsp", "").lower() == "yes")
    return text, room - len(data)


def _unwrapped(text: str, *, drop: bool) -> str:
    """Join lines that were wrapped on the way (RFC 3676), within one level of quotes."""
    out: list[str] = []
    level_before = -1
    flowing = False
    for line in text.split("\n"):
        level = len(line) - len(line.lstrip(">"))
        words = line[level:].removeprefix(" ")
        ends = words == _SIGNATURE
        if not flowing or level != level_before or ends:
            out.append("\n" + ">" * level + (" " if level else ""))
        flowing = words.endswith(" ") and not ends
        out.append(words[:-1] if flowing and drop else words)
        level_before = level
    return "".join(out)[1:]


def _differ(plain: str, seen: str) -> bool:
    """Say whether two texts tell different things: other numbers, or other words altogether."""
    one, other = plain[:_COMPARED], seen[:_COMPARED]
    if _numbers_differ(one, other) or _numbers_differ(other, one):
        return True
    words = set(one[:_COMPARED_WORDS].lower().split())
    others = set(other[:_COMPARED_WORDS].lower().split())
    common = words & others
    if len(common) * 2 >= min(len(words), len(others)):
        return False
    words, others = _bare(words), _bare(others)
    fewer = min(len(words), len(others))
    return fewer >= _FEW_WORDS and len(words & others) * 2 < fewer


def _bare(words: set[str]) -> set[str]:
    """Return words without what stands around them, and without links: few texts show both."""
    return {word.strip(_AROUND) for word in words if ":/" not in word and "@" not in word}


def _numbers_differ(one: str, other: str) -> bool:
    """Say whether a text has a long number that another one has not."""
    if one.isascii() and b"0000" not in one.encode("ascii").translate(_ZEROS):
        return False
    long = {word for word in set(one.split()) if _FOUR_DIGITS.search(word)}
    return any(
        number.isdecimal() and len(number) >= _LONG_NUMBER and number not in other
        for number in _bare(long)
    )
