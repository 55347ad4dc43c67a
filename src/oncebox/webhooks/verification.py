"""Signature verification: source options, signed content, HMAC comparison, freshness.

See docs/decisions/0013-use-strict-verification-for-webhook-signatures.md.
"""

import hashlib
import hmac
import re
from collections.abc import Container, Iterable, Mapping, Sequence
from enum import StrEnum
from functools import lru_cache
from typing import Any
from urllib.parse import urlsplit

import msgspec

from oncebox.errors import ConfigInvalid, KeyFetchRequired, SignatureInvalid
from oncebox.model.deliveries.delivery import Headers
from oncebox.webhooks import formats, paths, signing
from oncebox.webhooks.formats import DIGEST_ENCODERS
from oncebox.webhooks.http_request import WebhookRequest, header_bytes
from oncebox.webhooks.paths import json_field, parse_json_path
from oncebox.webhooks.scheme import (
    NO_OPTIONS,
    NO_PUBLIC_KEYS,
    FieldPath,
    PublicKeys,
    Scheme,
    SchemeOptions,
    SignatureMatch,
    VerificationContext,
)

_PLACEHOLDER = re.compile(r"\{(body|timestamp|method|url|secret|header:[A-Za-z0-9-]+)\}")
#: a literal, or the name of a placeholder
TemplatePart = bytes | str


@lru_cache(1024)
def parse_template(template: str) -> tuple[TemplatePart, ...]:
    """Return the literals and placeholders of a template."""
    parts = _PLACEHOLDER.split(template)
    if any(brace in literal for literal in parts[::2] for brace in "{}"):
        raise ConfigInvalid(
            f"{template!r} is not a signed content; write it like {{timestamp}}.{{body}}"
        )
    return tuple(
        part if number % 2 else part.encode()
        for number, part in enumerate(parts)
        if part or number % 2
    )


def signed_messages(context: VerificationContext, timestamp: str, secret: bytes) -> list[bytes]:
    """Return the messages that may have been signed: one per spelling of the address."""
    template = context.scheme.content
    if template == "{body}":
        return [context.request.body]
    parts = parse_template(template)
    spellings = signed_url_variants(context) if "url" in parts else ("",)
    return [
        b"".join(_fill_part(context, part, timestamp, secret, url) for part in parts)
        for url in spellings
    ]


def signed_url_variants(context: VerificationContext) -> Sequence[str]:
    """Return the address as the sender may have spelled it."""
    url = resolve_public_url(context.request.url, context.options.public_url)
    return context.scheme.url_variants(url) if context.scheme.url_variants else (url,)


def resolve_public_url(url: str, public: str) -> str:
    """Return the public address; its query is that of the request, unless it has its own."""
    if not public:
        return url
    try:
        query = urlsplit(url).query
        return public if not query or urlsplit(public).query else f"{public}?{query}"
    except ValueError:
        return public


def _fill_part(
    context: VerificationContext, part: TemplatePart, timestamp: str, secret: bytes, url: str
) -> bytes:
    if isinstance(part, bytes):
        return part
    if part == "body":
        return context.request.body
    if part.startswith("header:"):
        return header_bytes(context.request.header(part[7:].lower()))
    if part == "secret":
        return secret
    return header_bytes(
        {"timestamp": timestamp, "method": context.request.method, "url": url}[part]
    )


MAX_SIGNATURES = 8
_MAX_ENTRIES = 32
_MAX_HEADER_LENGTH = 8_192

#: a signature as written, and the name of its hash
CandidateSignature = tuple[bytes, str]


def verify_hmac(context: VerificationContext) -> SignatureMatch:
    """Compare the signatures in the header with those of each secret."""
    scheme = context.scheme
    keys = signing.hmac_keys(context.secrets, signing.KEY_DERIVATIONS[scheme.key])
    candidates, stamp = candidate_signatures(scheme, context.request)
    timestamp = _timestamp(context, stamp)
    signed_at = formats.parse_timestamp(timestamp, scheme.unit) if timestamp else None
    index = find_matching_secret(context, keys, candidates, timestamp)
    return SignatureMatch(index, signed_at)


def find_matching_secret(
    context: VerificationContext,
    keys: list[tuple[int, bytes]],
    candidates: list[CandidateSignature],
    timestamp: str,
) -> int:
    """Return the index of the matching secret."""
    write = DIGEST_ENCODERS[context.scheme.encoding]
    keyed = context.scheme.keyed
    messages = signed_messages(context, timestamp, b"") if keyed else []
    for index, key in keys:
        for message in messages or signed_messages(context, timestamp, key):
            for candidate, name in candidates:
                digest = (
                    hmac.digest(key, message, name)
                    if keyed
                    else hashlib.new(name, message).digest()
                )
                if hmac.compare_digest(write(digest), candidate):
                    return index
    raise SignatureInvalid("signature_mismatch")


