"""Reading: the events in a request, their ids, types and fingerprints, after it was verified."""

import hashlib
import zlib
from contextlib import suppress
from functools import lru_cache

import msgspec
from msgspec import Raw

from oncebox.errors import SignatureInvalid
from oncebox.signature import forms, places
from oncebox.signature.field import (
    EVERY,
    MISSING,
    UNREADABLE,
    Step,
    dig,
    elements,
    leaf,
    members,
    spread,
    steps,
)
from oncebox.signature.odd import standard
from oncebox.signature.places import Part
from oncebox.signature.request import Request, octets
from oncebox.signature.scheme import NO_OPTIONS, Options, Scheme
from oncebox.signature.tuning import tuned

_MOST_EVENTS = 10_000
_LONGEST_NAME = 400
_MOST_UNPACKED = 8 * 1024 * 1024
_OBJECT = msgspec.json.Decoder(dict[str, Raw])


class Event(msgspec.Struct, frozen=True, kw_only=True):
    """One event of a request."""

    #: the provider's id; None if it has none, never a made-up word
    id: str | None
    #: whether the signature covers the id
    id_signed: bool
    #: empty if the provider names none
    type: str
    type_signed: bool
    #: where the event stands in the raw body
    start: int
    size: int
    #: SHA-256 of the event without what changes from one attempt to the next
    fingerprint: bytes
    #: the event itself, where it stands in the body only in an encoded form
    content: bytes | None = None


class Reading(msgspec.Struct, frozen=True):
    """The events of a request, at least one."""

    events: tuple[Event, ...]
    batch: bool


def read(scheme: Scheme, request: Request, options: Options = NO_OPTIONS) -> Reading:
    """Return the events in a verified request; an odd body is one event without an id."""
    if options is not NO_OPTIONS:
        scheme = tuned(scheme, options)
    body = _unpacked(scheme, request)
    reader = _Reader(scheme, request, body)
    if scheme.batch:
        found = _split(scheme, request, body)
        if found:
            return Reading(tuple(reader.event(*each) for each in found), batch=True)
    return Reading((reader.event(0, len(request.body), body, None),), batch=False)


#: start and size in the raw body, the event's JSON, and its own bytes if those differ
_Found = tuple[int, int, bytes, bytes | None]


class _Reader:
    """Reads places; what several events share is read once."""

    def __init__(self, scheme: Scheme, request: Request, body: bytes) -> None:
        self._scheme = scheme
        self._request = request
        self._body = body
        self._plan = _plan(scheme)
        self._form: forms.Pairs | None = None
        self._head: object = None

    def event(self, start: int, size: int, text: bytes, content: bytes | None) -> Event:
        """Return one event."""
        plan = self._plan
        self._head = None
        if plan.keys:
            with suppress(*UNREADABLE):
                self._head = members(plan.keys).decode(text)
        id_, id_signed = self._first(plan.ids, text, ":")
        type_, type_signed = self._first(plan.types, text, ".")
        return Event(
            id=_fitting(id_) if id_ else None,
            id_signed=bool(id_) and id_signed,
            type=type_ if type_ and _fits(type_) else "",
            type_signed=bool(type_) and type_signed,
            start=start,
            size=size,
            fingerprint=self._mark(text),
            content=content,
        )

    def _mark(self, text: bytes) -> bytes:
        """Return what stands for an event: its bytes, or the signature of a loose spelling."""
        scheme = self._scheme
        if scheme.loose and text is self._body:
            text = octets(self._request.table.get(scheme.lower[0], ""))
        return _fingerprint(text, scheme.volatile)

    def _first(self, wanted: "_Places", text: bytes, joint: str) -> tuple[str, bool]:
        """Return the first place that has something, and whether it is signed."""
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
                    return joint.join(values), signed or self._covered(pieces)
        return "", False

    def _value(self, piece: Part, text: bytes) -> str:
        if piece.root == "event":
            return self._of_event(piece.path, text)
        if piece.root == "header":
            return self._request.table.get(piece.name, "")
        if piece.root == "always":
            return piece.name
        if piece.root == "request":
            return _joined(self._body, piece.path)
        return self._of_standard(piece) if piece.root == "standard" else self._of_form(piece)

    def _of_event(self, path: tuple[Step, ...], text: bytes) -> str:
        first = self._plan.place.get(path[0]) if path else None
        if first is None:
            return _joined(text, path)
        raw: Raw = getattr(self._head, first, MISSING)
        return "" if raw is MISSING else _joined(raw, path[1:])

    def _of_standard(self, piece: Part) -> str:
        try:
            return self._request.table.get(standard.family(self._request) + piece.name, "")
        except SignatureInvalid:
            return ""

    def _of_form(self, piece: Part) -> str:
        if self._form is None:
            self._form = forms.pairs(self._request) or []
        value = forms.last(self._form, piece.name)
        if value is None:
            return ""
        return _joined(value, piece.path) if piece.path else value.decode("utf-8", "replace")

    def _covered(self, pieces: tuple[Part, ...]) -> bool:
        """Return whether this request's own signature covers these headers."""
        if self._scheme.covered is None:
            return False
        try:
            names = self._scheme.covered(self._request)
        except SignatureInvalid:
            return False
        return all(piece.root == "header" and piece.name in names for piece in pieces)


