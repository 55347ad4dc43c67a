"""Artifacts (codes and links): listing, claiming, and waiting for them."""

from typing import Annotated, Literal

import msgspec
from msgspec import UNSET, UnsetType

from oncebox.model.inboxes.artifact import ArtifactState
from oncebox.model.inboxes.inbox import InboxState
from oncebox.model.inboxes.received_mail import ArtifactKind
from oncebox.schemas.fields import ListPage, ListQuery, Reason, Timestamp
from oncebox.schemas.inboxes import DomainName, EmailAddress, SenderRule
from oncebox.schemas.messages import Wait

#: no control characters
_LINE = r"^[^\x00-\x1f\x7f-\x9f\u2028\u2029]*$"

ClaimKey = Annotated[
    str,
    msgspec.Meta(
        min_length=1,
        max_length=200,
        pattern=_LINE,
        description="who claims: the same one gets it again, another one does not",
    ),
]
Purpose = Literal["signup", "login", "reset", "invite"]


class ArtifactQuery(ListQuery, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Which artifacts of an inbox are wanted, newest first."""

    kind: ArtifactKind | UnsetType = UNSET
    state: ArtifactState | UnsetType = UNSET


class ClaimArtifact(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Who claims."""

    #: the attempt of its inbox unless set, and without one the inbox
    claim_key: ClaimKey | None = None


class ReleaseArtifact(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Why an artifact is taken back from who has claimed it."""

    why: Reason


class ArtifactSender(msgspec.Struct, frozen=True, kw_only=True):
    """What is known of who sent it; nothing here is the sender's own text."""

    #: in letters, digits and hyphens; empty if there is not exactly one
    domain: str
    #: whether that domain is proven
    verdict: Literal["pass", "fail", "temperror", "permerror", "none", "ambiguous", "missing"]


class ArtifactClaim(msgspec.Struct, frozen=True, kw_only=True):
    """Who has it."""

    at: Timestamp
    #: whether it was claimed with the key that asks
    mine: bool


class Artifact(msgspec.Struct, frozen=True, kw_only=True):
    """A code or a link that came by mail, without what it says."""

    id: str
    inbox_id: str
    #: the message that brought it
    message_id: str
    #: the place of that message in its inbox
    sequence: int
    kind: ArtifactKind
    state: ArtifactState
    #: from 0 to 1
    confidence: float
    #: another one of the same message is as good
    tied: bool
    #: whether the inbox's policy lets its message through
    matched: bool
    sender: ArtifactSender
    #: what the message is about, by its words; empty if that is not clear
    purposes: list[Purpose]
    received_at: Timestamp
    #: further messages that brought the same
    duplicates: int
    #: codes of what a reader should know
    warnings: list[str]
    #: the one that took its place
    superseded_by: str | None
    claimed: ArtifactClaim | None
    #: what it says is no longer kept
    purged: bool


class GrantedLink(msgspec.Struct, frozen=True, kw_only=True):
    """A link in parts, so that a call can replace a browser."""

    host: str
    #: what looks like the secret in it; empty if that is not clear
    token: str
    parameters: list[tuple[str, str]]

    def __repr__(self) -> str:
        """Show nothing: this must not end up in a log."""
        return "GrantedLink(***)"

    def __rich_repr__(self) -> list[tuple[str, str]]:
        """Show no more than ``repr`` does."""
        return []


class Grant(Artifact, frozen=True, kw_only=True):
    """An artifact and what it says, for who has claimed it."""

    #: the code, or the link exactly as it was judged
    value: str
    #: none for a code
    link: GrantedLink | None
    #: it was granted to the same claim before
    repeated: bool

    def __repr__(self) -> str:
        """Show which one it is, not what it says: this must not end up in a log."""
        return f"Grant(id={self.id!r}, kind={self.kind.value!r}, value=***)"

    def __rich_repr__(self) -> list[tuple[str, str]]:
        """Show no more than ``repr`` does."""
        return []


class ArtifactPage(ListPage, frozen=True, kw_only=True):
    """Some artifacts of an inbox, newest first."""

    data: list[Artifact]


InboxId = Annotated[str, msgspec.Meta(min_length=1, max_length=100, pattern=r"^[!-~]+$")]
SubjectPattern = Annotated[
    str,
    msgspec.Meta(
        min_length=1,
        max_length=200,
        pattern=_LINE,
        description="of the whole subject; * is anything, ? any one character",
    ),
]
ResumeToken = Annotated[
    str,
    msgspec.Meta(
        description="as the answer before had it; opaque",
        # Said to the outside, but judged with the rest of it.
        extra_json_schema={"pattern": "^w1_[A-Za-z0-9_-]{38,8000}$"},
    ),
]


class WaitRequest(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What is waited for; what is not said may be anything."""

    kind: Literal["code", "link"]
    #: an address, a domain, or ``*.`` and a domain for all below it
    sender: SenderRule | None = None
    #: what the message is about, by its words
    purpose: Literal["any", "signup", "login", "reset", "invite"] = "any"
    #: must stand in the recipient, the subject or the visible text
    token: Annotated[str, msgspec.Meta(min_length=1, max_length=200, pattern=_LINE)] | None = None
    subject: SubjectPattern | None = None
    #: the address that the message was sent to, with whatever stands behind the plus sign
    recipient: EmailAddress | None = None
    #: for whom it is claimed: the same one gets it again; the attempt, else the inbox, unless set
    claim_key: ClaimKey | None = None
    #: only messages with a higher number: ``cursor`` of the inbox, or ``sequence`` of a message
    after: Annotated[int, msgspec.Meta(ge=0, le=2**53)] = 0
    #: of a link: the host that it must lead to; one of the inbox's link_hosts if it has any
    host: DomainName | None = None
    wait: Wait = 0
    resume: ResumeToken | None = None


class WaitAnyRequest(WaitRequest, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The same in any of several inboxes."""

    inboxes: Annotated[list[InboxId], msgspec.Meta(min_length=1, max_length=100)]


class InspectedMessage(msgspec.Struct, frozen=True, kw_only=True):
    """A message that is not what is waited for."""

    message_id: str
    sequence: int
    #: a code of why not
    why: str


class WaitReport(msgspec.Struct, frozen=True, kw_only=True):
    """How a wait for an inbox stands."""

    inbox_id: str
    attempt_id: str | None
    state: InboxState
    #: the number of its last message
    cursor: int
    messages_inspected: int
    #: the last of them, oldest first
    seen: list[InspectedMessage]
    #: whether any mail for the inbox was taken by SMTP at all
    smtp_saw: bool
    #: mails that were taken and are not read yet
    unread: int


class WaitConflict(msgspec.Struct, frozen=True, kw_only=True):
    """Several that are meant equally, so that nobody can know which one is."""

    inbox_id: str
    why: str
    artifact_ids: list[str]


class WaitResult(msgspec.Struct, frozen=True, kw_only=True):
    """What came of a wait."""

    status: Literal["granted", "conflict", "timeout", "inbox_closed"]
    #: it is yours; a repeat of the same request is granted the same again
    grant: Grant | UnsetType = UNSET
    conflict: WaitConflict | UnsetType = UNSET
    #: give it with the same request to go on; after a timeout
    resume: str | UnsetType = UNSET
    #: seconds since the first of the requests that this one resumed
    waited: float = 0.0
    #: one for each inbox, unless something was granted
    reports: list[WaitReport] = []

    @property
    def report(self) -> WaitReport | None:
        """The first report."""
        return self.reports[0] if self.reports else None
