"""Inboxes and domains: request and response bodies; durations in seconds."""

from typing import Annotated, Literal

import msgspec
from msgspec import UNSET, UnsetType

from oncebox.model.inboxes.inbox import InboxState
from oncebox.schemas.fields import ListPage, ListQuery, Timestamp

_LABEL = r"[A-Za-z0-9]([A-Za-z0-9-]{0,61}[A-Za-z0-9])?"
#: a domain in letters, digits and hyphens; international names are converted to this form
DOMAIN = rf"({_LABEL}\.)+[A-Za-z]([A-Za-z0-9-]{{0,61}}[A-Za-z0-9])?"

DomainName = Annotated[
    str,
    msgspec.Meta(
        min_length=3,
        max_length=253,
        description="a domain, such as inbox.example.com",
        # Documentation only: the model validates it, and accepts other alphabets too.
        extra_json_schema={"pattern": f"^{DOMAIN}$"},
    ),
]


class NewDomain(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A domain to receive mail for."""

    name: DomainName
    #: create an inbox for all unknown addresses of the domain; otherwise they are rejected
    catch_all: bool = False


class DnsRecord(msgspec.Struct, frozen=True, kw_only=True):
    """A DNS record to create."""

    type: str
    name: str
    value: str


class Domain(msgspec.Struct, frozen=True, kw_only=True):
    """A domain that receives mail."""

    name: str
    #: the inbox for unknown addresses; null: they are rejected
    catch_all: str | None
    #: new inboxes use this domain by default
    is_default: bool
    #: 0 for the default domain, which always exists
    created_at: Timestamp
    #: the DNS records that route its mail here
    records: list[DnsRecord]


class DomainPage(ListPage, frozen=True, kw_only=True):
    """A page of domains, by name."""

    data: list[Domain]


#: no control characters
_LINE = r"^[^\x00-\x1f\x7f-\x9f\u2028\u2029]*$"

Seconds = Annotated[float, msgspec.Meta(ge=0, le=3_000_000_000, description="seconds")]
AttemptId = Annotated[
    str,
    msgspec.Meta(
        min_length=1,
        max_length=200,
        pattern=_LINE,
        description="identifies what the agent attempts",
    ),
]
Label = Annotated[
    str,
    msgspec.Meta(max_length=100, pattern=_LINE, description="distinguishes inboxes of one attempt"),
]
#: atoms between single dots, without a plus sign, and with one
_ATOM, _TAGGED = r"[A-Za-z0-9#$&'*/=?^_`{|}~-]+", r"[A-Za-z0-9#$&'*+/=?^_`{|}~-]+"
LocalPart = Annotated[
    str,
    msgspec.Meta(
        min_length=1,
        max_length=64,
        description="the part before the @",
        extra_json_schema={"pattern": rf"^{_ATOM}(\.{_ATOM})*$"},
    ),
]
SenderRule = Annotated[
    str,
    msgspec.Meta(
        min_length=3,
        max_length=253,
        description="an address, a domain with its subdomains, or *. and a domain",
        extra_json_schema={"pattern": rf"^({_TAGGED}(\.{_TAGGED})*@|\*\.)?{DOMAIN}$"},
    ),
]
LinkOrigin = Annotated[
    str,
    msgspec.Meta(
        min_length=8,
        max_length=100,
        description="scheme, host and optional port, such as http://localhost:3000",
        extra_json_schema={
            "pattern": r"^https?://[a-z0-9]([a-z0-9.-]*[a-z0-9])?(:[1-9][0-9]{0,4})?$"
        },
    ),
]
EmailAddress = Annotated[
    str,
    msgspec.Meta(
        min_length=3,
        max_length=253,
        description="a full email address",
        extra_json_schema={"pattern": rf"^{_TAGGED}(\.{_TAGGED})*@{DOMAIN}$"},
    ),
]
LinkHost = Annotated[
    str,
    msgspec.Meta(
        min_length=1,
        max_length=250,
        description="a host, *. and a host, https:// and a path, or * for any public name",
        # The usual forms; the model validates the others.
        extra_json_schema={"pattern": rf"^(\*\.)?{DOMAIN}$"},
    ),
]
MetadataName = Annotated[str, msgspec.Meta(min_length=1, max_length=64, pattern=_LINE)]
MetadataValue = Annotated[str, msgspec.Meta(max_length=500, pattern=_LINE)]
Metadata = Annotated[
    dict[MetadataName, MetadataValue],
    msgspec.Meta(max_length=16, description="your own data; returned with every event"),
]


Token = Annotated[str, msgspec.Meta(min_length=1, max_length=200, pattern=_LINE)]
PolicyPurpose = Literal["any", "signup", "login", "reset", "invite"]
Resends = Annotated[int, msgspec.Meta(ge=0, le=100)]


class Policy(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Which messages match; an empty policy matches every message."""

    #: addresses, domains with their subdomains, or ``*.`` and a domain for its subdomains only;
    #: empty: any sender
    senders: Annotated[list[SenderRule], msgspec.Meta(max_length=50)] = []
    #: whether SPF or DKIM must authenticate the sender's domain; null: where senders are named
    authenticated: bool | None = None
    #: whether signed mail that is addressed to somebody else counts: forwarded, or a Bcc
    forwards: bool = False
    #: hosts that links may point to
    link_hosts: Annotated[list[LinkHost], msgspec.Meta(max_length=50)] = []
    #: exact origins for tests; not for agents
    link_origins: Annotated[list[LinkOrigin], msgspec.Meta(max_length=50)] = []
    #: text that the recipient, the subject or the visible text must contain
    token: Token | None = None
    #: the purpose of the message, judged by its text
    purpose: PolicyPurpose = "any"
    #: how often the message may be requested again
    resends: Resends = 1


class PolicyChange(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Changes to the policy of an inbox; fields left out stay unchanged."""

    senders: Annotated[list[SenderRule], msgspec.Meta(max_length=50)] | UnsetType = UNSET
    authenticated: bool | UnsetType | None = UNSET
    forwards: bool | UnsetType = UNSET
    link_hosts: Annotated[list[LinkHost], msgspec.Meta(max_length=50)] | UnsetType = UNSET
    #: not for agents
    link_origins: Annotated[list[LinkOrigin], msgspec.Meta(max_length=50)] | UnsetType = UNSET
    token: Token | UnsetType | None = UNSET
    purpose: PolicyPurpose | UnsetType = UNSET
    resends: Resends | UnsetType = UNSET


class NewInbox(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """An inbox to create; the same attempt and label mean the same inbox."""

    attempt_id: AttemptId | None = None
    label: Label = ""
    #: one of your domains; default: the default domain
    domain: DomainName | None = None
    #: the part before the ``@``; default: unguessable; not for agents
    local: LocalPart | None = None
    #: seconds for which it is active; 0: no end; null: the configured default
    lifetime: Seconds | None = None
    metadata: Metadata = {}
    policy: Policy = Policy()


class NewInboxes(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Several inboxes to create, all or none."""

    inboxes: Annotated[list[NewInbox], msgspec.Meta(min_length=1, max_length=500)]


class CloseInbox(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Options for closing or rotating an inbox."""

    #: seconds for which mail is still accepted; null: the configured default
    drain: Seconds | None = None


class Inbox(msgspec.Struct, frozen=True, kw_only=True):
    """An inbox: one address with its policy and state."""

    id: str
    #: the address
    email: str
    attempt_id: str | None
    label: str
    state: InboxState
    created_at: Timestamp
    #: null: no end
    active_until: Timestamp | None
    #: when a draining inbox stops accepting mail
    drains_until: Timestamp | None
    ended_at: Timestamp | None
    #: the sequence number of its last message
    cursor: int
    metadata: dict[str, str]
    policy: Policy
    #: warning codes about the policy
    warnings: list[str] = []
    #: the inbox that this one replaced
    rotated_from: str | None
    #: the inbox that replaced this one
    rotated_to: str | None


class CreatedInbox(Inbox, frozen=True, kw_only=True):
    """An inbox and whether it is new."""

    #: false if it already existed
    created: bool


class CreatedInboxes(msgspec.Struct, frozen=True, kw_only=True):
    """The inboxes, in request order."""

    data: list[CreatedInbox]


class InboxPage(ListPage, frozen=True, kw_only=True):
    """A page of inboxes, newest first."""

    data: list[Inbox]


class InboxQuery(ListQuery, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Filters for a list of inboxes."""

    attempt_id: AttemptId | UnsetType = UNSET
    state: InboxState | UnsetType = UNSET


InboxesByState = dict[Literal["active", "draining", "closed", "expired"], int]


class MessageStats(msgspec.Struct, frozen=True, kw_only=True):
    """Message counts and times."""

    messages: int
    #: further copies of the same messages, also those that SMTP delivered again
    duplicates: int
    #: messages that matched the policy
    matched: int
    created_at: Timestamp
    first_message_at: Timestamp | None
    last_message_at: Timestamp | None
    #: seconds from creation to the first message
    time_to_first_message: float | None
    #: requests that waited for a code, a link or a message, or listed messages
    polls: int = 0
    #: waits that ended without a code or link
    timeouts: int = 0
    #: codes and links that arrived again in further messages
    artifact_duplicates: int = 0
    #: lists of messages that were read again from an earlier cursor
    cursor_replays: int = 0
    #: waits and claims that met the lease of another worker
    lease_conflicts: int = 0


class InboxStats(MessageStats, frozen=True, kw_only=True):
    """Statistics of an inbox."""

    id: str
    state: InboxState
    #: when it expired without a matching message
    missed_at: Timestamp | None


class AttemptInboxStats(MessageStats, frozen=True, kw_only=True):
    """Statistics of all inboxes of an attempt."""

    attempt_id: str
    inboxes: int
    #: number of inboxes by state
    states: InboxesByState
    #: inboxes that expired without a matching message
    missed: int
