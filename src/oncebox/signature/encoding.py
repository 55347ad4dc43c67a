"""Digests as text and back: one spelling only, so that no altered signature can pass."""

import base64
import binascii
from collections.abc import Callable

from oncebox.errors import SignatureInvalid
from oncebox.signature.request import octets


def _hex(digest: bytes) -> bytes:
    return digest.hex().encode()


def _upper_hex(digest: bytes) -> bytes:
    return digest.hex().upper().encode()


#: how a digest is written, by the name used in tables and options
WRITTEN: dict[str, Callable[[bytes], bytes]] = {
    "hex": _hex,
    "HEX": _upper_hex,
    "base64": base64.b64encode,
    "base64url": base64.urlsafe_b64encode,
}


def read_hex(text: str) -> bytes:
    """Return the bytes of lower-case hexadecimal digits.

    Raises: SignatureInvalid, for every other spelling.
    """
    try:
        read = bytes.fromhex(text)
    except ValueError as error:
        raise SignatureInvalid("malformed_signature") from error
    if read.hex() != text:
        raise SignatureInvalid("malformed_signature")
    return read


def read_base64(text: str) -> bytes:
    """Return the bytes of padded base64.

    Raises: SignatureInvalid, for every other spelling, also of the bits that do not count.
    """
    try:
        read = base64.b64decode(octets(text), validate=True)
    except binascii.Error as error:
        raise SignatureInvalid("malformed_signature") from error
    if base64.b64encode(read) != octets(text):
        raise SignatureInvalid("malformed_signature")
    return read


def read_base64url(text: str) -> bytes:
    """Return the bytes of unpadded base64 in the alphabet of URLs, as in a JWT.

    Raises: SignatureInvalid, for every other spelling.
    """
    raw = octets(text)
    try:
        read = base64.b64decode(raw + b"=" * (-len(raw) % 4), altchars=b"-_", validate=True)
    except binascii.Error as error:
        raise SignatureInvalid("malformed_signature") from error
    if base64.urlsafe_b64encode(read).rstrip(b"=") != raw:
        raise SignatureInvalid("malformed_signature")
    return read
