"""MIME composed from the JSON of an inbox API: the same JSON gives the same bytes.

Only named fields are taken. The result has no signature of the sender's, and none of the header
fields by which servers vouch for senders.
"""

import hashlib
import re
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime
from email.utils import format_datetime
from typing import Any

import msgspec

from oncebox.errors.sends import MailboxInvalid
from oncebox.mail.compose.mime_writer import (
    address_field,
    encode_text,
    parameter_field,
    plain_field,
    text_field,
)
from oncebox.model.inboxes.addresses import Mailbox, parse_mailbox

_MESSAGE_ID = re.compile(r"<?([!-;=?-~]{1,900}@[!-;=?-~]{1,255})>?")
_CONTROL = re.compile(r"[\x00-\x1f\x7f-\x9f\u2028\u2029\ud800-\udfff]+")
_MAX_SUBJECT = 2000
_MAX_ADDRESSES = 200
_MAX_DEPTH = 10
_ADDRESS_NAMES = ("email", "address", "Address", "emailAddress")
_DISPLAY_NAMES = ("name", "Name", "displayName")


class JsonFields(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Where a message of an API has its parts: dotted names, empty where it has none."""

    sender: str = "from"
    to: str = "to"
    cc: str = "cc"
    reply_to: str = ""
    subject: str = "subject"
    text: str = "text"
    html: str = "html"
    message_id: str = ""
    in_reply_to: str = ""


def value_at(found: Any, path: str) -> Any:
    """Return the value at a dotted name such as ``data.0.id``; None where there is none."""
    for name in path.split(".") if path else ():
        if isinstance(found, dict):
            found = found.get(name)
        elif isinstance(found, list) and name.isdecimal() and int(name) < len(found):
            found = found[int(name)]
        else:
            return None
    return found


def text_at(found: Any, path: str) -> str:
    """Return the text or number at a dotted name as text; empty where there is none."""
    value = value_at(found, path) if path else None
    if isinstance(value, bool) or not isinstance(value, str | int | float):
        return ""
    return str(value)


def compose_json_mail(message: Any, fields: JsonFields, *, fallback_id: str, date: int) -> bytes:
    """Return a message as MIME; ``date`` is in milliseconds.

    ``fallback_id`` becomes the Message-ID where the API does not give the one of the sender.
    """
    lines = [
        _address_line("From", _mailboxes(value_at(message, fields.sender))),
        _address_line("To", _mailboxes(_value(message, fields.to))),
        _address_line("Cc", _mailboxes(_value(message, fields.cc))),
        _address_line("Reply-To", _mailboxes(_value(message, fields.reply_to))),
        text_field("Subject", _one_line(text_at(message, fields.subject))[:_MAX_SUBJECT]),
        plain_field("Message-ID", _message_id(text_at(message, fields.message_id), fallback_id)),
        _reference_line("In-Reply-To", text_at(message, fields.in_reply_to)),
        plain_field("Date", _date(date)),
        plain_field("MIME-Version", "1.0"),
    ]
    return b"".join(lines) + _body(text_at(message, fields.text), text_at(message, fields.html))


def _value(message: Any, path: str) -> Any:
    return value_at(message, path) if path else None


def addresses_of(value: Any) -> tuple[str, ...]:
    """Return the plain addresses in a value of an API: texts, objects or lists of them."""
    return tuple(dict.fromkeys(each.address for each in _mailboxes(value)))


def _mailboxes(value: Any) -> list[Mailbox]:
    found = []
    for text in _address_texts(value, 0):
        try:
            found.append(parse_mailbox(_one_line(text)))
        except MailboxInvalid:
            continue
        if len(found) >= _MAX_ADDRESSES:
            break
    return found


def _address_texts(value: Any, depth: int) -> Iterator[str]:
    if depth > _MAX_DEPTH:
        return
    if isinstance(value, str):
        yield value
    elif isinstance(value, list):
        for each in value:
            yield from _address_texts(each, depth + 1)
    elif isinstance(value, dict):
        yield from _object_address(value, depth)


def _object_address(value: dict[str, Any], depth: int) -> Iterator[str]:
    address = next((value[name] for name in _ADDRESS_NAMES if name in value), None)
    if isinstance(address, str):
        name = next((value[each] for each in _DISPLAY_NAMES if each in value), "")
        plain = (
            _one_line(name).replace('"', "'").replace("\\", "/") if isinstance(name, str) else ""
        )
        yield f'"{plain}" <{address}>' if plain and "@" not in plain else address
    elif address is not None:
        yield from _address_texts(address, depth + 1)


def _address_line(name: str, mailboxes: Sequence[Mailbox]) -> bytes:
    return address_field(name, mailboxes) if mailboxes else b""


def _reference_line(name: str, text: str) -> bytes:
    found = _MESSAGE_ID.fullmatch(text.strip())
    return plain_field(name, f"<{found[1]}>") if found else b""


def _message_id(text: str, fallback_id: str) -> str:
    found = _MESSAGE_ID.fullmatch(text.strip())
    if found:
        return f"<{found[1]}>"
    return f"<{hashlib.sha256(fallback_id.encode()).hexdigest()[:40]}@api.invalid>"


def _date(at: int) -> str:
    return format_datetime(datetime.fromtimestamp(at // 1000, UTC))


def _one_line(text: str) -> str:
    return _CONTROL.sub(" ", text).strip()


def _body(text: str, html: str) -> bytes:
    """Return the fields and the content of the body."""
    parts = [_part(kind, each) for kind, each in (("plain", text), ("html", html)) if each]
    if len(parts) < 2:  # noqa: PLR2004 - alternatives
        return parts[0] if parts else _part("plain", "")
    digest = hashlib.sha256(b"\0".join(parts)).hexdigest()[:32]
    # Occurs neither in quoted-printable nor in base64.
    boundary = f"=_{digest}"
    field = parameter_field("Content-Type", "multipart/alternative", [("boundary", boundary)])
    marker = f"--{boundary}".encode()
    pieces = [b"\r\n" + marker + b"\r\n" + part for part in parts]
    return field + b"".join(pieces) + b"\r\n" + marker + b"--\r\n"


def _part(kind: str, text: str) -> bytes:
    body = encode_text(text.encode("utf-8", "replace").decode())
    return (
        parameter_field("Content-Type", f"text/{kind}", [("charset", "utf-8")])
        + plain_field("Content-Transfer-Encoding", body.encoding)
        + b"\r\n"
        + body.data
        + b"\r\n"
    )
