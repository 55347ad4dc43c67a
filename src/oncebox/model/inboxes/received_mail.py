"""Received mail: SMTP envelope, parsed content, sender verdict, codes and links found."""

from collections.abc import Iterable
from enum import StrEnum
from typing import Literal

import msgspec

from oncebox.model.inboxes.purpose import Purpose

#: the rule by which the purpose of a mail is found
PURPOSE_RULE = 1
#: where a candidate was found: the subject, or the text of a part
CandidateLocation = Literal["subject", "plain", "html"]


class ArtifactKind(StrEnum):
    """The kinds of artifacts."""

    CODE = "code"
    LINK = "link"
    #: a message whose arrival is the signal
    MESSAGE = "message"


class CandidateEvidence(msgspec.Struct, frozen=True, kw_only=True):
    """One reason for or against a candidate."""

    #: one of our own words, never text of the mail
    name: str
    #: negative against the candidate
    points: int
    #: its place in the text that contains the candidate; none: in the surrounding text
    start: int | None = None
    end: int | None = None


class Candidate(msgspec.Struct, frozen=True, kw_only=True):
    """A code or a link that may be the one that a mail is about."""

    kind: ArtifactKind
    #: what a person would type or follow
    value: str
    #: as written in the mail
    shown: str
    where: CandidateLocation
    start: int
    end: int
    score: int
    #: from 0 to 1
    confidence: float
    evidence: tuple[CandidateEvidence, ...] = ()
    #: of a link: the service that wrapped it, and the target if it can be read from the link
    wrapped: str = ""
    target: str = ""
    #: whether it is the right one depends on text that may be hidden
    doubtful: bool = False


class RankedCandidates(msgspec.Struct, frozen=True, kw_only=True):
    """The codes or the links of a mail."""

    best: Candidate | None = None
    #: all candidates, best first, bounded
    ranked: tuple[Candidate, ...] = ()
    #: two candidates differ and are equally good
    tied: bool = False


class Extraction(msgspec.Struct, frozen=True, kw_only=True):
    """The codes and links found in a mail."""

    #: the one of each kind that the mail is about, if there is one
    code: Candidate | None = None
    link: Candidate | None = None
    #: all candidates, best first, bounded
    codes: tuple[Candidate, ...] = ()
    links: tuple[Candidate, ...] = ()
    #: two candidates differ and are equally good
    codes_tied: bool = False
    links_tied: bool = False


class ParseStatus(StrEnum):
    """How much of a mail was parsed."""

    #: all of it
    PARSED = "parsed"
    #: as much as the limits allow
    LIMITED = "limited"
    #: nothing; its raw bytes are stored
    UNPARSED = "unparsed"


class SenderStatus(StrEnum):
    """What the From field names."""

    #: exactly one address, in every reading
    SINGLE = "single"
    #: programs may read it differently, so it is ignored
    AMBIGUOUS = "ambiguous"
    #: no address
    MISSING = "missing"


class HeaderAddress(msgspec.Struct, frozen=True, kw_only=True):
    """One mailbox of an address field."""

    #: decoded
    name: str
    #: the local part as written, the domain in lower case and as A-labels
    address: str


class ParsedAttachment(msgspec.Struct, frozen=True, kw_only=True):
    """One part of a mail that is not its text. Its name is data and never a path."""

    #: from 1
    number: int
    name: str
    media_type: str
    #: bytes after transfer decoding, and their SHA-256 in hexadecimal
    size: int
    sha256: str
    inline: bool
    content_id: str


class ParsedSender(msgspec.Struct, frozen=True, kw_only=True):
    """The From field. Address and domain are empty unless there is a single one."""

    address: str = ""
    name: str = ""
    domain: str = ""
    standing: SenderStatus = SenderStatus.MISSING


class DkimKeyLocation(msgspec.Struct, frozen=True, kw_only=True):
    """The DNS location of the key of a DKIM signature, which may be invalid."""

    domain: str
    selector: str


class ParsedMail(msgspec.Struct, frozen=True, kw_only=True):
    """A mail, normalised."""

    status: ParseStatus
    message_id: str = ""
    #: its Date field, in UTC; used for order only where it is signed
    date: int | None = None
    subject: str = ""
    sender: ParsedSender = ParsedSender()
    reply_to: tuple[HeaderAddress, ...] = ()
    to: tuple[HeaderAddress, ...] = ()
    cc: tuple[HeaderAddress, ...] = ()
    #: names in lower case, each with all its decoded values
    headers: tuple[tuple[str, tuple[str, ...]], ...] = ()
    #: the visible text
    text: str = ""
    #: hidden elements, comments, the title
    hidden: str = ""
    text_from: Literal["plain", "html", "none"] = "none"
    attachments: tuple[ParsedAttachment, ...] = ()
    #: warning codes; see ``mail/warnings.py``
    warnings: tuple[str, ...] = ()
    #: whether a program sent it, so that it must not be answered
    auto_submitted: bool = False
    #: the same for copies of a message; empty: the delivery decides
    identity: bytes = b""
    #: SHA-256 of the Message-ID, to detect reuse
    message_mark: bytes | None = None
    #: SHA-256 of the rest, to detect copies that differ
    outline: bytes = b""
    signatures: tuple[DkimKeyLocation, ...] = ()
    #: from the words of subject and text; empty if it is unclear
    purposes: tuple[Purpose, ...] = ()
    #: the rule that found them; 0 before generic words counted as unclear
    purpose_rule: int = 0
    #: codes and links; removed before the rest is stored
    found: Extraction = Extraction()


