"""Unisender Go: a plain hash of the body in which the key stands where the hash will."""

import hashlib
import hmac
import re

from oncebox.errors import SignatureInvalid
from oncebox.signature import keyring
from oncebox.signature.field import field
from oncebox.signature.scheme import Attempt, Match

_HASH = re.compile("[0-9a-f]{32}")


def verify(attempt: Attempt) -> Match:
    """Put each key in the place of the hash, in the raw bytes, and hash again."""
    keys = keyring.shared(attempt.secrets, keyring.encoded)
    body = attempt.request.body
    given = field(body, "$.auth")
    if not isinstance(given, str) or not _HASH.fullmatch(given):
        raise SignatureInvalid("malformed_body")
    before, _, after = body.partition(given.encode())
    if not after or given.encode() in after:
        # A hash cannot stand in its own input twice.
        raise SignatureInvalid("malformed_body")
    for index, key in keys:
        expected = hashlib.md5(before + key + after, usedforsecurity=False).hexdigest()
        if hmac.compare_digest(expected, given):
            return Match(index)
    raise SignatureInvalid("signature_mismatch")
