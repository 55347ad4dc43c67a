"""Artifacts (codes, links, awaited messages): listing, claiming, and waiting for them."""

from typing import Annotated, Literal

import msgspec
from msgspec import UNSET, UnsetType

from oncebox.model.inboxes.artifact import ArtifactState
from oncebox.model.inboxes.inbox import InboxState
from oncebox.model.inboxes.received_mail import ArtifactKind
from oncebox.schemas.fields import ListPage, ListQuery, Reason, Timestamp
from oncebox.schemas.inboxes import DomainName, EmailAddress, SenderRule
from oncebox.schemas.messages import Message, SenderVerdict, Wait

#: no control characters
_LINE = r"^[^\x00-\x1f\x7f-\x9f\u2028\u2029]*$"

ClaimKey = Annotated[
    str,
    msgspec.Meta(
        min_length=1,
        max_length=200,
        pattern=_LINE,
        description="identifies the claimer: a repeat with the same key gets the same grant",
    ),
]
RequestKey = Annotated[
    str,
    msgspec.Meta(
        min_length=8,
        max_length=200,
        pattern=r"^[!-~]+$",
        description="identifies this worker's call: a repeat with the same key reads its lease "
        "again; by default every request is a worker of its own",
    ),
]
Purpose = Literal["signup", "login", "reset", "invite"]