class AuthResult(StrEnum):
    """The result of one check, in the terms of RFC 8601."""

    #: proven
    PASS = "pass"  # noqa: S105 - no password
    #: disproved
    FAIL = "fail"
    #: probably not genuine, according to the domain's owner
    SOFTFAIL = "softfail"
    #: neither proven nor disproved
    NEUTRAL = "neutral"
    #: nothing to check
    NONE = "none"
    #: could not be checked now
    TEMPERROR = "temperror"
    #: the sender's record or signature is invalid
    PERMERROR = "permerror"


NOT_ADDRESSED = "not_addressed"
#: a warning: mail programs may disagree about To or Cc
RECIPIENTS_AMBIGUOUS = "recipients_ambiguous"
SIGNATURE_OLD = "signature_old"
RECIPIENT_UNSIGNED = "recipient_unsigned"
#: every code of a verdict's details, and its meaning
VERDICT_DETAILS: dict[str, str] = {
    "reported": "the server that received the mail checked its sender; see `origin`",
    "not_checked": "senders are not checked: `mail.authenticate` is off",
    "nothing_to_judge": "a mail from a private address without a signature; no DNS query was made",
    "timed_out": "not all DNS queries were answered in time",
    "check_failed": "a check failed because of an internal error",
    "from_missing": "there is no From address with a domain, so nothing can be aligned with it",
    "from_ambiguous": "From is ambiguous, so nothing is aligned with it",
    "spf_private_client": "the client's address is not public, so SPF says nothing about it",
    "spf_limits": "the SPF record needs too many lookups or is too large",
    "spf_invalid": "the SPF record is invalid",
    "spf_anybody": "the SPF record authorises everybody, so its pass is ignored",
    "spf_aligned": "SPF passed for the domain in From",
    "dkim_aligned": "a signature of the domain in From is valid",
    "dkim_many": "there are more signatures than are checked",
    "dkim_invalid": "a signature is malformed",
    "dkim_odd_lines": "the header has line ends that programs read differently",
    "dkim_from_unsigned": "a signature does not cover From",
    "dkim_body_changed": "the body is not the one that was signed",
    "dkim_mismatch": "the header is not the one that was signed, or the key differs",
    "dkim_body_partly": "a signature covers only the beginning of the body (l=)",
    "dkim_weak_key": "a key has fewer than 1024 bits",
    "dkim_weak_algorithm": "a signature uses SHA-1",
    "dkim_no_key": "the signer publishes no such key, or has withdrawn it",
    "dkim_key_invalid": "the published key cannot be used for this signature",
    "dkim_key_unreachable": "the published key could not be fetched",
    "dkim_testing": "the signer declares that it only tests DKIM",
    "dkim_expired": "a signature has expired",
    "dkim_future": "a signature is dated in the future",
    "signed_date": "the aligned signature covers Date",
    "signed_from": "the aligned signature covers From",
    "signed_subject": "the aligned signature covers Subject",
    "signed_to": "the aligned signature covers To",
    "signed_cc": "the aligned signature covers Cc",
    "dmarc_several": "several DMARC records are published, so none counts",
    "dmarc_invalid": "the DMARC record is invalid",
    "dmarc_policy_none": "the domain's owner requests nothing if DMARC fails",
    "dmarc_policy_quarantine": "the domain's owner requests quarantine if DMARC fails",
    "dmarc_policy_reject": "the domain's owner requests rejection if DMARC fails",
    NOT_ADDRESSED: "the aligned signature covers To or Cc, and the inbox is in neither",
    SIGNATURE_OLD: "the mail was signed long before it arrived, or before the inbox was made",
    RECIPIENT_UNSIGNED: "the aligned signature covers neither To nor Cc",
}


class DkimResult(msgspec.Struct, frozen=True, kw_only=True):
    """The result of checking one signature."""

    result: AuthResult
    #: the domain that signed, in lower case
    domain: str = ""
    selector: str = ""
    #: those of cc, date, from, subject and to of which every copy in the mail is signed
    covers: tuple[str, ...] = ()
    #: codes of ``VERDICT_DETAILS``
    flags: tuple[str, ...] = ()
    #: its time and expiry in milliseconds, if it has them
    signed_at: int | None = None
    expires_at: int | None = None


