"""Discord (Ed25519) and SendGrid (ECDSA P-256): signatures over timestamp and body."""

from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives.asymmetric.ec import ECDSA
from cryptography.hazmat.primitives.hashes import SHA256

from oncebox.errors import SignatureInvalid
from oncebox.webhooks import formats, signing
from oncebox.webhooks.formats import decode_base64, decode_hex
from oncebox.webhooks.http_request import header_bytes
from oncebox.webhooks.scheme import SignatureMatch, VerificationContext


def verify_discord(context: VerificationContext) -> SignatureMatch:
    """Verify Ed25519 in hexadecimal; the secret is the public key of the application."""
    request = context.request
    secrets = signing.nonblank_secrets(context.secrets)
    timestamp = request.header("x-signature-timestamp")
    signature = decode_hex(request.header("x-signature-ed25519"))
    signed_at = formats.parse_timestamp(timestamp, "s")
    reason = "unusable_secret"
    for index, secret in secrets:
        try:
            key = signing.ed25519_public_key(bytes.fromhex(secret.strip()))
            reason = "signature_mismatch"
            key.verify(signature, header_bytes(timestamp) + request.body)
        except (ValueError, InvalidSignature):
            continue
        return SignatureMatch(index, signed_at)
    raise SignatureInvalid(reason)


def verify_sendgrid(context: VerificationContext) -> SignatureMatch:
    """Verify ECDSA in base64; the secret is the public key, with or without its PEM frame."""
    request = context.request
    secrets = signing.nonblank_secrets(context.secrets)
    timestamp = request.header("x-twilio-email-event-webhook-timestamp")
    signature = decode_base64(request.header("x-twilio-email-event-webhook-signature"))
    signed_at = formats.parse_timestamp(timestamp, "s")
    reason = "unusable_secret"
    for index, secret in secrets:
        try:
            key = signing.p256_public_key(secret)
            reason = "signature_mismatch"
            key.verify(signature, header_bytes(timestamp) + request.body, ECDSA(SHA256()))
        except (ValueError, InvalidSignature):
            continue
        return SignatureMatch(index, signed_at)
    raise SignatureInvalid(reason)
