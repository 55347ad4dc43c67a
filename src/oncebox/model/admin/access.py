"""API keys and tenants: scopes, key format and checksum, tenant names.

    obx_ + 32 characters (160 random bits) + 7 characters (CRC-32 of the rest)

in Crockford's base32. Secret scanners recognise the format, and a mistyped key is refused without
a database query. Only the SHA-256 of the text is stored: the text is random, so there is nothing
to guess, and a slow hash would not protect it better.
"""

import hashlib
import hmac
import re
import zlib
from collections.abc import Sequence
from enum import StrEnum

import msgspec

from oncebox.errors import KeyInvalid
from oncebox.model.validation import check_key, check_source_name

KEY_PREFIX = "obx_"
KEY_RANDOM_BYTES = 20

_ALPHABET = "0123456789abcdefghjkmnpqrstvwxyz"
_RANDOM_LENGTH, _CHECKSUM_LENGTH = 32, 7
_BITS = 5
_KEY_TEXT = re.compile(f"{KEY_PREFIX}[{_ALPHABET}]{{{_RANDOM_LENGTH + _CHECKSUM_LENGTH}}}")
_HINT_LENGTH = len(KEY_PREFIX) + 6
_WORKER_PREFIX = "worker:"
_ACCEPT_PREFIX = "accept:"
_LONGEST_KEY_NAME = 100


class Scope(StrEnum):
    """Scopes of a key, beside ``worker:SOURCE`` and ``accept:SOURCE``; ``*`` is all sources."""

    #: everything, keys and secrets included
    ADMIN = "admin"
    #: inspect and control deliveries, sources and sends
    OPERATOR = "operator"
    #: what an agent needs: typed answers, no text of senders
    AGENT = "agent"
    #: beside ``agent``: also the text of senders, shortened and sanitised
    READ_TEXT = "read:text"
    #: read the metrics from another machine, and nothing else
    METRICS = "metrics"


class ApiKey(msgspec.Struct, frozen=True, kw_only=True):
    """An API key without its text, which is not stored."""

    id: str
    tenant: str
    #: display name
    name: str
    #: the beginning of its text, to distinguish keys
    hint: str
    scopes: tuple[str, ...]
    created_at: int
    expires_at: int | None = None
    revoked_at: int | None = None
    #: to about a minute
    last_used_at: int | None = None

    def state(self, now: int) -> str:
        """Return ``active``, ``expired`` or ``revoked``."""
        if self.revoked_at is not None:
            return "revoked"
        return "expired" if self.expires_at is not None and self.expires_at <= now else "active"

    def may(self, *scopes: str) -> bool:
        """Say whether the key has one of these scopes; an admin has all."""
        return Scope.ADMIN in self.scopes or any(scope in self.scopes for scope in scopes)

    def may_work(self, source: str) -> bool:
        """Say whether the key may work on deliveries of a source."""
        return self.may(f"{_WORKER_PREFIX}{source}", f"{_WORKER_PREFIX}*")

    def may_submit(self, source: str) -> bool:
        """Say whether the key may submit events to a source."""
        return self.may(Scope.OPERATOR, f"{_ACCEPT_PREFIX}{source}", f"{_ACCEPT_PREFIX}*")


def make_key_text(random: bytes) -> str:
    """Return the text of a new key from 20 random bytes."""
    if len(random) != KEY_RANDOM_BYTES:
        raise ValueError(f"a key is made of {KEY_RANDOM_BYTES} random bytes, not {len(random)}")
    body = KEY_PREFIX + _base32(int.from_bytes(random, "big"), _RANDOM_LENGTH)
    return body + _checksum(body)


def is_key_text(text: str) -> bool:
    """Say whether a text has the format and checksum of a key; that proves nothing."""
    if not _KEY_TEXT.fullmatch(text):
        return False
    body, given = text[:-_CHECKSUM_LENGTH], text[-_CHECKSUM_LENGTH:]
    return hmac.compare_digest(_checksum(body), given)


def key_digest(text: str) -> bytes:
    """Return the stored hash of a key's text."""
    return hashlib.sha256(text.encode()).digest()


def key_hint(text: str) -> str:
    """Return the part of a key's text that may be shown: 30 of its 160 bits."""
    return text[:_HINT_LENGTH]


def check_scopes(scopes: Sequence[str]) -> tuple[str, ...]:
    """Return the scopes, each once, in the order given.

    Raises: KeyInvalid.
    """
    if not scopes:
        raise KeyInvalid(f"give the key at least one scope: {_scope_choices()}")
    for scope in scopes:
        if scope not in set(Scope) and not _is_source_scope(scope):
            raise KeyInvalid(f"there is no such scope; write {_scope_choices()}")
    if Scope.READ_TEXT in scopes and Scope.AGENT not in scopes:
        raise KeyInvalid("read:text adds to an agent's key; write agent beside it")
    return tuple(dict.fromkeys(str(scope) for scope in scopes))


def check_key_name(name: str) -> None:
    """Refuse a name that is too long or has control characters; empty means none.

    Raises: KeyInvalid.
    """
    if name:
        check_key(name, "name of the key")
    if len(name) > _LONGEST_KEY_NAME:
        raise KeyInvalid(
            f"the name of the key has {len(name)} characters; write at most {_LONGEST_KEY_NAME}"
        )


def _is_source_scope(scope: str) -> bool:
    """Say whether a scope is one of a source, or of all of them."""
    prefix, colon, source = scope.partition(":")
    if f"{prefix}{colon}" not in {_WORKER_PREFIX, _ACCEPT_PREFIX}:
        return False
    if source != "*":
        check_source_name(source)
    return True


def _scope_choices() -> str:
    return f"{', '.join(Scope)}, worker:SOURCE or accept:SOURCE"


def _checksum(body: str) -> str:
    return _base32(zlib.crc32(body.encode()), _CHECKSUM_LENGTH)


def _base32(number: int, characters: int) -> str:
    shifts = range(_BITS * (characters - 1), -1, -_BITS)
    return "".join(_ALPHABET[number >> shift & 31] for shift in shifts)


#: the tenant of every installation
DEFAULT_TENANT = "default"

_TENANT_NAME = re.compile(r"[a-z0-9][a-z0-9._-]{0,62}")


class Tenant(msgspec.Struct, frozen=True):
    """One of several parties that share an installation and cannot see each other's data."""

    name: str
    created_at: int


class TenantStorage(msgspec.Struct, frozen=True):
    """How many bytes of raw mail a tenant has, and may have; 0 is no limit."""

    tenant: str
    stored_bytes: int
    quota_bytes: int

    @property
    def is_full(self) -> bool:
        """Whether it has as much as it may have."""
        return 0 < self.quota_bytes <= self.stored_bytes

    @property
    def is_nearly_full(self) -> bool:
        """Whether it has nine tenths of what it may have."""
        return 0 < self.quota_bytes * 9 <= self.stored_bytes * 10


def check_tenant(name: str) -> None:
    """Refuse an invalid tenant name.

    Raises: KeyInvalid.
    """
    if not _TENANT_NAME.fullmatch(name):
        raise KeyInvalid(
            "a tenant is a name of 1 to 63 small letters, digits and . _ -, such as acme; "
            "it begins with a letter or digit"
        )