class ArtifactQuery(ListQuery, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Filters for a list of an inbox's artifacts, newest first."""

    kind: ArtifactKind | UnsetType = UNSET
    state: ArtifactState | UnsetType = UNSET


class ClaimArtifact(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A request to claim an artifact."""

    #: default: the attempt of the inbox, or the inbox itself
    claim_key: ClaimKey | None = None
    request_key: RequestKey | None = None


class UseArtifact(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A report that a claimed artifact was used."""


class ReleaseArtifact(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A request to release a claimed artifact."""

    why: Reason


class ArtifactSender(msgspec.Struct, frozen=True, kw_only=True):
    """The sender's domain and its verification; contains no text chosen by the sender."""

    #: in letters, digits and hyphens; empty unless there is exactly one
    domain: str
    #: whether the domain is authenticated
    verdict: SenderVerdict


class ArtifactClaim(msgspec.Struct, frozen=True, kw_only=True):
    """The current claim."""

    at: Timestamp
    #: whether it was claimed with the API key of this request
    mine: bool
    #: until when it is kept for the worker that got it; null: for nobody
    lease_until: Timestamp | None = None
    #: when its claimer reported that it was used
    used_at: Timestamp | None = None


class Artifact(msgspec.Struct, frozen=True, kw_only=True):
    """A code, link or awaited message received by mail, without its value."""

    id: str
    inbox_id: str
    #: the message that contained it
    message_id: str
    #: the position of that message in its inbox
    sequence: int
    kind: ArtifactKind
    state: ArtifactState
    #: from 0 to 1
    confidence: float
    #: whether another candidate in the same message scored equally
    tied: bool
    #: whether its message matches the inbox's policy
    matched: bool
    sender: ArtifactSender
    #: the purpose of the message, judged by its text; empty if unclear
    purposes: list[Purpose]
    received_at: Timestamp
    #: further messages with the same value
    duplicates: int
    #: warning codes
    warnings: list[str]
    #: the artifact that replaced it
    superseded_by: str | None
    claimed: ArtifactClaim | None
    #: whether the value has been deleted
    purged: bool
    #: the artifact of another inbox of the attempt that has the same value; they are one claim
    same_as: str | None = None


class GrantedLink(msgspec.Struct, frozen=True, kw_only=True):
    """The parts of a link, for clients that call it without a browser."""

    host: str
    #: the part that looks like the secret; empty if unclear
    token: str
    parameters: list[tuple[str, str]]

    def __repr__(self) -> str:
        """Show nothing; links must not be logged."""
        return "GrantedLink(***)"

    def __rich_repr__(self) -> list[tuple[str, str]]:
        """Show no more than ``repr`` does."""
        return []


class Grant(Artifact, frozen=True, kw_only=True):
    """An artifact with its value, for the claimer."""

    #: the code, the link exactly as it was checked, or the id of the message
    value: str
    #: null unless it is a link
    link: GrantedLink | None
    #: whether the same claim was granted before
    repeated: bool
    #: of a message: itself, as far as the key may read it
    message: Message | UnsetType = UNSET

    def __repr__(self) -> str:
        """Show the id, not the value; values must not be logged."""
        return f"Grant(id={self.id!r}, kind={self.kind.value!r}, value=***)"

    def __rich_repr__(self) -> list[tuple[str, str]]:
        """Show no more than ``repr`` does."""
        return []


class ArtifactPage(ListPage, frozen=True, kw_only=True):
    """A page of an inbox's artifacts, newest first."""

    data: list[Artifact]


InboxId = Annotated[str, msgspec.Meta(min_length=1, max_length=100, pattern=r"^[!-~]+$")]
SubjectPattern = Annotated[
    str,
    msgspec.Meta(
        min_length=1,
        max_length=200,
        pattern=_LINE,
        description="glob pattern for the whole subject: * matches anything, ? one character",
    ),
]
ResumeToken = Annotated[
    str,
    msgspec.Meta(
        description="opaque token from the previous response",
        # Documentation only: the token is validated as a whole.
        extra_json_schema={"pattern": "^w1_[A-Za-z0-9_-]{38,8000}$"},
    ),
]


SenderRules = SenderRule | Annotated[list[SenderRule], msgspec.Meta(min_length=1, max_length=50)]


class WaitRequest(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What to wait for; fields left out match anything."""

    kind: Literal["code", "link", "message"]
    #: one or several of: an address, a domain with its subdomains, ``*.`` and a domain
    sender: SenderRules | None = None
    #: the purpose of the message, judged by its text
    purpose: Literal["any", "signup", "login", "reset", "invite"] = "any"
    #: text that the recipient, the subject or the visible text must contain
    token: Annotated[str, msgspec.Meta(min_length=1, max_length=200, pattern=_LINE)] | None = None
    subject: SubjectPattern | None = None
    #: the address the message was sent to, including the part after a plus sign
    recipient: EmailAddress | None = None
    #: identifies the claimer; default: the attempt of the inbox, or the inbox itself
    claim_key: ClaimKey | None = None
    #: only messages after this ``cursor`` of an inbox or ``sequence`` of a message
    after: Annotated[int, msgspec.Meta(ge=0, le=2**53)] = 0
    #: the host a link must point to; one of the inbox's link_hosts if it has any
    host: DomainName | None = None
    #: whether the message has attachments, inline ones not counted
    has_attachment: bool | None = None
    wait: Wait = 0
    resume: ResumeToken | None = None
    request_key: RequestKey | None = None
    #: whether nobody asks again after a timeout, so that the wait counts as timed out
    last: bool = True


class WaitAnyRequest(WaitRequest, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What to wait for in any of several inboxes."""

    inboxes: Annotated[list[InboxId], msgspec.Meta(min_length=1, max_length=100)]


class InspectedMessage(msgspec.Struct, frozen=True, kw_only=True):
    """A message that did not match the wait."""

    message_id: str
    sequence: int
    #: reason code
    why: str
    #: of the sender, in letters, digits and hyphens; empty unless there is exactly one
    sender_domain: str = ""
    #: the sender rules that it does not match, of the inbox or of the wait
    sender_rules: list[str] = []


class WaitReport(msgspec.Struct, frozen=True, kw_only=True):
    """The state of a wait on one inbox."""

    inbox_id: str
    attempt_id: str | None
    state: InboxState
    #: the sequence number of its last message
    cursor: int
    messages_inspected: int
    #: the latest of them, oldest first
    seen: list[InspectedMessage]
    #: whether any mail arrived for the inbox, by SMTP, a webhook or a mailbox
    smtp_saw: bool
    #: mails that were accepted and are not parsed yet
    unread: int
    #: warning codes about the inbox's policy
    warnings: list[str] = []


class WaitConflict(msgspec.Struct, frozen=True, kw_only=True):
    """Several artifacts that match equally well."""

    inbox_id: str
    why: str
    artifact_ids: list[str]


class WaitInFlight(msgspec.Struct, frozen=True, kw_only=True):
    """A matching artifact that another worker of the same attempt holds."""

    artifact_id: str
    inbox_id: str
    #: until the lease ends, unless it is used before
    seconds_left: float


class WaitResult(msgspec.Struct, frozen=True, kw_only=True):
    """The result of a wait."""

    #: ``in_flight``: another worker of this attempt holds it; do not request another one
    status: Literal["granted", "conflict", "timeout", "in_flight", "inbox_closed"]
    #: granted to you; a repeat of the same request gets the same grant
    grant: Grant | UnsetType = UNSET
    conflict: WaitConflict | UnsetType = UNSET
    in_flight: WaitInFlight | UnsetType = UNSET
    #: after a timeout: send it with the same request to continue the wait
    resume: str | UnsetType = UNSET
    #: seconds since the first request of this wait
    waited: float = 0.0
    #: one per inbox, unless something was granted
    reports: list[WaitReport] = []

    @property
    def report(self) -> WaitReport | None:
        """The first report."""
        return self.reports[0] if self.reports else None
