"""Signatures over the address and the fields of a form: Twilio and Mandrill."""

import hashlib
import hmac
import re
from collections.abc import Sequence
from urllib.parse import SplitResult, urlsplit

from oncebox.errors import SignatureInvalid
from oncebox.signature import content, forms, keyring
from oncebox.signature.encoding import WRITTEN
from oncebox.signature.request import octets
from oncebox.signature.scheme import Attempt, Match

_PORTS = {"https": 443, "http": 80}
_PORT = re.compile(r":[0-9]*$")
_BODY_HASH = re.compile(r"[?&]bodySHA256=([^&#]*)")
#: without a type, a body is taken for a form: so every byte of it is signed
_FORMS = {"", "application/x-www-form-urlencoded", "multipart/form-data"}


def twilio(attempt: Attempt) -> Match:
    """Verify a form by its sorted fields, and anything else by the hash in the address."""
    fields = _twilio_fields(attempt)
    return _verify(attempt, fields, attempt.scheme.marks[0][1])


def mandrill(attempt: Attempt) -> Match:
    """Verify a form by its sorted fields."""
    fields = forms.pairs(attempt.request)
    if fields is None:
        raise SignatureInvalid("malformed_body")
    return _verify(attempt, b"".join(name + value for name, value in sorted(fields)), "sha1")


def twilio_urls(url: str) -> Sequence[str]:
    """Return the spellings that Twilio signs: with and without port, quotes plain or escaped."""
    try:
        parts = urlsplit(url)
    except ValueError:
        return (url,)
    spellings = (url, _without_port(parts, url), _with_port(parts, url))
    quoted = (_query_quoted(each) for each in spellings)
    return tuple(dict.fromkeys((*spellings, *quoted)))


def hubspot_urls(url: str) -> Sequence[str]:
    """Return the address as it is, and with the escapes undone that HubSpot undoes."""
    return tuple(dict.fromkeys((url, _HUBSPOT_ESCAPE.sub(_unescaped, url))))


_HUBSPOT_ESCAPE = re.compile("%(?:3A|2F|3F|40|21|24|27|28|29|2A|2C|3B)", re.IGNORECASE)


def _unescaped(found: re.Match[str]) -> str:
    return chr(int(found[0][1:], 16))


def _verify(attempt: Attempt, fields: bytes, algorithm: str) -> Match:
    keys = keyring.shared(attempt.secrets, keyring.encoded)
    given = octets(attempt.request.header(attempt.scheme.lower[0]))
    write = WRITTEN[attempt.scheme.encoding]
    for index, key in keys:
        for url in content.addresses(attempt):
            expected = write(hmac.digest(key, octets_of_url(url) + fields, algorithm))
            if hmac.compare_digest(expected, given):
                return Match(index)
    raise SignatureInvalid("signature_mismatch")


def octets_of_url(url: str) -> bytes:
    """Return the bytes of an address; it is ASCII, unless somebody typed it."""
    return url.encode("utf-8", "surrogatepass")


def _twilio_fields(attempt: Attempt) -> bytes:
    """Return the part of the content that is not the address.

    A hash in the address always counts: else an empty form would pass for the body it is of.
    """
    request = attempt.request
    url = content.public_address(request.url, attempt.options.public_url)
    hashes = _BODY_HASH.findall(url)
    if hashes:
        actual = hashlib.sha256(request.body).hexdigest().encode()
        if len(hashes) > 1 or not hmac.compare_digest(actual, octets(hashes[0])):
            raise SignatureInvalid("body_hash_mismatch")
        return b""
    if request.body and request.content_type not in _FORMS:
        raise SignatureInvalid("body_not_covered")
    fields = forms.pairs(request)
    if fields is None:
        raise SignatureInvalid("malformed_body")
    return b"".join(name + value for name, value in sorted(set(fields)))


def _without_port(parts: SplitResult, url: str) -> str:
    return url.replace(parts.netloc, _PORT.sub("", parts.netloc), 1) if parts.netloc else url


def _with_port(parts: SplitResult, url: str) -> str:
    if not parts.netloc or _PORT.search(parts.netloc) or parts.scheme not in _PORTS:
        return url
    return url.replace(parts.netloc, f"{parts.netloc}:{_PORTS[parts.scheme]}", 1)


def _query_quoted(url: str) -> str:
    head, mark, query = url.partition("?")
    return f"{head}{mark}{query.replace(chr(39), '%27')}"
