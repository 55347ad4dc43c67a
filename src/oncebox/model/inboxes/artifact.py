"""Artifacts: codes and links from mail and awaited messages, the choice among them, their claims.

The choice depends on which artifacts there are, never on the order in which they were filed.
See docs/decisions/0028-use-permanent-grants-for-codes-and-links.md.
"""

from collections import defaultdict
from collections.abc import Hashable, Iterable, Iterator, Sequence
from enum import StrEnum
from itertools import chain
from typing import Final, Literal, NamedTuple

import msgspec

from oncebox.model.inboxes.inbox import (
    AUTHENTICATION_OFF,
    InboxPolicy,
    requires_authentication,
)
from oncebox.model.inboxes.received_mail import (
    NOT_ADDRESSED,
    RECIPIENT_UNSIGNED,
    SIGNATURE_OLD,
    ArtifactKind,
    Candidate,
    Extraction,
    SenderVerdict,
)
from oncebox.model.inboxes.replay import REPLAY_SIGNS

#: the verdict on a sender that is proven
PROVEN_VERDICT = "pass"
ORDER_BY_ARRIVAL = "order_by_arrival"
SENDER_UNPROVEN = "sender_unproven"
LINK_WRAPPED = "link_wrapped"
BEFORE_INBOX = "before_inbox"
ANY_SENDER = "any_sender"
TEXT_DOUBTFUL: Final = "text_doubtful"
PURPOSE_UNCLEAR = "purpose_unclear"
#: every warning of an artifact, and its meaning
ARTIFACT_WARNINGS: dict[str, str] = {
    ORDER_BY_ARRIVAL: "which of two messages is newer was decided by arrival: Date is not signed",
    SENDER_UNPROVEN: "neither SPF nor DKIM proves the sender",
    NOT_ADDRESSED: "a signed mail to somebody else: a replay, a forward or a Bcc",
    SIGNATURE_OLD: "the mail was signed long ago, or before the inbox was made: perhaps a replay",
    RECIPIENT_UNSIGNED: "the signature does not cover To, so the mail may be a replay",
    ANY_SENDER: "the inbox names no senders, so it may come from anybody who knows the address",
    AUTHENTICATION_OFF: "senders are compared by From only, which anybody can write",
    LINK_WRAPPED: "the link leads through a tracker or a filter first",
    BEFORE_INBOX: "the message is older than its inbox, so it cannot be for it",
    TEXT_DOUBTFUL: "it may be hidden from readers, or the right one depends on such text",
    PURPOSE_UNCLEAR: "a purpose was asked for, and the words of the message name none",
}
#: the details of a verdict that are warnings of its artifacts
_REPORTED_DETAILS = (*REPLAY_SIGNS, RECIPIENT_UNSIGNED)
#: artifacts of one kind from one message; if more are equally good, the message is a list
_MOST_TIED = 5
_THOUSAND = 1_000


def sender_warnings(policy: InboxPolicy, verdict: SenderVerdict) -> Iterator[str]:
    """Yield what the owner of an inbox should know about the sender of a mail."""
    yield from (code for code in _REPORTED_DETAILS if code in verdict.details)
    if not policy.senders:
        yield ANY_SENDER
    if policy.authenticated is False or (
        policy.senders and not requires_authentication(policy, verdict)
    ):
        yield AUTHENTICATION_OFF


class ArtifactState(StrEnum):
    """The state of an artifact."""

    #: it can be claimed
    AVAILABLE = "available"
    #: replaced by a newer one of the same sender and purpose
    SUPERSEDED = "superseded"
    #: granted to one claim, which can read it again
    CLAIMED = "claimed"


#: every transition, with its cause; tests and docs use this table
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


class _Secret:
    """A struct whose fields must not appear in a log."""

    __slots__ = ()

    def __repr__(self) -> str:
        return f"{type(self).__name__}(***)"

    def __rich_repr__(self) -> list[tuple[str, str]]:
        return []


