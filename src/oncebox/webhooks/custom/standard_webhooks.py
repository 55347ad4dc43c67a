"""Standard Webhooks and Svix: HMAC-SHA-256 or Ed25519 over id, timestamp and body."""

import base64
import hmac
from collections.abc import Callable

from cryptography.exceptions import InvalidSignature

from oncebox.errors import SignatureInvalid
from oncebox.webhooks import formats, signing, verification
from oncebox.webhooks.formats import decode_base64
from oncebox.webhooks.http_request import WebhookRequest, header_bytes
from oncebox.webhooks.scheme import SignatureMatch, VerificationContext

#: the two families of headers; the scheme says which is looked for first
STANDARD_PREFIX, SVIX_PREFIX = "webhook-", "svix-"
HEADER_PREFIXES = (STANDARD_PREFIX, SVIX_PREFIX)


def verify_standard_webhooks(context: VerificationContext) -> SignatureMatch:
    """Try each secret with the signatures of its own version: no key serves two algorithms."""
    request = context.request
    secrets = signing.nonblank_secrets(context.secrets)
    prefix = header_prefix(request)
    id_ = header_bytes(request.header(f"{prefix}id"))
    timestamp = request.header(f"{prefix}timestamp")
    offered = _signatures_by_version(request.header(f"{prefix}signature"))
    signed_at = formats.parse_timestamp(timestamp, "s")
    message = b"%b.%b.%b" % (id_, header_bytes(timestamp), request.body)
    reason = "no_matching_version"
    for index, secret in secrets:
        version, fits = _check_for_secret(secret, signing.KEY_DERIVATIONS[context.scheme.key])
        if fits is None:
            reason = "unusable_secret"
            continue
        for signature in offered.get(version, ()):
            reason = "signature_mismatch"
            if fits(signature, message):
                return SignatureMatch(index, signed_at)
    raise SignatureInvalid(reason)


def header_prefix(request: WebhookRequest) -> str:
    """Return the family of headers that is there in full; ids are read from the same."""
    table = request.headers_by_name
    for prefix in HEADER_PREFIXES:
        if all(f"{prefix}{name}" in table for name in ("id", "timestamp", "signature")):
            return prefix
    raise SignatureInvalid("missing_header")


def _signatures_by_version(value: str) -> dict[str, list[str]]:
    """Return the signatures by version."""
    found: dict[str, list[str]] = {}
    for part in verification.split_signature_header(value, " "):
        version, _, signature = part.partition(",")
        if signature:
            found.setdefault(version, []).append(signature)
    if not found:
        raise SignatureInvalid("malformed_signature")
    if any(len(signatures) > verification.MAX_SIGNATURES for signatures in found.values()):
        raise SignatureInvalid("too_many_signatures")
    return found


SignatureCheck = Callable[[str, bytes], bool]


def _check_for_secret(
    secret: str, derive: Callable[[str], bytes]
) -> tuple[str, SignatureCheck | None]:
    """Return the version that a secret is for, and how it judges."""
    version = "v1a" if secret.startswith(signing.PUBLIC_KEY_PREFIX) else "v1"
    try:
        if version == "v1a":
            return version, _ed25519_check(
                signing.decode_unpadded_base64(secret.removeprefix(signing.PUBLIC_KEY_PREFIX))
            )
        key = derive(secret)
    except ValueError:
        return version, None
    return version, _hmac_check(key) if key else None


def _hmac_check(key: bytes) -> SignatureCheck:
    def fits(signature: str, message: bytes) -> bool:
        expected = base64.b64encode(hmac.digest(key, message, "sha256"))
        return hmac.compare_digest(expected, header_bytes(signature))

    return fits


def _ed25519_check(raw: bytes) -> SignatureCheck:
    key = signing.ed25519_public_key(raw)

    def fits(signature: str, message: bytes) -> bool:
        try:
            key.verify(decode_base64(signature), message)
        except (InvalidSignature, SignatureInvalid):
            return False
        return True

    return fits
