"""Plaid: a JWT that carries the hash of the body, by a key that is fetched by its id."""

import hashlib
import hmac
import re
from typing import TypeVar

import msgspec
from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives.asymmetric.ec import (
    ECDSA,
    SECP256R1,
    EllipticCurvePublicKey,
    EllipticCurvePublicNumbers,
)
from cryptography.hazmat.primitives.asymmetric.utils import encode_dss_signature
from cryptography.hazmat.primitives.hashes import SHA256

from oncebox.errors import KeyWanted, SignatureInvalid
from oncebox.signature.encoding import read_base64url
from oncebox.signature.field import UNREADABLE
from oncebox.signature.request import octets
from oncebox.signature.scheme import Attempt, Match

T = TypeVar("T")

_LONGEST_TOKEN = 8_192
_COORDINATE = 32
#: a plain id: were it an address, the sender could name the place his own key is fetched from
_KID = re.compile(r"[A-Za-z0-9_-]{1,64}")


class _Head(msgspec.Struct):
    alg: str
    kid: str
    crit: list[str] | None = None


class _Claims(msgspec.Struct):
    iat: int
    request_body_sha256: str


class _Key(msgspec.Struct):
    kid: str
    kty: str
    crv: str
    x: str
    y: str
    alg: str = "ES256"
    expired_at: int | None = None


def verify(attempt: Attempt) -> Match:
    """Verify the token, then the hash of the body in it."""
    token = attempt.request.header("plaid-verification")
    head_text, claims_text, signature = _split(token)
    head = _decode(head_text, _Head)
    if head.alg != "ES256" or head.crit is not None:
        raise SignatureInvalid("wrong_algorithm")
    if not _KID.fullmatch(head.kid):
        raise SignatureInvalid("malformed_signature")
    index = _signer(attempt, head.kid, octets(token.rpartition(".")[0]), signature)
    claims = _decode(claims_text, _Claims)
    actual = hashlib.sha256(attempt.request.body).hexdigest().encode()
    if not hmac.compare_digest(actual, octets(claims.request_body_sha256)):
        raise SignatureInvalid("body_hash_mismatch")
    return Match(index, claims.iat * 1000)


def _split(token: str) -> tuple[bytes, bytes, bytes]:
    parts = token.split(".") if len(token) <= _LONGEST_TOKEN else []
    if len(parts) != 3:  # noqa: PLR2004 - head, claims, signature
        raise SignatureInvalid("malformed_signature")
    head, claims, signature = map(read_base64url, parts)
    if len(signature) != 2 * _COORDINATE:
        raise SignatureInvalid("malformed_signature")
    return head, claims, signature


def _decode(text: bytes, kind: type[T]) -> T:
    try:
        return msgspec.json.decode(text, type=kind)
    except UNREADABLE as error:
        raise SignatureInvalid("malformed_signature") from error


def _signer(attempt: Attempt, kid: str, message: bytes, signature: bytes) -> int:
    """Return the place of the key that made a signature.

    Raises: SignatureInvalid; KeyWanted, if no key of that id is here.
    """
    r, s = (
        int.from_bytes(half, "big") for half in (signature[:_COORDINATE], signature[_COORDINATE:])
    )
    reason = "signature_mismatch"
    for index, key in _keys(attempt, kid):
        try:
            public = _usable(key, attempt.now)
            public.verify(encode_dss_signature(r, s), message, ECDSA(SHA256()))
        except SignatureInvalid as error:
            reason = error.reason
        except InvalidSignature:
            continue
        else:
            return index
    raise SignatureInvalid(reason)


def _keys(attempt: Attempt, kid: str) -> list[tuple[int, _Key]]:
    """Return the keys of an id: those that are configured, else the one that was fetched."""
    configured = [(index, _jwk(secret)) for index, secret in enumerate(attempt.secrets)]
    found = [(index, key) for index, key in configured if key is not None and key.kid == kid]
    if found:
        return found
    text = attempt.keys.get(kid)
    if text is None:
        raise KeyWanted(kid)
    fetched = _jwk(text)
    if fetched is None or fetched.kid != kid:
        raise SignatureInvalid("unusable_secret")
    return [(-1, fetched)]


def _jwk(text: str) -> _Key | None:
    try:
        return msgspec.json.decode(text, type=_Key)
    except UNREADABLE:
        return None


def _usable(key: _Key, now: int | None) -> EllipticCurvePublicKey:
    if (key.kty, key.crv, key.alg) != ("EC", "P-256", "ES256"):
        raise SignatureInvalid("wrong_algorithm")
    if key.expired_at is not None and now is not None and key.expired_at * 1000 <= now:
        raise SignatureInvalid("expired_key")
    x, y = (int.from_bytes(read_base64url(each), "big") for each in (key.x, key.y))
    try:
        return EllipticCurvePublicNumbers(x, y, SECP256R1()).public_key()
    except ValueError as error:  # not a point of the curve
        raise SignatureInvalid("unusable_secret") from error
