"""Compiled schemes: the secrets, header names and paths of one source, looked up in advance.

A compiled scheme is a function for the usual request of a source: one event, signed by HMAC, in
time. It returns None for any other request, and for those that it would refuse; ``verify`` and
``parse_events`` then decide. Tests compare the two for every scheme.
See docs/decisions/0044-use-compiled-sources-for-webhook-intake.md.
"""

import hmac
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from functools import lru_cache, partial
from hashlib import sha256
from typing import Any, NamedTuple

from oncebox.errors import SignatureInvalid
from oncebox.webhooks import event_parsing, formats, signing, verification
from oncebox.webhooks.paths import (
    DECODE_ERRORS,
    MISSING_MEMBER,
    PathPart,
    PathStep,
    members_decoder,
)
from oncebox.webhooks.scheme import NO_OPTIONS, Scheme, SchemeOptions

#: header fields by lower-case name; none occurs twice
HeaderTable = Mapping[bytes, bytes]


class VerifiedEvent(NamedTuple):
    """The only event of an authentic request that is not late."""

    secret_index: int
    #: ``fresh`` or ``undated``
    freshness: str
    id: str | None
    id_signed: bool
    type: str
    fingerprint: bytes


#: takes headers, body and the receive clock
CompiledScheme = Callable[[HeaderTable, bytes, int], VerifiedEvent | None]
#: signatures, each with the name of its hash, and the timestamp beside them
_SignatureEntries = tuple[list[verification.CandidateSignature], str]
#: takes headers and body; returns the index of the secret, and the timestamp as written, or raises
_SignatureCheck = Callable[[HeaderTable, bytes], tuple[int, str]]
#: takes headers and body; returns id, whether it is signed, type and fingerprint
_EventReader = Callable[[HeaderTable, bytes], tuple[str | None, bool, str, bytes]]
#: takes headers, body and the decoded members of the body
_ValueReader = Callable[[HeaderTable, bytes, Any], str]
_FirstValue = Callable[[HeaderTable, bytes, Any], tuple[str, bool]]


def compile_scheme(
    scheme: Scheme, secrets: Sequence[str], options: SchemeOptions = NO_OPTIONS
) -> CompiledScheme | None:
    """Return the function for the usual requests; None if the scheme has no usual form."""
    try:
        return _compile(scheme, secrets, options)
    except Exception:  # noqa: BLE001 - an added scheme may be invalid; ``verify`` reports it
        return None


def _compile(
    scheme: Scheme, secrets: Sequence[str], options: SchemeOptions
) -> CompiledScheme | None:
    if options is not NO_OPTIONS:
        scheme = verification.apply_options(scheme, options)
    if not (_has_plain_signature(scheme) and _has_plain_events(scheme)):
        return None
    check_signature = _compile_signature(scheme, secrets)
    read_event = _compile_event(scheme)
    parse_timestamp = formats.TIMESTAMP_PARSERS[scheme.unit]
    window = ((scheme.window if options.window is None else options.window) or 0) * 1000

    def verify_event(headers: HeaderTable, body: bytes, now: int) -> VerifiedEvent | None:
        try:
            index, timestamp = check_signature(headers, body)
            age = now - parse_timestamp(timestamp) if timestamp else 0
        except Exception:  # noqa: BLE001 - not authentic, or an added scheme; ``verify`` reports it
            return None
        if window and not -window <= age <= window:
            return None
        id_, id_signed, type_, fingerprint = read_event(headers, body)
        freshness = "fresh" if timestamp else "undated"
        return VerifiedEvent(index, freshness, id_, id_signed, type_, fingerprint)

    return verify_event


def _has_plain_events(scheme: Scheme) -> bool:
    """Say whether a request is one event, whose fields are in its headers and its JSON."""
    plan = event_parsing.field_plan(scheme)
    parts = [part for pieces, _ in (*plan.ids, *plan.types) for part in pieces]
    return not (
        scheme.batch or scheme.gzip or scheme.malleable or scheme.handshake or scheme.signed_headers
    ) and all(part.root in {"event", "header", "always"} for part in parts)


# signature


def _compile_signature(scheme: Scheme, secrets: Sequence[str]) -> _SignatureCheck:
    keys = signing.hmac_keys(secrets, signing.KEY_DERIVATIONS[scheme.key])
    signed_content = _compile_content(verification.parse_template(scheme.content))
    encode = formats.DIGEST_ENCODERS[scheme.encoding]
    parse = _compile_header(scheme)
    name, *other_names = (each.encode() for each in scheme.header_names)
    others = frozenset(other_names)
    needs_entry = bool(scheme.timestamp_prefix)
    stamp_header = b"" if needs_entry else scheme.timestamp.removeprefix("header:").encode()

    def check(headers: HeaderTable, body: bytes) -> tuple[int, str]:
        candidates, timestamp = parse(_value(headers, name))
        if stamp_header:
            timestamp = _value(headers, stamp_header)
        is_odd = len(candidates) > verification.MAX_SIGNATURES or (needs_entry and not timestamp)
        if is_odd or (others and not others.isdisjoint(headers)):
            raise SignatureInvalid("malformed_signature")
        message = signed_content(headers, body, timestamp)
        for index, key in keys:
            for candidate, algorithm in candidates:
                digest = encode(hmac.digest(key, message, algorithm))
                if hmac.compare_digest(digest, candidate):
                    return index, timestamp
        raise SignatureInvalid("signature_mismatch")

    return check


