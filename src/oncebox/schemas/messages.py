"""Messages: typed fields for agents, the full content for operators."""

from typing import Annotated, Literal

import msgspec
from msgspec import UNSET, UnsetType

from oncebox.schemas.fields import ListPage, ListQuery, Timestamp

Wait = Annotated[
    float, msgspec.Meta(ge=0, le=55, description="seconds to wait while there is nothing")
]
AuthResult = Literal["pass", "fail", "softfail", "neutral", "none", "temperror", "permerror"]


class MessageQuery(ListQuery, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Which messages of an inbox are wanted, in the order in which they were filed."""

    wait: Wait = 0
    #: also what was written, for keys that may read it
    text: bool = False


class MessageSender(msgspec.Struct, frozen=True, kw_only=True):
    """What is known of who sent a message; nothing here is the sender's own text."""

    #: of the one address in From, in letters, digits and hyphens; empty if there is none
    domain: str
    #: whether that domain is proven
    verdict: Literal["pass", "fail", "temperror", "permerror", "none", "ambiguous", "missing"]
    spf: AuthResult | UnsetType = UNSET
    dkim: AuthResult | UnsetType = UNSET
    dmarc: AuthResult | UnsetType = UNSET


class MessageText(msgspec.Struct, frozen=True, kw_only=True):
    """What was written: cut short, without invisible characters, links replaced."""

    subject: str
    #: the name beside the address in From
    sender_name: str
    text: str
    #: names of attachments
    attachments: list[str]
    #: there is more than is shown
    cut: bool
    #: invisible characters that were taken out
    removed: int
    #: links that were replaced
    links: int


class MessageAddress(msgspec.Struct, frozen=True, kw_only=True):
    """An address and the name beside it."""

    name: str
    address: str


class MessageAttachment(msgspec.Struct, frozen=True, kw_only=True):
    """What is known of an attachment without opening it."""

    #: its place among the attachments, from 1
    number: int
    name: str
    media_type: str
    size: int
    sha256: str
    inline: bool
    content_id: str


class MessageCopy(msgspec.Struct, frozen=True, kw_only=True):
    """One delivery that brought the message."""

    delivery_id: str
    at: Timestamp
    #: the way it came in
    road: str
    #: parts in which it differs from the first
    differs: list[str]


class MessagePeer(msgspec.Struct, frozen=True, kw_only=True):
    """Who brought the message, in its own words."""

    #: the address that connected
    client: str
    helo: str
    #: MAIL FROM
    sender: str
    tls: str


class MessageContent(msgspec.Struct, frozen=True, kw_only=True):
    """Everything that was read of a message; a stranger's text."""

    message_id: str
    date: Timestamp | None
    subject: str
    sender: MessageAddress
    reply_to: list[MessageAddress]
    to: list[MessageAddress]
    cc: list[MessageAddress]
    #: names in lower case, each with all its values
    headers: list[tuple[str, list[str]]]
    #: what a person would see
    text: str
    #: what is there but not seen
    hidden: str
    text_from: Literal["plain", "html", "none"]
    attachments: list[MessageAttachment]
    #: a program sent it by itself
    auto_submitted: bool
    carrier: MessagePeer
    #: codes of what was found about the sender
    details: list[str]


class Message(msgspec.Struct, frozen=True, kw_only=True):
    """A message; which of the last four fields are there depends on the key."""

    id: str
    inbox_id: str
    #: its place in the inbox: the order in which messages were filed
    sequence: int
    received_at: Timestamp
    status: Literal["parsed", "limited", "unparsed"]
    #: bytes as received
    size: int
    sender: MessageSender
    #: whether it is what its inbox expects
    matched: bool
    #: further deliveries of the same message
    duplicates: int
    #: codes of what a reader should know
    warnings: list[str]
    #: give it as ``cursor`` to go on after this one; in lists
    cursor: str | UnsetType = UNSET
    #: why it is not what its inbox expects
    mismatch: str | UnsetType = UNSET
    #: how many attachments it has
    attachments: int | UnsetType = UNSET
    #: what was read is no longer kept
    purged: bool = False
    #: as in RCPT TO: what stands behind a plus sign, or before a domain that takes everything, is
    #: the sender's text; for keys with read:text
    recipient: str | UnsetType = UNSET
    #: what was written; for keys with read:text
    text: MessageText | UnsetType = UNSET
    #: everything that was read; for operators
    content: MessageContent | UnsetType = UNSET
    #: the deliveries that brought it; for operators
    copies: list[MessageCopy] | UnsetType = UNSET


class MessagePage(ListPage, frozen=True, kw_only=True):
    """Some messages of an inbox; ``next_cursor`` is always there, also after the last one."""

    data: list[Message]
