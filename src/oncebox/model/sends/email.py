"""Outgoing email: content, limits, header checks, and its stored envelope.

Those that say who gets a mail, who sent it, when and how it is built are written by Oncebox
alone, from what was checked. So are those by which providers are told to do something else
with it, such as sending it to further people.
"""

import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import msgspec
from msgspec.structs import force_setattr, replace

from oncebox.errors.sends import (
    AttachmentInvalid,
    EmailHeaderInvalid,
    EmailInvalid,
    EmailTooLarge,
    HeaderReserved,
    RecipientMissing,
    SenderMissing,
    TooManyRecipients,
)
from oncebox.model.inboxes.addresses import Mailbox, parse_mailbox

_HEADER_NAME = re.compile(r"[A-Za-z0-9-]{1,76}")
_CONTROLS = re.compile("[\x00-\x1f\x7f-\x9f\ud800-\udfff\u2028\u2029]")
#: the longest word that fits on a line of a mail, which ends after 998 characters
_LONGEST_WORD = 900
_RESERVED_HEADERS = frozenset({
    # who, when and what (RFC 5322)
    "from", "sender", "to", "cc", "bcc", "reply-to", "date", "message-id", "subject",
    "return-path", "received", "mime-version", "apparently-to", "errors-to",
    "disposition-notification-to", "return-receipt-to",
    # what is said about it, by us and by those who pass it on
    "auto-submitted", "list-unsubscribe", "list-unsubscribe-post", "dkim-signature",
    "domainkey-signature", "authentication-results", "received-spf", "delivered-to",
    "x-original-to", "x-envelope-to", "x-envelope-from",
    # what is ours
    "idempotency-key", "resend-idempotency-key",
    # what tells a provider whom else to send it to, or how
    "x-smtpapi",
})  # fmt: skip
_RESERVED_PREFIXES = (
    "content-", "resent-", "arc-", "x-mailgun-", "x-mailjet-", "x-mc-", "x-mj-", "x-msys-",
    "x-pm-", "x-ses-", "x-oncebox-",
)  # fmt: skip
#: fields that hold the ids of other mails
_MESSAGE_ID_HEADERS = frozenset({"in-reply-to", "references"})
_MESSAGE_ID_LIST = re.compile(r"<[!-;=?A-~]+@[!-;=?A-~]+>(?: <[!-;=?A-~]+@[!-;=?A-~]+>)*")


def check_header(name: str, value: str) -> str:
    """Return the value of a header field as it is written.

    Raises: EmailHeaderInvalid, HeaderReserved.
    """
    if not _HEADER_NAME.fullmatch(name):
        raise EmailHeaderInvalid("the name of a header field has letters, digits and - only")
    lowered = name.lower()
    if lowered in _RESERVED_HEADERS or lowered.startswith(_RESERVED_PREFIXES):
        raise HeaderReserved(f"the header field {name} cannot be set; it is written by Oncebox")
    if _CONTROLS.search(value):
        raise EmailHeaderInvalid(
            f"the header field {name} has line ends or control characters; remove them"
        )
    value = value.strip(" ")
    if not value or max(map(len, value.split(" "))) > _LONGEST_WORD:
        raise EmailHeaderInvalid(
            f"the header field {name} is empty, or has a word over {_LONGEST_WORD} characters"
        )
    if lowered in _MESSAGE_ID_HEADERS and not _MESSAGE_ID_LIST.fullmatch(value):
        raise EmailHeaderInvalid(f"{name} holds ids such as <id@example.com>, and single spaces")
    return value


_LONGEST_FILE_NAME = 255
#: controls, lone surrogates, and the two separators some readers take for a newline
#: what no text can hold: NUL ends it for some readers, half a character for all
_UNWRITABLE = re.compile("[\x00\ud800-\udfff]")
_ATOM = r"[A-Za-z0-9!#$&^_.+-]{1,100}"
_MEDIA_TYPE = re.compile(rf"{_ATOM}/{_ATOM}(?:; ?{_ATOM}={_ATOM}){{0,4}}")
#: what base64 would break: a mail in a mail, and several parts in one
_STRUCTURED = re.compile("(?:message|multipart)/", re.IGNORECASE)
_CONTENT_ID = re.compile(r"[A-Za-z0-9._+@-]{1,128}")
#: printable ASCII without what ends a reference in a header
_UNSUBSCRIBE_URL = re.compile(r"(?:https://|mailto:)[!-;=?-~]{1,900}")
_TAG = re.compile("[A-Za-z0-9_-]{1,256}")
_OCTETS = "application/octet-stream"


