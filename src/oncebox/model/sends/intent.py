"""Send intents: options, idempotency keys and protected fields.

The key is published, so that other programs can compute it too: the SHA-256 of Python's
``json.dumps({"type": …, "entity": …, "to": …, "v": …}, sort_keys=True)``, in hexadecimal.
``to`` is the result of ``audience``. See docs/decisions/0029-use-one-canonical-key-per-send.md.
"""

import hashlib
import hmac
import json
import re
from collections.abc import Callable, Iterable
from datetime import datetime
from enum import StrEnum
from functools import partial
from typing import Any, TypedDict, Unpack

import msgspec

from oncebox.errors import KeyInvalid
from oncebox.errors.sends import RecipientMissing
from oncebox.model.inboxes.addresses import domain_key, parse_mailbox
from oncebox.model.sends.email import Email
from oncebox.model.sends.send import DEFAULT_ON_UNKNOWN, OnUnknown, Retention
from oncebox.model.validation import check_key

#: a changed rule gets a new number, so that old and new fingerprints never collide
_PROTECTED_RULE = "oncebox protected fields 1"
_PROVIDER_KEY_RULE = "oncebox provider key 1"
_CALLER_KEY_RULE = "oncebox own key 1"
_MESSAGE_ID_RULE = "oncebox message id 1"
_LARGEST_VERSION = 2**31 - 1
#: bytes that are copied rather than hashed in two steps
_SHORT = 1024
_BASE32 = "abcdefghijklmnopqrstuvwxyz234567"
_BASE32_PAIRS = [high + low for high in _BASE32 for low in _BASE32]
_PUBLISHED_KEY = re.compile("[0-9a-f]{64}")
#: ``json.dumps`` takes longer
_dumps = json.JSONEncoder().encode


class Intent(msgspec.Struct, frozen=True, kw_only=True):
    """A mail to send, with its options; times in milliseconds.

    The fields are described in ``SendOptions``.
    """

    email: Email
    event_type: str = ""
    entity_id: str = ""
    version: int = 1
    key: str | None = None
    strict: bool = False
    transport: str = ""
    failover_group: str = ""
    on_unknown: OnUnknown = DEFAULT_ON_UNKNOWN
    send_at: int | None = None
    valid_until: int | None = None
    retention: Retention = Retention.TRANSACTIONAL
    interval: int = 0
    attempt_id: str | None = None
    answers: str | None = None


class SendOrigin(msgspec.Struct, frozen=True, kw_only=True):
    """Where a send comes from: tenant, API key, and the effect of a delivery."""

    tenant: str
    #: None: the command line, or the program itself
    key: str | None = None
    #: agents have budgets
    is_agent: bool = False
    delivery_id: str | None = None
    effect: str | None = None


def audience(addresses: Iterable[str]) -> str:
    """Return the recipients of a mail: each address once, in normal form, sorted, with commas."""
    keys = {parse_mailbox(text).key for text in addresses}
    if not keys:
        raise RecipientMissing("the mail has no recipient; give an address")
    return ",".join(sorted(keys))


def key_audience(email: Email) -> str:
    """Return the audience in the key of an email: ``to``, or if that is empty, cc and bcc.

    Copies are protected but not in the key: a repeat with another copy is refused, and not sent
    as a second mail.
    """
    return audience(email.to or (*email.cc, *email.bcc))


def intent_key(event_type: str, entity_id: str, audience: str, version: int = 1) -> str:
    """Return the key of an intent: equal for all requests for the same mail."""
    check_key(event_type, "event type")
    check_key(entity_id, "entity id")
    if not audience:
        raise KeyInvalid("the audience is empty; give the addresses that the mail is for")
    if isinstance(version, bool) or not 0 <= version <= _LARGEST_VERSION:
        raise KeyInvalid(f"the version is a number between 0 and {_LARGEST_VERSION}")
    # As ``json.dumps`` with sorted keys writes it.
    named = (
        f'{{"entity": {_dumps(entity_id)}, "to": {_dumps(audience)}, "type": {_dumps(event_type)}, '
        f'"v": {version}}}'
    )
    return hashlib.sha256(named.encode("ascii")).hexdigest()


def caller_key(text: str) -> str:
    """Return the stored form of a key chosen by the caller; a published key stays as it is."""
    check_key(text, "idempotency key")
    return text if _PUBLISHED_KEY.fullmatch(text) else _digest(_CALLER_KEY_RULE, text).hex()


def key_for_intent(intent: Intent, email: Email) -> str:
    """Return the key of an intent with a checked email."""
    if intent.key is not None:
        return caller_key(intent.key)
    if not (intent.event_type and intent.entity_id):
        raise KeyInvalid("the mail has no identity; give event_type and entity_id, or a key")
    return intent_key(intent.event_type, intent.entity_id, key_audience(email), intent.version)


