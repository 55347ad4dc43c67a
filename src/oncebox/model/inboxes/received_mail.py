"""Received mail: SMTP envelope, parsed content, sender verdict, codes and links found."""

from collections.abc import Iterable
from enum import StrEnum
from typing import Literal

import msgspec

from oncebox.model.inboxes.purpose import Purpose

#: where something was found: the subject, or the text of a part
CandidateLocation = Literal["subject", "plain", "html"]


class ArtifactKind(StrEnum):
    """What can be found in a mail."""

    CODE = "code"
    LINK = "link"


class CandidateEvidence(msgspec.Struct, frozen=True, kw_only=True):
    """One reason for or against a candidate."""

    #: a word of ours, never of the mail
    name: str
    #: what it counts; less than nothing speaks against
    points: int
    #: where it stands, in the text that holds the candidate; none: in what surrounds it
    start: int | None = None
    end: int | None = None


class Candidate(msgspec.Struct, frozen=True, kw_only=True):
    """A code or a link that stands in a mail."""

    kind: ArtifactKind
    #: what a person would type or follow
    value: str
    #: as it stands in the mail
    shown: str
    where: CandidateLocation
    start: int
    end: int
    score: int
    #: from 0 to 1
    confidence: float
    evidence: tuple[CandidateEvidence, ...] = ()
    #: of a link: which service wrapped it, and where it leads if that can be read from it
    wrapped: str = ""
    target: str = ""


class RankedCandidates(msgspec.Struct, frozen=True, kw_only=True):
    """The codes or the links of a mail."""

    best: Candidate | None = None
    #: all candidates, best first, bounded
    ranked: tuple[Candidate, ...] = ()
    #: two candidates differ and are equally good
    tied: bool = False


class Extraction(msgspec.Struct, frozen=True, kw_only=True):
    """All that was found in a mail."""

    #: the one of each kind that the mail is about, if there is one
    code: Candidate | None = None
    link: Candidate | None = None
    #: everything that came into question, best first, bounded
    codes: tuple[Candidate, ...] = ()
    links: tuple[Candidate, ...] = ()
    #: two differ and are as good as each other: nobody can tell which is meant
    codes_tied: bool = False
    links_tied: bool = False


class ParseStatus(StrEnum):
    """How much of a mail could be read."""

    #: all of it
    PARSED = "parsed"
    #: as much as the limits allow
    LIMITED = "limited"
    #: nothing; its raw bytes are kept
    UNPARSED = "unparsed"


class SenderStatus(StrEnum):
    """What the From field says about who wrote a mail."""

    #: one address, and nobody could read another one there
    SINGLE = "single"
    #: readers may disagree, so it counts for nothing
    AMBIGUOUS = "ambiguous"
    #: there is no address
    MISSING = "missing"


class HeaderAddress(msgspec.Struct, frozen=True, kw_only=True):
    """One mailbox of an address field."""

    #: decoded; empty if there is none
    name: str
    #: the local part as it was written, the domain in lower case and as A-labels
    address: str


class ParsedAttachment(msgspec.Struct, frozen=True, kw_only=True):
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


class ParsedSender(msgspec.Struct, frozen=True, kw_only=True):
    """Who a mail says it is from. Address and domain are empty unless there is a single one."""

    address: str = ""
    name: str = ""
    domain: str = ""
    standing: SenderStatus = SenderStatus.MISSING


class DkimKeyLocation(msgspec.Struct, frozen=True, kw_only=True):
    """Where the key of a DKIM signature is to be looked up; says nothing about its worth."""

    domain: str
    selector: str


