"""Inboxes and domains: request and response bodies; durations in seconds."""

from typing import Annotated, Literal

import msgspec
from msgspec import UNSET, UnsetType

from oncebox.model.inboxes.inbox import InboxState
from oncebox.schemas.fields import ListPage, ListQuery, Timestamp

_LABEL = r"[A-Za-z0-9]([A-Za-z0-9-]{0,61}[A-Za-z0-9])?"
#: a domain in letters, digits and hyphens; others are taken, and written so
DOMAIN = rf"({_LABEL}\.)+[A-Za-z]([A-Za-z0-9-]{{0,61}}[A-Za-z0-9])?"

DomainName = Annotated[
    str,
    msgspec.Meta(
        min_length=3,
        max_length=253,
        description="a domain, such as inbox.example.com",
        # Said to the outside, but judged by the model, which knows other alphabets too.
        extra_json_schema={"pattern": f"^{DOMAIN}$"},
    ),
]


class NewDomain(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A domain to take mail for."""

    name: DomainName
    #: make an inbox for every address of it that no inbox has; else they are refused
    catch_all: bool = False


class DnsRecord(msgspec.Struct, frozen=True, kw_only=True):
    """A record to set in the DNS."""

    type: str
    name: str
    value: str


class Domain(msgspec.Struct, frozen=True, kw_only=True):
    """A domain that mail is taken for."""

    name: str
    #: the inbox for addresses that no inbox has; none: they are refused
    catch_all: str | None
    #: addresses are of this domain where none is named
    is_default: bool
    #: 0 for the default one, which is there by itself
    created_at: Timestamp
    #: what must be set in the DNS, so that mail comes here
    records: list[DnsRecord]


class DomainPage(ListPage, frozen=True, kw_only=True):
    """Some of the domains, by name."""

    data: list[Domain]


#: no control characters
_LINE = r"^[^\x00-\x1f\x7f-\x9f\u2028\u2029]*$"

Seconds = Annotated[float, msgspec.Meta(ge=0, le=3_000_000_000, description="seconds")]
AttemptId = Annotated[
    str,
    msgspec.Meta(
        min_length=1, max_length=200, pattern=_LINE, description="what the agent attempts"
    ),
]
Label = Annotated[
    str,
    msgspec.Meta(max_length=100, pattern=_LINE, description="tells inboxes of one attempt apart"),
]
#: atoms between single dots, without a plus sign, and with one
_ATOM, _TAGGED = r"[A-Za-z0-9#$&'*/=?^_`{|}~-]+", r"[A-Za-z0-9#$&'*+/=?^_`{|}~-]+"
LocalPart = Annotated[
    str,
    msgspec.Meta(
        min_length=1,
        max_length=64,
        description="before the @",
        extra_json_schema={"pattern": rf"^{_ATOM}(\.{_ATOM})*$"},
    ),
]
SenderRule = Annotated[
    str,
    msgspec.Meta(
        min_length=3,
        max_length=253,
        description="an address, a domain, or *. and a domain",
        extra_json_schema={"pattern": rf"^({_TAGGED}(\.{_TAGGED})*@|\*\.)?{DOMAIN}$"},
    ),
]
LinkOrigin = Annotated[
    str,
    msgspec.Meta(
        min_length=8,
        max_length=100,
        description="a scheme, a host and perhaps a port, such as http://localhost:3000",
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
        description="a whole address",
        extra_json_schema={"pattern": rf"^{_TAGGED}(\.{_TAGGED})*@{DOMAIN}$"},
    ),
]
LinkHost = Annotated[
    str,
    msgspec.Meta(
        min_length=1,
        max_length=250,
        description="a host, *. and a host, https:// and a path, or * for any public name",
        # The usual forms; the others are judged by the model too.
        extra_json_schema={"pattern": rf"^(\*\.)?{DOMAIN}$"},
    ),
]
MetadataName = Annotated[str, msgspec.Meta(min_length=1, max_length=64, pattern=_LINE)]
MetadataValue = Annotated[str, msgspec.Meta(max_length=500, pattern=_LINE)]
Metadata = Annotated[
    dict[MetadataName, MetadataValue],
    msgspec.Meta(max_length=16, description="yours; it comes back on every event"),
]


class Policy(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Which messages match; an empty one lets every message through."""

    #: addresses, domains, or ``*.`` and a domain for all below it; anybody if there are none
    senders: Annotated[list[SenderRule], msgspec.Meta(max_length=50)] = []
    #: whether the sender's domain must have vouched for the message by SPF or DKIM
    authenticated: bool = False
    #: where links may lead
    link_hosts: Annotated[list[LinkHost], msgspec.Meta(max_length=50)] = []
    #: exact origins for tests; not for agents
    link_origins: Annotated[list[LinkOrigin], msgspec.Meta(max_length=50)] = []
    #: must stand in the recipient, the subject or the visible text
    token: Annotated[str, msgspec.Meta(min_length=1, max_length=200, pattern=_LINE)] | None = None
    #: what the message is about, by its words
    purpose: Literal["any", "signup", "login", "reset", "invite"] = "any"
    #: how often the message may be asked for again
    resends: Annotated[int, msgspec.Meta(ge=0, le=100)] = 1


class NewInbox(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """An inbox to be made; the same attempt and label are the same inbox."""

    attempt_id: AttemptId | None = None
    label: Label = ""
    #: one of your domains; the default one unless set
    domain: DomainName | None = None
    #: the part before the ``@``; one that nobody guesses unless set; not for agents
    local: LocalPart | None = None
    #: seconds for which it is active; 0 is for ever, null as in the settings
    lifetime: Seconds | None = None
    metadata: Metadata = {}
    policy: Policy = Policy()


class NewInboxes(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Several inboxes to be made, all or none."""

    inboxes: Annotated[list[NewInbox], msgspec.Meta(min_length=1, max_length=500)]


class CloseInbox(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """How an inbox is closed or rotated."""

    #: seconds for which mail that is on its way is still taken; null as in the settings
    drain: Seconds | None = None


class Inbox(msgspec.Struct, frozen=True, kw_only=True):
    """One address, and what it is for."""

    id: str
    #: the address
    email: str
    attempt_id: str | None
    label: str
    state: InboxState
    created_at: Timestamp
    #: none: for ever
    active_until: Timestamp | None
    #: until when mail is still taken, once it drains
    drains_until: Timestamp | None
    ended_at: Timestamp | None
    #: the number of its last message
    cursor: int
    metadata: dict[str, str]
    policy: Policy
    #: the inbox that it took the place of
    rotated_from: str | None
    #: the inbox that took its place
    rotated_to: str | None


class CreatedInbox(Inbox, frozen=True, kw_only=True):
    """An inbox, and whether it is new."""

    #: false where the attempt had it already
    created: bool


class CreatedInboxes(msgspec.Struct, frozen=True, kw_only=True):
    """Inboxes, in the order in which they were asked for."""

    data: list[CreatedInbox]


class InboxPage(ListPage, frozen=True, kw_only=True):
    """Some of the inboxes, newest first."""

    data: list[Inbox]


class InboxQuery(ListQuery, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Which inboxes are wanted."""

    attempt_id: AttemptId | UnsetType = UNSET
    state: InboxState | UnsetType = UNSET


class MessageStats(msgspec.Struct, frozen=True, kw_only=True):
    """What came of it."""

    messages: int
    #: copies of messages that were there already
    duplicates: int
    #: messages that the policy let through
    matched: int
    created_at: Timestamp
    first_message_at: Timestamp | None
    last_message_at: Timestamp | None
    #: seconds from the beginning to the first message
    time_to_first_message: float | None


class InboxStats(MessageStats, frozen=True, kw_only=True):
    """What came of an inbox."""

    id: str
    state: InboxState
    #: when its time was over with nothing matched
    missed_at: Timestamp | None


class AttemptInboxStats(MessageStats, frozen=True, kw_only=True):
    """What came of all inboxes of an attempt."""

    attempt_id: str
    inboxes: int
    #: how many inboxes are in which state
    states: dict[Literal["active", "draining", "closed", "expired"], int]
    #: inboxes whose time was over with nothing matched
    missed: int