def candidate_signatures(
    scheme: Scheme, request: WebhookRequest
) -> tuple[list[CandidateSignature], str]:
    """Return the signatures of known versions, and the timestamp beside them."""
    names = scheme.header_names
    found, stamp = parse_signature_header(scheme, request.header(names[0]))
    for name in names[1:]:
        if name in request.headers_by_name:
            found += parse_signature_header(scheme, request.header(name))[0]
    if len(found) > MAX_SIGNATURES:
        raise SignatureInvalid("too_many_signatures")
    if not any(candidate for candidate, _ in found):
        raise SignatureInvalid("malformed_signature")
    return found, stamp


def split_signature_header(value: str, separator: str) -> list[str]:
    """Return the entries of a header."""
    if len(value) > _MAX_HEADER_LENGTH:
        raise SignatureInvalid("malformed_signature")
    if not separator:
        return [value]
    parts = value.split(separator)
    if len(parts) > _MAX_ENTRIES:
        raise SignatureInvalid("too_many_signatures")
    return [part.strip() for part in parts]


def parse_signature_header(scheme: Scheme, value: str) -> tuple[list[CandidateSignature], str]:
    """Return the signatures in a header value, and the timestamp among them."""
    if not value.startswith(scheme.header_prefix):
        raise SignatureInvalid("malformed_signature")
    found: list[CandidateSignature] = []
    stamps: list[str] = []
    for part in split_signature_header(value[len(scheme.header_prefix) :], scheme.separator):
        if scheme.timestamp_prefix and part.startswith(scheme.timestamp_prefix):
            stamps.append(part[len(scheme.timestamp_prefix) :])
            continue
        for mark, algorithm in scheme.signature_prefixes:
            if part.startswith(mark):
                found.append((header_bytes(part[len(mark) :]), algorithm))
                break
    if len(stamps) > 1:
        # It is not known which of the two was signed.
        raise SignatureInvalid("malformed_timestamp")
    return found, stamps[0] if stamps else ""


def _timestamp(context: VerificationContext, stamp: str) -> str:
    """Return the timestamp as written; empty where there is none and none is needed."""
    scheme = context.scheme
    if scheme.timestamp_prefix:
        if not stamp:
            raise SignatureInvalid("missing_timestamp")
        return stamp
    if not scheme.timestamp:
        return ""
    if "{timestamp}" in scheme.content:
        return context.request.header(scheme.timestamp.removeprefix("header:"))
    return _optional_timestamp(context)


def _optional_timestamp(context: VerificationContext) -> str:
    for place in context.scheme.timestamp.split("|"):
        if place.startswith("header:"):
            found = context.request.headers_by_name.get(place.removeprefix("header:"), "")
        else:
            value = json_field(context.request.body, place)
            found = "" if value is None else str(value)
        if found:
            return found
    return ""


#: options of every scheme
_COMMON_OPTIONS = frozenset({"window", "id", "type", "batch", "volatile"})


def parse_options(values: Mapping[str, Any]) -> SchemeOptions:
    """Return the options in a source's table."""
    if not values:
        return NO_OPTIONS
    try:
        return msgspec.convert(dict(values), SchemeOptions)
    except msgspec.ValidationError as error:
        raise ConfigInvalid(f"the options of the scheme cannot be used: {error}") from error


def source_options(
    scheme: Scheme, values: Mapping[str, Any], *, public_url: str = "", allow_unsigned: bool = False
) -> SchemeOptions:
    """Return the options of a source, with those of its fields that the scheme accepts."""
    settings = {"public_url": public_url, "allow_unsigned": allow_unsigned}
    taken = {
        name: value for name, value in settings.items() if value and name in scheme.accepted_options
    }
    return parse_options({**values, **taken})


def secret_header_names(scheme: Scheme, options: SchemeOptions) -> frozenset[str]:
    """Return the headers in which a scheme sends its secret, in lower case."""
    names = apply_options(scheme, options).header_names if scheme.sends_secret else ()
    return frozenset(names)


#: stands for a secret that is not stored
_REMOVED = "[removed]"


