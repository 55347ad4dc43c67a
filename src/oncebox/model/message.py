"""Messages: what is known of a mail once it was read."""

from enum import StrEnum
from typing import Literal

import msgspec

from oncebox.model.candidate import Found


class Status(StrEnum):
    """How much of a mail could be read."""

    #: all of it
    PARSED = "parsed"
    #: as much as the limits allow
    LIMITED = "limited"
    #: nothing; its raw bytes are kept
    UNPARSED = "unparsed"


class SenderStanding(StrEnum):
    """What the From field says about who wrote a mail."""

    #: one address, and nobody could read another one there
    SINGLE = "single"
    #: readers may disagree, so it counts for nothing
    AMBIGUOUS = "ambiguous"
    #: there is no address
    MISSING = "missing"


class Address(msgspec.Struct, frozen=True, kw_only=True):
    """One mailbox of an address field."""

    #: decoded; empty if there is none
    name: str
    #: the local part as it was written, the domain in lower case and as A-labels
    address: str


class Attachment(msgspec.Struct, frozen=True, kw_only=True):
    """One part of a mail that is not its text. Its name is data and never a path."""

    #: its place among the attachments, from 1
    number: int
    name: str
    media_type: str
    #: bytes after transfer decoding, and the SHA-256 of them in hexadecimal
    size: int
    sha256: str
    inline: bool
    content_id: str


class Sender(msgspec.Struct, frozen=True, kw_only=True):
    """Who a mail says it is from. Address and domain are empty unless there is a single one."""

    address: str = ""
    name: str = ""
    domain: str = ""
    standing: SenderStanding = SenderStanding.MISSING


class SignatureHint(msgspec.Struct, frozen=True, kw_only=True):
    """Where the key of a DKIM signature is to be looked up; says nothing about its worth."""

    domain: str
    selector: str


class Parsed(msgspec.Struct, frozen=True, kw_only=True):
    """A mail, normalised."""

    status: Status
    message_id: str = ""
    #: what its Date field says, in UTC; never used to order anything
    date: int | None = None
    subject: str = ""
    sender: Sender = Sender()
    reply_to: tuple[Address, ...] = ()
    to: tuple[Address, ...] = ()
    cc: tuple[Address, ...] = ()
    #: names in lower case, each with all its values, decoded
    headers: tuple[tuple[str, tuple[str, ...]], ...] = ()
    #: what a person would see
    text: str = ""
    #: what is there but not seen: hidden elements, comments, the title
    hidden: str = ""
    text_from: Literal["plain", "html", "none"] = "none"
    attachments: tuple[Attachment, ...] = ()
    #: codes of what a reader should know; see ``mail/warnings.py``
    warnings: tuple[str, ...] = ()
    #: whether a program sent it by itself, so that it must not be answered
    auto_submitted: bool = False
    #: what makes it the same message; empty: the delivery decides
    identity: bytes = b""
    #: SHA-256 of the Message-ID, to see one that is used again
    message_mark: bytes | None = None
    #: SHA-256 of the rest, to see a copy that differs in it
    outline: bytes = b""
    signatures: tuple[SignatureHint, ...] = ()
    #: codes and links; taken out before the rest is stored
    found: Found = Found()
