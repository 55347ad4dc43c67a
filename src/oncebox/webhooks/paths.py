"""Paths such as $.data.id, header:x-id or form:token: parsing, and JSON lookup by path."""

import re
from functools import lru_cache
from typing import Any

import msgspec
from msgspec import Raw

from oncebox.errors import ConfigInvalid

JsonScalar = str | int
#: a key, an index, ``*`` for every element, ``@`` for JSON inside a string
PathStep = str | int | tuple[str]

EACH_ELEMENT = ("*",)
NESTED_JSON = ("@",)

_MAX_PATH_LENGTH = 256
_MAX_PATH_STEPS = 16
_STEP = re.compile(r"\.([A-Za-z0-9_-]+)|\[([0-9]{1,4})\]|\[(\*)\]|(@)")
#: what a hostile body can make the decoder raise
DECODE_ERRORS = (msgspec.MsgspecError, ValueError, RecursionError)

_LIST_DECODER = msgspec.json.Decoder(list[Raw])
_TEXT_DECODER = msgspec.json.Decoder(str)
_SCALAR_DECODER: "msgspec.json.Decoder[JsonScalar]" = msgspec.json.Decoder(JsonScalar)


def json_field(body: bytes, path: str) -> JsonScalar | None:
    """Return the text or whole number at a path such as ``$.data.object.id``, or None."""
    wanted = parse_json_path(path)
    if EACH_ELEMENT in wanted:
        raise ConfigInvalid(_json_path_error(path))
    return json_scalar(json_at(body, wanted))


@lru_cache(1024)
def parse_json_path(path: str) -> tuple[PathStep, ...]:
    """Return the steps of a path."""
    if not path.startswith("$") or len(path) > _MAX_PATH_LENGTH:
        raise ConfigInvalid(_json_path_error(path))
    found: list[PathStep] = []
    at = 1
    while at < len(path):
        step = _STEP.match(path, at)
        if step is None or len(found) == _MAX_PATH_STEPS:
            raise ConfigInvalid(_json_path_error(path))
        key, index, every, _ = step.groups()
        if key is not None:
            found.append(key)
        elif index is not None:
            found.append(int(index))
        else:
            found.append(EACH_ELEMENT if every else NESTED_JSON)
        at = step.end()
    return tuple(found)


def json_at(text: bytes | Raw | None, path: tuple[PathStep, ...]) -> bytes | Raw | None:
    """Return the raw JSON at the end of a path without ``*``, or None."""
    for step in path:
        if text is None:
            return None
        try:
            text = _descend(text, step)
        except DECODE_ERRORS:
            return None
    return text


def json_scalar(text: bytes | Raw | None) -> JsonScalar | None:
    """Return raw JSON as text or a whole number; anything else is None."""
    if text is None:
        return None
    try:
        return _SCALAR_DECODER.decode(text)
    except DECODE_ERRORS:
        return None


def json_all(text: bytes | Raw, path: tuple[PathStep, ...]) -> list[bytes | Raw]:
    """Return the raw JSON at every end of a path, which may have ``*`` in it."""
    found: list[bytes | Raw] = [text]
    for step in path:
        if step == EACH_ELEMENT:
            found = [each for one in found for each in json_elements(one) or ()]
        else:
            found = [each for one in found if (each := json_at(one, (step,))) is not None]
    return found


def json_elements(text: bytes | Raw) -> list[Raw] | None:
    """Return the raw elements of a JSON array, or None if it is not one."""
    try:
        return _LIST_DECODER.decode(text)
    except DECODE_ERRORS:
        return None


def _descend(text: bytes | Raw, step: PathStep) -> bytes | Raw | None:
    if isinstance(step, str):
        raw: Raw = members_decoder((step,)).decode(text).f0
        return None if raw is MISSING_MEMBER else raw
    if isinstance(step, int):
        items = _LIST_DECODER.decode(text)
        return items[step] if step < len(items) else None
    return _TEXT_DECODER.decode(text).encode()


#: marks a missing member
MISSING_MEMBER = Raw()


@lru_cache(1024)
def members_decoder(keys: tuple[str, ...]) -> "msgspec.json.Decoder[Any]":
    """Return a decoder of only these members of an object: raw, as ``f0``, ``f1`` and so on."""
    fields = [
        (f"f{number}", Raw, msgspec.field(default=MISSING_MEMBER, name=key))
        for number, key in enumerate(keys)
    ]
    return msgspec.json.Decoder(msgspec.defstruct("Members", fields))


def _json_path_error(path: str) -> str:
    return f"{path!r} is not a path; write it like $.data.object.id or $.items[0].id"


_ROOT = re.compile(r"(form|header|standard):([A-Za-z0-9_.-]+)(@.*)?")


class PathPart(msgspec.Struct, frozen=True):
    """One part of a field path."""

    #: ``event``, ``request``, ``form``, ``header``, ``standard`` or ``always``
    root: str
    #: of a field or header; the text itself for ``always``
    name: str
    #: the steps through JSON
    path: tuple[PathStep, ...]
    optional: bool


@lru_cache(1024)
def parse_field_path(place: str) -> tuple[PathPart, ...]:
    """Return the parts of a field path."""
    return tuple(
        _parse_part(text.removesuffix("?"), text.endswith("?")) for text in place.split("+")
    )


@lru_cache(256)
def parse_batch_path(place: str) -> PathPart:
    """Return the path of a list of events."""
    found = _parse_part(place, optional=False)
    if found.root not in {"event", "form"}:
        raise ConfigInvalid(_field_path_error(place))
    return found


def _parse_part(text: str, optional: bool) -> PathPart:  # noqa: FBT001 - called with both, here only
    if text.startswith("="):
        return PathPart("always", text[1:], (), optional)
    if text.startswith(("$", "^")):
        root = "event" if text.startswith("$") else "request"
        return PathPart(root, "", parse_json_path(f"${text[1:]}"), optional)
    found = _ROOT.fullmatch(text)
    if found is None or (found[3] and found[1] != "form"):
        raise ConfigInvalid(_field_path_error(text))
    name = found[2].lower() if found[1] == "header" else found[2]
    inside = parse_json_path(f"${found[3][1:]}") if found[3] else ()
    return PathPart(found[1], name, inside, optional)


def _field_path_error(text: str) -> str:
    return f"{text!r} is not a place; write it like $.id, header:x-delivery-id or form:token"
