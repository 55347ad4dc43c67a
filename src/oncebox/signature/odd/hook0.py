"""Hook0: the signature names the headers it covers; the stronger of two versions decides."""

import hmac
import re

from oncebox.errors import SignatureInvalid
from oncebox.signature import keyring, mac, moment
from oncebox.signature.request import Request, octets
from oncebox.signature.scheme import Attempt, Match

HEADER = "x-hook0-signature"
_MOST_HEADERS = 64
_NAME = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+")


def verify(attempt: Attempt) -> Match:
    """Verify ``v1`` over headers and body if it is offered, else ``v0`` over the body."""
    request = attempt.request
    keys = keyring.shared(attempt.secrets, keyring.encoded)
    parts = _parts(request)
    timestamp = parts.get("t", "")
    if not timestamp:
        raise SignatureInvalid("missing_timestamp")
    signed_at = moment.read(timestamp, "s")
    strong = "v1" in parts
    given = parts.get("v1" if strong else "v0", "")
    if not given:
        raise SignatureInvalid("malformed_signature")
    names = _names(parts) if strong else []
    message = [octets(timestamp)]
    if strong:
        values = (octets(_delivered(request, name)) for name in names)
        message += [octets(" ".join(names)), b".".join(values)]
    message.append(request.body)
    for index, key in keys:
        expected = hmac.digest(key, b".".join(message), "sha256").hex().encode()
        if hmac.compare_digest(expected, octets(given)):
            return Match(index, signed_at)
    raise SignatureInvalid("signature_mismatch")


def covered(request: Request) -> frozenset[str]:
    """Return the headers that the signature of this request covers.

    None where the weaker version stands beside it: whoever leaves the stronger out passes by that.
    """
    parts = _parts(request)
    return frozenset(_names(parts) if "v1" in parts and "v0" not in parts else ())


def _parts(request: Request) -> dict[str, str]:
    found: dict[str, str] = {}
    for part in mac.split(request.header(HEADER), ","):
        name, equals, value = part.partition("=")
        if equals and found.setdefault(name.strip(), value.strip()) != value.strip():
            raise SignatureInvalid("malformed_signature")
    return found


def _names(parts: dict[str, str]) -> list[str]:
    names = parts["h"].split(" ") if parts.get("h") else []
    if len(names) > _MOST_HEADERS or not all(map(_NAME.fullmatch, names)):
        raise SignatureInvalid("malformed_signature")
    return [name.lower() for name in names]


def _delivered(request: Request, name: str) -> str:
    """Return a header that the signature covers; a missing one is not an empty one."""
    if name not in request.table:
        raise SignatureInvalid("missing_header")
    return request.header(name) if request.table[name].strip() else ""
