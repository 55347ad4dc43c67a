"""Compose: an email as the bytes that are sent, frozen. The same email gives the same bytes.

All of it is ASCII with CR LF line ends, no line is longer than 998 bytes, and Bcc is nowhere in
it. Only a local part beyond ASCII makes a message that is not ASCII, and needs SMTPUTF8.
"""

import re
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime, timedelta
from email.utils import format_datetime
from functools import lru_cache

import msgspec

from oncebox.mail import compose_bodies, compose_fields
from oncebox.mail.compose_bodies import Body
from oncebox.model.domain import domain_key
from oncebox.model.email import Attachment, Email, formed, mailboxes
from oncebox.model.intent import mark
from oncebox.model.mailbox import read_mailbox
from oncebox.send_errors import EmailHeaderInvalid

_END = b"\r\n"
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MESSAGE_ID = re.compile(r"<[!#$%&'*+/0-9=?A-Z^_`a-z{|}~.-]{1,64}@[A-Za-z0-9.-]{1,255}>")
_RANDOM_CHARACTERS = 32
#: between parameters, where a line may be broken
_SEMICOLON = re.compile("; ?")
#: neither quoted-printable nor base64 has it, so no text can be taken for the end of its part
_BOUNDARY = "=_"
#: for those who get a mail that names nobody (RFC 5322, A.1.3)
_NOBODY = "undisclosed-recipients:;"

#: fields that are always the same
_MIME = compose_fields.plain("MIME-Version", "1.0")
_TEXT_FIELDS = {
    kind: compose_fields.with_parameters("Content-Type", f"text/{kind}", [("charset", "utf-8")])
    for kind in ("plain", "html")
}


class _Part(msgspec.Struct):
    """A part of a message: its fields, and its content in pieces."""

    fields: list[bytes]
    content: list[bytes]


class _Boundaries:
    """Boundaries of one message, each made from the seed and its number."""

    def __init__(self, seed: bytes) -> None:
        self._seed = seed
        self._given = 0

    def next(self) -> str:
        """Return the next one."""
        self._given += 1
        number = str(self._given)
        return _BOUNDARY + mark(self._seed, "oncebox boundary 1", number)[:_RANDOM_CHARACTERS]


def message_id(secret: bytes, tenant: str, key: str, domain: str) -> str:
    """Return the Message-ID of a send: always the same, and guessed by nobody.

    Raises: AddressInvalid.
    """
    left = mark(secret, "oncebox message id 1", tenant, key)[:_RANDOM_CHARACTERS]
    return f"<{left}@{domain_key(domain)}>"


def compose(email: Email, *, message_id: str, date: int, seed: bytes) -> bytes:
    """Return an email as it is sent; ``date`` is in milliseconds, boundaries come from the seed.

    Raises: EmailInvalid.
    """
    return compose_formed(formed(email), message_id=message_id, date=date, seed=seed)


def compose_formed(email: Email, *, message_id: str, date: int, seed: bytes) -> bytes:
    """Return an email as it is sent, one that was checked by `checked` or `formed` before.

    Raises: EmailHeaderInvalid.
    """
    if not _MESSAGE_ID.fullmatch(message_id):
        raise EmailHeaderInvalid("a Message-ID looks like <id@example.com>")
    root = _root(email, _Boundaries(seed))
    pieces = [*_fields(email, message_id, date), *root.fields, _END, *root.content]
    if not pieces[-1].endswith(_END):
        pieces.append(_END)
    return b"".join(pieces)


def _fields(email: Email, message_id: str, date: int) -> Iterator[bytes]:
    yield _date(date // 1000)
    yield compose_fields.people("From", [read_mailbox(email.sender)])
    if not (email.to or email.cc):
        yield compose_fields.plain("To", _NOBODY)
    for name, texts in (("To", email.to), ("Cc", email.cc), ("Reply-To", email.reply_to)):
        if texts:
            yield compose_fields.people(name, mailboxes(texts))
    if email.subject:
        yield compose_fields.free("Subject", email.subject)
    yield compose_fields.plain("Message-ID", message_id)
    yield compose_fields.plain("Auto-Submitted", auto_submitted(email))
    if email.unsubscribe:
        yield compose_fields.plain("List-Unsubscribe", f"<{email.unsubscribe}>")
        if email.unsubscribe.startswith("https:"):
            yield compose_fields.plain("List-Unsubscribe-Post", "List-Unsubscribe=One-Click")
    for name, value in email.headers.items():
        yield compose_fields.free(name, value)
    yield _MIME


@lru_cache(maxsize=16)
def _date(seconds: int) -> bytes:
    """Return the field that says when; many mails are written within a second."""
    return compose_fields.plain("Date", format_datetime(_EPOCH + timedelta(seconds=seconds)))


def auto_submitted(email: Email) -> str:
    """Say that a program sends it (RFC 3834): by itself, or because it answers a mail."""
    answers = any(name.lower() == "in-reply-to" for name in email.headers)
    return "auto-replied" if answers else "auto-generated"


def _root(email: Email, boundaries: _Boundaries) -> _Part:
    """Return all that is in a mail: the texts, with what HTML shows, and what hangs on."""
    shown = [each for each in email.attachments if each.content_id and email.html]
    hanging = [each for each in email.attachments if not (each.content_id and email.html)]
    parts = []
    if email.text or not (email.html or hanging):
        parts.append(_text("plain", email.text))
    if email.html:
        html = _text("html", email.html)
        related = [html, *map(_attached, shown)]
        parts.append(_joined("related", related, boundaries) if shown else html)
    if len(parts) > 1:
        parts = [_joined("alternative", parts, boundaries)]
    parts += map(_attached, hanging)
    return _joined("mixed", parts, boundaries) if hanging else parts[0]


def _joined(kind: str, parts: Sequence[_Part], boundaries: _Boundaries) -> _Part:
    """Return parts as one multipart."""
    boundary = boundaries.next()
    given = [("boundary", boundary)]
    if kind == "related":
        given.insert(0, ("type", "text/html"))
    line = b"--" + boundary.encode("ascii")
    content: list[bytes] = []
    for part in parts:
        content += [line, _END, *part.fields, _END, *part.content, _END]
    return _Part(
        [compose_fields.with_parameters("Content-Type", f"multipart/{kind}", given)],
        [*content, line, b"--", _END],
    )


def _text(kind: str, text: str) -> _Part:
    return _encoded([_TEXT_FIELDS[kind]], compose_bodies.of_text(text))


def _attached(attachment: Attachment) -> _Part:
    disposition = "inline" if attachment.content_id else "attachment"
    fields = [
        compose_fields.plain("Content-Type", _SEMICOLON.sub("; ", attachment.media_type)),
        compose_fields.with_parameters(
            "Content-Disposition", disposition, [("filename", attachment.name)]
        ),
    ]
    if attachment.content_id:
        fields.append(compose_fields.plain("Content-ID", f"<{attachment.content_id}>"))
    return _encoded(fields, compose_bodies.of_bytes(attachment.content))


def _encoded(fields: list[bytes], body: Body) -> _Part:
    encoding = compose_fields.plain("Content-Transfer-Encoding", body.encoding)
    return _Part([*fields, encoding], [body.data])