_Places = tuple[tuple[tuple[Part, ...], bool], ...]


class _Plan(msgspec.Struct, frozen=True):
    """A scheme's places, taken apart once."""

    ids: _Places
    types: _Places
    #: the members of an event that any place begins with, and where a decoder puts them
    keys: tuple[str, ...]
    place: dict[Step, str]


@lru_cache(256)
def _plan(scheme: Scheme) -> _Plan:
    ids, types = (
        tuple((places.parts(place.path), place.signed) for place in wanted)
        for wanted in (scheme.id, scheme.type)
    )
    firsts = (
        piece.path[0]
        for pieces, _ in (*ids, *types)
        for piece in pieces
        if piece.root == "event" and piece.path
    )
    keys = tuple(dict.fromkeys(first for first in firsts if isinstance(first, str)))
    return _Plan(ids, types, keys, {key: f"f{number}" for number, key in enumerate(keys)})


def _joined(text: bytes | Raw, path: tuple[Step, ...]) -> str:
    if not path:
        value = leaf(text)
        return "" if value is None else str(value)
    ends = spread(text, path) if EVERY in path else (dig(text, path),)
    values = (leaf(end) for end in ends)
    return ",".join(str(value) for value in values if value is not None)


def _split(scheme: Scheme, request: Request, body: bytes) -> list[_Found] | None:
    """Return the events of a batch, or None if the body is none, or too large a one."""
    where = places.batch(scheme.batch)
    if where.root == "form":
        value = forms.last(forms.pairs(request), where.name)
        listed = [bytes(each) for each in spread(value, where.path)] if value else []
        found: list[_Found] = [(0, len(request.body), each, each) for each in listed]
    elif body is not request.body:
        return None
    else:
        found = [(start, len(each), each, None) for start, each in _spans(body, where.path)]
    return found if 0 < len(found) <= _MOST_EVENTS else None


def _spans(body: bytes, path: tuple[Step, ...]) -> list[tuple[int, bytes]]:
    """Return the slices at every end of a path.

    A slice is found by its bytes. Where the same bytes stand earlier too, either place will do.
    """
    spans = [(0, body)]
    for step in path:
        deeper: list[tuple[int, bytes]] = []
        for start, text in spans:
            inner = elements(text) or [] if step == EVERY else [dig(text, (step,))]
            at = 0
            for each in inner:
                if each is not None:
                    raw = bytes(each)
                    at = text.find(raw, at)
                    deeper.append((start + at, raw))
                    at += len(raw)
        spans = deeper
    return spans


def _fingerprint(text: bytes, volatile: tuple[str, ...]) -> bytes:
    for path in volatile:
        text = _without(text, steps(path))
    return hashlib.sha256(text).digest()


def _without(text: bytes, path: tuple[Step, ...]) -> bytes:
    """Return JSON without one member; everything else keeps its bytes."""
    try:
        found = _OBJECT.decode(text)
    except UNREADABLE:
        return text
    key = path[0] if path else ""
    if not isinstance(key, str) or key not in found:
        return text
    if len(path) == 1:
        del found[key]
    else:
        found[key] = Raw(_without(bytes(found[key]), path[1:]))
    return msgspec.json.encode(found)


def _unpacked(scheme: Scheme, request: Request) -> bytes:
    """Return the body to read from; only where a provider compresses, and only so far."""
    if not scheme.gzip or request.table.get("content-encoding", "").strip().lower() != "gzip":
        return request.body
    unpacker = zlib.decompressobj(wbits=31)
    try:
        unpacked = unpacker.decompress(request.body, _MOST_UNPACKED)
    except zlib.error:
        return request.body
    return unpacked if unpacker.eof else request.body


def _fits(text: str) -> bool:
    return len(text) <= _LONGEST_NAME and text.isprintable()


def _fitting(id_: str) -> str:
    """Return an id that can be a key: itself, or its hash if it is long or not plain text."""
    if _fits(id_):
        return id_
    return f"id-sha256:{hashlib.sha256(id_.encode('utf-8', 'surrogatepass')).hexdigest()}"
