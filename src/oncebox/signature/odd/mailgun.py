"""Mailgun: a time and a single-use token are signed, the rest of the body is not."""

import hmac

import msgspec

from oncebox.errors import SignatureInvalid
from oncebox.signature import forms, keyring, moment
from oncebox.signature.field import UNREADABLE
from oncebox.signature.request import octets
from oncebox.signature.scheme import Attempt, Match

#: digits of a time; with any other number the line between time and token could be moved
_DIGITS = 10


class _Block(msgspec.Struct):
    timestamp: str | int
    token: str
    signature: str
    parent: str = msgspec.field(default="", name="parent-signature")


class _Body(msgspec.Struct):
    signature: _Block


_BODY = msgspec.json.Decoder(_Body)


def events(attempt: Attempt) -> Match:
    """Verify the signature block of a JSON body, by this account's key or its parent's."""
    keys = keyring.shared(attempt.secrets, keyring.encoded)
    try:
        block = _BODY.decode(attempt.request.body).signature
    except UNREADABLE as error:
        raise SignatureInvalid("malformed_body") from error
    given = [each for each in (block.signature, block.parent) if each]
    return _verify(keys, str(block.timestamp), block.token, given)


def inbound(attempt: Attempt) -> Match:
    """Verify the fields of a form; of repeats the last counts, as the first may be a user's."""
    keys = keyring.shared(attempt.secrets, keyring.encoded)
    fields = forms.pairs(attempt.request)
    values = [forms.last(fields, name) for name in ("timestamp", "token", "signature")]
    timestamp, token, signature = (_text(value) for value in values)
    return _verify(keys, timestamp, token, [signature])


def _text(value: bytes | None) -> str:
    if not value:
        raise SignatureInvalid("malformed_body")
    return value.decode("latin-1")


def _verify(keys: list[tuple[int, bytes]], timestamp: str, token: str, given: list[str]) -> Match:
    if not token or not given:
        raise SignatureInvalid("malformed_body")
    signed_at = moment.read(timestamp, "s")
    if len(timestamp) != _DIGITS:
        raise SignatureInvalid("malformed_timestamp")
    message = octets(timestamp) + octets(token)
    for index, key in keys:
        expected = hmac.digest(key, message, "sha256").hex().encode()
        if any(hmac.compare_digest(expected, octets(each)) for each in given):
            return Match(index, signed_at)
    raise SignatureInvalid("signature_mismatch")
