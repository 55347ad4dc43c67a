"""Messages: storing a parsed mail in an inbox, its identity, duplicates and sender."""

import re
from typing import Any

import msgspec

from oncebox.model.deliveries.delivery import Delivery
from oncebox.model.inboxes.artifact import NewArtifact
from oncebox.model.inboxes.received_mail import (
    ArtifactKind,
    AuthResult,
    Envelope,
    EnvelopeRecipient,
    Extraction,
    ParsedMail,
    SenderVerdict,
    is_sender_proven,
)

#: another text came under this Message-ID before
MESSAGE_ID_REUSED = "message_id_reused"
#: a copy of the message has other parts than the first
COPIES_DIFFER = "copies_differ"
#: what was read of the message cannot be opened
DOCUMENT_UNREADABLE = "not_opened"

#: before the identity of a message whose sender is proven
_PROVEN_PREFIX = b"proven:"
_LONGEST_TEXT = 1_000
#: a domain in the only spelling that can carry no message to its reader
_DOMAIN = re.compile(r"(?!-)[a-z0-9-]{1,63}(?:\.[a-z0-9-]{1,63}){1,10}")
#: no sender of mail has a longer one, and it leaves little room for sentences
_LONGEST_DOMAIN = 64
#: parts of a mail that its identity leaves open
_COMPARED_PARTS = ("date", "reply_to", "to", "cc", "headers", "hidden", "attachments")


class SmtpPeer(msgspec.Struct, frozen=True, kw_only=True):
    """Who brought a mail, in its own words."""

    #: the address that connected
    client: str = ""
    helo: str = ""
    #: MAIL FROM
    sender: str = ""
    tls: str = ""


class MessageDocument(msgspec.Struct, frozen=True, kw_only=True):
    """Everything that was read of a message, as it is stored."""

    parsed: ParsedMail
    verdict: SenderVerdict = SenderVerdict()
    carrier: SmtpPeer = SmtpPeer()
    #: why it is not what its inbox expects; empty if it is
    mismatch: str = ""


class NewMessage(msgspec.Struct, frozen=True, kw_only=True):
    """One mail that belongs into one inbox."""

    #: ids for what may come of it
    message_id: str
    event_id: str
    delivery: Delivery
    inbox_id: str
    #: as in RCPT TO
    recipient: str
    document: MessageDocument
    #: the document as it is stored: the worker seals it
    encoded: bytes
    #: codes and links, sealed
    artifacts: tuple[NewArtifact, ...] = ()

    @property
    def parsed(self) -> ParsedMail:
        """What the mail says."""
        return self.document.parsed

    @property
    def identity(self) -> bytes:
        """What makes it the same message: what it says, else the delivery that brought it."""
        return self.identities[0 if self.proven else -1]

    @property
    def identities(self) -> tuple[bytes, ...]:
        """What messages it may be a copy of: a proven one first, and that alone if it is proven.

        What nobody vouches for never stands for what is proven, or a forgery that comes first
        would keep the genuine mail away.
        """
        said = self.parsed.identity
        if not said:
            return (b"delivery:" + self.delivery.id.encode(),)
        proven = _PROVEN_PREFIX + said
        return (proven,) if self.proven else (proven, said)

    @property
    def proven(self) -> bool:
        """Whether its sender is proven."""
        return sender_verdict(self.parsed, self.document.verdict) == AuthResult.PASS

    @property
    def matched(self) -> bool:
        """Whether it is what its inbox expects."""
        return not self.document.mismatch


class NewMessageResult(msgspec.Struct, frozen=True, kw_only=True):
    """What became of a filing."""

    message_id: str
    status: str = ""
    #: its place in the inbox; none where it is no new message
    sequence: int | None = None
    #: the inbox has the message already
    duplicate: bool = False
    #: which parts of such a copy differ from the first
    differs: tuple[str, ...] = ()
    #: another text came under its Message-ID before
    reused: bool = False
    #: what became of its codes and links
    artifacts: tuple[tuple[ArtifactKind, str], ...] = ()


