"""Event parsing: ids, types, fingerprints and order of the events in a verified request."""

import hashlib
import zlib
from contextlib import suppress
from functools import lru_cache

import msgspec
from msgspec import Raw

from oncebox.errors import InputRefused, SignatureInvalid
from oncebox.model.validation import check_key, check_sequence
from oncebox.model.webhooks.source import Source
from oncebox.webhooks import http_request, paths
from oncebox.webhooks.custom import standard_webhooks
from oncebox.webhooks.http_request import WebhookRequest, header_bytes
from oncebox.webhooks.paths import (
    DECODE_ERRORS,
    EACH_ELEMENT,
    MISSING_MEMBER,
    PathPart,
    PathStep,
    json_all,
    json_at,
    json_elements,
    json_field,
    json_scalar,
    members_decoder,
    parse_json_path,
)
from oncebox.webhooks.scheme import NO_OPTIONS, Scheme, SchemeOptions
from oncebox.webhooks.verification import apply_options

_MAX_EVENTS = 10_000
_MAX_NAME_LENGTH = 400
_MAX_DECOMPRESSED = 8 * 1024 * 1024
_OBJECT_DECODER = msgspec.json.Decoder(dict[str, Raw])


class WebhookEvent(msgspec.Struct, frozen=True, kw_only=True):
    """One event of a request."""

    #: the provider's id; None if it has none
    id: str | None
    #: whether the signature covers the id
    id_signed: bool
    #: empty if the provider names none
    type: str
    type_signed: bool
    #: the part of the raw body
    start: int
    size: int
    #: SHA-256 of the event without what changes from one attempt to the next
    fingerprint: bytes
    #: the event itself, if the body contains it only in an encoded form
    content: bytes | None = None


class ParsedRequest(msgspec.Struct, frozen=True):
    """The events of a request, at least one."""

    events: tuple[WebhookEvent, ...]
    batch: bool


def parse_events(
    scheme: Scheme, request: WebhookRequest, options: SchemeOptions = NO_OPTIONS
) -> ParsedRequest:
    """Return the events in a verified request; an unknown body is one event without an id."""
    if options is not NO_OPTIONS:
        scheme = apply_options(scheme, options)
    body = _decompressed(scheme, request)
    reader = _EventReader(scheme, request, body)
    if scheme.batch:
        found = _batch_events(scheme, request, body)
        if found:
            return ParsedRequest(tuple(reader.event(*each) for each in found), batch=True)
    return ParsedRequest((reader.event(0, len(request.body), body, None),), batch=False)


#: start and size in the raw body, the event's JSON, and its own bytes if those differ
_EventSlice = tuple[int, int, bytes, bytes | None]


