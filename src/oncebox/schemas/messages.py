"""Messages: typed fields for agents, the full content for operators."""

from typing import Annotated, Literal

import msgspec
from msgspec import UNSET, UnsetType

from oncebox.schemas.fields import ListPage, ListQuery, Timestamp

Wait = Annotated[
    float, msgspec.Meta(ge=0, le=55, description="seconds to wait while there is no result")
]
AuthResult = Literal["pass", "fail", "softfail", "neutral", "none", "temperror", "permerror"]
#: ``pass``, or why the sender's domain is not proven
SenderVerdict = Literal[
    "pass", "fail", "temperror", "permerror", "none", "ambiguous", "missing", "not_addressed",
    "signature_old",
]  # fmt: skip


class MessageQuery(ListQuery, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Filters for a list of an inbox's messages, in the order in which they were stored."""

    wait: Wait = 0
    #: include the text, for keys that may read it
    text: bool = False


class MessageSender(msgspec.Struct, frozen=True, kw_only=True):
    """The sender's domain and its verification; contains no text chosen by the sender."""

    #: domain of the From address in letters, digits and hyphens; empty unless there is exactly one
    domain: str
    #: whether the domain is authenticated
    verdict: SenderVerdict
    spf: AuthResult | UnsetType = UNSET
    dkim: AuthResult | UnsetType = UNSET
    dmarc: AuthResult | UnsetType = UNSET


class MessageText(msgspec.Struct, frozen=True, kw_only=True):
    """The text, truncated, without invisible characters and with links replaced."""

    subject: str
    #: the display name in From
    sender_name: str
    text: str
    #: file names of the attachments
    attachments: list[str]
    #: whether the text or the HTML was truncated
    cut: bool
    #: number of invisible characters removed
    removed: int
    #: number of links replaced in the text
    links: int
    #: source of the HTML part, treated as the text is; null if there is none, or in a list
    html: str | None = None


class MessageAddress(msgspec.Struct, frozen=True, kw_only=True):
    """An address and its display name."""

    name: str
    address: str


class MessageAttachment(msgspec.Struct, frozen=True, kw_only=True):
    """Metadata of an attachment."""

    #: its position among the attachments, from 1
    number: int
    name: str
    media_type: str
    size: int
    sha256: str
    inline: bool
    content_id: str


class MessageCopy(msgspec.Struct, frozen=True, kw_only=True):
    """A delivery that contained the message."""

    delivery_id: str
    at: Timestamp
    #: the channel through which it arrived
    road: str
    #: the parts that differ from the first copy
    differs: list[str]


class MessagePeer(msgspec.Struct, frozen=True, kw_only=True):
    """The SMTP client that delivered the message, as it identified itself."""

    #: its IP address
    client: str
    helo: str
    #: MAIL FROM
    sender: str
    tls: str


class MessageContent(msgspec.Struct, frozen=True, kw_only=True):
    """The parsed message; untrusted text."""

    message_id: str
    date: Timestamp | None
    subject: str
    sender: MessageAddress
    reply_to: list[MessageAddress]
    to: list[MessageAddress]
    cc: list[MessageAddress]
    #: lower-case names, each with all its values
    headers: list[tuple[str, list[str]]]
    #: the visible text
    text: str
    #: text that a reader would not see
    hidden: str
    text_from: Literal["plain", "html", "none"]
    #: the HTML part as written; null if there is none, or the raw message is no longer stored
    html: str | None = None
    #: the links that the link policy allows
    links: list[str] = []
    #: number of links that it refuses
    links_refused: int = 0
    attachments: list[MessageAttachment]
    #: whether it is an automatic mail
    auto_submitted: bool
    carrier: MessagePeer
    #: codes of findings about the sender
    details: list[str]


class Message(msgspec.Struct, frozen=True, kw_only=True):
    """A message; the scopes of the key determine which of the last six fields are present."""

    id: str
    inbox_id: str
    #: its position in the inbox, in the order of storage
    sequence: int
    received_at: Timestamp
    status: Literal["parsed", "limited", "unparsed"]
    #: size as received, in bytes
    size: int
    sender: MessageSender
    #: whether it matches the inbox's policy
    matched: bool
    #: further deliveries of the same message
    duplicates: int
    #: warning codes
    warnings: list[str]
    #: in lists: pass it as ``cursor`` to continue after this message
    cursor: str | UnsetType = UNSET
    #: why it does not match the inbox's policy
    mismatch: str | UnsetType = UNSET
    #: number of attachments
    attachments: int | UnsetType = UNSET
    #: whether the content has been deleted
    purged: bool = False
    #: the RCPT TO address, for keys with read:text: the sender chooses the part after a plus
    #: sign, and the whole local part in a catch-all domain
    recipient: str | UnsetType = UNSET
    #: for keys with read:text
    subject: str | UnsetType = UNSET
    #: the address in From, for keys with read:text; empty unless there is exactly one
    sender_address: str | UnsetType = UNSET
    #: the text; for keys with read:text
    text: MessageText | UnsetType = UNSET
    #: the parsed content; for operators
    content: MessageContent | UnsetType = UNSET
    #: the deliveries that contained it; for operators
    copies: list[MessageCopy] | UnsetType = UNSET


class MessagePage(ListPage, frozen=True, kw_only=True):
    """A page of an inbox's messages; ``next_cursor`` is always set, even on the last page."""

    data: list[Message]
