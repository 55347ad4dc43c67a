"""Excerpts of untrusted text for agents: short, no invisible characters, no links."""

import re
from html import unescape

import msgspec

#: length of an excerpt
LONGEST_EXCERPT = 4_000
#: length of a line, such as a subject or a name
LONGEST_LINE = 300

#: invisible to people but read by models: controls, tags, variations, zero-width, bidi
_INVISIBLE = re.compile(
    "[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f"
    "\u00ad\u034f\u061c\u115f\u1160\u17b4\u17b5\u180b-\u180f"
    "\u200b-\u200f\u2028-\u202e\u2060-\u206f"
    "\u3164\ufe00-\ufe0f\ufeff\uffa0\ufff0-\ufffb\ud800-\udfff"
    "\U0001bca0-\U0001bca3\U0001d173-\U0001d17a\U000e0000-\U000e0fff]"
)
#: anything that looks like a link; every repetition is bounded, so matching is linear
_LINK = re.compile(
    r"[a-z][a-z0-9+.-]{1,31}:/{1,2}[^\s<>\"]+"
    r"|(?:mailto|javascript|data|vbscript|tel|sms):[^\s<>\"]+"
    r"|www\.[^\s<>\"]+"
    r"|[a-z0-9-]{1,63}(?:\.[a-z0-9-]{1,63}){1,8}/[^\s<>\"]*",
    re.IGNORECASE,
)
#: character references, and the characters that are part of HTML
_REFERENCE = re.compile(r"&(?:#[0-9]{1,7}|#x[0-9a-f]{1,6}|[a-z0-9]{2,31});?", re.IGNORECASE)
_MARKUP = frozenset("<>&\"'")
_SPACES = re.compile(r"\s+")
#: characters that are examined before the excerpt is cut
_LOOKED_AT = 64 * 1024


class Excerpt(msgspec.Struct, frozen=True, kw_only=True):
    """An excerpt of untrusted text."""

    text: str
    #: number of invisible characters removed
    removed: int = 0
    #: number of links replaced
    links: int = 0
    #: the text is longer than the excerpt
    cut: bool = False


def excerpt(text: str, longest: int = LONGEST_EXCERPT) -> Excerpt:
    """Return the beginning of a text without invisible characters and with links replaced."""
    looked_at = text[:_LOOKED_AT]
    clean, removed = _INVISIBLE.subn("", looked_at)
    links = 0

    def blocked(_link: re.Match[str]) -> str:
        nonlocal links
        links += 1
        return f"[link {links}: blocked]"

    plain = _LINK.sub(blocked, clean)
    return Excerpt(
        text=plain[:longest],
        removed=removed,
        links=links,
        cut=len(plain) > longest or len(text) > len(looked_at),
    )


def html_excerpt(html: str) -> Excerpt:
    """Return the beginning of HTML as source, cleaned as text is.

    Character references are decoded first, because they can hide a link; those that keep text
    from being markup stay.
    """
    decoded = _REFERENCE.sub(_decoded_reference, html[:_LOOKED_AT])
    shown = excerpt(decoded, _LOOKED_AT)
    return msgspec.structs.replace(shown, cut=len(html) > _LOOKED_AT)


def _decoded_reference(reference: re.Match[str]) -> str:
    character = unescape(reference[0])
    return reference[0] if character in _MARKUP else character


def one_line(text: str) -> str:
    """Return the excerpt of a subject or a name as one short line."""
    return _SPACES.sub(" ", excerpt(text, LONGEST_LINE).text).strip()
