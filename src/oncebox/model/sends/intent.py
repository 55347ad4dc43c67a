"""Send intents: options, idempotency keys and protected fields; what makes a mail the same.

The key is published, so that other programs can make it too: the SHA-256 of Python's
``json.dumps({"type": …, "entity": …, "to": …, "v": …}, sort_keys=True)``, in hexadecimal.
``to`` is the audience, in the spelling of ``audience`` (docs/decisions/0029).
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
from oncebox.model.sends.email import Email, recipient_addresses
from oncebox.model.sends.send import OnUnknown, Retention
from oncebox.model.validation import check_key

#: a new number for every change of the rule, so that old and new fingerprints never meet
_PROTECTED_RULE = "oncebox protected fields 1"
_PROVIDER_KEY_RULE = "oncebox provider key 1"
_CALLER_KEY_RULE = "oncebox own key 1"
_MESSAGE_ID_RULE = "oncebox message id 1"
#: characters before the @
_MESSAGE_ID_LENGTH = 32
_LARGEST_VERSION = 2**31 - 1
_PUBLISHED_KEY = re.compile("[0-9a-f]{64}")
#: as ``json.dumps`` does it, which makes an encoder anew for every call
_dumps = json.JSONEncoder(sort_keys=True).encode

_BASE32 = "abcdefghijklmnopqrstuvwxyz234567"
_PAIRS = [high + low for high in _BASE32 for low in _BASE32]
#: 256 bits fill 52 characters of five bits with four to spare
_PADDING = 4
_SHIFTS = range(250, -1, -10)


class Intent(msgspec.Struct, frozen=True, kw_only=True):
    """One mail that somebody means to send, as they say it; times in milliseconds."""

    email: Email
    #: what the mail is about, such as ``order.confirmation`` of ``order_4821``
    event_type: str = ""
    entity_id: str = ""
    #: another one means the same mail anew, on purpose
    version: int = 1
    #: a key of one's own, instead of the one that is made of the above
    key: str | None = None
    #: whether a repeat that says something else is refused; else the first one stays
    strict: bool = False
    #: empty: the first that there is
    transport: str = ""
    on_unknown: OnUnknown = OnUnknown.HOLD
    send_at: int | None = None
    valid_until: int | None = None
    retention: Retention = Retention.TRANSACTIONAL
    #: how often a scheduled mail comes
    interval: int = 0
    attempt_id: str | None = None
    #: the message of an inbox that it answers
    answers: str | None = None


class SendOrigin(msgspec.Struct, frozen=True, kw_only=True):
    """Who means to send: for whom, by which key, and from which effect of which delivery."""

    tenant: str
    #: none: somebody at the terminal, or the program itself
    key: str | None = None
    #: what agents ask for is counted against their budget
    is_agent: bool = False
    delivery_id: str | None = None
    effect: str | None = None


def audience(addresses: Iterable[str]) -> str:
    """Return for whom a mail is: each address once, in one spelling, sorted, joined by commas.

    Raises: MailboxInvalid, RecipientMissing.
    """
    keys = {parse_mailbox(text).key for text in addresses}
    if not keys:
        raise RecipientMissing("the mail is for nobody; give an address")
    return ",".join(sorted(keys))


def key_audience(email: Email) -> str:
    """Return the audience that the key of an email is made of: who is in ``to``.

    Copies are protected, and no part of the key: with one more of them a repeat is refused, and
    not sent a second time. Without anybody in ``to``, all who get it count.

    Raises: MailboxInvalid, RecipientMissing.
    """
    return audience(email.to or (*email.cc, *email.bcc))


def intent_key(event_type: str, entity_id: str, audience: str, version: int = 1) -> str:
    """Return the key of an intent: the same for everybody who means the same mail.

    Raises: KeyInvalid.
    """
    check_key(event_type, "event type")
    check_key(entity_id, "entity id")
    if not audience:
        raise KeyInvalid("the audience is empty; give the addresses that the mail is for")
    if isinstance(version, bool) or not 0 <= version <= _LARGEST_VERSION:
        raise KeyInvalid(f"the version is a number between 0 and {_LARGEST_VERSION}")
    named = {"type": event_type, "entity": entity_id, "to": audience, "v": version}
    return hashlib.sha256(_dumps(named).encode("ascii")).hexdigest()


def caller_key(text: str) -> str:
    """Return what stands for a key that somebody chose; a published key stands for itself.

    Raises: KeyInvalid.
    """
    check_key(text, "idempotency key")
    return text if _PUBLISHED_KEY.fullmatch(text) else _digest(_CALLER_KEY_RULE, text).hex()


def key_for_intent(intent: Intent, email: Email) -> str:
    """Return the key of an intent whose email is as it will be sent.

    Raises: KeyInvalid.
    """
    if intent.key is not None:
        return caller_key(intent.key)
    if not (intent.event_type and intent.entity_id):
        raise KeyInvalid("say what the mail is about by event_type and entity_id, or give a key")
    return intent_key(intent.event_type, intent.entity_id, key_audience(email), intent.version)


def protected_fingerprint(email: Email) -> bytes:
    """Return a fingerprint of what no repeat under the same key may change.

    That is who gets it, who it is from, what is attached and which template it is made by.
    Names of people, subject and texts are not in it: a model writes them anew at every try.

    Raises: MailboxInvalid, RecipientMissing.
    """
    attached = sorted(
        _digest(each.name, each.media_type.lower(), each.content_id, each.content)
        for each in email.attachments
    )
    sender = parse_mailbox(email.sender).key
    return _digest(
        _PROTECTED_RULE, audience(recipient_addresses(email)), sender, email.template, *attached
    )


def message_id(secret: bytes, tenant: str, key: str, domain: str) -> str:
    """Return the Message-ID of a send: always the same for a key, and not guessable.

    Raises: AddressInvalid.
    """
    left = keyed_fingerprint(secret, _MESSAGE_ID_RULE, tenant, key)[:_MESSAGE_ID_LENGTH]
    return f"<{left}@{domain_key(domain)}>"


def provider_key(secret: bytes, tenant: str, key: str, epoch: int) -> str:
    """Return the key that a provider is given: nothing about the mail can be guessed from it.

    ``epoch`` moves on only after it is proven that nothing was taken: providers that remember
    their errors under a key would repeat them. Lower-case base32, which all of them take.
    """
    return keyed_fingerprint(secret, _PROVIDER_KEY_RULE, tenant, key, str(epoch))


def keyed_fingerprint(secret: bytes, *pieces: str) -> str:
    """Return what stands for the pieces, and can be made only with the secret."""
    digest = hmac.new(secret, digestmod="sha256")
    for piece in pieces:
        _frame(digest.update, piece.encode())
    return _base32(digest.digest())


def _base32(digest: bytes) -> str:
    """Return 32 bytes in lower-case base32 without padding, ten bits at a time."""
    number = int.from_bytes(digest) << _PADDING
    return "".join([_PAIRS[number >> shift & 1023] for shift in _SHIFTS])


def _digest(*pieces: str | bytes) -> bytes:
    digest = hashlib.sha256()
    for piece in pieces:
        data = piece if isinstance(piece, bytes) else piece.encode("utf-8", "surrogatepass")
        _frame(digest.update, data)
    return digest.digest()


def _frame(update: Callable[[bytes], None], data: bytes) -> None:
    """Hash a piece with its size before it, so that no two lists of pieces look the same."""
    update(len(data).to_bytes(8))
    update(data)


#: a moment: with its zone, or in milliseconds since 1970
Instant = datetime | int


class SendOptions(TypedDict, total=False):
    """What may be said of a mail besides what is in it."""

    #: what the mail is about, such as ``order.confirmation`` of ``order_4821``
    event_type: str
    entity_id: str
    #: another one means the same mail anew, on purpose
    version: int
    #: a key of one's own, instead of the one that is made of the above
    key: str | None
    #: what becomes of it when nobody can know whether it was sent: hold, replay or resend
    on_unknown: OnUnknown | str
    #: not before this moment, and not after that one
    send_at: Instant | None
    valid_until: Instant | None
    #: empty: the first that there is
    transport: str
    #: how long what it says is kept: transactional, scheduled or notification
    retention: Retention | str
    #: seconds between two of a schedule
    interval: float
    attempt_id: str | None
    #: the message of an inbox that it answers
    answers: str | None
    #: refuse a repeat that says something else
    strict: bool


def intent_from_options(email: Email, **options: Unpack[SendOptions]) -> Intent:
    """Return the intent to send a mail with these options.

    Raises: KeyInvalid.
    """
    return Intent(email=email, **parse_options(options))


def parse_options(options: SendOptions) -> dict[str, Any]:
    """Return the given options with enums and with times in milliseconds; others are ignored.

    Raises: KeyInvalid.
    """
    given: dict[str, Any] = {**options}
    known = {name: given[name] for name in SendOptions.__annotations__ if name in given}
    return known | {name: parse(known[name]) for name, parse in _PARSERS.items() if name in known}


def _to_milliseconds(given: Instant | None) -> int | None:
    if not isinstance(given, datetime):
        return given
    if given.tzinfo is None:
        raise KeyInvalid("a moment needs its zone, such as datetime.now(UTC)")
    return int(given.timestamp() * 1000)


def _parse_option(kind: type[StrEnum], given: str) -> StrEnum:
    try:
        return kind(given)
    except ValueError:
        known = ", ".join(kind)
        raise KeyInvalid(f"that is none of: {known}") from None


_PARSERS: dict[str, Callable[[Any], Any]] = {
    "on_unknown": partial(_parse_option, OnUnknown),
    "retention": partial(_parse_option, Retention),
    "send_at": _to_milliseconds,
    "valid_until": _to_milliseconds,
    "interval": lambda seconds: int(seconds * 1000),
}
