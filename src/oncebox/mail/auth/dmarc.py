"""DMARC (RFC 7489): the published policy, alignment, and organisational domains."""

import re
from collections.abc import Mapping, Sequence

import msgspec

from oncebox.model.inboxes.addresses import organisational_domain, public_suffixes

_MOST_RECORD = 4_096
_DMARC_RECORD = re.compile(r"v[ \t]*=[ \t]*DMARC1[ \t]*(;|$)")
_DISPOSITIONS = frozenset({"none", "quarantine", "reject"})
public_suffixes()  # at import, because it takes tens of milliseconds


class DmarcPolicy(msgspec.Struct, frozen=True, kw_only=True):
    """The published policy of a domain."""

    #: what to do with mail that fails: none, quarantine or reject
    disposition: str
    #: strict alignment: only the exact domain in From counts
    strict_spf: bool = False
    strict_dkim: bool = False


class DmarcRecord(msgspec.Struct, frozen=True, kw_only=True):
    """The policy found in DNS."""

    policy: DmarcPolicy | None = None
    #: keys of ``VERDICT_DETAILS``
    flags: tuple[str, ...] = ()


def is_aligned(author: str, other: str, *, strict: bool) -> bool:
    """Say whether two domains are aligned."""
    if not author or not other:
        return False
    return author == other or (
        not strict and organisational_domain(author) == organisational_domain(other)
    )


def dmarc_record_names(author: str) -> tuple[str, ...]:
    """Return the DNS names of a policy, the author's domain first."""
    return tuple(dict.fromkeys((f"_dmarc.{author}", f"_dmarc.{organisational_domain(author)}")))


def read_dmarc(author: str, texts: Mapping[str, Sequence[bytes]]) -> DmarcRecord:
    """Return the policy for a domain, from the TXT records at its names."""
    for name in dmarc_record_names(author):
        decoded = [text.decode("ascii", "replace") for text in texts.get(name, ())]
        records = list(filter(_DMARC_RECORD.match, decoded))
        if len(records) > 1:
            return DmarcRecord(flags=("dmarc_several",))
        if records:
            return _read_record(records[0], above=name != f"_dmarc.{author}")
    return DmarcRecord()


def _read_record(record: str, *, above: bool) -> DmarcRecord:
    invalid = DmarcRecord(flags=("dmarc_invalid",))
    if len(record) > _MOST_RECORD:
        return invalid
    tags = _tags(record)
    wanted = tags.get("p", "")
    below = tags.get("sp", wanted)
    if wanted not in _DISPOSITIONS or below not in _DISPOSITIONS:
        # RFC 7489, 6.6.3: with a valid rua, an invalid policy counts as none.
        if "mailto:" not in tags.get("rua", ""):
            return invalid
        wanted = below = "none"
    policy = DmarcPolicy(
        disposition=below if above else wanted,
        strict_spf=tags.get("aspf") == "s",
        strict_dkim=tags.get("adkim") == "s",
    )
    return DmarcRecord(policy=policy, flags=(f"dmarc_policy_{policy.disposition}",))


def _tags(record: str) -> dict[str, str]:
    tags: dict[str, str] = {}
    for part in record.split(";")[1:]:
        tag, equals, value = part.partition("=")
        if equals:
            tags.setdefault(tag.strip().lower(), value.strip().lower())
    return tags