class ParsedMail(msgspec.Struct, frozen=True, kw_only=True):
    """A mail, normalised."""

    status: ParseStatus
    message_id: str = ""
    #: what its Date field says, in UTC; never used to order anything
    date: int | None = None
    subject: str = ""
    sender: ParsedSender = ParsedSender()
    reply_to: tuple[HeaderAddress, ...] = ()
    to: tuple[HeaderAddress, ...] = ()
    cc: tuple[HeaderAddress, ...] = ()
    #: names in lower case, each with all its values, decoded
    headers: tuple[tuple[str, tuple[str, ...]], ...] = ()
    #: what a person would see
    text: str = ""
    #: what is there but not seen: hidden elements, comments, the title
    hidden: str = ""
    text_from: Literal["plain", "html", "none"] = "none"
    attachments: tuple[ParsedAttachment, ...] = ()
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
    signatures: tuple[DkimKeyLocation, ...] = ()
    #: the purposes that the words of subject and text name, sorted
    purposes: tuple[Purpose, ...] = ()
    #: codes and links; taken out before the rest is stored
    found: Extraction = Extraction()


#: the road on which we saw the sender's server ourselves
SMTP_ORIGIN = "smtp"


class AuthResult(StrEnum):
    """How one check ended; the words are those of RFC 8601."""

    #: it is proven
    PASS = "pass"  # noqa: S105 - no password
    #: it is disproved
    FAIL = "fail"
    #: the domain's owner believes it is not genuine, without saying so firmly
    SOFTFAIL = "softfail"
    #: nothing is said for or against it
    NEUTRAL = "neutral"
    #: there is nothing to check
    NONE = "none"
    #: it could not be checked now
    TEMPERROR = "temperror"
    #: what the sender published or signed cannot be understood
    PERMERROR = "permerror"


#: every code a verdict's details may hold, and what it means
VERDICT_DETAILS: dict[str, str] = {
    "not_checked": "senders are not checked: `mail.authenticate` is off",
    "nothing_to_judge": "a mail from a private address without a signature; nobody was asked",
    "timed_out": "not everything was answered in time",
    "check_failed": "a check broke off, by a fault of ours",
    "from_missing": "there is no From address with a domain, so nothing can be aligned with it",
    "from_ambiguous": "it is not clear which address From names, so nothing is aligned with it",
    "spf_private_client": "the client's address is not public, so SPF says nothing about it",
    "spf_limits": "the SPF record asks for more look-ups, or is larger, than is allowed",
    "spf_invalid": "the SPF record cannot be understood",
    "spf_anybody": "the SPF record lets everybody send, so its pass counts for nothing",
    "spf_aligned": "SPF passed for the domain in From",
    "dkim_aligned": "a signature of the domain in From is good",
    "dkim_many": "there are more signatures than are checked",
    "dkim_invalid": "a signature is not spelled as it must be",
    "dkim_odd_lines": "the header has line ends that programs read differently",
    "dkim_from_unsigned": "a signature leaves From uncovered",
    "dkim_body_changed": "the body is not the one that was signed",
    "dkim_mismatch": "the header is not the one that was signed, or the key is another",
    "dkim_body_partly": "a signature covers only the beginning of the body (l=)",
    "dkim_weak_key": "a key has fewer than 1024 bits",
    "dkim_weak_algorithm": "a signature uses SHA-1",
    "dkim_no_key": "the signer publishes no such key, or has withdrawn it",
    "dkim_key_invalid": "the published key cannot be used for this signature",
    "dkim_key_unreachable": "the published key could not be asked for",
    "dkim_testing": "the signer says that it only tests DKIM",
    "dkim_expired": "a signature's time has passed",
    "dkim_future": "a signature is dated in the future",
    "signed_date": "the aligned signature covers Date",
    "signed_from": "the aligned signature covers From",
    "signed_subject": "the aligned signature covers Subject",
    "signed_to": "the aligned signature covers To",
    "dmarc_several": "several DMARC records are published, which counts as none",
    "dmarc_invalid": "the DMARC record cannot be understood",
    "dmarc_policy_none": "the domain's owner asks for nothing when DMARC fails",
    "dmarc_policy_quarantine": "the domain's owner asks to set mail aside when DMARC fails",
    "dmarc_policy_reject": "the domain's owner asks to refuse mail when DMARC fails",
}


