"""MIME writer: an email as the bytes to send; the same email gives the same bytes.

Names and free text with other characters than ASCII become encoded words (RFC 2047), parameters
follow RFC 2231. A local part with other characters is written as UTF-8 (RFC 6532), because it has
no ASCII form; it requires SMTPUTF8.

A text is encoded as quoted-printable, or as base64 where that is shorter. Neither has a single
dot or ``From`` at the start of a line, a space at the end of one, or other characters than ASCII,
so no relay has a reason to change the signed bytes.

The message is ASCII with CR LF line ends, except for such a local part. No line is longer than
998 bytes, and there is no Bcc field.
"""

import re
from base64 import b64encode
from binascii import b2a_base64
from collections.abc import Iterable, Iterator, Sequence
from datetime import UTC, datetime, timedelta
from email.utils import format_datetime
from functools import lru_cache
from itertools import count
from urllib.parse import quote

import msgspec

from oncebox.errors.sends import EmailHeaderInvalid
from oncebox.model.inboxes.addresses import Mailbox, parse_mailbox, quote_name
from oncebox.model.sends.email import Attachment, Email, normalize_email, parse_mailboxes
from oncebox.model.sends.intent import keyed_fingerprint

#: preferred length of a line
_LINE_WIDTH = 76
#: after a longer field name the value starts on a new line, so that an encoded word fits
_SHORT_NAME = 20
#: longest word: a line has at most 998 characters, including the field name
_LONGEST_WORD = 900
_CRLF = b"\r\n"
_FOLD = "\r\n "
#: bytes in one encoded word, which fits on a line after a short field name
_WORD_BYTES = 30
_WORD_CHARACTERS = 43
#: characters that need no escape in any encoded word (RFC 2047, 5)
_Q_SAFE = frozenset(b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789!*+-/")
_SPACE = ord(" ")
#: words separated by single spaces, none of which looks like an encoded word
_PLAIN_WORDS = re.compile(r"(?!.*=\?)[!-~]+(?: [!-~]+)*")
#: a parameter that only needs quotes
_QUOTABLE = re.compile(r"(?!.*=\?)[!#-\[\]-~](?:[ !#-\[\]-~]{0,58}[!#-\[\]-~])?")
#: characters of one section of a long parameter
_PARAMETER_PIECE = 50


def plain_field(name: str, value: str) -> bytes:
    """Return a field with an ASCII value, folded between words."""
    line = f"{name}: {value}\r\n"
    if len(line) <= _LINE_WIDTH + len(_CRLF):
        return line.encode("utf-8")
    return _folded_field(name, value.split(" "))


def text_field(name: str, value: str) -> bytes:
    """Return a field of free text, such as a subject."""
    if not _PLAIN_WORDS.fullmatch(value):
        return _folded_field(name, encoded_words(value))
    if len(value) > _LONGEST_WORD and max(map(len, value.split(" "))) > _LONGEST_WORD:
        return _folded_field(name, encoded_words(value))
    return plain_field(name, value)


def address_field(name: str, mailboxes: Sequence[Mailbox]) -> bytes:
    """Return a field of addresses."""
    if len(mailboxes) == 1 and not mailboxes[0].name and mailboxes[0].address.isascii():
        return plain_field(name, f"<{mailboxes[0].address}>")
    tokens: list[str] = []
    for mailbox in mailboxes:
        tokens += [*_display_name(mailbox.name), f"<{mailbox.address}>"]
        tokens[-1] += ","
    tokens[-1] = tokens[-1].removesuffix(",")
    return _folded_field(name, tokens)


def parameter_field(name: str, value: str, parameters: Iterable[tuple[str, str]]) -> bytes:
    """Return a field such as Content-Type, with each parameter on its own line."""
    pieces = [piece for key, text in parameters for piece in _encoded_parameter(key, text)]
    return f"{name}: {f';{_FOLD}'.join([value, *pieces])}\r\n".encode("ascii")


def encoded_words(text: str) -> list[str]:
    """Return a text as encoded words that do not split characters."""
    data = text.encode("utf-8")
    if sum(byte in _Q_SAFE for byte in data) * 2 > len(data):
        return [f"=?utf-8?q?{word}?=" for word in _q_words(text)]
    return [f"=?utf-8?b?{word}?=" for word in _b_words(text)]


def _folded_field(name: str, tokens: Iterable[str]) -> bytes:
    """Return a field folded before tokens that do not fit on the line."""
    line = f"{name}:"
    lines: list[str] = []
    for token in tokens:
        full = len(line) + 1 + len(token) > _LINE_WIDTH
        if full and len(line) > (_SHORT_NAME if not lines else 1):
            lines.append(line)
            line = ""
        line += f" {token}"
    return "\r\n".join([*lines, line, ""]).encode("utf-8")


def _display_name(name: str) -> list[str]:
    if not name:
        return []
    return encoded_words(name) if "=?" in name or not name.isascii() else [quote_name(name)]


def _q_words(text: str) -> Iterator[str]:
    word = ""
    for character in text:
        written = "".join(map(_q_byte, character.encode("utf-8")))
        if len(word) + len(written) > _WORD_CHARACTERS:
            yield word
            word = ""
        word += written
    yield word


def _q_byte(byte: int) -> str:
    if byte == _SPACE:
        return "_"
    return chr(byte) if byte in _Q_SAFE else f"={byte:02X}"


def _b_words(text: str) -> Iterator[str]:
    word = b""
    for character in text:
        data = character.encode("utf-8")
        if len(word) + len(data) > _WORD_BYTES:
            yield b64encode(word).decode("ascii")
            word = b""
        word += data
    yield b64encode(word).decode("ascii")


def _encoded_parameter(name: str, text: str) -> list[str]:
    """Return a parameter: quoted, or with its charset and in several sections."""
    if _QUOTABLE.fullmatch(text):
        return [f'{name}="{text}"']
    pieces = [""]
    for character in text:  # some programs decode each section separately
        written = quote(character, safe="")
        if len(pieces[-1]) + len(written) > _PARAMETER_PIECE:
            pieces.append("")
        pieces[-1] += written
    if len(pieces) == 1:
        return [f"{name}*=utf-8''{pieces[0]}"]
    pieces[0] = f"utf-8''{pieces[0]}"
    return [f"{name}*{number}*={piece}" for number, piece in enumerate(pieces)]


_BASE64_WIDTH = 76
#: bytes that need no escape
_SAFE = bytes({*b" \r\n", *range(ord("!"), ord("~") + 1)} - {ord("=")})
_UNSAFE = re.compile(rb"[^ !-<>-~\r\n]")
_BLANK_AT_END = re.compile(rb" (?=\r\n|\Z)")
#: at most 73 bytes of a line, never a part of ``=XX``; an escape at its start adds two
_PIECE_WIDTH = 73
_LINE_PIECE = re.compile(rb"[^\r\n]{1,73}(?<!=)(?<!=.)")
_CHANGED_BY_SERVERS = (b".", b"From ")
_MAY_BE_CHANGED = b".F"
_ESCAPES = [b"=%02X" % byte for byte in range(256)]


class EncodedBody(msgspec.Struct, frozen=True):
    """The encoded content of a part, and its encoding."""

    encoding: str
    data: bytes


def encode_text(text: str) -> EncodedBody:
    """Return a text encoded for sending, with CR LF line ends."""
    lines = text.replace("\r\n", "\n").replace("\r", "\n").replace("\n", "\r\n")
    data = lines.encode("utf-8")
    # An escaped byte takes three: if more than a sixth are escaped, base64 is shorter.
    if len(data.translate(None, _SAFE)) * 6 > len(data):
        return encode_bytes(data)
    return EncodedBody("quoted-printable", quoted_printable(data))


def encode_bytes(data: bytes) -> EncodedBody:
    """Return bytes encoded for sending."""
    encoded = b2a_base64(data, newline=False)
    lines = [encoded[at : at + _BASE64_WIDTH] for at in range(0, len(encoded), _BASE64_WIDTH)]
    return EncodedBody("base64", _CRLF.join(lines))


def quoted_printable(data: bytes) -> bytes:
    """Return text with CR LF line ends as quoted-printable."""
    if data.translate(None, _SAFE):
        data = _UNSAFE.sub(lambda found: _ESCAPES[found[0][0]], data)
    if b" \r\n" in data or data.endswith(b" "):
        data = _BLANK_AT_END.sub(b"=20", data)
    return _CRLF.join([_wrapped_line(line) for line in data.split(_CRLF)])


def _wrapped_line(line: bytes) -> bytes:
    """Split a long line, and escape what servers change at the start of a line."""
    if b"=" in line or b"\r" in line or b"\n" in line:
        pieces = _LINE_PIECE.findall(line)
    else:
        pieces = [line[at : at + _PIECE_WIDTH] for at in range(0, len(line), _PIECE_WIDTH)]
    return b"=\r\n".join(
        [_escaped_start(piece) if piece[0] in _MAY_BE_CHANGED else piece for piece in pieces]
    )


def _escaped_start(piece: bytes) -> bytes:
    return _ESCAPES[piece[0]] + piece[1:] if piece.startswith(_CHANGED_BY_SERVERS) else piece


_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MESSAGE_ID = re.compile(r"<[!#$%&'*+/0-9=?A-Z^_`a-z{|}~.-]{1,64}@[A-Za-z0-9.-]{1,255}>")
_BOUNDARY_LENGTH = 32
#: the separator of parameters, with a fold
_SEMICOLON = re.compile("; ?")
#: occurs neither in quoted-printable nor in base64, so no content contains a boundary
_BOUNDARY_PREFIX = "=_"
#: the To field of a mail without visible recipients (RFC 5322, A.1.3)
_UNDISCLOSED = "undisclosed-recipients:;"

#: constant fields
_MIME_VERSION = plain_field("MIME-Version", "1.0")
_TEXT_FIELDS = {
    kind: parameter_field("Content-Type", f"text/{kind}", [("charset", "utf-8")])
    for kind in ("plain", "html")
}


class _Part(msgspec.Struct):
    """A part of a message: its fields and its content."""

    fields: list[bytes]
    content: list[bytes]


def compose(email: Email, *, message_id: str, date: int, seed: bytes) -> bytes:
    """Return the message of an email; ``date`` is in milliseconds, ``seed`` gives the boundaries.

    Raises: EmailInvalid.
    """
    return compose_checked(normalize_email(email), message_id=message_id, date=date, seed=seed)


def compose_checked(email: Email, *, message_id: str, date: int, seed: bytes) -> bytes:
    """Return the message of an email that was validated before.

    Raises: EmailHeaderInvalid.
    """
    if not _MESSAGE_ID.fullmatch(message_id):
        raise EmailHeaderInvalid("a Message-ID looks like <id@example.com>")
    # The boundaries derive from the seed, so the same email has the same ones.
    boundaries = (
        keyed_fingerprint(seed, "oncebox boundary 1", str(number))[:_BOUNDARY_LENGTH]
        for number in count(1)
    )
    root = _root_part(email, boundaries)
    pieces = [*_header_fields(email, message_id, date), *root.fields, _CRLF, *root.content]
    if not pieces[-1].endswith(_CRLF):
        pieces.append(_CRLF)
    return b"".join(pieces)


def _header_fields(email: Email, message_id: str, date: int) -> Iterator[bytes]:
    yield _date_field(date // 1000)
    yield address_field("From", [parse_mailbox(email.sender)])
    if not (email.to or email.cc):
        yield plain_field("To", _UNDISCLOSED)
    for name, texts in (("To", email.to), ("Cc", email.cc), ("Reply-To", email.reply_to)):
        if texts:
            yield address_field(name, parse_mailboxes(texts))
    if email.subject:
        yield text_field("Subject", email.subject)
    yield plain_field("Message-ID", message_id)
    yield plain_field("Auto-Submitted", auto_submitted(email))
    if email.unsubscribe:
        yield plain_field("List-Unsubscribe", f"<{email.unsubscribe}>")
        if email.unsubscribe.startswith("https:"):
            yield plain_field("List-Unsubscribe-Post", "List-Unsubscribe=One-Click")
    for name, value in email.headers.items():
        yield text_field(name, value)
    yield _MIME_VERSION


@lru_cache(maxsize=16)
def _date_field(seconds: int) -> bytes:
    """Return the Date field; cached, because many mails have the same second."""
    return plain_field("Date", format_datetime(_EPOCH + timedelta(seconds=seconds)))


def auto_submitted(email: Email) -> str:
    """Return the value of Auto-Submitted (RFC 3834): generated, or a reply."""
    answers = any(name.lower() == "in-reply-to" for name in email.headers)
    return "auto-replied" if answers else "auto-generated"


def _root_part(email: Email, boundaries: Iterator[str]) -> _Part:
    """Return the body of a mail: texts, inline images and attachments."""
    shown = [each for each in email.attachments if each.content_id and email.html]
    hanging = [each for each in email.attachments if not (each.content_id and email.html)]
    parts = []
    if email.text or not (email.html or hanging):
        parts.append(_text_part("plain", email.text))
    if email.html:
        html = _text_part("html", email.html)
        related = [html, *map(_attachment_part, shown)]
        parts.append(_multipart("related", related, boundaries) if shown else html)
    if len(parts) > 1:
        parts = [_multipart("alternative", parts, boundaries)]
    parts += map(_attachment_part, hanging)
    return _multipart("mixed", parts, boundaries) if hanging else parts[0]


def _multipart(kind: str, parts: Sequence[_Part], boundaries: Iterator[str]) -> _Part:
    boundary = _BOUNDARY_PREFIX + next(boundaries)
    given = [("boundary", boundary)]
    if kind == "related":
        given.insert(0, ("type", "text/html"))
    line = b"--" + boundary.encode("ascii")
    content: list[bytes] = []
    for part in parts:
        content += [line, _CRLF, *part.fields, _CRLF, *part.content, _CRLF]
    return _Part(
        [parameter_field("Content-Type", f"multipart/{kind}", given)],
        [*content, line, b"--", _CRLF],
    )


def _text_part(kind: str, text: str) -> _Part:
    return _encoded_part([_TEXT_FIELDS[kind]], encode_text(text))


def _attachment_part(attachment: Attachment) -> _Part:
    disposition = "inline" if attachment.content_id else "attachment"
    fields = [
        plain_field("Content-Type", _SEMICOLON.sub("; ", attachment.media_type)),
        parameter_field("Content-Disposition", disposition, [("filename", attachment.name)]),
    ]
    if attachment.content_id:
        fields.append(plain_field("Content-ID", f"<{attachment.content_id}>"))
    return _encoded_part(fields, encode_bytes(attachment.content))


def _encoded_part(fields: list[bytes], body: EncodedBody) -> _Part:
    encoding = plain_field("Content-Transfer-Encoding", body.encoding)
    return _Part([*fields, encoding], [body.data])
