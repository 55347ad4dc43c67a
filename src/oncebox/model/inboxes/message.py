"""Messages: storing a parsed mail in an inbox, its identity, duplicates and sender."""

import re

import msgspec

from oncebox.model.deliveries.delivery import Delivery
from oncebox.model.inboxes.artifact import (
    PROVEN_VERDICT,
    PURPOSE_UNCLEAR,
    SENDER_UNPROVEN,
    Artifact,
    ArtifactState,
    NewArtifact,
    sender_warnings,
)
from oncebox.model.inboxes.inbox import Inbox, named_purposes
from oncebox.model.inboxes.purpose import Purpose
from oncebox.model.inboxes.received_mail import (
    ArtifactKind,
    AuthResult,
    Envelope,
    EnvelopeRecipient,
    Extraction,
    ParsedMail,
    SenderVerdict,
    covers_subject,
    is_sender_proven,
)
from oncebox.model.inboxes.replay import REPLAY_SIGNS

#: warning: another text arrived with this Message-ID before
MESSAGE_ID_REUSED = "message_id_reused"
#: warning: a copy of the message has other parts than the first
COPIES_DIFFER = "copies_differ"
#: warning: the document of the message cannot be decrypted
DOCUMENT_UNREADABLE = "not_opened"

_LONGEST_TEXT = 1_000
#: the only spelling of a domain that cannot carry a message to its reader
_DOMAIN = re.compile(r"(?!-)[a-z0-9-]{1,63}(?:\.[a-z0-9-]{1,63}){1,10}")
#: no sender of mail has a longer one, and it leaves little space for sentences
_LONGEST_DOMAIN = 64
#: parts of a mail that are not part of its identity
_COMPARED_PARTS = ("date", "reply_to", "to", "cc", "headers", "hidden", "attachments")


class SmtpPeer(msgspec.Struct, frozen=True, kw_only=True):
    """The SMTP client that sent a mail, as it introduced itself."""

    #: its IP address
    client: str = ""
    helo: str = ""
    #: MAIL FROM
    sender: str = ""
    tls: str = ""


class MessageDocument(msgspec.Struct, frozen=True, kw_only=True):
    """The content of a message, as it is stored."""

    parsed: ParsedMail
    verdict: SenderVerdict = SenderVerdict()
    carrier: SmtpPeer = SmtpPeer()
    #: why the inbox's policy does not match; empty if it does
    mismatch: str = ""


class NewMessage(msgspec.Struct, frozen=True, kw_only=True):
    """One mail to file into one inbox."""

    #: the ids to use if it is a new message
    message_id: str
    event_id: str
    delivery: Delivery
    inbox_id: str
    #: as in RCPT TO
    recipient: str
    document: MessageDocument
    #: the document as it is stored; the worker encrypts it
    encoded: bytes
    #: the messages it may be a copy of; the last is its own identity
    identities: tuple[bytes, ...]
    #: safe to show, see ``safe_domain``
    sender_domain: str
    #: see ``sender_verdict``
    sender_verdict: str
    #: codes and links, encrypted
    artifacts: tuple[NewArtifact, ...] = ()


class NewMessageResult(msgspec.Struct, frozen=True, kw_only=True):
    """The outcome of filing a mail."""

    message_id: str
    status: str = ""
    #: its number in the inbox; none unless it is a new message
    sequence: int | None = None
    #: the inbox has the message already
    duplicate: bool = False
    #: which parts of such a copy differ from the first
    differs: tuple[str, ...] = ()
    #: another text arrived with its Message-ID before
    reused: bool = False
    #: the outcome of each code and link
    artifacts: tuple[tuple[ArtifactKind, str], ...] = ()
    #: its events have their numbers already
    numbered: bool = False
    #: milliseconds since the inbox was created, of its first message
    since_inbox: int | None = None


class Message(msgspec.Struct, frozen=True, kw_only=True):
    """A stored message, without its document."""

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
    #: bytes of its document; 0 after its retention time
    document_size: int


class MessageCopy(msgspec.Struct, frozen=True, kw_only=True):
    """One delivery that contained a message."""

    delivery_id: str
    at: int
    road: str
    differs: tuple[str, ...]


