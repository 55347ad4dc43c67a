"""Intents: what makes two calls the same mail, so that it is sent once.

The key is published, so that other programs can make it too: the SHA-256 of Python's
``json.dumps({"type": …, "entity": …, "to": …, "v": …}, sort_keys=True)``, in hexadecimal.
``to`` is the audience, in the spelling of ``audience`` (docs/decisions/0060).
"""

import hashlib
import hmac
import json
import re
from collections.abc import Callable, Iterable

import msgspec

from oncebox.errors import KeyInvalid
from oncebox.model.arrival import check_key
from oncebox.model.email import Email, recipients
from oncebox.model.mailbox import read_mailbox
from oncebox.model.send import OnUnknown, Retention
from oncebox.send_errors import RecipientMissing

#: a new number for every change of the rule, so that old and new fingerprints never meet
_RULE = "oncebox protected fields 1"
_PROVIDER = "oncebox provider key 1"
_OWN = "oncebox own key 1"
_LARGEST_VERSION = 2**31 - 1
_PUBLISHED = re.compile("[0-9a-f]{64}")
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


class Origin(msgspec.Struct, frozen=True, kw_only=True):
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
    keys = {read_mailbox(text).key for text in addresses}
    if not keys:
        raise RecipientMissing("the mail is for nobody; give an address")
    return ",".join(sorted(keys))


def addressed(email: Email) -> str:
    """Return the audience that the key of an email is made of: who is in ``to``.

    Copies are protected, and no part of the key: with one more of them a repeat is refused, and
    not sent a second time. Without anybody in ``to``, all who get it count.

    Raises: MailboxInvalid, RecipientMissing.
    """
    return audience(email.to or (*email.cc, *email.bcc))


def key(event_type: str, entity_id: str, audience: str, version: int = 1) -> str:
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


def own_key(text: str) -> str:
    """Return what stands for a key that somebody chose; a published key stands for itself.

    Raises: KeyInvalid.
    """
    check_key(text, "idempotency key")
    return text if _PUBLISHED.fullmatch(text) else _digest(_OWN, text).hex()


def key_of(intent: Intent, email: Email) -> str:
    """Return the key of an intent whose email is as it will be sent.

    Raises: KeyInvalid.
    """
    if intent.key is not None:
        return own_key(intent.key)
    if not (intent.event_type and intent.entity_id):
        message = "say what the mail is about by event_type and entity_id, or give a key"
        raise KeyInvalid(message)
    return key(intent.event_type, intent.entity_id, addressed(email), intent.version)


def protected(email: Email) -> bytes:
    """Return a fingerprint of what no repeat under the same key may change.

    That is who gets it, who it is from, what is attached and which template it is made by.
    Names of people, subject and texts are not in it: a model writes them anew at every try.

    Raises: MailboxInvalid, RecipientMissing.
    """
    attached = sorted(
        _digest(each.name, each.media_type.lower(), each.content_id, each.content)
        for each in email.attachments
    )
    sender = read_mailbox(email.sender).key
    return _digest(_RULE, audience(recipients(email)), sender, email.template, *attached)


def provider_key(secret: bytes, tenant: str, key: str, epoch: int) -> str:
    """Return the key that a provider is given: nothing about the mail can be guessed from it.

    ``epoch`` moves on only after it is proven that nothing was taken: providers that remember
    their errors under a key would repeat them. Lower-case base32, which all of them take.
    """
    return mark(secret, _PROVIDER, tenant, key, str(epoch))


def mark(secret: bytes, *pieces: str) -> str:
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
