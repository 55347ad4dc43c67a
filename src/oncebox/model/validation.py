"""Validation of incoming keys, source names, types, headers and body sizes; digests of keys."""

import hashlib
import re
from collections.abc import Iterable
from functools import lru_cache
from itertools import chain
from typing import Annotated

import msgspec

from oncebox.errors import BodyTooLarge, ConfigInvalid, HeaderInvalid, KeyInvalid
from oncebox.model.deliveries.delivery import Headers

#: milliseconds since 1970
Timestamp = Annotated[int, msgspec.Meta(description="milliseconds since 1970")]
_LONGEST_KEY = 512
_LONGEST_NAME = 100
_LARGEST_SEQUENCE = 2**62
#: C0 and C1 controls, lone surrogates, and the two separators some readers take for a newline
_CONTROL_CHARACTERS = re.compile("[\x00-\x1f\x7f-\x9f\ud800-\udfff\u2028\u2029]")
_SOURCE_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._:/-]*")
_HEADER_FORBIDDEN = re.compile("[\x00-\x08\x0a-\x1f\x7f\ud800-\udfff]")
_STRINGS = frozenset({str})
_HEADER_NAME = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+")


def check_key(key: str, what: str = "key") -> None:
    """Refuse a key that is empty, too long or has control characters.

    Raises: KeyInvalid.
    """
    if not 1 <= len(key) <= _LONGEST_KEY:
        raise KeyInvalid(f"the {what} has {len(key)} characters; give between 1 and {_LONGEST_KEY}")
    if _CONTROL_CHARACTERS.search(key):
        raise KeyInvalid(
            f"the {what} has control characters; send it as plain text, or send its hash"
        )


def key_digest(tenant: str, source: str, key: str) -> bytes:
    """Return what a delivery's key is unique by: none of the three has control characters."""
    return digest(f"{tenant}\n{source}\n{key}".encode("utf-8", "surrogatepass"))


def body_digest(tenant: str, source: str, fingerprint: bytes) -> bytes:
    """Return what a delivery's body is unique by, where nobody signed the key."""
    return digest(f"{tenant}\n{source}\n".encode() + fingerprint)


def digest(text: bytes) -> bytes:
    """Return the first half of a SHA-256."""
    return hashlib.sha256(text).digest()[:16]


def check_name(name: str, what: str) -> None:
    """Refuse a name of a transport or mailbox that could not be shown or typed.

    Raises: ConfigInvalid.
    """
    if not 1 <= len(name) <= _LONGEST_NAME or not name.isprintable() or name != name.strip():
        raise ConfigInvalid(
            f"the name of a {what} has 1 to {_LONGEST_NAME} printable characters, and no "
            "blank at its ends"
        )


@lru_cache(1024)
def check_source_name(source: str) -> None:
    """Refuse a source that is not a simple name.

    Raises: KeyInvalid.
    """
    if len(source) > _LONGEST_NAME or not _SOURCE_NAME.fullmatch(source):
        raise KeyInvalid(
            f"a source is a name of 1 to {_LONGEST_NAME} letters, digits and . _ : / -, "
            "such as stripe"
        )


@lru_cache(1024)
def check_type(type_: str) -> None:
    """Refuse a type that is too long or has control characters; empty means none.

    Raises: KeyInvalid.
    """
    if type_:
        check_key(type_, "type")


def check_sequence(sequence: int) -> None:
    """Refuse a number that no database can hold.

    Raises: KeyInvalid.
    """
    if not -_LARGEST_SEQUENCE <= sequence <= _LARGEST_SEQUENCE:
        raise KeyInvalid(f"the sequence is too large; give at most {_LARGEST_SEQUENCE}")


def check_headers(headers: Iterable[tuple[str, str]], *, count: int, size: int) -> Headers:
    """Return the headers unchanged, or refuse them.

    Raises: HeaderInvalid.
    """
    checked = tuple(headers)
    flat = [*chain.from_iterable(checked)]
    if not _STRINGS.issuperset(map(type, flat)):
        checked = tuple([(str(name), str(value)) for name, value in checked])
        flat = [*chain.from_iterable(checked)]
    if len(checked) > count:
        raise HeaderInvalid(f"there are {len(checked)} headers; send at most {count}")
    text = "".join(flat)  # joined, since this runs for every arrival
    if len(text) > size:
        raise HeaderInvalid(f"the headers are over {size} bytes; send fewer or shorter ones")
    plain = text.isascii() and text.isprintable()
    if not all(map(_is_header_name, flat[::2])) or (not plain and _HEADER_FORBIDDEN.search(text)):
        raise HeaderInvalid("a header has characters that HTTP does not allow; remove it")
    return checked


@lru_cache(256)
def _is_header_name(name: str) -> bool:
    return _HEADER_NAME.fullmatch(name) is not None


def check_body(body: bytes, *, limit: int) -> None:
    """Refuse a body over the limit.

    Raises: BodyTooLarge.
    """
    if len(body) > limit:
        raise BodyTooLarge(
            f"the body has {len(body)} bytes; the limit is {limit} (ONCEBOX_LIMITS__BODY)"
        )


def is_single_line(text: str, longest: int) -> bool:
    """Say whether a text is not empty, not too long, and without control characters."""
    return 1 <= len(text) <= longest and _CONTROL_CHARACTERS.search(text) is None
