"""Artifacts: codes and links from mail, the choice among them, and their claims.

It depends on which artifacts there are, never on the order in which they were filed or looked at.
"""

from collections import defaultdict
from collections.abc import Hashable, Iterable, Mapping, Sequence
from enum import StrEnum
from typing import Literal

import msgspec

from oncebox.model.inboxes.purpose import Purpose
from oncebox.model.inboxes.received_mail import ArtifactKind, Candidate, Extraction

#: the verdict on a sender that is proven
PROVEN_VERDICT = "pass"
#: which of two is newer was told from when they arrived, not from a date that was signed
ORDER_BY_ARRIVAL = "order_by_arrival"
#: nobody has vouched for the sender
SENDER_UNPROVEN = "sender_unproven"
#: the link leads through somebody else's tracker or filter
LINK_WRAPPED = "link_wrapped"
#: it came before its inbox was made
BEFORE_INBOX = "before_inbox"
#: every code that an artifact may bear, and what it means
ARTIFACT_WARNINGS: dict[str, str] = {
    ORDER_BY_ARRIVAL: "which of two messages is newer was told from their arrival: "
    "Date is not signed",
    SENDER_UNPROVEN: "neither SPF nor DKIM vouches for the sender",
    LINK_WRAPPED: "the link leads through a tracker or a filter first",
    BEFORE_INBOX: "the message came before its inbox was made, so it cannot be for it",
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


class ArtifactOrigin(msgspec.Struct, frozen=True, kw_only=True):
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
        return self.sender_verdict == PROVEN_VERDICT


class NewArtifact(msgspec.Struct, frozen=True, kw_only=True):
    """An artifact as the worker hands it over to be filed with its message; sealed already."""

    id: str
    #: for the event that tells of it
    event_id: str
    kind: ArtifactKind
    #: HMAC of its inbox, kind and value, to know it again
    fingerprint: bytes
    encrypted: bytes
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


class Artifact(ArtifactOrigin, frozen=True, kw_only=True):
    """An artifact as it is stored, without what it is about."""

    id: str
    tenant: str
    inbox_id: str
    attempt_id: str | None
    kind: ArtifactKind
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
    claim_fingerprint: bytes | None = None
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
        return self.claimed and self.claim_fingerprint == claim_mark


class LinkParts(msgspec.Struct, frozen=True, kw_only=True):
    """A link in parts, as the link policy judged it, so that a call can replace a browser."""

    host: str
    #: what looks like the secret in it; empty if that is not clear
    token: str
    parameters: tuple[tuple[str, str], ...]

    def __repr__(self) -> str:
        """Show nothing: this must not end up in a log."""
        return "LinkParts(***)"

    def __rich_repr__(self) -> list[tuple[str, str]]:
        """Show no more than ``repr`` does."""
        return []


def candidates_to_keep(found: Extraction) -> list[tuple[Candidate, bool]]:
    """Return what becomes an artifact, each with whether another one is as good as it.

    That is the best of each kind. Where nobody can tell which one is best, it is all of those.
    """
    kept: list[tuple[Candidate, bool]] = []
    for best, ranked, tied in (
        (found.code, found.codes, found.codes_tied),
        (found.link, found.links, found.links_tied),
    ):
        if tied:
            kept += ((each, True) for each in _tied_candidates(ranked))
        elif best is not None:
            kept.append((best, False))
    return kept


def to_thousandths(confidence: float) -> int:
    """Return a confidence from 0 to 1 as it is stored."""
    return max(0, min(_THOUSAND, round(confidence * _THOUSAND)))


def join_purposes(purposes: Iterable[str]) -> str:
    """Return purposes as one word that is the same for the same purposes."""
    return ",".join(sorted(purposes))


def split_purposes(purposes: str) -> tuple[str, ...]:
    """Return the purposes that ``joined`` put together."""
    return tuple(purposes.split(",")) if purposes else ()


def _tied_candidates(ranked: tuple[Candidate, ...]) -> list[Candidate]:
    """Return those that are as good as the first: by their score, and the second in any case."""
    distinct = {each.value: each for each in reversed(ranked)}
    ordered = [each for each in ranked if distinct.get(each.value) is each]
    equal = [each for each in ordered[2:] if each.score == ordered[0].score]
    return [*ordered[:2], *equal][:_MOST_TIED]


#: why nobody can know which one is meant
ConflictReason = Literal["tied", "same_time", "senders_differ", "purposes_differ"]
#: why one was not chosen
UNMATCHED, LESS_PROVEN, SUPERSEDED, SPENT = "unmatched", "less_proven", "superseded", "spent"
#: every reason for which an artifact is left out, and what it means
EXCLUSION_REASONS: dict[str, str] = {
    UNMATCHED: "the inbox's policy does not let its message through",
    LESS_PROVEN: "its sender is not proven, and another one's is",
    SUPERSEDED: "a newer one of the same sender and purpose has taken its place",
    SPENT: "it was claimed, and a newer one of the same sender is there",
}
#: every kind of conflict, and what it means
CONFLICTS: dict[ConflictReason, str] = {
    "tied": "one message has several that are as good as each other",
    "same_time": "two messages of one sender are of the same time",
    "senders_differ": "different senders have sent one each",
    "purposes_differ": "one sender has sent several for different purposes",
}

#: when a message was sent, as far as that is known: its signed date or nothing, and its arrival
_SentAt = tuple[int, int]


class ArtifactChoice(msgspec.Struct, frozen=True, kw_only=True):
    """Which artifact is meant; none, with a conflict, where nobody can know."""

    artifact: Artifact | None = None
    #: those that are meant equally, sorted; none if there is no conflict
    conflict: tuple[str, ...] = ()
    why: ConflictReason | None = None
    #: why the others are left out, by id
    reasons: Mapping[str, str] = {}


class Supersession(msgspec.Struct, frozen=True, kw_only=True):
    """How an artifact stands among the others of its inbox, whoever has claimed which."""

    #: the one that took its place
    superseded_by: str | None = None
    #: it took the place of others, told from when they arrived
    by_arrival: bool = False


def choose_artifact(
    candidates: Iterable[Artifact], claim_mark: bytes | None = None
) -> ArtifactChoice:
    """Choose among artifacts of one kind; what ``claim_mark`` has claimed is preferred.

    An artifact whose sender is proven leaves no place to those whose senders are not. A newer
    message of the same sender and purpose takes the place of an older. What was claimed steps
    aside for something newer of the same sender. What is left must be one, or it is a conflict;
    but whoever has claimed one of them gets that again.
    """
    every = list(candidates)
    reasons: dict[str, str] = {each.id: UNMATCHED for each in every if not each.matched}
    matched = [each for each in every if each.matched]
    proven = [each for each in matched if each.proven]
    if proven:
        reasons |= {each.id: LESS_PROVEN for each in matched if not each.proven}
    current, replaced = _split_superseded(proven or matched)
    reasons |= dict.fromkeys(replaced, SUPERSEDED)
    left, spent = _split_spent(current)
    reasons |= dict.fromkeys(spent, SPENT)
    return _decide(left, reasons, claim_mark)


def supersessions(artifacts: Iterable[Artifact]) -> dict[str, Supersession]:
    """Return how artifacts of one inbox and kind stand; only those that match compete."""
    found: dict[str, Supersession] = {}
    every = list(artifacts)
    for group in _by_sender_and_purpose(each for each in every if each.matched):
        newest, older = _split_newest(group)
        by, by_arrival = min(each.id for each in newest), _is_by_arrival(newest, older)
        found |= {each.id: Supersession(superseded_by=by) for each in older}
        found |= {each.id: Supersession(by_arrival=by_arrival) for each in newest}
    return {each.id: found.get(each.id, Supersession()) for each in every}


def update_warnings(warnings: Sequence[str], standing: Supersession) -> tuple[str, ...]:
    """Return the warnings of an artifact, given how it stands now."""
    own = tuple(each for each in warnings if each != ORDER_BY_ARRIVAL)
    return (*own, ORDER_BY_ARRIVAL) if standing.by_arrival else own


def unclaimed_state(standing: Supersession) -> ArtifactState:
    """Return the state of an artifact that nobody has claimed."""
    return ArtifactState.SUPERSEDED if standing.superseded_by else ArtifactState.AVAILABLE


def _sender_identity(artifact: Artifact) -> Hashable:
    """Return what tells senders apart; a message without a clear one is alone."""
    return artifact.sender or ("message", artifact.message_id)


def _by_sender_and_purpose(artifacts: Iterable[Artifact]) -> list[list[Artifact]]:
    """Put those together that may take each other's place: one sender, one purpose.

    What is proven and what is not are apart: whoever writes a sender's name into a mail must
    neither take the place of the sender's own nor change how those are ordered.
    """
    groups: defaultdict[Hashable, list[Artifact]] = defaultdict(list)
    for each in artifacts:
        groups[_sender_identity(each), each.purposes, each.proven].append(each)
    return list(groups.values())


def _have_signed_dates(group: Iterable[Artifact]) -> bool:
    """Say whether signed dates tell how these are ordered.

    One date that is not signed leaves only the order of arrival for all: dates and arrivals
    that are mixed can go in circles.
    """
    return all(each.signed_at is not None for each in group)


def _sent_at(artifact: Artifact, *, signed: bool) -> _SentAt:
    return (artifact.signed_at or 0 if signed else 0, artifact.received_at)


def _split_newest(group: Sequence[Artifact]) -> tuple[list[Artifact], list[Artifact]]:
    """Return those of the newest message, and the others."""
    signed = _have_signed_dates(group)
    latest = max(_sent_at(each, signed=signed) for each in group)
    newest: list[Artifact] = []
    older: list[Artifact] = []
    for each in group:
        (newest if _sent_at(each, signed=signed) == latest else older).append(each)
    return newest, older


def _is_by_arrival(newest: Sequence[Artifact], older: Sequence[Artifact]) -> bool:
    """Say whether only the arrival tells that these are newer than those."""
    if not _have_signed_dates((*newest, *older)):
        return bool(older)
    return any(each.signed_at == newest[0].signed_at for each in older)


def _split_superseded(artifacts: Iterable[Artifact]) -> tuple[list[Artifact], list[str]]:
    """Return those that nothing newer has taken the place of, and the ids of the others."""
    current, replaced = [], []
    for group in _by_sender_and_purpose(artifacts):
        newest, older = _split_newest(group)
        current += newest
        replaced += [each.id for each in older]
    return current, replaced


def _split_spent(current: Sequence[Artifact]) -> tuple[list[Artifact], list[str]]:
    """Let what was claimed step aside for something newer of the same sender."""
    senders: defaultdict[Hashable, list[Artifact]] = defaultdict(list)
    for each in current:
        senders[_sender_identity(each)].append(each)
    spent: set[str] = set()
    for group in senders.values():
        signed = _have_signed_dates(group)
        free = [_sent_at(each, signed=signed) for each in group if not each.claimed]
        claimed = (each for each in group if each.claimed)
        spent |= {each.id for each in claimed if free and _sent_at(each, signed=signed) < max(free)}
    return [each for each in current if each.id not in spent], sorted(spent)


def _decide(
    left: Sequence[Artifact], reasons: Mapping[str, str], claim_mark: bytes | None
) -> ArtifactChoice:
    own = [each for each in left if claim_mark is not None and each.belongs_to(claim_mark)]
    meant = own if len(own) == 1 else left
    if len(meant) > 1:
        ids = tuple(sorted(each.id for each in meant))
        return ArtifactChoice(conflict=ids, why=_conflict_reason(meant), reasons=reasons)
    return ArtifactChoice(artifact=meant[0] if meant else None, reasons=reasons)


def _conflict_reason(meant: Sequence[Artifact]) -> ConflictReason:
    if len({_sender_identity(each) for each in meant}) > 1:
        return "senders_differ"
    if len({each.purposes for each in meant}) > 1:
        return "purposes_differ"
    return "tied" if len({each.message_id for each in meant}) == 1 else "same_time"


#: why somebody does not get an artifact
DenialReason = Literal[
    "not_found",
    "already_claimed",
    "superseded",
    "unmatched",
    "purged",
    "link_refused",
    "not_opened",
]
#: where a link leads that the policy refused: to its sender's own domain, or somewhere else
HostClass = Literal["sender", "other", "none"]


class ArtifactClaimant(msgspec.Struct, frozen=True, kw_only=True):
    """Who claims."""

    tenant: str
    #: the API key; a fixed word for somebody at the terminal
    key_id: str
    #: the only owner whose inboxes may be seen; none: any of the tenant
    owner: str | None
    #: tells claims of one key apart; the attempt of the inbox unless set, or the inbox
    claim_key: str | None = None


class ArtifactFilter(msgspec.Struct, frozen=True, kw_only=True):
    """Which artifact of an inbox is wanted, where none is named."""

    inbox_id: str
    kind: ArtifactKind
    #: an address or a domain, in lower case; anybody if there is none
    sender: str = ""
    purpose: Purpose = Purpose.ANY
    #: only what these messages brought; any if it is not said
    messages: frozenset[str] | None = None
    #: messages that are known not to be wanted: they take the place of none that is
    excluded_messages: frozenset[str] = frozenset()
    #: only what came after this place in the inbox
    after: int = 0
    #: of a link: only what leads to this host; it is allowed where the inbox names none
    host: str = ""
    #: a domain was named: all its addresses are one sender
    by_domain: bool = False

    def matches(self, artifact: Artifact) -> bool:
        """Say whether an artifact of the inbox and kind is one of those that are wanted."""
        return (
            artifact.sequence > self.after
            and (self.messages is None or artifact.message_id in self.messages)
            and (self.purpose is Purpose.ANY or self.purpose in artifact.purposes)
            and (not self.sender or self.sender in {artifact.sender, artifact.sender_domain})
        )


class ArtifactClaimRequest(msgspec.Struct, frozen=True, kw_only=True):
    """A claim: of an artifact that is named, or of the one that a wish describes."""

    claimant: ArtifactClaimant
    artifact_id: str | None = None
    artifact_filter: ArtifactFilter | None = None


class ClaimGranted(msgspec.Struct, frozen=True, kw_only=True):
    """The artifact is the claimant's; what it says is in here."""

    artifact: Artifact
    value: ArtifactValue
    #: of a link; the value is then exactly what was judged
    link: LinkParts | None = None
    #: it was the claimant's before
    repeated: bool


class ClaimDenied(msgspec.Struct, frozen=True, kw_only=True):
    """The claimant does not get it."""

    why: DenialReason
    artifact: Artifact | None = None
    #: of a link that the policy refused: its code
    reason: str = ""
    host: HostClass = "none"


class ClaimConflict(msgspec.Struct, frozen=True, kw_only=True):
    """Several are meant equally, and nobody chooses for the claimant."""

    kind: ArtifactKind
    artifact_ids: tuple[str, ...]
    why: ConflictReason


#: what comes of an ask; None: there is nothing yet that fits the wish
ClaimResult = ClaimGranted | ClaimDenied | ClaimConflict | None
