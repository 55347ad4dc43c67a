"""Signing our own webhooks, the Standard Webhooks way."""

import base64
import hmac
from collections.abc import Sequence

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from oncebox.errors import SignatureInvalid
from oncebox.signature import keyring
from oncebox.signature.request import octets

_SEED = 32


def sign(secret: str | Sequence[str], id_: str, timestamp: int, body: bytes) -> dict[str, str]:
    """Return the headers of a signed request; several secrets sign it side by side.

    A secret is ``whsec_…`` for ``v1``, or ``whsk_…`` (a private key) for ``v1a``. ``timestamp`` is
    in milliseconds, as everywhere, and goes out in seconds.

    Raises: SignatureInvalid, if a secret cannot sign.
    """
    seconds = str(timestamp // 1000)
    message = b"%b.%b.%b" % (octets(id_), seconds.encode(), body)
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
        if secret.startswith(keyring.PRIVATE):
            # A private key is its seed, with or without the public key behind it.
            raw = keyring.base64_loosely(secret.removeprefix(keyring.PRIVATE))
            signed = Ed25519PrivateKey.from_private_bytes(raw[:_SEED]).sign(message)
            return f"v1a,{base64.b64encode(signed).decode()}"
        key = keyring.whsec(secret)
    except ValueError as error:
        raise SignatureInvalid("unusable_secret") from error
    if not key:
        raise SignatureInvalid("unusable_secret")
    return f"v1,{base64.b64encode(hmac.digest(key, message, 'sha256')).decode()}"
