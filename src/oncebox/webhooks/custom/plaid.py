"""Plaid: an ES256 JWT that contains the SHA-256 of the body; keys are looked up by id."""

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

from oncebox.errors import KeyFetchRequired, SignatureInvalid
from oncebox.webhooks.formats import decode_base64url
from oncebox.webhooks.http_request import header_bytes
from oncebox.webhooks.paths import DECODE_ERRORS
from oncebox.webhooks.scheme import SignatureMatch, VerificationContext

T = TypeVar("T")

_MAX_TOKEN_LENGTH = 8_192
_COORDINATE_BYTES = 32
#: a plain id: were it an address, the sender could name the place his own key is fetched from
_KEY_ID = re.compile(r"[A-Za-z0-9_-]{1,64}")


class _JwtHeader(msgspec.Struct):
    alg: str
    kid: str
    crit: list[str] | None = None


class _JwtClaims(msgspec.Struct):
    iat: int
    request_body_sha256: str


class _Jwk(msgspec.Struct):
    kid: str
    kty: str
    crv: str
    x: str
    y: str
    alg: str = "ES256"
    expired_at: int | None = None


def verify_plaid(context: VerificationContext) -> SignatureMatch:
    """Verify the token, then the hash of the body in it."""
    token = context.request.header("plaid-verification")
    head_text, claims_text, signature = _split_jwt(token)
    head = _decode_part(head_text, _JwtHeader)
    if head.alg != "ES256" or head.crit is not None:
        raise SignatureInvalid("wrong_algorithm")
    if not _KEY_ID.fullmatch(head.kid):
        raise SignatureInvalid("malformed_signature")
    index = _matching_key(context, head.kid, header_bytes(token.rpartition(".")[0]), signature)
    claims = _decode_part(claims_text, _JwtClaims)
    actual = hashlib.sha256(context.request.body).hexdigest().encode()
    if not hmac.compare_digest(actual, header_bytes(claims.request_body_sha256)):
        raise SignatureInvalid("body_hash_mismatch")
    return SignatureMatch(index, claims.iat * 1000)


def _split_jwt(token: str) -> tuple[bytes, bytes, bytes]:
    parts = token.split(".") if len(token) <= _MAX_TOKEN_LENGTH else []
    if len(parts) != 3:  # noqa: PLR2004 - head, claims, signature
        raise SignatureInvalid("malformed_signature")
    head, claims, signature = map(decode_base64url, parts)
    if len(signature) != 2 * _COORDINATE_BYTES:
        raise SignatureInvalid("malformed_signature")
    return head, claims, signature


def _decode_part(text: bytes, kind: type[T]) -> T:
    try:
        return msgspec.json.decode(text, type=kind)
    except DECODE_ERRORS as error:
        raise SignatureInvalid("malformed_signature") from error


def _matching_key(context: VerificationContext, kid: str, message: bytes, signature: bytes) -> int:
    """Return the place of the key that made a signature."""
    r, s = (
        int.from_bytes(half, "big")
        for half in (signature[:_COORDINATE_BYTES], signature[_COORDINATE_BYTES:])
    )
    reason = "signature_mismatch"
    for index, key in _candidate_keys(context, kid):
        try:
            public = _public_key(key, context.now)
            public.verify(encode_dss_signature(r, s), message, ECDSA(SHA256()))
        except SignatureInvalid as error:
            reason = error.reason
        except InvalidSignature:
            continue
        else:
            return index
    raise SignatureInvalid(reason)


def _candidate_keys(context: VerificationContext, kid: str) -> list[tuple[int, _Jwk]]:
    """Return the keys of an id: those that are configured, else the one that was fetched."""
    configured = [(index, _parse_jwk(secret)) for index, secret in enumerate(context.secrets)]
    found = [(index, key) for index, key in configured if key is not None and key.kid == kid]
    if found:
        return found
    text = context.keys.get(kid)
    if text is None:
        raise KeyFetchRequired(kid)
    fetched = _parse_jwk(text)
    if fetched is None or fetched.kid != kid:
        raise SignatureInvalid("unusable_secret")
    return [(-1, fetched)]


def _parse_jwk(text: str) -> _Jwk | None:
    try:
        return msgspec.json.decode(text, type=_Jwk)
    except DECODE_ERRORS:
        return None


def _public_key(key: _Jwk, now: int | None) -> EllipticCurvePublicKey:
    if (key.kty, key.crv, key.alg) != ("EC", "P-256", "ES256"):
        raise SignatureInvalid("wrong_algorithm")
    if key.expired_at is not None and now is not None and key.expired_at * 1000 <= now:
        raise SignatureInvalid("expired_key")
    x, y = (int.from_bytes(decode_base64url(each), "big") for each in (key.x, key.y))
    try:
        return EllipticCurvePublicNumbers(x, y, SECP256R1()).public_key()
    except ValueError as error:  # not a point of the curve
        raise SignatureInvalid("unusable_secret") from error
