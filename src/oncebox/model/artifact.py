"""An artifact: a code or a link that came by mail, kept sealed and granted once."""

from collections.abc import Iterable
from enum import StrEnum

import msgspec

from oncebox.model.candidate import Candidate, Found, Kind

#: the verdict on a sender that is proven
PROVEN = "pass"
#: which of two is newer was told from when they arrived, not from a date that was signed
BY_ARRIVAL = "order_by_arrival"
#: nobody has vouched for the sender
UNPROVEN = "sender_unproven"
#: the link leads through somebody else's tracker or filter
WRAPPED = "link_wrapped"
#: it came before its inbox was made
TOO_EARLY = "before_inbox"
#: every code that an artifact may bear, and what it means
WARNINGS: dict[str, str] = {
    BY_ARRIVAL: "which of two messages is newer was told from their arrival: Date is not signed",
    UNPROVEN: "neither SPF nor DKIM vouches for the sender",
    WRAPPED: "the link leads through a tracker or a filter first",
    TOO_EARLY: "the message came before its inbox was made, so it cannot be for it",
}
#: artifacts of one kind that one message may have; more are as good as each other: it is a list
_MOST_TIED = 5
_THOUSAND = 1_000


class ArtifactState(StrEnum):
    """Where an artifact stands."""

    #: nobody has it
    AVAILABLE = "available"
    #: a newer one of the same sender and purpose has taken its place
    SUPERSEDED = "superseded"
    #: somebody has it, and can read it again
    CLAIMED = "claimed"


#: every change of state that exists, with what causes it; tests and docs come from this table
TRANSITIONS: dict[tuple[ArtifactState, ArtifactState], str] = {
    (ArtifactState.AVAILABLE, ArtifactState.SUPERSEDED): "a newer one came, or was dated later",
    (ArtifactState.SUPERSEDED, ArtifactState.AVAILABLE): "the newer one turned out to be older",
    (ArtifactState.AVAILABLE, ArtifactState.CLAIMED): "claimed",
    (ArtifactState.SUPERSEDED, ArtifactState.CLAIMED): (
        "claimed by a wait that the newer one does not fit"
    ),
    (ArtifactState.CLAIMED, ArtifactState.AVAILABLE): "released by a person",
    (ArtifactState.CLAIMED, ArtifactState.SUPERSEDED): "released when there was a newer one",
}


class ArtifactValue(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What an artifact is about; it is only ever stored sealed."""

    #: what a person would type or follow
    value: str
    #: as it stands in the mail
    shown: str = ""
    #: of a link: which service wrapped it, and where it leads if that can be read from it
    wrapped: str = ""
    target: str = ""

    def __repr__(self) -> str:
        """Show nothing: this must not end up in a log."""
        return "ArtifactValue(***)"

    def __rich_repr__(self) -> list[tuple[str, str]]:
        """Show no more than ``repr`` does."""
        return []


class Sighting(msgspec.Struct, frozen=True, kw_only=True):
    """What the message that brings an artifact says about it; a later message may say more."""

    message_id: str
    #: the place of that message in its inbox
    sequence: int
    #: whether the inbox's policy lets it through
    matched: bool
    #: what the message is about, sorted; none if that is not clear
    purposes: tuple[str, ...]
    #: the address in From, as it is compared; empty if there is not exactly one
    sender: str
    sender_domain: str
    #: whether that domain is proven: ``pass``, or why not
    sender_verdict: str
    received_at: int
    #: the Date of the message, where an aligned signature covers it
    signed_at: int | None
    warnings: tuple[str, ...] = ()

    @property
    def proven(self) -> bool:
        """Whether the sender's domain has vouched for the message."""
        return self.sender_verdict == PROVEN


class NewArtifact(msgspec.Struct, frozen=True, kw_only=True):
    """An artifact as the worker hands it over to be filed with its message; sealed already."""

    id: str
    #: for the event that tells of it
    event_id: str
    kind: Kind
    #: HMAC of its inbox, kind and value, to know it again
    mark: bytes
    sealed: bytes
    #: its place among those of its kind in its message
    rank: int
    #: in thousandths
    confidence: int
    #: another one of the same message is as good
    tied: bool = False
    purposes: tuple[str, ...] = ()
    sender: str = ""
    signed_at: int | None = None
    #: whether what proves the sender covers the place where it was found
    vouched: bool = True
    #: whether the inbox's policy lets it through, where it lets its message through
    matched: bool = True
    warnings: tuple[str, ...] = ()


class Artifact(Sighting, frozen=True, kw_only=True):
    """An artifact as it is stored, without what it is about."""

    id: str
    tenant: str
    inbox_id: str
    attempt_id: str | None
    kind: Kind
    state: ArtifactState
    rank: int
    #: in thousandths
    confidence: int
    tied: bool
    #: further messages that brought the same value
    duplicates: int = 0
    superseded_by: str | None = None
    #: the key that has it, and a hash of that key's id and the claim key
    claimed_by: str | None = None
    claim_mark: bytes | None = None
    claimed_at: int | None = None
    #: how often a person took it back
    releases: int = 0
    #: when its value was overwritten
    purged_at: int | None = None

    @property
    def claimed(self) -> bool:
        """Whether somebody has it."""
        return self.state is ArtifactState.CLAIMED

    def belongs_to(self, claim_mark: bytes) -> bool:
        """Say whether this very claim has it."""
        return self.claimed and self.claim_mark == claim_mark


class Link(msgspec.Struct, frozen=True, kw_only=True):
    """A link in parts, as the link policy judged it, so that a call can replace a browser."""

    host: str
    #: what looks like the secret in it; empty if that is not clear
    token: str
    parameters: tuple[tuple[str, str], ...]

    def __repr__(self) -> str:
        """Show nothing: this must not end up in a log."""
        return "Link(***)"

    def __rich_repr__(self) -> list[tuple[str, str]]:
        """Show no more than ``repr`` does."""
        return []


def worth_keeping(found: Found) -> list[tuple[Candidate, bool]]:
    """Return what becomes an artifact, each with whether another one is as good as it.

    That is the best of each kind. Where nobody can tell which one is best, it is all of those.
    """
    kept: list[tuple[Candidate, bool]] = []
    for best, ranked, tied in (
        (found.code, found.codes, found.codes_tied),
        (found.link, found.links, found.links_tied),
    ):
        if tied:
            kept += ((each, True) for each in _tied(ranked))
        elif best is not None:
            kept.append((best, False))
    return kept


def in_thousandths(confidence: float) -> int:
    """Return a confidence from 0 to 1 as it is stored."""
    return max(0, min(_THOUSAND, round(confidence * _THOUSAND)))


def joined(purposes: Iterable[str]) -> str:
    """Return purposes as one word that is the same for the same purposes."""
    return ",".join(sorted(purposes))


def parted(purposes: str) -> tuple[str, ...]:
    """Return the purposes that ``joined`` put together."""
    return tuple(purposes.split(",")) if purposes else ()


def _tied(ranked: tuple[Candidate, ...]) -> list[Candidate]:
    """Return those that are as good as the first: by their score, and the second in any case."""
    distinct = {each.value: each for each in reversed(ranked)}
    ordered = [each for each in ranked if distinct.get(each.value) is each]
    equal = [each for each in ordered[2:] if each.score == ordered[0].score]
    return [*ordered[:2], *equal][:_MOST_TIED]