def remove_secrets(
    headers: Iterable[tuple[str, str]], names: Container[str], secrets: Sequence[str] = ()
) -> Headers:
    """Return headers for storage: whoever reads a delivery must not learn the secret.

    ``names`` are the headers, in lower case, in which the scheme sends it; ``secrets`` are looked
    for in the others too.
    """
    return tuple(
        (
            name,
            _REMOVED
            if name.lower() in names or any(each and each in value for each in secrets)
            else value,
        )
        for name, value in headers
    )


def check_scheme(
    scheme: Scheme, secrets: Sequence[str], options: SchemeOptions = NO_OPTIONS
) -> None:
    """Refuse a source that could never verify a request, or would accept everything."""
    given = {
        name
        for name in options.__struct_fields__
        if getattr(options, name) != getattr(NO_OPTIONS, name)
    }
    if extra := given - _COMMON_OPTIONS - set(scheme.accepted_options):
        raise ConfigInvalid(f"the scheme {scheme.name} does not take {', '.join(sorted(extra))}")
    apply_options(scheme, options)
    if not scheme.keyless and not any(secret.strip() for secret in secrets):
        raise ConfigInvalid(
            f"the scheme {scheme.name} needs a secret; without one it refuses everything"
        )
    if "topics" in scheme.accepted_options and not options.topics:
        raise ConfigInvalid(
            f"the scheme {scheme.name} needs its topics: a signature alone only proves that "
            "somebody's topic sent it"
        )
    if scheme.name == "none" and not options.allow_unsigned:
        raise ConfigInvalid(
            "the scheme none lets in whatever anybody sends; say so with allow_unsigned"
        )


@lru_cache(1024)
def apply_options(scheme: Scheme, options: SchemeOptions) -> Scheme:
    """Return a scheme with the options applied."""
    allowed = _COMMON_OPTIONS.union(scheme.accepted_options)
    changes: dict[str, Any] = {
        name: value
        for name in ("header", "separator", "content", "batch", "volatile")
        if name in allowed and (value := getattr(options, name))
    }
    changes |= _signature_changes(scheme, options)
    changed = msgspec.structs.replace(scheme, **changes)
    found = {
        name: (FieldPath(path, signed=changed.covers_path(path)),)
        for name in ("id", "type")
        if (path := getattr(options, name))
    }
    changed = msgspec.structs.replace(changed, **found)
    _check_paths(changed)
    return changed


def _check_paths(scheme: Scheme) -> None:
    """Refuse invalid paths and templates now, not at the first request."""
    if scheme.verifier is None:
        parse_template(scheme.content)
    for place in (*scheme.id, *scheme.type):
        paths.parse_field_path(place.path)
    for path in scheme.volatile:
        parse_json_path(path)
    if scheme.batch:
        paths.parse_batch_path(scheme.batch)


def _signature_changes(scheme: Scheme, options: SchemeOptions) -> dict[str, Any]:
    changes: dict[str, Any] = {}
    algorithm = options.algorithm or scheme.signature_prefixes[0][1]
    if "algorithm" in scheme.accepted_options and options.algorithm:
        _check_choice("algorithm", algorithm, ("sha1", "sha256", "sha384", "sha512"))
        changes["signature_prefixes"] = _signature_prefixes(scheme, algorithm)
    if "prefix" in scheme.accepted_options and options.prefix is not None:
        changes["signature_prefixes"] = ((options.prefix, algorithm),)
    if "encoding" in scheme.accepted_options and options.encoding:
        changes["encoding"] = _check_choice("encoding", options.encoding, DIGEST_ENCODERS)
    if "unit" in scheme.accepted_options and options.unit:
        changes["unit"] = _check_choice("unit", options.unit, formats.TIMESTAMP_PARSERS)
    if "timestamp" in scheme.accepted_options and options.timestamp:
        changes["timestamp"] = f"header:{options.timestamp.lower()}"
    return changes


def _signature_prefixes(scheme: Scheme, algorithm: str) -> tuple[tuple[str, str], ...]:
    if all(not mark for mark, _ in scheme.signature_prefixes):
        return (("", algorithm),)
    return ((f"{algorithm}=", algorithm), ("", algorithm))


def _check_choice(what: str, value: str, known: Sequence[str] | Mapping[str, object]) -> str:
    if value not in known:
        raise ConfigInvalid(f"there is no {what} {value!r}; choose one of {', '.join(known)}")
    return value


