"""Mailgun and Unisender Go: the signature is a field of the body."""

import hashlib
import hmac
import re

import msgspec

from oncebox.errors import SignatureInvalid
from oncebox.webhooks import formats, http_request, signing
from oncebox.webhooks.http_request import header_bytes
from oncebox.webhooks.paths import DECODE_ERRORS, json_field
from oncebox.webhooks.scheme import SignatureMatch, VerificationContext

#: digits of a time; with any other number the line between time and token could be moved
_TIMESTAMP_DIGITS = 10


class _SignatureBlock(msgspec.Struct):
    timestamp: str | int
    token: str
    signature: str
    parent: str = msgspec.field(default="", name="parent-signature")


class _EventBody(msgspec.Struct):
    signature: _SignatureBlock


_BODY_DECODER = msgspec.json.Decoder(_EventBody)


def verify_mailgun_events(context: VerificationContext) -> SignatureMatch:
    """Verify the signature block of a JSON body, by this account's key or its parent's."""
    keys = signing.hmac_keys(context.secrets, signing.secret_bytes)
    try:
        block = _BODY_DECODER.decode(context.request.body).signature
    except DECODE_ERRORS as error:
        raise SignatureInvalid("malformed_body") from error
    given = [each for each in (block.signature, block.parent) if each]
    return _verify_token(keys, str(block.timestamp), block.token, given)


def verify_mailgun_inbound(context: VerificationContext) -> SignatureMatch:
    """Verify the fields of a form; of repeats the last counts, as the first may be a user's."""
    keys = signing.hmac_keys(context.secrets, signing.secret_bytes)
    fields = http_request.form_fields(context.request)
    values = [
        http_request.last_form_value(fields, name) for name in ("timestamp", "token", "signature")
    ]
    timestamp, token, signature = (_form_text(value) for value in values)
    return _verify_token(keys, timestamp, token, [signature])


def _form_text(value: bytes | None) -> str:
    if not value:
        raise SignatureInvalid("malformed_body")
    return value.decode("latin-1")


def _verify_token(
    keys: list[tuple[int, bytes]], timestamp: str, token: str, given: list[str]
) -> SignatureMatch:
    if not token or not given:
        raise SignatureInvalid("malformed_body")
    signed_at = formats.parse_timestamp(timestamp, "s")
    if len(timestamp) != _TIMESTAMP_DIGITS:
        raise SignatureInvalid("malformed_timestamp")
    message = header_bytes(timestamp) + header_bytes(token)
    for index, key in keys:
        expected = hmac.digest(key, message, "sha256").hex().encode()
        if any(hmac.compare_digest(expected, header_bytes(each)) for each in given):
            return SignatureMatch(index, signed_at)
    raise SignatureInvalid("signature_mismatch")


_MD5_HEX = re.compile("[0-9a-f]{32}")


def verify_unisender(context: VerificationContext) -> SignatureMatch:
    """Put each key in the place of the hash, in the raw bytes, and hash again."""
    keys = signing.hmac_keys(context.secrets, signing.secret_bytes)
    body = context.request.body
    given = json_field(body, "$.auth")
    if not isinstance(given, str) or not _MD5_HEX.fullmatch(given):
        raise SignatureInvalid("malformed_body")
    before, _, after = body.partition(given.encode())
    if not after or given.encode() in after:
        # A hash cannot stand in its own input twice.
        raise SignatureInvalid("malformed_body")
    for index, key in keys:
        expected = hashlib.md5(before + key + after, usedforsecurity=False).hexdigest()
        if hmac.compare_digest(expected, given):
            return SignatureMatch(index)
    raise SignatureInvalid("signature_mismatch")