def new_message(  # noqa: PLR0913 - everything known about a mail
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
    """Return the message to file; ``ids`` are for the message and its event.

    Raises: ValueError, when the content cannot be encoded.
    """
    carrier = SmtpPeer(
        client=envelope.client, helo=envelope.helo, sender=envelope.sender, tls=envelope.tls
    )
    # Codes and links are stored apart, encrypted.
    bare = msgspec.structs.replace(parsed, found=Extraction())
    document = MessageDocument(parsed=bare, verdict=verdict, carrier=carrier, mismatch=mismatch)
    sender = sender_verdict(parsed, verdict)
    return NewMessage(
        message_id=ids[0],
        event_id=ids[1],
        delivery=delivery,
        inbox_id=recipient.inbox_id,
        recipient=storable_text(recipient.address),
        document=document,
        encoded=msgspec.json.encode(document),
        identities=_identities(parsed.identity, delivery.id, proven=sender == AuthResult.PASS),
        sender_domain=safe_domain(parsed.sender.domain),
        sender_verdict=sender,
        artifacts=artifacts,
    )


def awaited_artifact(
    id_: str, inbox: Inbox, message: Message, document: MessageDocument
) -> Artifact:
    """Return the artifact that a message becomes when a wait for messages claims it.

    A signature that does not cover the subject does not prove what the message says.
    """
    verdict = message.sender_verdict
    if verdict == PROVEN_VERDICT and not covers_subject(document.verdict):
        verdict = AuthResult.NONE.value
    purposes = tuple(sorted(map(str, named_purposes(document.parsed))))
    unproven = [] if verdict == PROVEN_VERDICT else [SENDER_UNPROVEN]
    is_unclear = inbox.policy.purpose is not Purpose.ANY and not purposes
    unclear = [PURPOSE_UNCLEAR] if is_unclear else []
    return Artifact(
        id=id_,
        tenant=inbox.tenant,
        inbox_id=inbox.id,
        attempt_id=inbox.attempt_id,
        message_id=message.id,
        sequence=message.sequence,
        kind=ArtifactKind.MESSAGE,
        state=ArtifactState.AVAILABLE,
        rank=0,
        confidence=1_000,
        tied=False,
        matched=True,
        purposes=purposes,
        sender=message.sender,
        sender_domain=safe_domain(message.sender_domain),
        sender_verdict=verdict,
        received_at=message.received_at,
        signed_at=None,
        warnings=(*unproven, *sender_warnings(inbox.policy, document.verdict), *unclear),
    )


def _identities(said: bytes, delivery_id: str, *, proven: bool) -> tuple[bytes, ...]:
    """Return the identities of the messages that a mail may be a copy of, its own last.

    An unproven mail may be a copy of a proven one, but never the other way round: otherwise a
    forgery that arrives first would suppress the genuine mail.
    """
    if not said:
        return (b"delivery:" + delivery_id.encode(),)
    of_proven = b"proven:" + said
    return (of_proven,) if proven else (of_proven, said)


def sender_verdict(parsed: ParsedMail, verdict: SenderVerdict) -> str:
    """Return in one word whether From is proven; sender rules use it."""
    if parsed.sender.standing != "single":
        return str(parsed.sender.standing)
    if is_sender_proven(verdict, parsed.sender.domain):
        return "pass"
    for sign in REPLAY_SIGNS:
        if sign in verdict.details:
            return sign
    if verdict.dmarc in {AuthResult.FAIL, AuthResult.TEMPERROR, AuthResult.PERMERROR}:
        return str(verdict.dmarc)
    return "none"


def differing_parts(first: ParsedMail, copy: ParsedMail) -> tuple[str, ...]:
    """Return the names of the parts in which a copy differs from the first."""
    if first.outline == copy.outline:
        return ()
    named = tuple(name for name in _COMPARED_PARTS if getattr(first, name) != getattr(copy, name))
    return named or ("other",)


def safe_domain(domain: str) -> str:
    """Return a domain that may be shown to an agent: letters, digits and hyphens; else nothing.

    The sender chose it; only the verdict ``pass`` proves it.
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
    """Return a sender's text in a form that every database accepts."""
    return text.replace("\0", "").encode("utf-8", "replace").decode()[:_LONGEST_TEXT]
