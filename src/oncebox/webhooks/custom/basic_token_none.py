"""Unsigned webhooks: HTTP Basic password, bearer or header token, or nothing at all."""

import base64
import hmac

from oncebox.errors import SignatureInvalid
from oncebox.webhooks import signing
from oncebox.webhooks.http_request import header_bytes
from oncebox.webhooks.scheme import SignatureMatch, VerificationContext


def verify_basic(context: VerificationContext) -> SignatureMatch:
    """Verify ``Authorization: Basic``; a secret is ``user:password``."""
    secrets = signing.nonblank_secrets(context.secrets)
    word, _, given = context.request.header("authorization").partition(" ")
    if word.lower() != "basic" or not given.strip():
        raise SignatureInvalid("malformed_signature")
    reason = "unusable_secret"
    for index, secret in secrets:
        if ":" not in secret:
            continue
        reason = "signature_mismatch"
        expected = base64.b64encode(signing.secret_bytes(secret))
        if hmac.compare_digest(expected, header_bytes(given.strip())):
            return SignatureMatch(index)
    raise SignatureInvalid(reason)


def verify_token(context: VerificationContext) -> SignatureMatch:
    """Verify a header that holds the secret itself, bare or after ``Bearer``."""
    secrets = signing.nonblank_secrets(context.secrets)
    given = context.request.header(context.scheme.header_names[0])
    if context.scheme.header_names[0] == "authorization":
        word, _, rest = given.partition(" ")
        given = rest.strip() if word.lower() == "bearer" else given
    # What came over a wire was read as Latin-1; what was typed may hold any character.
    spellings = (header_bytes(given), signing.secret_bytes(given))
    for index, secret in secrets:
        expected = signing.secret_bytes(secret)
        if any(hmac.compare_digest(expected, each) for each in spellings):
            return SignatureMatch(index)
    raise SignatureInvalid("signature_mismatch")


def verify_nothing(context: VerificationContext) -> SignatureMatch:
    """Let everything in, if the source says so."""
    if not context.options.allow_unsigned:
        raise SignatureInvalid("unsigned")
    return SignatureMatch(-1)