class SenderVerdict(msgspec.Struct, frozen=True, kw_only=True):
    """The authentication of a mail's sender."""

    spf: AuthResult = AuthResult.NONE
    dkim: AuthResult = AuthResult.NONE
    dmarc: AuthResult = AuthResult.NONE
    #: the domain in From, if a check that passed is aligned with it and nothing says that the
    #: mail was meant for somebody else
    domain: str = ""
    #: who checked; ``smtp`` is our own check
    origin: str = "smtp"
    #: codes of ``VERDICT_DETAILS``, never a text of the sender or of a name server
    details: tuple[str, ...] = ()
    #: when the newest aligned signature was made, if it says so
    signed_at: int | None = None


def is_sender_proven(verdict: SenderVerdict, domain: str) -> bool:
    """Return whether a mail with this domain in From is proven to come from it.

    DMARC passed; or there is no DMARC record, and an aligned signature or SPF passed.
    """
    if not domain or verdict.domain != domain or verdict.dmarc is AuthResult.FAIL:
        return False
    return AuthResult.PASS in {verdict.dmarc, verdict.dkim, verdict.spf}


def covers_subject(verdict: SenderVerdict) -> bool:
    """Return whether a verdict that proves the sender also covers the subject."""
    by_signature = "dkim_aligned" in verdict.details and "spf_aligned" not in verdict.details
    return not by_signature or "signed_subject" in verdict.details


#: the source of all mail; no user's source can have that name
MAIL_SOURCE = "@mail"
#: the type and the channel of a mail's delivery
MAIL_TYPE = "mail.received"
SMTP_CHANNEL = "smtp"
MAILBOX_CHANNEL = "mailbox"
WEBHOOK_CHANNEL = "webhook"


#: providers whose webhooks bring mail, as in metrics
INBOUND_PROVIDERS = (
    "cloudflare", "mailgun", "mandrill", "postal", "postmark", "resend", "sendgrid", "ses",
)  # fmt: skip


class InboundOutcome(StrEnum):
    """What became of a mail that a provider's webhook brought."""

    #: on disk, new in at least one inbox
    STORED = "stored"
    #: every inbox has it
    DUPLICATE = "duplicate"
    #: for no inbox of the source's tenant
    UNROUTED = "unrouted"
    #: about something else than received mail
    IGNORED = "ignored"
    #: the webhook contains no raw mail
    RAW_MISSING = "raw_missing"
    #: not of the provider's format
    MALFORMED = "malformed"
    TOO_LARGE = "too_large"
    #: the provider does not have the mail any more
    GONE = "gone"
    #: it could not be fetched now, or not with this key
    NOT_FETCHED = "not_fetched"
    #: an inbox, its tenant or the disk is full
    FULL = "full"
    #: it could not be committed, or the inbox of the source is missing
    FAILED = "failed"


class EnvelopeRecipient(msgspec.Struct, frozen=True, kw_only=True):
    """One recipient of a mail, and its inbox."""

    inbox_id: str
    tenant: str
    #: as in RCPT TO
    address: str


class Envelope(msgspec.Struct, frozen=True, kw_only=True):
    """The SMTP envelope of a mail."""

    #: the client's IP address
    client: str
    helo: str
    #: MAIL FROM; empty for a bounce
    sender: str
    recipients: tuple[EnvelopeRecipient, ...]
    #: the TLS version, if any
    tls: str = ""
    #: SMTPUTF8
    utf8: bool = False
    #: the mailbox that it was read from, or the source whose webhook brought it; empty for SMTP
    origin: str = ""
    #: the server whose ``Authentication-Results`` count, by its authserv-id
    authserv: str = ""
    #: its server accepted it for the inbox, whatever To and Cc say
    any_recipient: bool = False


def encode_envelope(envelope: Envelope) -> list[tuple[str, str]]:
    """Return an envelope as the ordered headers of a delivery."""
    return [
        ("client", envelope.client),
        ("helo", envelope.helo),
        ("sender", envelope.sender),
        ("tls", envelope.tls),
        ("utf8", "yes" if envelope.utf8 else "no"),
        *((name, value) for name, value in _origin_of(envelope) if value),
        *(
            ("recipient", f"{each.inbox_id} {each.tenant} {each.address}")
            for each in envelope.recipients
        ),
    ]


def _origin_of(envelope: Envelope) -> list[tuple[str, str]]:
    return [
        ("origin", envelope.origin),
        ("authserv", envelope.authserv),
        ("any_recipient", "yes" if envelope.any_recipient else ""),
    ]


def decode_envelope(headers: Iterable[tuple[str, str]]) -> Envelope:
    """Return the envelope that was stored as the headers of a delivery."""
    fields: dict[str, str] = {}
    recipients: list[EnvelopeRecipient] = []
    for name, value in headers:
        if name == "recipient":
            inbox_id, tenant, address = value.split(" ", 2)
            recipients.append(EnvelopeRecipient(inbox_id=inbox_id, tenant=tenant, address=address))
        else:
            fields[name] = value
    return Envelope(
        client=fields["client"],
        helo=fields["helo"],
        sender=fields["sender"],
        tls=fields["tls"],
        utf8=fields["utf8"] == "yes",
        origin=fields.get("origin", ""),
        authserv=fields.get("authserv", ""),
        any_recipient="any_recipient" in fields,
        recipients=tuple(recipients),
    )