def _compile_header(scheme: Scheme) -> Callable[[str], _SignatureEntries]:
    """Return the function that reads signatures and timestamp from a header value."""
    if scheme.separator:
        return partial(verification.parse_signature_header, scheme)
    prefixes = [(scheme.header_prefix + mark, name) for mark, name in scheme.signature_prefixes]

    def parse(value: str) -> _SignatureEntries:
        for prefix, algorithm in prefixes:
            if value.startswith(prefix):
                return [(value[len(prefix) :].encode(), algorithm)], ""
        raise SignatureInvalid("malformed_signature")

    return parse


def _has_plain_signature(scheme: Scheme) -> bool:
    """Say whether an HMAC covers only body, headers and a timestamp, if there is one."""
    if scheme.verifier is not None or not scheme.keyed:
        return False
    parts = set(verification.parse_template(scheme.content))
    is_optional = scheme.timestamp and not scheme.timestamp_prefix and "timestamp" not in parts
    return not is_optional and parts.isdisjoint({"url", "method", "secret"})


def _value(headers: HeaderTable, name: bytes) -> str:
    """Return a header value of printable ASCII.

    Raises: SignatureInvalid, if it is missing or of other characters.
    """
    text = headers.get(name, b"").decode("latin-1").strip(" \t")
    if not text or not text.isascii() or not text.isprintable():
        raise SignatureInvalid("missing_header")
    return text


def _compile_content(
    parts: Sequence[verification.TemplatePart],
) -> Callable[[HeaderTable, bytes, str], bytes]:
    """Return the function of headers, body and timestamp that writes the signed content."""
    if list(parts) == ["body"]:
        return lambda _headers, body, _timestamp: body

    def fill(part: verification.TemplatePart, headers: HeaderTable, body: bytes, at: str) -> bytes:
        if isinstance(part, bytes):
            return part
        if part == "body":
            return body
        return at.encode() if part == "timestamp" else _value(headers, names[part]).encode()

    names = {
        part: part.removeprefix("header:").lower().encode()
        for part in parts
        if isinstance(part, str)
    }
    return lambda headers, body, at: b"".join([fill(part, headers, body, at) for part in parts])


# events


def _compile_event(scheme: Scheme) -> _EventReader:
    plan = event_parsing.field_plan(scheme)
    first_id, first_type = (
        _compile_first(
            [
                ([(_compile_part(part, plan.place), part.optional) for part in parts], signed)
                for parts, signed in wanted
            ],
            joint,
        )
        for wanted, joint in ((plan.ids, ":"), (plan.types, "."))
    )
    decode = members_decoder(plan.keys).decode if plan.keys else None
    volatile = scheme.volatile

    def read_event(headers: HeaderTable, body: bytes) -> tuple[str | None, bool, str, bytes]:
        members = None
        if decode is not None:
            with suppress(*DECODE_ERRORS):
                members = decode(body)
        id_, id_signed = first_id(headers, body, members)
        type_, _ = first_type(headers, body, members)
        return (
            event_parsing.plain_or_hashed(id_) if id_ else None,
            id_signed,
            _plain_type(type_),
            event_parsing.fingerprint(body, volatile) if volatile else sha256(body).digest(),
        )

    return read_event


@lru_cache(1024)
def _plain_type(type_: str) -> str:
    return type_ if event_parsing.is_plain(type_) else ""


def _compile_first(
    wanted: Sequence[tuple[Sequence[tuple[_ValueReader, bool]], bool]], joint: str
) -> _FirstValue:
    """Return the function that finds the first value that is not empty, and whether it is signed.

    ``wanted`` has the parts of each value, with whether they are optional, and whether the
    signature covers it.
    """
    if len(wanted) == 1 and len(wanted[0][0]) == 1:
        [([(read, _)], signed)] = wanted
        return _only_value(read, signed=signed)

    def first(headers: HeaderTable, body: bytes, members: Any) -> tuple[str, bool]:
        for parts, signed in wanted:
            values = []
            for read, is_optional in parts:
                value = read(headers, body, members)
                if value:
                    values.append(value)
                elif not is_optional:
                    break
            else:
                if values:
                    return joint.join(values), signed
        return "", False

    return first


def _only_value(read: _ValueReader, *, signed: bool) -> _FirstValue:
    def only(headers: HeaderTable, body: bytes, members: Any) -> tuple[str, bool]:
        value = read(headers, body, members)
        return (value, signed) if value else ("", False)

    return only


def _compile_part(part: PathPart, places: Mapping[PathStep, str]) -> _ValueReader:
    if part.root == "always":
        return lambda _headers, _body, _members: part.name
    if part.root == "header":
        name = part.name.encode()
        return lambda headers, _body, _members: headers.get(name, b"").decode("latin-1")
    place = places.get(part.path[0]) if part.path else None
    if place is None:
        return lambda _headers, body, _members: event_parsing.joined_values(body, part.path)
    rest = part.path[1:]

    def member(_headers: HeaderTable, _body: bytes, members: Any) -> str:
        raw = getattr(members, place, MISSING_MEMBER)
        return "" if raw is MISSING_MEMBER else event_parsing.joined_values(raw, rest)

    return member