class Message(msgspec.Struct, frozen=True, kw_only=True):
    """A message as it is stored, without what was read of it."""

    id: str
    tenant: str
    inbox_id: str
    sequence: int
    status: str
    received_at: int
    size: int
    recipient: str
    sender: str
    sender_domain: str
    sender_verdict: str
    matched: bool
    duplicates: int
    warnings: tuple[str, ...]
    delivery_id: str
    payload_id: str
    #: bytes of its document; none are left once its time is over
    document_size: int


class MessageCopy(msgspec.Struct, frozen=True, kw_only=True):
    """One delivery that brought a message."""

    delivery_id: str
    at: int
    road: str
    differs: tuple[str, ...]


def new_message(  # noqa: PLR0913 - this much is known of a mail
    delivery: Delivery,
    recipient: EnvelopeRecipient,
    envelope: Envelope,
    *,
    parsed: ParsedMail,
    verdict: SenderVerdict,
    mismatch: str,
    ids: tuple[str, str],
    artifacts: tuple[NewArtifact, ...] = (),
) -> NewMessage:
    """Put together what is filed; ``ids`` are for the message and its event.

    Raises: ValueError, when what was read cannot be written down.
    """
    carrier = SmtpPeer(
        client=envelope.client, helo=envelope.helo, sender=envelope.sender, tls=envelope.tls
    )
    # What was found is kept apart, sealed.
    bare = msgspec.structs.replace(parsed, found=Extraction())
    document = MessageDocument(parsed=bare, verdict=verdict, carrier=carrier, mismatch=mismatch)
    return NewMessage(
        message_id=ids[0],
        event_id=ids[1],
        delivery=delivery,
        inbox_id=recipient.inbox_id,
        recipient=recipient.address,
        document=document,
        encoded=msgspec.json.encode(document),
        artifacts=artifacts,
    )


def sender_verdict(parsed: ParsedMail, verdict: SenderVerdict) -> str:
    """Say in one word whether From is proven: what a rule about senders goes by."""
    if parsed.sender.standing != "single":
        return str(parsed.sender.standing)
    if is_sender_proven(verdict, parsed.sender.domain):
        return "pass"
    if verdict.dmarc in {AuthResult.FAIL, AuthResult.TEMPERROR, AuthResult.PERMERROR}:
        return str(verdict.dmarc)
    return "none"


def differing_parts(first: ParsedMail, copy: ParsedMail) -> tuple[str, ...]:
    """Name the parts in which a copy differs from the first; nothing if they are the same."""
    if first.outline == copy.outline:
        return ()
    named = tuple(name for name in _COMPARED_PARTS if getattr(first, name) != getattr(copy, name))
    return named or ("other",)


def safe_domain(domain: str) -> str:
    """Return a domain that may be shown to an agent: letters, digits and hyphens, or nothing.

    It is still a word that a sender chose; only with the verdict ``pass`` has it proven it.
    """
    lowered = domain.lower()
    if len(lowered) <= _LONGEST_DOMAIN and _DOMAIN.fullmatch(lowered):
        return lowered
    try:
        encoded = lowered.encode("idna").decode()
    except UnicodeError:
        return ""
    fits = len(encoded) <= _LONGEST_DOMAIN and _DOMAIN.fullmatch(encoded)
    return encoded if fits else ""


def storable_text(text: str) -> str:
    """Return somebody's words as every database takes them."""
    return text.replace("\0", "").encode("utf-8", "replace").decode()[:_LONGEST_TEXT]


def message_event_data(
    filing_: NewMessage, sequence: int, warnings: tuple[str, ...]
) -> dict[str, Any]:
    """Return what the event of a new message says; nothing in it is a sender's text."""
    parsed = filing_.parsed
    return {
        "sequence": sequence,
        "status": str(parsed.status),
        "size": len(filing_.delivery.body),
        "sender_domain": safe_domain(parsed.sender.domain),
        "sender_verdict": sender_verdict(parsed, filing_.document.verdict),
        "matched": filing_.matched,
        "attachments": len(parsed.attachments),
        "warnings": list(warnings),
    }
