"""Twilio and Mandrill: HMAC over URL and form fields; URL variants of Twilio and HubSpot."""

import hashlib
import hmac
import re
from collections.abc import Sequence
from urllib.parse import SplitResult, urlsplit

from oncebox.errors import SignatureInvalid
from oncebox.webhooks import http_request, signing, verification
from oncebox.webhooks.formats import DIGEST_ENCODERS
from oncebox.webhooks.http_request import header_bytes
from oncebox.webhooks.scheme import SignatureMatch, VerificationContext

_DEFAULT_PORTS = {"https": 443, "http": 80}
_PORT_SUFFIX = re.compile(r":[0-9]*$")
_BODY_HASH = re.compile(r"[?&]bodySHA256=([^&#]*)")
#: without a type, a body is taken for a form: so every byte of it is signed
_FORM_TYPES = {"", "application/x-www-form-urlencoded", "multipart/form-data"}


def verify_twilio(context: VerificationContext) -> SignatureMatch:
    """Verify a form by its sorted fields, and anything else by the hash in the address."""
    fields = _twilio_fields(context)
    return _verify_url_and_fields(context, fields, context.scheme.signature_prefixes[0][1])


def verify_mandrill(context: VerificationContext) -> SignatureMatch:
    """Verify a form by its sorted fields."""
    fields = http_request.form_fields(context.request)
    if fields is None:
        raise SignatureInvalid("malformed_body")
    return _verify_url_and_fields(
        context, b"".join(name + value for name, value in sorted(fields)), "sha1"
    )


def twilio_url_variants(url: str) -> Sequence[str]:
    """Return the spellings that Twilio signs: with and without port, quotes plain or escaped."""
    try:
        parts = urlsplit(url)
    except ValueError:
        return (url,)
    spellings = (url, _without_port(parts, url), _with_port(parts, url))
    quoted = (_quote_apostrophes(each) for each in spellings)
    return tuple(dict.fromkeys((*spellings, *quoted)))


def hubspot_url_variants(url: str) -> Sequence[str]:
    """Return the URL as it is, and with the characters unescaped that HubSpot unescapes."""
    unescaped = _HUBSPOT_ESCAPE.sub(lambda found: chr(int(found[0][1:], 16)), url)
    return tuple(dict.fromkeys((url, unescaped)))


_HUBSPOT_ESCAPE = re.compile("%(?:3A|2F|3F|40|21|24|27|28|29|2A|2C|3B)", re.IGNORECASE)


def _verify_url_and_fields(
    context: VerificationContext, fields: bytes, algorithm: str
) -> SignatureMatch:
    keys = signing.hmac_keys(context.secrets, signing.secret_bytes)
    given = header_bytes(context.request.header(context.scheme.header_names[0]))
    write = DIGEST_ENCODERS[context.scheme.encoding]
    for index, key in keys:
        for url in verification.signed_url_variants(context):
            expected = write(hmac.digest(key, url_bytes(url) + fields, algorithm))
            if hmac.compare_digest(expected, given):
                return SignatureMatch(index)
    raise SignatureInvalid("signature_mismatch")


def url_bytes(url: str) -> bytes:
    """Return the bytes of a URL, which may not be ASCII if it was typed."""
    return url.encode("utf-8", "surrogatepass")


def _twilio_fields(context: VerificationContext) -> bytes:
    """Return the part of the content that is not the address.

    A hash in the URL is always checked; otherwise an empty form could stand in for the body.
    """
    request = context.request
    url = verification.resolve_public_url(request.url, context.options.public_url)
    hashes = _BODY_HASH.findall(url)
    if hashes:
        actual = hashlib.sha256(request.body).hexdigest().encode()
        if len(hashes) > 1 or not hmac.compare_digest(actual, header_bytes(hashes[0])):
            raise SignatureInvalid("body_hash_mismatch")
        return b""
    if request.body and request.content_type not in _FORM_TYPES:
        raise SignatureInvalid("body_not_covered")
    fields = http_request.form_fields(request)
    if fields is None:
        raise SignatureInvalid("malformed_body")
    return b"".join(name + value for name, value in sorted(set(fields)))


def _without_port(parts: SplitResult, url: str) -> str:
    return url.replace(parts.netloc, _PORT_SUFFIX.sub("", parts.netloc), 1) if parts.netloc else url


def _with_port(parts: SplitResult, url: str) -> str:
    if not parts.netloc or _PORT_SUFFIX.search(parts.netloc) or parts.scheme not in _DEFAULT_PORTS:
        return url
    return url.replace(parts.netloc, f"{parts.netloc}:{_DEFAULT_PORTS[parts.scheme]}", 1)


def _quote_apostrophes(url: str) -> str:
    head, mark, query = url.partition("?")
    return f"{head}{mark}{query.replace(chr(39), '%27')}"