#: every reason a request is refused for, and what it means
REASONS: dict[str, str] = {
    "missing_secret": "no secret is configured, or it is blank",
    "unusable_secret": "the secret is not of the form that the scheme needs",
    "missing_header": "a header of the signature is missing or empty",
    "duplicate_header": "a header of the signature is there twice",
    "malformed_signature": "the signature is not spelled as the scheme spells it",
    "too_many_signatures": "more than eight signatures, or more than thirty-two entries",
    "no_matching_version": "no signature is of the version that the secret is for",
    "signature_mismatch": "it was signed with another secret, or for other bytes",
    "missing_timestamp": "the signature names no time",
    "malformed_timestamp": "the time is not spelled as the scheme spells it, or is there twice",
    "future": "it is dated later than the window allows",
    "stale": "it is dated earlier than the window allows",
    "malformed_body": "the body lacks what the scheme needs in order to verify it",
    "body_not_covered": "the signature leaves the body uncovered",
    "body_hash_mismatch": "the body is not the one whose hash was signed",
    "untrusted_certificate": "the certificate lies at an address that is not the provider's",
    "unusable_certificate": "the certificate cannot be read, or has no key that fits",
    "expired_certificate": "the certificate was not valid at the time",
    "expired_key": "the key had been withdrawn at the time",
    "wrong_algorithm": "the request asks for an algorithm that the scheme does not use",
    "topic_not_allowed": "the topic is not among the allowed ones",
    "unsigned": "nothing is signed, and the source does not allow that",
    "unusable_options": "the options of the source are not of the form that the scheme needs",
    "scheme_failed": "the code of an added scheme failed",
}


class Freshness(StrEnum):
    """The signed time compared with the receive clock."""

    #: inside the window, or the scheme has none
    FRESH = "fresh"
    #: a valid signature, older than the window
    LATE = "late"
    #: no time is signed
    UNDATED = "undated"


class Verdict(msgspec.Struct, frozen=True):
    """The verdict on an authentic request."""

    #: the index of the matching secret; -1 for a fetched key, or where nothing is signed
    secret_index: int
    #: when it was signed, in milliseconds
    signed_at: int | None
    freshness: Freshness


def verify(
    scheme: Scheme,
    request: WebhookRequest,
    secrets: Sequence[str],
    *,
    now: int | None,
    options: SchemeOptions = NO_OPTIONS,
    keys: PublicKeys = NO_PUBLIC_KEYS,
) -> Verdict:
    """Return the verdict on a request; a valid but old one is ``late``.

    ``now`` is the receive clock in milliseconds; None skips the check of the time.

    Raises: SignatureInvalid; KeyFetchRequired, if a public key must be fetched first; nothing else.
    """
    context = VerificationContext(
        scheme=scheme, request=request, secrets=secrets, now=now, options=options, keys=keys
    )
    found = match_signature(context)
    return Verdict(found.secret_index, found.signed_at, _freshness(context, found))


def match_signature(context: VerificationContext) -> SignatureMatch:
    """Return the matching secret and the signed time, without checking the time.

    Raises: SignatureInvalid, KeyFetchRequired.
    """
    try:
        if context.options is not NO_OPTIONS:
            scheme = apply_options(context.scheme, context.options)
            context = msgspec.structs.replace(context, scheme=scheme)
        return (context.scheme.verifier or verify_hmac)(context)
    except (SignatureInvalid, KeyFetchRequired):
        raise
    except ConfigInvalid as error:
        raise SignatureInvalid("unusable_options") from error
    except Exception as error:
        # A scheme may be third-party code, and the request is untrusted: fail closed.
        raise SignatureInvalid("scheme_failed") from error


def verify_fresh(
    scheme: Scheme,
    request: WebhookRequest,
    secrets: Sequence[str],
    *,
    now: int | None,
    options: SchemeOptions = NO_OPTIONS,
    keys: PublicKeys = NO_PUBLIC_KEYS,
) -> Verdict:
    """Return the verdict on a request that is valid and fresh.

    Raises: SignatureInvalid, also for a late one; KeyFetchRequired.
    """
    verdict = verify(scheme, request, secrets, now=now, options=options, keys=keys)
    if verdict.freshness is Freshness.LATE:
        raise SignatureInvalid("stale")
    return verdict


def window_seconds(context: VerificationContext) -> int:
    """Return how long a signature is fresh; 0 is for ever."""
    window = context.options.window
    return (context.scheme.window if window is None else window) or 0


def _freshness(context: VerificationContext, found: SignatureMatch) -> Freshness:
    if found.signed_at is None or context.now is None:
        return Freshness.UNDATED
    allowed = window_seconds(context)
    age = context.now - found.signed_at
    if not allowed or -allowed * 1000 <= age <= allowed * 1000:
        return Freshness.FRESH
    if age < 0:
        raise SignatureInvalid("future")
    return Freshness.LATE