class _EventReader:
    """Reads the fields of events; what several events share is read once."""

    def __init__(self, scheme: Scheme, request: WebhookRequest, body: bytes) -> None:
        self._scheme = scheme
        self._request = request
        self._body = body
        self._plan = field_plan(scheme)
        self._form: http_request.FormFields | None = None
        self._members: object = None

    def event(self, start: int, size: int, text: bytes, content: bytes | None) -> WebhookEvent:
        """Return one event."""
        plan = self._plan
        self._members = None
        if plan.keys:
            with suppress(*DECODE_ERRORS):
                self._members = members_decoder(plan.keys).decode(text)
        id_, id_signed = self._first_value(plan.ids, text, ":")
        type_, type_signed = self._first_value(plan.types, text, ".")
        scheme = self._scheme
        if scheme.malleable and text is self._body:  # the signature identifies all spellings
            text = header_bytes(self._request.headers_by_name.get(scheme.header_names[0], ""))
        return WebhookEvent(
            id=plain_or_hashed(id_) if id_ else None,
            id_signed=bool(id_) and id_signed,
            type=type_ if type_ and is_plain(type_) else "",
            type_signed=bool(type_) and type_signed,
            start=start,
            size=size,
            fingerprint=fingerprint(text, scheme.volatile),
            content=content,
        )

    def _first_value(self, wanted: "FieldPaths", text: bytes, joint: str) -> tuple[str, bool]:
        """Return the first value that is not empty, and whether it is signed."""
        for pieces, signed in wanted:
            values = []
            for piece in pieces:
                value = self._value(piece, text)
                if value:
                    values.append(value)
                elif not piece.optional:
                    break
            else:
                if values:
                    return joint.join(values), signed or self._are_headers_signed(pieces)
        return "", False

    def _value(self, piece: PathPart, text: bytes) -> str:
        if piece.root == "event":
            return self._event_value(piece.path, text)
        if piece.root == "header":
            return self._request.headers_by_name.get(piece.name, "")
        if piece.root == "always":
            return piece.name
        if piece.root == "request":
            return joined_values(self._body, piece.path)
        if piece.root == "standard":
            return self._standard_header_value(piece)
        return self._form_value(piece)

    def _event_value(self, path: tuple[PathStep, ...], text: bytes) -> str:
        first = self._plan.place.get(path[0]) if path else None
        if first is None:
            return joined_values(text, path)
        raw: Raw = getattr(self._members, first, MISSING_MEMBER)
        return "" if raw is MISSING_MEMBER else joined_values(raw, path[1:])

    def _standard_header_value(self, piece: PathPart) -> str:
        try:
            return self._request.headers_by_name.get(
                standard_webhooks.header_prefix(self._request) + piece.name, ""
            )
        except SignatureInvalid:
            return ""

    def _form_value(self, piece: PathPart) -> str:
        if self._form is None:
            self._form = http_request.form_fields(self._request) or []
        value = http_request.last_form_value(self._form, piece.name)
        if value is None:
            return ""
        return joined_values(value, piece.path) if piece.path else value.decode("utf-8", "replace")

    def _are_headers_signed(self, pieces: tuple[PathPart, ...]) -> bool:
        """Return whether this request's own signature covers these headers."""
        if self._scheme.signed_headers is None:
            return False
        try:
            names = self._scheme.signed_headers(self._request)
        except SignatureInvalid:
            return False
        return all(piece.root == "header" and piece.name in names for piece in pieces)


FieldPaths = tuple[tuple[tuple[PathPart, ...], bool], ...]


class FieldPlan(msgspec.Struct, frozen=True):
    """The parsed field paths of a scheme."""

    ids: FieldPaths
    types: FieldPaths
    #: the members of an event that any place begins with, and where a decoder puts them
    keys: tuple[str, ...]
    place: dict[PathStep, str]


@lru_cache(256)
def field_plan(scheme: Scheme) -> FieldPlan:
    """Return the parsed paths of ids and types."""
    ids, types = (
        tuple((paths.parse_field_path(place.path), place.signed) for place in wanted)
        for wanted in (scheme.id, scheme.type)
    )
    firsts = (
        piece.path[0]
        for pieces, _ in (*ids, *types)
        for piece in pieces
        if piece.root == "event" and piece.path
    )
    keys = tuple(dict.fromkeys(first for first in firsts if isinstance(first, str)))
    return FieldPlan(ids, types, keys, {key: f"f{number}" for number, key in enumerate(keys)})


def joined_values(text: bytes | Raw, path: tuple[PathStep, ...]) -> str:
    """Return the texts and whole numbers at a path in JSON, joined."""
    if not path:
        value = json_scalar(text)
        return "" if value is None else str(value)
    ends = json_all(text, path) if EACH_ELEMENT in path else (json_at(text, path),)
    values = (json_scalar(end) for end in ends)
    return ",".join(str(value) for value in values if value is not None)


