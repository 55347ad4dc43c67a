"""Secrets and public keys: how the key of a signature comes out of what was configured."""

import base64
import binascii
from collections.abc import Callable, Sequence
from functools import lru_cache

from cryptography.hazmat.primitives.asymmetric.ec import SECP256R1, EllipticCurvePublicKey
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey

from oncebox.errors import SignatureInvalid

#: the prefix of a Standard Webhooks secret, of a public key, and of a private one
SHARED, PUBLIC, PRIVATE = "whsec_", "whpk_", "whsk_"


def encoded(secret: str) -> bytes:
    """Return a secret as bytes, whatever characters it has."""
    return secret.encode("utf-8", "surrogatepass")


def whsec(secret: str) -> bytes:
    """Return the key of a Standard Webhooks secret: base64, padded or not, prefixed or not.

    Raises: ValueError.
    """
    return base64_loosely(secret.removeprefix(SHARED))


def base64_loosely(text: str) -> bytes:
    """Return the bytes of base64 whose padding may be missing.

    Raises: ValueError.
    """
    raw = encoded(text).rstrip(b"=")
    try:
        return base64.b64decode(raw + b"=" * (-len(raw) % 4), validate=True)
    except binascii.Error as error:
        message = "not base64"
        raise ValueError(message) from error


def _whsec_or_text(secret: str) -> bytes:
    return whsec(secret) if secret.startswith(SHARED) else encoded(secret)


#: how a key comes out of a secret, by the name used in tables
DERIVED: dict[str, Callable[[str], bytes]] = {
    "utf8": encoded,
    "whsec": whsec,
    "whsec-or-utf8": _whsec_or_text,
    "hex": bytes.fromhex,
}


def present(secrets: Sequence[str]) -> list[tuple[int, str]]:
    """Return the secrets that are not blank, with their places.

    Raises: SignatureInvalid, if there is none: no secret means no.
    """
    found = [(index, secret) for index, secret in enumerate(secrets) if secret.strip()]
    if not found:
        raise SignatureInvalid("missing_secret")
    return found


def shared(secrets: Sequence[str], derive: Callable[[str], bytes]) -> list[tuple[int, bytes]]:
    """Return the keys that the secrets hold, with their places.

    Raises: SignatureInvalid, if none can be used.
    """
    keys: list[tuple[int, bytes]] = []
    for index, secret in present(secrets):
        try:
            key = derive(secret)
        except ValueError:
            continue
        if key:
            keys.append((index, key))
    if not keys:
        raise SignatureInvalid("unusable_secret")
    return keys


@lru_cache(256)
def ed25519(key: bytes) -> Ed25519PublicKey:
    """Return a public key from its 32 bytes.

    Raises: ValueError.
    """
    return Ed25519PublicKey.from_public_bytes(key)


@lru_cache(256)
def p256(text: str) -> EllipticCurvePublicKey:
    """Return a public key from PEM, or from its base64 without the frame.

    Raises: ValueError.
    """
    from cryptography.hazmat.primitives.serialization import (  # noqa: PLC0415 - slow, and only here
        load_der_public_key,
        load_pem_public_key,
    )

    if "-----BEGIN" in text:
        key = load_pem_public_key(encoded(text.strip()))
    else:
        key = load_der_public_key(base64_loosely("".join(text.split())))
    if not isinstance(key, EllipticCurvePublicKey) or not isinstance(key.curve, SECP256R1):
        message = "not a key on the curve P-256"
        raise ValueError(message)  # noqa: TRY004 - it is the value that is wrong
    return key
