"""Standard Webhooks: an id, a time and the body, signed by a shared or by a private key."""

import base64
import hmac
from collections.abc import Callable

from cryptography.exceptions import InvalidSignature

from oncebox.errors import SignatureInvalid
from oncebox.signature import keyring, mac, moment
from oncebox.signature.encoding import read_base64
from oncebox.signature.request import Request, octets
from oncebox.signature.scheme import Attempt, Match

#: the two families of headers; the scheme says which is looked for first
STANDARD, SVIX = "webhook-", "svix-"
FAMILIES = (STANDARD, SVIX)


def verify(attempt: Attempt) -> Match:
    """Try each secret with the signatures of its own version: no key serves two algorithms."""
    request = attempt.request
    secrets = keyring.present(attempt.secrets)
    prefix = family(request)
    id_ = octets(request.header(f"{prefix}id"))
    timestamp = request.header(f"{prefix}timestamp")
    offered = _offered(request.header(f"{prefix}signature"))
    signed_at = moment.read(timestamp, "s")
    message = b"%b.%b.%b" % (id_, octets(timestamp), request.body)
    reason = "no_matching_version"
    for index, secret in secrets:
        version, fits = _judge(secret, keyring.DERIVED[attempt.scheme.key])
        if fits is None:
            reason = "unusable_secret"
            continue
        for signature in offered.get(version, ()):
            reason = "signature_mismatch"
            if fits(signature, message):
                return Match(index, signed_at)
    raise SignatureInvalid(reason)


def family(request: Request) -> str:
    """Return the family of headers that is there in full; ids are read from the same."""
    table = request.table
    for prefix in FAMILIES:
        if all(f"{prefix}{name}" in table for name in ("id", "timestamp", "signature")):
            return prefix
    raise SignatureInvalid("missing_header")


def _offered(value: str) -> dict[str, list[str]]:
    """Return the signatures by version.

    Raises: SignatureInvalid, if there is none, or if there are too many.
    """
    found: dict[str, list[str]] = {}
    for part in mac.split(value, " "):
        version, _, signature = part.partition(",")
        if signature:
            found.setdefault(version, []).append(signature)
    if not found:
        raise SignatureInvalid("malformed_signature")
    if any(len(signatures) > mac.MOST_SIGNATURES for signatures in found.values()):
        raise SignatureInvalid("too_many_signatures")
    return found


Fits = Callable[[str, bytes], bool]


def _judge(secret: str, derive: Callable[[str], bytes]) -> tuple[str, Fits | None]:
    """Return the version that a secret is for, and how it judges."""
    version = "v1a" if secret.startswith(keyring.PUBLIC) else "v1"
    try:
        if version == "v1a":
            return version, _public(keyring.base64_loosely(secret.removeprefix(keyring.PUBLIC)))
        key = derive(secret)
    except ValueError:
        return version, None
    return version, _shared(key) if key else None


def _shared(key: bytes) -> Fits:
    def fits(signature: str, message: bytes) -> bool:
        expected = base64.b64encode(hmac.digest(key, message, "sha256"))
        return hmac.compare_digest(expected, octets(signature))

    return fits


def _public(raw: bytes) -> Fits:
    key = keyring.ed25519(raw)

    def fits(signature: str, message: bytes) -> bool:
        try:
            key.verify(read_base64(signature), message)
        except (InvalidSignature, SignatureInvalid):
            return False
        return True

    return fits
