"""Hook0: HMAC over timestamp, named headers and body (v1), or timestamp and body only (v0)."""

import hmac
import re

from oncebox.errors import SignatureInvalid
from oncebox.webhooks import formats, signing, verification
from oncebox.webhooks.http_request import WebhookRequest, header_bytes
from oncebox.webhooks.scheme import SignatureMatch, VerificationContext

HEADER = "x-hook0-signature"
_MAX_SIGNED_HEADERS = 64
_HEADER_NAME = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+")


def verify_hook0(context: VerificationContext) -> SignatureMatch:
    """Verify ``v1`` over headers and body if it is offered, else ``v0`` over the body."""
    request = context.request
    keys = signing.hmac_keys(context.secrets, signing.secret_bytes)
    parts = _signature_parts(request)
    timestamp = parts.get("t", "")
    if not timestamp:
        raise SignatureInvalid("missing_timestamp")
    signed_at = formats.parse_timestamp(timestamp, "s")
    strong = "v1" in parts
    given = parts.get("v1" if strong else "v0", "")
    if not given:
        raise SignatureInvalid("malformed_signature")
    names = _signed_header_names(parts) if strong else []
    message = [header_bytes(timestamp)]
    if strong:
        values = (header_bytes(_signed_header_value(request, name)) for name in names)
        message += [header_bytes(" ".join(names)), b".".join(values)]
    message.append(request.body)
    for index, key in keys:
        expected = hmac.digest(key, b".".join(message), "sha256").hex().encode()
        if hmac.compare_digest(expected, header_bytes(given)):
            return SignatureMatch(index, signed_at)
    raise SignatureInvalid("signature_mismatch")


def signed_headers(request: WebhookRequest) -> frozenset[str]:
    """Return the headers that the signature of this request covers.

    None if the weaker version is offered too: an attacker could leave the stronger one out.
    """
    parts = _signature_parts(request)
    return frozenset(_signed_header_names(parts) if "v1" in parts and "v0" not in parts else ())


def _signature_parts(request: WebhookRequest) -> dict[str, str]:
    found: dict[str, str] = {}
    for part in verification.split_signature_header(request.header(HEADER), ","):
        name, equals, value = part.partition("=")
        if equals and found.setdefault(name.strip(), value.strip()) != value.strip():
            raise SignatureInvalid("malformed_signature")
    return found


def _signed_header_names(parts: dict[str, str]) -> list[str]:
    names = parts["h"].split(" ") if parts.get("h") else []
    if len(names) > _MAX_SIGNED_HEADERS or not all(map(_HEADER_NAME.fullmatch, names)):
        raise SignatureInvalid("malformed_signature")
    return [name.lower() for name in names]


def _signed_header_value(request: WebhookRequest, name: str) -> str:
    """Return a header that the signature covers; a missing one is not an empty one."""
    if name not in request.headers_by_name:
        raise SignatureInvalid("missing_header")
    return request.header(name) if request.headers_by_name[name].strip() else ""