class Attachment(msgspec.Struct, frozen=True, kw_only=True):
    """Something that goes with an email."""

    #: as the reader sees it
    name: str
    content: bytes
    media_type: str = _OCTETS
    #: by which HTML shows it in place, as ``cid:ID``; empty for what only hangs on
    content_id: str = ""

    def __repr__(self) -> str:
        """Say how large it is, not what is in it."""
        return f"Attachment({len(self.content)} bytes)"


class Email(msgspec.Struct, frozen=True, kw_only=True):
    """An email, as somebody wants it sent.

    Addresses are written ``ann@example.com`` or ``Ann Lee <ann@example.com>``; where several
    are possible, one alone may be given as it is.
    """

    #: who it is from; empty: the default sender
    sender: str = ""
    to: Sequence[str] = ()
    cc: Sequence[str] = ()
    #: who gets it without the others' knowing
    bcc: Sequence[str] = ()
    reply_to: Sequence[str] = ()
    subject: str = ""
    text: str = ""
    html: str = ""
    #: further header fields
    headers: Mapping[str, str] = {}
    attachments: Sequence[Attachment] = ()
    #: the name of the template that subject, text and HTML are made by
    template: str = ""
    #: what is filled into it
    variables: Mapping[str, Any] = {}
    #: where one click ends such mail: an ``https:`` address, or ``mailto:``
    unsubscribe: str = ""
    #: words for providers that report them back; nobody who gets the mail sees them
    tags: Mapping[str, str] = {}

    def __post_init__(self) -> None:
        """Make one address a list of one, and lists what nobody changes."""
        for field in ("to", "cc", "bcc", "reply_to"):
            given = getattr(self, field)
            force_setattr(self, field, (given,) if isinstance(given, str) else tuple(given))
        force_setattr(self, "attachments", tuple(self.attachments))

    def __repr__(self) -> str:
        """Say whom it is for by their number; the rest is nobody's business."""
        return f"Email({len(self.to) + len(self.cc) + len(self.bcc)} recipients)"

    def __rich_repr__(self) -> list[tuple[str, Any]]:
        """Show no more than ``repr`` does."""
        return [("recipients", len(self.to) + len(self.cc) + len(self.bcc))]


class EmailLimits(msgspec.Struct, frozen=True, kw_only=True):
    """How much one email may be."""

    #: people in all; most providers take fifty
    recipients: int = 50
    #: characters of the subject
    subject: int = 998
    #: further header fields, and the characters of them all
    headers: int = 50
    header: int = 16 * 1024
    attachments: int = 100
    tags: int = 50
    #: bytes of text and HTML together, as UTF-8: as much as readers read
    text: int = 2 * 1024 * 1024
    #: bytes of it all, as base64
    size: int = 25 * 1024 * 1024


_LIMITS = EmailLimits()


def check_email(email: Email, *, default_sender: str = "", limits: EmailLimits = _LIMITS) -> Email:
    """Return an email that can be sent: within the limits, all its addresses in one spelling.

    Raises: EmailInvalid.
    """
    _check_bounds(email, limits)
    return normalize_email(email if email.sender else replace(email, sender=default_sender))


def normalize_email(email: Email) -> Email:
    """Return an email in which nothing can be taken for something else, of whatever size.

    Raises: EmailInvalid.
    """
    if not email.sender:
        raise SenderMissing("the mail says from nobody; set its sender, or a default one")
    if not (email.to or email.cc or email.bcc):
        raise RecipientMissing("the mail is for nobody; give an address in to, cc or bcc")
    if _CONTROLS.search(email.subject):
        raise EmailHeaderInvalid("the subject has line ends or control characters; remove them")
    _check_content(email)
    for attachment in email.attachments:
        _check_attachment(attachment)
    shown = [each.content_id.lower() for each in email.attachments if each.content_id]
    if len(set(shown)) < len(shown):
        raise AttachmentInvalid("two attachments have one content_id; give each its own")
    return replace(
        email,
        sender=str(parse_mailbox(email.sender)),
        to=_normalize_mailboxes(email.to),
        cc=_normalize_mailboxes(email.cc),
        bcc=_normalize_mailboxes(email.bcc),
        reply_to=_normalize_mailboxes(email.reply_to),
        headers=_check_headers(email.headers),
    )


