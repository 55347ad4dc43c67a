"""Outgoing email: content, limits, header checks, and its stored envelope.

Only Oncebox writes the header fields that name recipients, sender, date and structure, and those
that instruct a provider, for example to add recipients.
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
    MailboxInvalid,
    RecipientMissing,
    SenderMissing,
    TooManyRecipients,
)
from oncebox.model.inboxes.addresses import Mailbox, parse_mailbox

_HEADER_NAME = re.compile(r"[A-Za-z0-9-]{1,76}")
#: control characters, lone surrogates, and the separators some programs take for a newline
_CONTROLS = re.compile("[\x00-\x1f\x7f-\x9f\ud800-\udfff\u2028\u2029]")
#: a line has at most 998 characters (RFC 5322)
_LONGEST_WORD = 900
_RESERVED_HEADERS = frozenset({
    # addresses, dates and structure (RFC 5322)
    "from", "sender", "to", "cc", "bcc", "reply-to", "date", "message-id", "subject",
    "return-path", "received", "mime-version", "apparently-to", "errors-to",
    "disposition-notification-to", "return-receipt-to",
    # written by us and by relays
    "auto-submitted", "list-unsubscribe", "list-unsubscribe-post", "dkim-signature",
    "domainkey-signature", "authentication-results", "received-spf", "delivered-to",
    "x-original-to", "x-envelope-to", "x-envelope-from",
    # instructions to a provider
    "idempotency-key", "resend-idempotency-key", "x-smtpapi",
})  # fmt: skip
_RESERVED_PREFIXES = (
    "content-", "resent-", "arc-", "x-mailgun-", "x-mailjet-", "x-mc-", "x-mj-", "x-msys-",
    "x-pm-", "x-ses-", "x-oncebox-",
)  # fmt: skip
#: fields with Message-IDs of other mails
_MESSAGE_ID_HEADERS = frozenset({"in-reply-to", "references"})
_MESSAGE_ID_LIST = re.compile(r"<[!-;=?A-~]+@[!-;=?A-~]+>(?: <[!-;=?A-~]+@[!-;=?A-~]+>)*")


#: bytes of a base64 line
_LINE_ON_WIRE = 78
_LONGEST_FILE_NAME = 255
#: NUL, and surrogates, which UTF-8 cannot encode
_UNWRITABLE = re.compile("[\x00\ud800-\udfff]")
_ATOM = r"[A-Za-z0-9!#$&^_.+-]{1,100}"
_MEDIA_TYPE = re.compile(rf"{_ATOM}/{_ATOM}(?:; ?{_ATOM}={_ATOM}){{0,4}}")
#: types that must not be encoded as base64
_STRUCTURED = re.compile("(?:message|multipart)/", re.IGNORECASE)
_CONTENT_ID = re.compile(r"[A-Za-z0-9._+@-]{1,128}")
#: printable ASCII without angle brackets
_UNSUBSCRIBE_URL = re.compile(r"(?:https://|mailto:)[!-;=?-~]{1,900}")
_TAG = re.compile("[A-Za-z0-9_-]{1,256}")
_ADDRESS_FIELDS = ("to", "cc", "bcc", "reply_to")


class Attachment(msgspec.Struct, frozen=True, kw_only=True):
    """A file attached to an email."""

    #: the file name the recipient sees
    name: str
    content: bytes
    media_type: str = "application/octet-stream"
    #: for attachments the HTML shows inline, as ``cid:ID``
    content_id: str = ""

    def __repr__(self) -> str:
        return f"Attachment({len(self.content)} bytes)"


class Email(msgspec.Struct, frozen=True, kw_only=True):
    """An email to send.

    Addresses are written ``ann@example.com`` or ``Ann Lee <ann@example.com>``; a field that takes
    several also takes a single string.
    """

    #: empty: the default sender
    sender: str = ""
    to: Sequence[str] = ()
    cc: Sequence[str] = ()
    bcc: Sequence[str] = ()
    reply_to: Sequence[str] = ()
    subject: str = ""
    text: str = ""
    html: str = ""
    #: further header fields
    headers: Mapping[str, str] = {}
    attachments: Sequence[Attachment] = ()
    #: name of the template that renders subject, text and HTML
    template: str = ""
    variables: Mapping[str, Any] = {}
    #: ``https:`` or ``mailto:`` address for one-click unsubscribe
    unsubscribe: str = ""
    #: reported back by the provider; recipients do not see them
    tags: Mapping[str, str] = {}

    def __post_init__(self) -> None:
        for field in _ADDRESS_FIELDS:
            given = getattr(self, field)
            if not isinstance(given, tuple):
                force_setattr(self, field, (given,) if isinstance(given, str) else tuple(given))
        if not isinstance(self.attachments, tuple):
            force_setattr(self, "attachments", tuple(self.attachments))

    # Neither representation shows addresses or content.

    def __repr__(self) -> str:
        return f"Email({len(self.to) + len(self.cc) + len(self.bcc)} recipients)"

    def __rich_repr__(self) -> list[tuple[str, Any]]:
        return [("recipients", len(self.to) + len(self.cc) + len(self.bcc))]


class EmailLimits(msgspec.Struct, frozen=True, kw_only=True):
    """Limits of one email."""

    #: to, cc and bcc together; most providers accept 50
    recipients: int = 50
    #: characters of the subject
    subject: int = 998
    #: number of further header fields, and their characters together
    headers: int = 50
    header: int = 16 * 1024
    attachments: int = 100
    tags: int = 50
    #: bytes of text and HTML together, as UTF-8
    text: int = 2 * 1024 * 1024
    #: bytes of everything, as base64
    size: int = 25 * 1024 * 1024


_LIMITS = EmailLimits()


def check_email(email: Email, *, default_sender: str = "", limits: EmailLimits = _LIMITS) -> Email:
    """Return an email that can be sent: within the limits, with addresses in normal form.

    Raises: EmailInvalid.
    """
    _check_bounds(email, limits)
    return normalize_email(email if email.sender else replace(email, sender=default_sender))


def normalize_email(email: Email) -> Email:
    """Check everything but the limits; return the email with addresses in normal form."""
    if not email.sender:
        raise SenderMissing("the mail has no sender; give one, or set sends.sender")
    if not (email.to or email.cc or email.bcc):
        raise RecipientMissing("the mail has no recipient; give an address in to, cc or bcc")
    if _CONTROLS.search(email.subject):
        raise EmailHeaderInvalid("the subject has line ends or control characters; remove them")
    _check_content(email)
    if email.attachments:
        _check_attachments(email.attachments)
    headers = {name: check_header(name, value) for name, value in email.headers.items()}
    if len({name.lower() for name in headers}) < len(headers):
        raise EmailHeaderInvalid("a header field is given twice, in other letters; give it once")
    changed = {
        field: texts
        for field in _ADDRESS_FIELDS
        if (given := getattr(email, field)) and (texts := _normal_addresses(field, given)) != given
    }
    (sender,) = _normal_addresses("sender", (email.sender,))
    if not (changed or headers or sender != email.sender):
        return email  # as most are; a copy takes as long as all checks
    return replace(email, sender=sender, headers=headers, **changed)


def _normal_addresses(field: str, given: Iterable[str]) -> tuple[str, ...]:
    """Return the normal forms of the addresses of a field; an error names the one."""
    texts: list[str] = []
    for text in given:
        try:
            texts.append(parse_mailbox(text).text)
        except MailboxInvalid as error:
            named = field if field == "sender" else f"{field}[{len(texts)}]"
            raise MailboxInvalid(f"{named}: {error}") from None
    return tuple(texts)


def check_recipient_count(email: Email, most: int) -> None:
    """Refuse an email with too many addresses, before any of them is parsed."""
    for count in (len(email.to) + len(email.cc) + len(email.bcc), len(email.reply_to)):
        if count > most:
            raise TooManyRecipients(
                f"the mail has {count} addresses; the limit is {most}; send a batch of mails"
            )


def parse_mailboxes(texts: Iterable[str]) -> tuple[Mailbox, ...]:
    """Return the mailboxes of a field."""
    return tuple([parse_mailbox(text) for text in texts])


def recipient_addresses(email: Email) -> tuple[str, ...]:
    """Return the addresses of all recipients, each once, however it is spelled."""
    found: dict[str, str] = {}
    for mailbox in parse_mailboxes([*email.to, *email.cc, *email.bcc]):
        found.setdefault(mailbox.key, mailbox.address)
    return tuple(found.values())


def _check_bounds(email: Email, limits: EmailLimits) -> None:
    check_recipient_count(email, limits.recipients)
    if _is_small(email, limits):
        return
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
        # Base64 has four characters for three bytes, and line ends after 76 characters.
        ("bytes on the wire", sum(-(-size // 57) * _LINE_ON_WIRE for size in sizes), limits.size),
    )
    for unit, amount, most in amounts:
        if amount > most:
            raise EmailTooLarge(f"the mail has {amount} {unit}; the limit is {most}")


def _is_small(email: Email, limits: EmailLimits) -> bool:
    """Tell at a glance that a plain mail is far below all limits."""
    # A character has at most four bytes, and on the wire a byte takes less than two.
    text = 4 * (len(email.text) + len(email.html))
    return (
        not (email.headers or email.attachments or email.tags)
        and len(email.subject) <= limits.subject
        and text <= limits.text
        and 2 * text + _LINE_ON_WIRE <= limits.size
    )


def _is_writable(text: str) -> bool:
    return (text.isascii() and "\0" not in text) or not _UNWRITABLE.search(text)


def _check_content(email: Email) -> None:
    if not (_is_writable(email.text) and _is_writable(email.html)):
        raise EmailInvalid("the text contains NUL or lone surrogates; remove them")
    if not (email.text or email.html or email.attachments or email.template):
        raise EmailInvalid("the mail is empty; give text, html, attachments or a template")
    if email.variables and not email.template:
        raise EmailInvalid("variables need a template; name it")
    if not all(_TAG.fullmatch(word) for tag in email.tags.items() for word in tag):
        raise EmailInvalid("names and values of tags are 1 to 256 letters, digits, _ and -")
    if email.unsubscribe and not _UNSUBSCRIBE_URL.fullmatch(email.unsubscribe):
        raise EmailInvalid("unsubscribe is an https: or mailto: address in plain ASCII")


def check_header(name: str, value: str) -> str:
    """Return the value of a header field without surrounding blanks."""
    if not _HEADER_NAME.fullmatch(name):
        raise EmailHeaderInvalid("a header name consists of letters, digits and - only")
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


def _check_attachments(attachments: Iterable[Attachment]) -> None:
    for attachment in attachments:
        _check_attachment(attachment)
    content_ids = [each.content_id.lower() for each in attachments if each.content_id]
    if len(set(content_ids)) < len(content_ids):
        raise AttachmentInvalid("two attachments have one content_id; give each its own")


def _check_attachment(attachment: Attachment) -> None:
    name = attachment.name
    if not 1 <= len(name) <= _LONGEST_FILE_NAME or _CONTROLS.search(name):
        raise AttachmentInvalid(
            f"the name of an attachment has 1 to {_LONGEST_FILE_NAME} characters, no control "
            "characters"
        )
    kind = attachment.media_type
    if not _MEDIA_TYPE.fullmatch(kind) or _STRUCTURED.match(kind):
        raise AttachmentInvalid(
            "the media_type of an attachment is one such as application/pdf; attach message/ and "
            "multipart/ files as application/octet-stream"
        )
    if attachment.content_id and not _CONTENT_ID.fullmatch(attachment.content_id):
        raise AttachmentInvalid("a content_id has letters, digits and . _ + @ - only")


class SendEnvelope(msgspec.Struct, frozen=True, kw_only=True):
    """What a transport needs besides the composed message."""

    #: of the envelope: where bounces go
    sender: str
    recipients: tuple[str, ...]
    #: for providers with a JSON API
    email: Email

    def __repr__(self) -> str:
        return f"SendEnvelope({len(self.recipients)} recipients)"