def protected_fingerprint(email: Email) -> bytes:
    """Return a fingerprint of what a repeat under the same key must not change.

    That is recipients, sender, attachments and template. Display names, subject and texts may
    change: a model writes them anew at every try.
    """
    attached = sorted(
        _digest(each.name, each.media_type.lower(), each.content_id, each.content)
        for each in email.attachments
    )
    sender = parse_mailbox(email.sender).key
    recipients = audience((*email.to, *email.cc, *email.bcc))
    return _digest(_PROTECTED_RULE, recipients, sender, email.template, *attached)


def message_id(secret: bytes, tenant: str, key: str, domain: str) -> str:
    """Return the Message-ID of a send: always the same for a key, and not guessable."""
    left = keyed_fingerprint(secret, _MESSAGE_ID_RULE, tenant, key)[:32]
    return f"<{left}@{domain_key(domain)}>"


def provider_key(secret: bytes, tenant: str, key: str, epoch: int) -> str:
    """Return the idempotency key for the provider; it reveals nothing about the mail.

    ``epoch`` increases only after proof that nothing was accepted, because some providers repeat
    errors under the same key. Lower-case base32, which all of them accept.
    """
    return keyed_fingerprint(secret, _PROVIDER_KEY_RULE, tenant, key, str(epoch))


def keyed_fingerprint(secret: bytes, *pieces: str) -> str:
    """Return an HMAC of the pieces in lower-case base32, without padding."""
    digest = hmac.new(secret, digestmod="sha256")
    for piece in pieces:
        _frame(digest.update, piece.encode())
    # 256 bits and 4 of padding, ten at a time: ``base64.b32encode`` takes five times as long.
    number = int.from_bytes(digest.digest()) << 4
    return "".join([_BASE32_PAIRS[number >> shift & 1023] for shift in range(250, -10, -10)])


def _digest(*pieces: str | bytes) -> bytes:
    digest = hashlib.sha256()
    for piece in pieces:
        data = piece if isinstance(piece, bytes) else piece.encode("utf-8", "surrogatepass")
        _frame(digest.update, data)
    return digest.digest()


def _frame(update: Callable[[bytes], None], data: bytes) -> None:
    """Hash a piece after its size, so that no two lists of pieces have the same digest."""
    update(len(data).to_bytes(8) + data if len(data) < _SHORT else len(data).to_bytes(8))
    if len(data) >= _SHORT:
        update(data)


#: a datetime with its zone, or milliseconds since 1970
Instant = datetime | int


class SendOptions(TypedDict, total=False):
    """Options of a mail."""

    #: what the mail is about, such as ``order.confirmation`` of ``order_4821``
    event_type: str
    entity_id: str
    #: another version is another mail
    version: int
    #: an idempotency key instead of event type, entity and version
    key: str | None
    #: what to do if the outcome is unknown: replay where keys are honoured (default), hold, resend
    on_unknown: OnUnknown | str
    #: earliest and latest moment of sending
    send_at: Instant | None
    valid_until: Instant | None
    #: no other one is used; empty: the first one, or one of its failover group
    transport: str
    #: the first transport of this group, or another of it
    failover_group: str
    #: how long the content is kept: transactional, scheduled or notification
    retention: Retention | str
    #: seconds between two mails of a schedule
    interval: float
    attempt_id: str | None
    #: id of the received message that this mail replies to
    answers: str | None
    #: refuse a repeat with other content; else the first content stays
    strict: bool


def intent_from_options(email: Email, **options: Unpack[SendOptions]) -> Intent:
    """Return the intent to send a mail with these options."""
    return Intent(email=email, **parse_options(options))


def parse_options(options: SendOptions) -> dict[str, Any]:
    """Return the given options with enums and with times in milliseconds; others are ignored."""
    given: dict[str, Any] = {**options}
    known = {name: given[name] for name in SendOptions.__annotations__ if name in given}
    return known | {name: parse(known[name]) for name, parse in _PARSERS.items() if name in known}


def _to_milliseconds(given: Instant | None) -> int | None:
    if not isinstance(given, datetime):
        return given
    if given.tzinfo is None:
        raise KeyInvalid("a datetime needs a time zone, such as datetime.now(UTC)")
    return int(given.timestamp() * 1000)


def _parse_option(kind: type[StrEnum], given: str) -> StrEnum:
    try:
        return kind(given)
    except ValueError:
        raise KeyInvalid(f"the value is none of: {', '.join(kind)}") from None


_PARSERS: dict[str, Callable[[Any], Any]] = {
    "on_unknown": partial(_parse_option, OnUnknown),
    "retention": partial(_parse_option, Retention),
    "send_at": _to_milliseconds,
    "valid_until": _to_milliseconds,
    "interval": lambda seconds: int(seconds * 1000),
}
