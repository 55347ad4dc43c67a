"""Signatures by a private key over a time and the body: Discord and SendGrid."""

from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives.asymmetric.ec import ECDSA
from cryptography.hazmat.primitives.hashes import SHA256

from oncebox.errors import SignatureInvalid
from oncebox.signature import keyring, moment
from oncebox.signature.encoding import read_base64, read_hex
from oncebox.signature.request import octets
from oncebox.signature.scheme import Attempt, Match


def discord(attempt: Attempt) -> Match:
    """Verify Ed25519 in hexadecimal; the secret is the public key of the application."""
    request = attempt.request
    secrets = keyring.present(attempt.secrets)
    timestamp = request.header("x-signature-timestamp")
    signature = read_hex(request.header("x-signature-ed25519"))
    signed_at = moment.read(timestamp, "s")
    reason = "unusable_secret"
    for index, secret in secrets:
        try:
            key = keyring.ed25519(bytes.fromhex(secret.strip()))
            reason = "signature_mismatch"
            key.verify(signature, octets(timestamp) + request.body)
        except (ValueError, InvalidSignature):
            continue
        return Match(index, signed_at)
    raise SignatureInvalid(reason)


def sendgrid(attempt: Attempt) -> Match:
    """Verify ECDSA in base64; the secret is the public key, with or without its PEM frame."""
    request = attempt.request
    secrets = keyring.present(attempt.secrets)
    timestamp = request.header("x-twilio-email-event-webhook-timestamp")
    signature = read_base64(request.header("x-twilio-email-event-webhook-signature"))
    signed_at = moment.read(timestamp, "s")
    reason = "unusable_secret"
    for index, secret in secrets:
        try:
            key = keyring.p256(secret)
            reason = "signature_mismatch"
            key.verify(signature, octets(timestamp) + request.body, ECDSA(SHA256()))
        except (ValueError, InvalidSignature):
            continue
        return Match(index, signed_at)
    raise SignatureInvalid(reason)
