"""The common kind of verifier: a keyed hash over a template, written in a header."""

import hashlib
import hmac

from oncebox.errors import SignatureInvalid
from oncebox.signature import content, keyring, moment
from oncebox.signature.encoding import WRITTEN
from oncebox.signature.field import field
from oncebox.signature.request import Request, octets
from oncebox.signature.scheme import Attempt, Match, Scheme

MOST_SIGNATURES = 8
_MOST_ENTRIES = 32
_LONGEST_HEADER = 8_192

#: a signature as it was written, and the hash its mark names
Candidate = tuple[bytes, str]


def verify(attempt: Attempt) -> Match:
    """Compare what the header says with what each secret would have made of the content."""
    scheme = attempt.scheme
    keys = keyring.shared(attempt.secrets, keyring.DERIVED[scheme.key])
    candidates, stamp = entries(scheme, attempt.request)
    timestamp = _timestamp(attempt, stamp)
    signed_at = moment.read(timestamp, scheme.unit) if timestamp else None
    index = match(attempt, keys, candidates, timestamp)
    return Match(index, signed_at)


def match(
    attempt: Attempt, keys: list[tuple[int, bytes]], candidates: list[Candidate], timestamp: str
) -> int:
    """Return the place of the secret that fits.

    Raises: SignatureInvalid.
    """
    write = WRITTEN[attempt.scheme.encoding]
    keyed = attempt.scheme.keyed
    messages = content.messages(attempt, timestamp, b"") if keyed else []
    for index, key in keys:
        for message in messages or content.messages(attempt, timestamp, key):
            for candidate, name in candidates:
                digest = (
                    hmac.digest(key, message, name)
                    if keyed
                    else hashlib.new(name, message).digest()
                )
                if hmac.compare_digest(write(digest), candidate):
                    return index
    raise SignatureInvalid("signature_mismatch")


def entries(scheme: Scheme, request: Request) -> tuple[list[Candidate], str]:
    """Return the signatures that count, and the time that stands among them.

    Raises: SignatureInvalid, if there is none.
    """
    names = scheme.lower
    found, stamp = _entries(scheme, request.header(names[0]))
    for name in names[1:]:
        if name in request.table:
            found += _entries(scheme, request.header(name))[0]
    if len(found) > MOST_SIGNATURES:
        raise SignatureInvalid("too_many_signatures")
    if not any(candidate for candidate, _ in found):
        raise SignatureInvalid("malformed_signature")
    return found, stamp


def split(value: str, separator: str) -> list[str]:
    """Return the entries of a header.

    Raises: SignatureInvalid, if it is too long.
    """
    if len(value) > _LONGEST_HEADER:
        raise SignatureInvalid("malformed_signature")
    if not separator:
        return [value]
    parts = value.split(separator)
    if len(parts) > _MOST_ENTRIES:
        raise SignatureInvalid("too_many_signatures")
    return [part.strip() for part in parts]


def _entries(scheme: Scheme, value: str) -> tuple[list[Candidate], str]:
    if not value.startswith(scheme.lead):
        raise SignatureInvalid("malformed_signature")
    found: list[Candidate] = []
    stamps: list[str] = []
    for part in split(value[len(scheme.lead) :], scheme.separator):
        if scheme.stamp and part.startswith(scheme.stamp):
            stamps.append(part[len(scheme.stamp) :])
            continue
        for mark, algorithm in scheme.marks:
            if part.startswith(mark):
                found.append((octets(part[len(mark) :]), algorithm))
                break
    if len(stamps) > 1:
        # Which of two times was signed is the sender's to say, not ours to try.
        raise SignatureInvalid("malformed_timestamp")
    return found, stamps[0] if stamps else ""


def _timestamp(attempt: Attempt, stamp: str) -> str:
    """Return the time as it is written; empty where there is none and none is needed."""
    scheme = attempt.scheme
    if scheme.stamp:
        if not stamp:
            raise SignatureInvalid("missing_timestamp")
        return stamp
    if not scheme.timestamp:
        return ""
    if "{timestamp}" in scheme.content:
        return attempt.request.header(scheme.timestamp.removeprefix("header:"))
    return _optional_timestamp(attempt)


def _optional_timestamp(attempt: Attempt) -> str:
    for place in attempt.scheme.timestamp.split("|"):
        if place.startswith("header:"):
            found = attempt.request.table.get(place.removeprefix("header:"), "")
        else:
            value = field(attempt.request.body, place)
            found = "" if value is None else str(value)
        if found:
            return found
    return ""