class DkimResult(msgspec.Struct, frozen=True, kw_only=True):
    """What one signature proves."""

    result: AuthResult
    #: the domain that signed, in lower case
    domain: str = ""
    selector: str = ""
    #: those of date, from, subject and to of which every copy in the mail is signed
    covers: tuple[str, ...] = ()
    #: codes of ``DETAILS``
    flags: tuple[str, ...] = ()
    #: when it was signed and until when it counts, in milliseconds, where it says so
    signed_at: int | None = None
    expires_at: int | None = None


class SenderVerdict(msgspec.Struct, frozen=True, kw_only=True):
    """Who sent a mail, as far as it can be proven."""

    spf: AuthResult = AuthResult.NONE
    dkim: AuthResult = AuthResult.NONE
    dmarc: AuthResult = AuthResult.NONE
    #: the domain in From, where a check that passed is aligned with it; otherwise empty
    domain: str = ""
    #: who checked: ``smtp`` is our own check, other roads name theirs
    origin: str = SMTP_ORIGIN
    #: codes of ``DETAILS``, never a text of the sender or of a name server
    details: tuple[str, ...] = ()


def is_sender_proven(verdict: SenderVerdict, domain: str) -> bool:
    """Say whether a mail with this domain in From is proven to come from it.

    DMARC passed, or it has nothing to say and a signature or SPF is aligned all the same.
    """
    if not domain or verdict.domain != domain or verdict.dmarc is AuthResult.FAIL:
        return False
    return AuthResult.PASS in {verdict.dmarc, verdict.dkim, verdict.spf}


#: the source of all mail; no user's source can have that name
MAIL_SOURCE = "@mail"


#: the type of a mail's delivery, and the road it came by
MAIL_TYPE = "mail.received"


SMTP_CHANNEL = "smtp"


_YES, _NO = "yes", "no"


class EnvelopeRecipient(msgspec.Struct, frozen=True, kw_only=True):
    """One address a mail is for, and the inbox it leads to."""

    inbox_id: str
    tenant: str
    #: as in RCPT TO
    address: str


class Envelope(msgspec.Struct, frozen=True, kw_only=True):
    """What an SMTP client said before the mail itself."""

    #: its address
    client: str
    #: what it calls itself
    helo: str
    #: where bounces go; empty for a mail that is a bounce itself
    sender: str
    recipients: tuple[EnvelopeRecipient, ...]
    #: the version of TLS; empty without
    tls: str = ""
    #: whether addresses and headers may be UTF-8
    utf8: bool = False


def encode_envelope(envelope: Envelope) -> list[tuple[str, str]]:
    """Return an envelope as the ordered headers of a delivery."""
    return [
        ("client", envelope.client),
        ("helo", envelope.helo),
        ("sender", envelope.sender),
        ("tls", envelope.tls),
        ("utf8", _YES if envelope.utf8 else _NO),
        *(
            ("recipient", f"{each.inbox_id} {each.tenant} {each.address}")
            for each in envelope.recipients
        ),
    ]


def decode_envelope(headers: Iterable[tuple[str, str]]) -> Envelope:
    """Return the envelope that was stored as the headers of a delivery."""
    pairs = list(headers)
    said = {name: value for name, value in pairs if name != "recipient"}
    return Envelope(
        client=said["client"],
        helo=said["helo"],
        sender=said["sender"],
        tls=said["tls"],
        utf8=said["utf8"] == _YES,
        recipients=tuple(_decode_recipient(value) for name, value in pairs if name == "recipient"),
    )


def _decode_recipient(text: str) -> EnvelopeRecipient:
    inbox_id, tenant, address = text.split(" ", 2)
    return EnvelopeRecipient(inbox_id=inbox_id, tenant=tenant, address=address)
