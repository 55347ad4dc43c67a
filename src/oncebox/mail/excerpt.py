"""Excerpts: what an agent may read of a stranger's text: short, nothing invisible, no links."""

import re

import msgspec

#: characters of a text that are handed out
LONGEST = 4_000
#: of a line such as a subject or a name
LONGEST_LINE = 300

#: what a reader does not see but a model reads: controls, tags, variations, zero-width, bidi
_INVISIBLE = re.compile(
    "[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f"
    "\u00ad\u034f\u061c\u115f\u1160\u17b4\u17b5\u180b-\u180f"
    "\u200b-\u200f\u2028-\u202e\u2060-\u206f"
    "\u3164\ufe00-\ufe0f\ufeff\uffa0\ufff0-\ufffb\ud800-\udfff"
    "\U0001bca0-\U0001bca3\U0001d173-\U0001d17a\U000e0000-\U000e0fff]"
)
#: anything that a reader or a program might follow; every repeat is bounded, so it is linear
_LINK = re.compile(
    r"[a-z][a-z0-9+.-]{1,31}:/{1,2}[^\s<>\"]+"
    r"|(?:mailto|javascript|data|vbscript|tel|sms):[^\s<>\"]+"
    r"|www\.[^\s<>\"]+"
    r"|[a-z0-9-]{1,63}(?:\.[a-z0-9-]{1,63}){1,8}/[^\s<>\"]*",
    re.IGNORECASE,
)
_SPACES = re.compile(r"\s+")
#: how much is looked at, whatever is cut afterwards
_LOOKED_AT = 64 * 1024


class Excerpt(msgspec.Struct, frozen=True, kw_only=True):
    """A stranger's words, made fit for an agent."""

    text: str
    #: invisible characters that were taken out
    removed: int = 0
    #: links that were replaced
    links: int = 0
    #: there was more
    cut: bool = False


def excerpt(text: str, longest: int = LONGEST) -> Excerpt:
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


def line(text: str) -> str:
    """Return a subject or a name as one short line of the same kind."""
    return _SPACES.sub(" ", excerpt(text, LONGEST_LINE).text).strip()
