"""Signing keys derived from secrets; `sign` for outgoing Standard Webhooks requests."""

import base64
import binascii
import hmac
from collections.abc import Callable, Sequence
from functools import lru_cache

from cryptography.hazmat.primitives.asymmetric.ec import SECP256R1, EllipticCurvePublicKey
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey

from oncebox.errors import SignatureInvalid
from oncebox.webhooks.http_request import header_bytes

#: the prefix of a Standard Webhooks secret, of a public key, and of a private one
SECRET_PREFIX, PUBLIC_KEY_PREFIX, PRIVATE_KEY_PREFIX = "whsec_", "whpk_", "whsk_"


def secret_bytes(secret: str) -> bytes:
    """Return a secret as bytes, whatever characters it has."""
    return secret.encode("utf-8", "surrogatepass")


def decode_whsec(secret: str) -> bytes:
    """Return the key of a Standard Webhooks secret: base64, padded or not, prefixed or not."""
    return decode_unpadded_base64(secret.removeprefix(SECRET_PREFIX))


def decode_unpadded_base64(text: str) -> bytes:
    """Return the bytes of base64 whose padding may be missing."""
    raw = secret_bytes(text).rstrip(b"=")
    try:
        return base64.b64decode(raw + b"=" * (-len(raw) % 4), validate=True)
    except binascii.Error as error:
        raise ValueError("not base64") from error


#: derivations of a key from a secret, by the name used in tables
KEY_DERIVATIONS: dict[str, Callable[[str], bytes]] = {
    "utf8": secret_bytes,
    "whsec": decode_whsec,
    "whsec-or-utf8": lambda secret: (
        decode_whsec(secret) if secret.startswith(SECRET_PREFIX) else secret_bytes(secret)
    ),
    "hex": bytes.fromhex,
}


def nonblank_secrets(secrets: Sequence[str]) -> list[tuple[int, str]]:
    """Return the secrets that are not blank, with their indexes; refuse to go on without one."""
    found = [(index, secret) for index, secret in enumerate(secrets) if secret.strip()]
    if not found:
        raise SignatureInvalid("missing_secret")
    return found


def hmac_keys(secrets: Sequence[str], derive: Callable[[str], bytes]) -> list[tuple[int, bytes]]:
    """Return the keys of the secrets, with their indexes."""
    keys: list[tuple[int, bytes]] = []
    for index, secret in nonblank_secrets(secrets):
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
def ed25519_public_key(key: bytes) -> Ed25519PublicKey:
    """Return a public key from its 32 bytes."""
    return Ed25519PublicKey.from_public_bytes(key)


@lru_cache(256)
def p256_public_key(text: str) -> EllipticCurvePublicKey:
    """Return a public key from PEM, or from its base64 without the frame."""
    from cryptography.hazmat.primitives.serialization import (  # noqa: PLC0415 - slow, and only here
        load_der_public_key,
        load_pem_public_key,
    )

    if "-----BEGIN" in text:
        key = load_pem_public_key(secret_bytes(text.strip()))
    else:
        key = load_der_public_key(decode_unpadded_base64("".join(text.split())))
    if not isinstance(key, EllipticCurvePublicKey) or not isinstance(key.curve, SECP256R1):
        message = "not a key on the curve P-256"
        raise ValueError(message)  # noqa: TRY004 - it is the value that is wrong
    return key


def sign(secret: str | Sequence[str], id_: str, timestamp: int, body: bytes) -> dict[str, str]:
    """Return the headers of a signed request; each secret adds a signature.

    A secret is ``whsec_…`` for ``v1``, or ``whsk_…`` (a private key) for ``v1a``. ``timestamp`` is
    in milliseconds, as everywhere, and goes out in seconds.

    Raises: SignatureInvalid, if a secret cannot sign.
    """
    seconds = str(timestamp // 1000)
    message = b"%b.%b.%b" % (header_bytes(id_), seconds.encode(), body)
    secrets = [secret] if isinstance(secret, str) else secret
    if not secrets:
        raise SignatureInvalid("missing_secret")
    return {
        "webhook-id": id_,
        "webhook-timestamp": seconds,
        "webhook-signature": " ".join(_signature(each, message) for each in secrets),
    }


def _signature(secret: str, message: bytes) -> str:
    if not secret.strip():
        raise SignatureInvalid("missing_secret")
    try:
        if secret.startswith(PRIVATE_KEY_PREFIX):
            # A private key is its seed of 32 bytes, with or without the public key behind it.
            raw = decode_unpadded_base64(secret.removeprefix(PRIVATE_KEY_PREFIX))
            signed = Ed25519PrivateKey.from_private_bytes(raw[:32]).sign(message)
            return f"v1a,{base64.b64encode(signed).decode()}"
        key = decode_whsec(secret)
    except ValueError as error:
        raise SignatureInvalid("unusable_secret") from error
    if not key:
        raise SignatureInvalid("unusable_secret")
    return f"v1,{base64.b64encode(hmac.digest(key, message, 'sha256')).decode()}"
