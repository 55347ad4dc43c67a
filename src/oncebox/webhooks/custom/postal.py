"""Postal: RSA signatures over the body, by the key of the installation."""

from functools import lru_cache

from cryptography.exceptions import InvalidSignature, UnsupportedAlgorithm
from cryptography.hazmat.primitives.asymmetric.padding import PKCS1v15
from cryptography.hazmat.primitives.asymmetric.rsa import RSAPublicKey
from cryptography.hazmat.primitives.hashes import SHA1, SHA256

from oncebox.errors import SignatureInvalid
from oncebox.webhooks import signing
from oncebox.webhooks.formats import decode_base64
from oncebox.webhooks.scheme import SignatureMatch, VerificationContext

_SHA256_HEADER = "x-postal-signature-256"


def verify_postal(context: VerificationContext) -> SignatureMatch:
    """Verify the signature with SHA-256 if there is one, else the older one with SHA-1."""
    request = context.request
    secrets = signing.nonblank_secrets(context.secrets)
    # Never both: a wrong newer signature must not be excused by the older one.
    is_newer = _SHA256_HEADER in request.headers_by_name
    name = _SHA256_HEADER if is_newer else context.scheme.header_names[0]
    signature = decode_base64(request.header(name))
    reason = "unusable_secret"
    for index, secret in secrets:
        try:
            key = _public_key(secret)
            reason = "signature_mismatch"
            key.verify(signature, request.body, PKCS1v15(), SHA256() if is_newer else SHA1())  # noqa: S303 - what older versions offer
        except (ValueError, InvalidSignature, UnsupportedAlgorithm):
            continue
        return SignatureMatch(index)
    raise SignatureInvalid(reason)


@lru_cache(64)
def _public_key(text: str) -> RSAPublicKey:
    """Return a key from PEM, from a DKIM record, or from the base64 in it."""
    from cryptography.hazmat.primitives.serialization import (  # noqa: PLC0415 - slow, and only here
        load_der_public_key,
        load_pem_public_key,
    )

    if "-----BEGIN" in text:
        key = load_pem_public_key(signing.secret_bytes(text.strip()))
    else:
        bare = text.partition("p=")[2].partition(";")[0] if "p=" in text else text
        key = load_der_public_key(signing.decode_unpadded_base64("".join(bare.split())))
    if not isinstance(key, RSAPublicKey):
        message = "not an RSA key"
        raise ValueError(message)  # noqa: TRY004 - it is the value that is wrong
    return key