class ArtifactValue(_Secret, msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The content of an artifact; it is stored encrypted only."""

    #: what a person would type or follow
    value: str
    #: as written in the mail
    shown: str = ""
    #: of a link: the service that wrapped it, and the target if it can be read from the link
    wrapped: str = ""
    target: str = ""


class LinkParts(_Secret, msgspec.Struct, frozen=True, kw_only=True):
    """The parts of a link, as the link policy checked it, so that a call can replace a browser."""

    host: str
    #: the secret in it; empty if that is not clear
    token: str
    parameters: tuple[tuple[str, str], ...]


class NewArtifact(msgspec.Struct, frozen=True, kw_only=True):
    """A code or link to be filed with its message; the worker has encrypted it."""

    id: str
    #: for the event that reports it
    event_id: str
    kind: ArtifactKind
    #: HMAC of its inbox, kind and value, to recognise a repeat
    fingerprint: bytes
    #: HMAC of its kind and value; the attempt's fingerprint is made of it, it is not stored
    value_fingerprint: bytes
    encrypted: bytes
    #: its place among those of its kind in its message
    rank: int
    #: in thousandths
    confidence: int
    #: another one of the same message is equally good
    tied: bool = False
    purposes: tuple[str, ...] = ()
    sender: str = ""
    signed_at: int | None = None
    #: whether the sender's proof covers the part in which it was found
    vouched: bool = True
    #: whether the inbox's policy matches, provided it matches the message
    matched: bool = True
    warnings: tuple[str, ...] = ()


class Artifact(msgspec.Struct, frozen=True, kw_only=True):
    """A stored artifact, without its value."""

    # From the message that contained it; a later message may update these.
    message_id: str
    #: the number of that message in its inbox
    sequence: int
    #: whether the inbox's policy matches
    matched: bool
    #: sorted; none if the purpose is not clear
    purposes: tuple[str, ...]
    #: the address in From, normalised; empty if there is not exactly one
    sender: str
    sender_domain: str
    #: whether that domain is proven: ``pass``, or why not
    sender_verdict: str
    received_at: int
    #: the Date of the message, if an aligned signature covers it
    signed_at: int | None
    warnings: tuple[str, ...] = ()

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
    #: further messages that contained the same value
    duplicates: int = 0
    superseded_by: str | None = None
    #: the API key that claimed it, and a hash of that key's id and the claim key
    claimed_by: str | None = None
    claim_fingerprint: bytes | None = None
    claimed_at: int | None = None
    #: how often a person released it
    releases: int = 0
    #: when its value was overwritten
    purged_at: int | None = None
    #: until when it is kept for the worker that read it, and a hash of that worker's request
    lease_until: int | None = None
    lease_fingerprint: bytes | None = None
    #: when its claimant said that it was used
    used_at: int | None = None
    #: the artifact of its attempt with the same value, in another inbox; that one is claimed
    same_as: str | None = None

    @property
    def proven(self) -> bool:
        """Whether the sender's domain is proven."""
        return self.sender_verdict == PROVEN_VERDICT

    @property
    def replayed(self) -> bool:
        """Whether its message was perhaps meant for somebody else."""
        return not set(REPLAY_SIGNS).isdisjoint(self.warnings)

    @property
    def claimed(self) -> bool:
        """Whether a claim holds it."""
        return self.state is ArtifactState.CLAIMED

    def belongs_to(self, claim_mark: bytes) -> bool:
        """Return whether this very claim holds it."""
        return self.claimed and self.claim_fingerprint == claim_mark

    def is_leased(self, now: int) -> bool:
        """Return whether it is kept for the worker that read it."""
        return self.lease_until is not None and self.lease_until > now


def candidates_to_keep(found: Extraction) -> list[tuple[Candidate, bool]]:
    """Return the candidates that become artifacts, each with whether it is tied.

    That is the best of each kind; where several are equally good, all of them.
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


def _tied_candidates(ranked: tuple[Candidate, ...]) -> list[Candidate]:
    """Return the doubtful ones; else the first two, and the others with the score of the first."""
    if doubtful := [each for each in ranked if each.doubtful]:
        return doubtful[:_MOST_TIED]
    distinct = {each.value: each for each in reversed(ranked)}
    ordered = [each for each in ranked if distinct.get(each.value) is each]
    equal = [each for each in ordered[2:] if each.score == ordered[0].score]
    return [*ordered[:2], *equal][:_MOST_TIED]


# choice

ConflictReason = Literal["tied", "same_time", "senders_differ", "purposes_differ", "text_doubtful"]
#: every kind of conflict, and its meaning
CONFLICTS: dict[ConflictReason, str] = {
    "tied": "one message has several equally good ones",
    "same_time": "two messages of one sender have the same time",
    "senders_differ": "different senders sent one each",
    "purposes_differ": "one sender sent several for different purposes",
    TEXT_DOUBTFUL: "the right one depends on text that may be hidden from readers",
}


class ArtifactChoice(msgspec.Struct, frozen=True, kw_only=True):
    """The artifact that is meant; none, with a conflict, where several are."""

    artifact: Artifact | None = None
    #: ids of those that are equally good, sorted
    conflict: tuple[str, ...] = ()
    why: ConflictReason | None = None


class Supersession(msgspec.Struct, frozen=True, kw_only=True):
    """The place of an artifact among the others of its inbox and kind, regardless of claims."""

    #: the newer one that replaced it
    superseded_by: str | None = None
    #: its state unless it is claimed
    state: ArtifactState
    #: with ``ORDER_BY_ARRIVAL`` if only arrival makes it newer than others
    warnings: tuple[str, ...]


def choose_artifact(
    candidates: Iterable[Artifact], claim_mark: bytes | None = None, purpose: str = ""
) -> ArtifactChoice:
    """Choose among artifacts of one kind; one claimed by ``claim_mark`` is preferred.

    Artifacts of proven senders exclude those of unproven ones, and artifacts of messages to the
    inbox those of messages that were perhaps meant for somebody else. A newer message replaces an
    older one of the same sender and purpose. A claimed artifact gives way to a newer one of the
    same sender. Where a ``purpose`` is asked for, one that names it excludes the unclear ones of
    the same sender. What remains must be one, or it is a conflict; but a claim that holds one of
    them gets that one again.
    """
    matched = [each for each in candidates if each.matched]
    groups = _by_sender_and_purpose(_most_trusted(matched))
    newest = [each for group in groups for each in _split_newest(group)[0]]
    left = _without_spent(_without_unclear(newest, purpose))
    own = [each for each in left if claim_mark is not None and each.belongs_to(claim_mark)]
    meant = own if len(own) == 1 else left
    if len(meant) > 1 or (meant != own and _is_doubtful(meant)):
        ids = tuple(sorted(each.id for each in meant))
        return ArtifactChoice(conflict=ids, why=_conflict_reason(meant))
    return ArtifactChoice(artifact=meant[0] if meant else None)


def choose_message(candidates: Iterable[Artifact], claim_mark: bytes | None) -> Artifact | None:
    """Choose among awaited messages: the first by number that is free.

    One that the claim holds and has not used comes first, so that a repeat gets the same. As among
    codes, proven senders exclude unproven ones. No message replaces another, and none conflicts.
    If none is free, the result is one that is refused.
    """
    every = sorted(candidates, key=lambda each: each.sequence)
    own = [each for each in every if claim_mark is not None and each.belongs_to(claim_mark)]
    best = _most_trusted(every)
    unused = (each for each in own if each.used_at is None)
    free = (each for each in best if not each.claimed)
    return next(chain(unused, free, own, best), None)


def supersessions(artifacts: Iterable[Artifact]) -> dict[str, Supersession]:
    """Return which artifacts of one inbox and kind are superseded; only matching ones compete."""
    replaced_by: dict[str, str] = {}
    by_arrival: set[str] = set()
    every = list(artifacts)
    for group in _by_sender_and_purpose(each for each in every if each.matched):
        newest, older = _split_newest(group)
        replaced_by |= dict.fromkeys((each.id for each in older), min(each.id for each in newest))
        if _is_by_arrival(newest, older):
            by_arrival |= {each.id for each in newest}
    found = {}
    for each in every:
        newer = replaced_by.get(each.id)
        own = tuple(warning for warning in each.warnings if warning != ORDER_BY_ARRIVAL)
        found[each.id] = Supersession(
            superseded_by=newer,
            state=ArtifactState.SUPERSEDED if newer else ArtifactState.AVAILABLE,
            warnings=(*own, ORDER_BY_ARRIVAL) if each.id in by_arrival else own,
        )
    return found


def _most_trusted(artifacts: list[Artifact]) -> list[Artifact]:
    """Return those of proven senders, if there are any, and of these the ones not replayed."""
    best = [each for each in artifacts if each.proven] or artifacts
    return [each for each in best if not each.replayed] or best


def _sender_identity(artifact: Artifact) -> Hashable:
    """Return what distinguishes senders; a message without a clear one has its own."""
    return artifact.sender or ("message", artifact.message_id)


def _by_sender_and_purpose(artifacts: Iterable[Artifact]) -> list[list[Artifact]]:
    """Group the artifacts that may replace each other: one sender, one purpose.

    Proven and unproven ones are apart, and so are replayed ones: a forged From or a mail to
    somebody else must neither replace the sender's own artifacts nor change their order.
    """
    groups: defaultdict[Hashable, list[Artifact]] = defaultdict(list)
    for each in artifacts:
        groups[_sender_identity(each), each.purposes, each.proven, each.replayed].append(each)
    return list(groups.values())


def _have_signed_dates(group: Iterable[Artifact]) -> bool:
    """Return whether signed dates order these artifacts.

    If one date is unsigned, all are ordered by arrival: a mix of both could be circular.
    """
    return all(each.signed_at is not None for each in group)


def _sent_at(artifact: Artifact, *, signed: bool) -> tuple[int, int]:
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
    """Return whether only arrival decided which are newer."""
    if not _have_signed_dates((*newest, *older)):
        return bool(older)
    return any(each.signed_at == newest[0].signed_at for each in older)


def _without_spent(current: Sequence[Artifact]) -> list[Artifact]:
    """Leave out claimed artifacts for which there is a newer, free one of the same sender."""
    senders: defaultdict[Hashable, list[Artifact]] = defaultdict(list)
    for each in current:
        senders[_sender_identity(each)].append(each)
    spent: set[str] = set()
    for group in senders.values():
        signed = _have_signed_dates(group)
        free = [_sent_at(each, signed=signed) for each in group if not each.claimed]
        claimed = (each for each in group if each.claimed)
        spent |= {each.id for each in claimed if free and _sent_at(each, signed=signed) < max(free)}
    return [each for each in current if each.id not in spent]


def _without_unclear(current: Sequence[Artifact], purpose: str) -> list[Artifact]:
    """Leave out artifacts whose purpose is unclear if another of the sender names the one asked."""
    named = {_sender_identity(each) for each in current if each.purposes}
    return [
        each
        for each in current
        if not (_sender_identity(each) in named and is_unclear(each, purpose))
    ]


def is_unclear(artifact: Artifact, purpose: str) -> bool:
    """Return whether an artifact matches a purpose, of a wait or an inbox, without naming it."""
    return not artifact.purposes and (bool(purpose) or PURPOSE_UNCLEAR in artifact.warnings)


def _conflict_reason(meant: Sequence[Artifact]) -> ConflictReason:
    if len({_sender_identity(each) for each in meant}) > 1:
        return "senders_differ"
    if len({each.purposes for each in meant}) > 1:
        return "purposes_differ"
    if _is_doubtful(meant):
        return TEXT_DOUBTFUL
    return "tied" if len({each.message_id for each in meant}) == 1 else "same_time"


def _is_doubtful(meant: Iterable[Artifact]) -> bool:
    return any(TEXT_DOUBTFUL in each.warnings for each in meant)


# claims

#: why a claim is denied
DenialReason = Literal[
    "not_found",
    "already_claimed",
    "in_flight",
    "used",
    "superseded",
    "unmatched",
    "purged",
    "link_refused",
    "not_opened",
]
#: where a refused link leads: to its sender's own domain, or somewhere else
HostClass = Literal["sender", "other", "none"]


class ArtifactClaimant(msgspec.Struct, frozen=True, kw_only=True):
    """Who claims."""

    tenant: str
    #: the API key; a fixed word for an operator at the terminal
    key_id: str
    #: the only owner whose inboxes are visible; none: any of the tenant
    owner: str | None
    #: distinguishes claims of one key; by default the attempt of the inbox, or the inbox
    claim_key: str | None = None


class AwaitedMessage(msgspec.Struct, frozen=True, kw_only=True):
    """A message that matches a wait, and the artifact it becomes when it is claimed."""

    artifact: Artifact
    #: what makes it the same message in its inbox
    identity: bytes


class CandidateKey(NamedTuple):
    """The artifacts among which a choice is made: the newest of an inbox and kind.

    So many mails of others push out older artifacts; the newest of the named senders are
    candidates in any case.
    """

    inbox_id: str
    kind: ArtifactKind
    #: organisational domains, sorted
    senders: tuple[str, ...] = ()


class ArtifactFilter(msgspec.Struct, frozen=True, kw_only=True):
    """Which artifact of an inbox is wanted, where no id is given."""

    inbox_id: str
    kind: ArtifactKind
    #: only artifacts of these messages; none: of any
    messages: frozenset[str] | None = None
    #: messages that do not match: they supersede none that does
    excluded_messages: frozenset[str] = frozenset()
    #: only artifacts of messages after this number
    after: int = 0
    #: of a link: its host; it is allowed where the inbox allows none explicitly
    host: str = ""
    #: the organisational domains of the senders that were named
    senders: tuple[str, ...] = ()
    #: a domain was given: all its addresses are one sender
    by_domain: bool = False
    #: the purpose that was asked for; empty: any
    purpose: str = ""
    #: of kind message: those of ``messages`` that nobody has claimed yet
    unclaimed: tuple[AwaitedMessage, ...] = ()

    @property
    def candidates(self) -> CandidateKey:
        """The artifacts among which the choice is made."""
        return CandidateKey(self.inbox_id, self.kind, self.senders)

    def matches(self, artifact: Artifact) -> bool:
        """Return whether an artifact of the inbox and kind is wanted."""
        return artifact.sequence > self.after and (
            self.messages is None or artifact.message_id in self.messages
        )


class ArtifactClaimRequest(msgspec.Struct, frozen=True, kw_only=True):
    """A claim: of an artifact by its id, or of the one that a filter describes."""

    claimant: ArtifactClaimant
    #: identifies the worker: a repeat of its request reads its own lease again
    request_fingerprint: bytes = b""
    artifact_id: str | None = None
    artifact_filter: ArtifactFilter | None = None


class ClaimGranted(msgspec.Struct, frozen=True, kw_only=True):
    """The artifact belongs to the claimant; its value is included."""

    artifact: Artifact
    value: ArtifactValue
    #: of a link; the value is then exactly what was checked
    link: LinkParts | None = None
    #: it belonged to the claimant before
    repeated: bool
    #: this very request was granted it before; the answer was lost
    reread: bool = False


class ClaimDenied(msgspec.Struct, frozen=True, kw_only=True):
    """The claimant does not get the artifact."""

    why: DenialReason
    artifact: Artifact | None = None
    #: of a link that the policy refused: its code
    reason: str = ""
    host: HostClass = "none"


class ClaimConflict(msgspec.Struct, frozen=True, kw_only=True):
    """Several artifacts are equally good, and the claimant must choose."""

    kind: ArtifactKind
    artifact_ids: tuple[str, ...]
    why: ConflictReason


#: the result of a claim; None: nothing matches the filter yet
ClaimResult = ClaimGranted | ClaimDenied | ClaimConflict | None