def _batch_events(scheme: Scheme, request: WebhookRequest, body: bytes) -> list[_EventSlice] | None:
    """Return the events of a batch, or None if the body is none, or too large a one."""
    where = paths.parse_batch_path(scheme.batch)
    if where.root == "form":
        value = http_request.last_form_value(http_request.form_fields(request), where.name)
        listed = [bytes(each) for each in json_all(value, where.path)] if value else []
        found: list[_EventSlice] = [(0, len(request.body), each, each) for each in listed]
    elif body is not request.body:
        return None
    else:
        found = [(start, len(each), each, None) for start, each in _slices_at(body, where.path)]
    return found if 0 < len(found) <= _MAX_EVENTS else None


def _slices_at(body: bytes, path: tuple[PathStep, ...]) -> list[tuple[int, bytes]]:
    """Return the slices at every end of a path.

    A slice is found by its bytes. Where the same bytes stand earlier too, either place will do.
    """
    spans = [(0, body)]
    for step in path:
        deeper: list[tuple[int, bytes]] = []
        for start, text in spans:
            inner = json_elements(text) or [] if step == EACH_ELEMENT else [json_at(text, (step,))]
            at = 0
            for each in inner:
                if each is not None:
                    raw = bytes(each)
                    at = text.find(raw, at)
                    deeper.append((start + at, raw))
                    at += len(raw)
        spans = deeper
    return spans


def fingerprint(text: bytes, volatile: tuple[str, ...]) -> bytes:
    """Return the SHA-256 of an event without its volatile members."""
    for path in volatile:
        text = _without_member(text, parse_json_path(path))
    return hashlib.sha256(text).digest()


def _without_member(text: bytes, path: tuple[PathStep, ...]) -> bytes:
    """Return JSON without one member; everything else keeps its bytes."""
    try:
        found = _OBJECT_DECODER.decode(text)
    except DECODE_ERRORS:
        return text
    key = path[0] if path else ""
    if not isinstance(key, str) or key not in found:
        return text
    if len(path) == 1:
        del found[key]
    else:
        found[key] = Raw(_without_member(bytes(found[key]), path[1:]))
    return msgspec.json.encode(found)


def _decompressed(scheme: Scheme, request: WebhookRequest) -> bytes:
    """Return the body to read from; only where a provider compresses, and only so far."""
    if (
        not scheme.gzip
        or request.headers_by_name.get("content-encoding", "").strip().lower() != "gzip"
    ):
        return request.body
    unpacker = zlib.decompressobj(wbits=31)
    try:
        unpacked = unpacker.decompress(request.body, _MAX_DECOMPRESSED)
    except zlib.error:
        return request.body
    return unpacked if unpacker.eof else request.body


def is_plain(text: str) -> bool:
    """Say whether a text can be a key or a type as it is."""
    return len(text) <= _MAX_NAME_LENGTH and text.isprintable()


def plain_or_hashed(id_: str) -> str:
    """Return an id that can be a key: itself, or its hash if it is long or not plain text."""
    if len(id_) <= _MAX_NAME_LENGTH and id_.isprintable():
        return id_
    return f"id-sha256:{hashlib.sha256(id_.encode('utf-8', 'surrogatepass')).hexdigest()}"


def lane_position(source: Source, body: bytes) -> tuple[str | None, int | None]:
    """Return the lane of an event and its number there; unusable values are ignored."""
    if source.order_by is None:
        return None, None
    key = json_field(body, source.order_by)
    if key is None or key == "":
        return None, None
    return _valid_lane_key(str(key)), _sequence_number(
        json_field(body, source.sequence) if source.sequence else None
    )


def _valid_lane_key(key: str) -> str:
    try:
        check_key(key)
    except InputRefused:
        return f"sha256:{hashlib.sha256(key.encode('utf-8', 'surrogatepass')).hexdigest()}"
    return key


def _sequence_number(value: str | int | None) -> int | None:
    """Return a sequence number; providers write them as numbers and as text."""
    if isinstance(value, str):
        value = int(value) if value.isascii() and value.isdigit() and len(value) < 19 else None  # noqa: PLR2004 - what 64 bits hold
    if value is None:
        return None
    try:
        check_sequence(value)
    except InputRefused:
        return None
    return value
