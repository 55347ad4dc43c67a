"""Waits, as the outside sees them: what is waited for, what came of it, and why nothing did."""

from typing import Annotated, Literal

import msgspec
from msgspec import UNSET, UnsetType

from oncebox.model.inbox import InboxState
from oncebox.wire.artifacts import ClaimKey, Grant
from oncebox.wire.domains import DomainName
from oncebox.wire.inboxes import Address, Sender
from oncebox.wire.messages import Wait

#: no control characters
_LINE = r"^[^\x00-\x1f\x7f-\x9f\u2028\u2029]*$"

InboxId = Annotated[str, msgspec.Meta(min_length=1, max_length=100, pattern=r"^[!-~]+$")]
Pattern = Annotated[
    str,
    msgspec.Meta(
        min_length=1,
        max_length=200,
        pattern=_LINE,
        description="of the whole subject; * is anything, ? any one character",
    ),
]
Resume = Annotated[
    str,
    msgspec.Meta(
        description="as the answer before had it; opaque",
        # Said to the outside, but judged with the rest of it.
        extra_json_schema={"pattern": "^w1_[A-Za-z0-9_-]{38,8000}$"},
    ),
]


class WaitFor(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What is waited for; what is not said may be anything."""

    kind: Literal["code", "link"]
    #: an address, a domain, or ``*.`` and a domain for all below it
    sender: Sender | None = None
    #: what the message is about, by its words
    purpose: Literal["any", "signup", "login", "reset", "invite"] = "any"
    #: must stand in the recipient, the subject or the visible text
    token: Annotated[str, msgspec.Meta(min_length=1, max_length=200, pattern=_LINE)] | None = None
    subject: Pattern | None = None
    #: the address that the message was sent to, with whatever stands behind the plus sign
    recipient: Address | None = None
    #: for whom it is claimed: the same one gets it again; the attempt, else the inbox, unless set
    claim_key: ClaimKey | None = None
    #: only messages with a higher number: ``cursor`` of the inbox, or ``sequence`` of a message
    after: Annotated[int, msgspec.Meta(ge=0, le=2**53)] = 0
    #: of a link: the host that it must lead to; one of the inbox's link_hosts if it has any
    host: DomainName | None = None
    wait: Wait = 0
    resume: Resume | None = None


class WaitForAny(WaitFor, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The same in any of several inboxes."""

    inboxes: Annotated[list[InboxId], msgspec.Meta(min_length=1, max_length=100)]


class SeenMessage(msgspec.Struct, frozen=True, kw_only=True):
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
    seen: list[SeenMessage]
    #: whether any mail for the inbox was taken by SMTP at all
    smtp_saw: bool
    #: mails that were taken and are not read yet
    unread: int


class WaitConflict(msgspec.Struct, frozen=True, kw_only=True):
    """Several that are meant equally, so that nobody can know which one is."""

    inbox_id: str
    why: str
    artifact_ids: list[str]


class Waited(msgspec.Struct, frozen=True, kw_only=True):
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