def check_recipient_count(email: Email, most: int) -> None:
    """Refuse an email that names too many people, before any of them is looked at.

    Raises: TooManyRecipients.
    """
    for count in (len(email.to) + len(email.cc) + len(email.bcc), len(email.reply_to)):
        if count > most:
            raise TooManyRecipients(
                f"the mail names {count} addresses and may name {most}; "
                "make a batch of several sends"
            )


def parse_mailboxes(texts: Iterable[str]) -> tuple[Mailbox, ...]:
    """Return the mailboxes of a field.

    Raises: MailboxInvalid.
    """
    return tuple([parse_mailbox(text) for text in texts])


def recipient_addresses(email: Email) -> tuple[str, ...]:
    """Return the addresses of all who get an email, each once, however it is spelled.

    Raises: MailboxInvalid.
    """
    found: dict[str, str] = {}
    for mailbox in parse_mailboxes([*email.to, *email.cc, *email.bcc]):
        found.setdefault(mailbox.key, mailbox.address)
    return tuple(found.values())


def _check_bounds(email: Email, limits: EmailLimits) -> None:
    check_recipient_count(email, limits.recipients)
    header = sum(len(name) + len(value) for name, value in email.headers.items())
    text = len(email.text.encode("utf-8", "replace")) + len(email.html.encode("utf-8", "replace"))
    sizes = [text, *(len(each.content) for each in email.attachments)]
    amounts = (
        ("characters in its subject", len(email.subject), limits.subject),
        ("header fields", len(email.headers), limits.headers),
        ("characters in its header fields", header, limits.header),
        ("attachments", len(email.attachments), limits.attachments),
        ("tags", len(email.tags), limits.tags),
        ("bytes of text", text, limits.text),
        # Base64 makes four characters of three bytes, and ends a line after 76 of them.
        ("bytes on the wire", sum(-(-size // 57) * 78 for size in sizes), limits.size),
    )
    for what, amount, most in amounts:
        if amount > most:
            raise EmailTooLarge(f"the mail has {amount} {what}; the limit is {most}")


def _check_content(email: Email) -> None:
    if _UNWRITABLE.search(email.text) or _UNWRITABLE.search(email.html):
        raise EmailInvalid("the text has NUL or half characters in it; remove them")
    if not (email.text or email.html or email.attachments or email.template):
        raise EmailInvalid("there is nothing in the mail; give text, html or a template")
    if email.variables and not email.template:
        raise EmailInvalid("variables are filled into a template, and none is named; name it")
    if not all(_TAG.fullmatch(word) for tag in email.tags.items() for word in tag):
        raise EmailInvalid("a tag has 1 to 256 letters, digits, _ and - as its name and value")
    if email.unsubscribe and not _UNSUBSCRIBE_URL.fullmatch(email.unsubscribe):
        raise EmailInvalid("unsubscribe is an https: or mailto: address in plain ASCII")


def _check_attachment(attachment: Attachment) -> None:
    name = attachment.name
    if not 1 <= len(name) <= _LONGEST_FILE_NAME or _CONTROLS.search(name):
        raise AttachmentInvalid(
            f"an attachment is called by 1 to {_LONGEST_FILE_NAME} characters without controls"
        )
    kind = attachment.media_type
    if not _MEDIA_TYPE.fullmatch(kind) or _STRUCTURED.match(kind):
        raise AttachmentInvalid(
            "the media_type of an attachment is one such as application/pdf; a mail or several "
            f"parts go as {_OCTETS}"
        )
    if attachment.content_id and not _CONTENT_ID.fullmatch(attachment.content_id):
        raise AttachmentInvalid("a content_id has letters, digits and . _ + @ - only")


def _normalize_mailboxes(texts: Iterable[str]) -> tuple[str, ...]:
    return tuple(map(str, parse_mailboxes(texts)))


def _check_headers(headers: Mapping[str, str]) -> dict[str, str]:
    found: dict[str, str] = {}
    for name, value in headers.items():
        found[name] = check_header(name, value)
    if len({name.lower() for name in found}) < len(found):
        raise EmailHeaderInvalid("a header field is given twice, in other letters; give it once")
    return found


class SendEnvelope(msgspec.Struct, frozen=True, kw_only=True):
    """What a transport needs besides the frozen bytes."""

    #: of the envelope: where bounces go
    sender: str
    #: of the envelope: all who get it
    recipients: tuple[str, ...]
    #: what it was made of, for providers that write the mail themselves
    email: Email

    def __repr__(self) -> str:
        """Say whom it is for by their number."""
        return f"SendEnvelope({len(self.recipients)} recipients)"
