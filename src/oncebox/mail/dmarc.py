"""DMARC: what the domain in From publishes, and what is aligned with it (RFC 7489)."""

import re
from collections.abc import Mapping, Sequence

import msgspec
from publicsuffixlist import PublicSuffixList

_MOST_RECORD = 4_096
_RECORD = re.compile(r"v[ \t]*=[ \t]*DMARC1[ \t]*(;|$)")
#: read here and now, which takes tens of milliseconds that no mail should wait for
_SUFFIXES = PublicSuffixList()
_WISHES = frozenset({"none", "quarantine", "reject"})


class Policy(msgspec.Struct, frozen=True, kw_only=True):
    """What a domain's owner asks for."""

    #: none, quarantine or reject: what shall be done with mail that fails
    wish: str
    #: only the very domain in From counts, not its relatives
    strict_spf: bool = False
    strict_dkim: bool = False


class Published(msgspec.Struct, frozen=True, kw_only=True):
    """What was found in DNS."""

    policy: Policy | None = None
    #: codes of the verdict's details
    flags: tuple[str, ...] = ()


def organisation(domain: str) -> str:
    """Return the domain that an owner registered, such as example.co.uk.

    Suffixes that a company gives out, such as github.io, count as public too: their users do
    not speak for each other.
    """
    return _SUFFIXES.privatesuffix(domain) or domain


def aligned(author: str, other: str, *, strict: bool) -> bool:
    """Say whether one domain may speak for the other."""
    if not author or not other:
        return False
    return author == other or (not strict and organisation(author) == organisation(other))


def record_names(author: str) -> tuple[str, ...]:
    """Return the names at which a policy may be, the author's own first."""
    return tuple(dict.fromkeys((f"_dmarc.{author}", f"_dmarc.{organisation(author)}")))


def published(author: str, texts: Mapping[str, Sequence[bytes]]) -> Published:
    """Return the policy for a domain, from the TXT records at its names."""
    for name in record_names(author):
        records = [text for text in map(_decoded, texts.get(name, ())) if _RECORD.match(text)]
        if len(records) > 1:
            return Published(flags=("dmarc_several",))
        if records:
            return _read(records[0], above=name != f"_dmarc.{author}")
    return Published()


def _decoded(text: bytes) -> str:
    return text.decode("ascii", "replace")


def _read(record: str, *, above: bool) -> Published:
    invalid = Published(flags=("dmarc_invalid",))
    if len(record) > _MOST_RECORD:
        return invalid
    tags = _tags(record)
    wish = tags.get("p", "")
    below = tags.get("sp", wish)
    if wish not in _WISHES or below not in _WISHES:
        # RFC 7489, 6.6.3: who wants reports has meant it, and asks for nothing else.
        if "mailto:" not in tags.get("rua", ""):
            return invalid
        wish = below = "none"
    policy = Policy(
        wish=below if above else wish,
        strict_spf=tags.get("aspf") == "s",
        strict_dkim=tags.get("adkim") == "s",
    )
    return Published(policy=policy, flags=(f"dmarc_policy_{policy.wish}",))


def _tags(record: str) -> dict[str, str]:
    tags: dict[str, str] = {}
    for part in record.split(";")[1:]:
        tag, equals, value = part.partition("=")
        if equals:
            tags.setdefault(tag.strip().lower(), value.strip().lower())
    return tags
