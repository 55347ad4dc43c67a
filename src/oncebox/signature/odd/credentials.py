"""Senders that sign nothing: a password, a token, or not even that."""

import base64
import hmac

from oncebox.errors import SignatureInvalid
from oncebox.signature import keyring
from oncebox.signature.request import octets
from oncebox.signature.scheme import Attempt, Match


def basic(attempt: Attempt) -> Match:
    """Verify ``Authorization: Basic``; a secret is ``user:password``."""
    secrets = keyring.present(attempt.secrets)
    word, _, given = attempt.request.header("authorization").partition(" ")
    if word.lower() != "basic" or not given.strip():
        raise SignatureInvalid("malformed_signature")
    reason = "unusable_secret"
    for index, secret in secrets:
        if ":" not in secret:
            continue
        reason = "signature_mismatch"
        expected = base64.b64encode(keyring.encoded(secret))
        if hmac.compare_digest(expected, octets(given.strip())):
            return Match(index)
    raise SignatureInvalid(reason)


def token(attempt: Attempt) -> Match:
    """Verify a header that holds the secret itself, bare or after ``Bearer``."""
    secrets = keyring.present(attempt.secrets)
    given = attempt.request.header(attempt.scheme.lower[0])
    if attempt.scheme.lower[0] == "authorization":
        word, _, rest = given.partition(" ")
        given = rest.strip() if word.lower() == "bearer" else given
    # What came over a wire was read as Latin-1; what was typed may hold any character.
    spellings = (octets(given), keyring.encoded(given))
    for index, secret in secrets:
        expected = keyring.encoded(secret)
        if any(hmac.compare_digest(expected, each) for each in spellings):
            return Match(index)
    raise SignatureInvalid("signature_mismatch")


def none(attempt: Attempt) -> Match:
    """Let everything in, if the source says so."""
    if not attempt.options.allow_unsigned:
        raise SignatureInvalid("unsigned")
    return Match(-1)
