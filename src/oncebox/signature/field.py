"""The tiny reader of ``$.a.b[0].c``: one value out of a JSON body, without decoding the rest."""

import re
from functools import lru_cache
from typing import Any

import msgspec
from msgspec import Raw

from oncebox.errors import ConfigInvalid

Value = str | int
#: a key, an index, ``*`` for every element, ``@`` for JSON inside a string
Step = str | int | tuple[str]

EVERY = ("*",)
INSIDE = ("@",)

_LONGEST = 256
_DEEPEST = 16
_STEP = re.compile(r"\.([A-Za-z0-9_-]+)|\[([0-9]{1,4})\]|\[(\*)\]|(@)")
#: what a hostile body can make the decoder raise
UNREADABLE = (msgspec.MsgspecError, ValueError, RecursionError)

_LIST = msgspec.json.Decoder(list[Raw])
_TEXT = msgspec.json.Decoder(str)
_LEAF: "msgspec.json.Decoder[Value]" = msgspec.json.Decoder(Value)


def field(body: bytes, path: str) -> Value | None:
    """Return the text or whole number at a path such as ``$.data.object.id``, or None.

    Raises: ConfigInvalid, if the path is not one.
    """
    wanted = steps(path)
    if EVERY in wanted:
        raise ConfigInvalid(_unusable(path))
    return leaf(dig(body, wanted))


@lru_cache(1024)
def steps(path: str) -> tuple[Step, ...]:
    """Return the steps of a path.

    Raises: ConfigInvalid.
    """
    if not path.startswith("$") or len(path) > _LONGEST:
        raise ConfigInvalid(_unusable(path))
    found: list[Step] = []
    at = 1
    while at < len(path):
        step = _STEP.match(path, at)
        if step is None or len(found) == _DEEPEST:
            raise ConfigInvalid(_unusable(path))
        key, index, every, _ = step.groups()
        if key is not None:
            found.append(key)
        elif index is not None:
            found.append(int(index))
        else:
            found.append(EVERY if every else INSIDE)
        at = step.end()
    return tuple(found)


def dig(text: bytes | Raw | None, path: tuple[Step, ...]) -> bytes | Raw | None:
    """Return the raw JSON at the end of a path without ``*``, or None."""
    for step in path:
        if text is None:
            return None
        try:
            text = _down(text, step)
        except UNREADABLE:
            return None
    return text


def leaf(text: bytes | Raw | None) -> Value | None:
    """Return raw JSON as text or a whole number; anything else is None."""
    if text is None:
        return None
    try:
        return _LEAF.decode(text)
    except UNREADABLE:
        return None


def spread(text: bytes | Raw, path: tuple[Step, ...]) -> list[bytes | Raw]:
    """Return the raw JSON at every end of a path, which may have ``*`` in it."""
    found: list[bytes | Raw] = [text]
    for step in path:
        if step == EVERY:
            found = [each for one in found for each in elements(one) or ()]
        else:
            found = [each for one in found if (each := dig(one, (step,))) is not None]
    return found


def elements(text: bytes | Raw) -> list[Raw] | None:
    """Return the raw elements of a JSON array, or None if it is not one."""
    try:
        return _LIST.decode(text)
    except UNREADABLE:
        return None


def _down(text: bytes | Raw, step: Step) -> bytes | Raw | None:
    if isinstance(step, str):
        raw: Raw = members((step,)).decode(text).f0
        return None if raw is MISSING else raw
    if isinstance(step, int):
        items = _LIST.decode(text)
        return items[step] if step < len(items) else None
    return _TEXT.decode(text).encode()


#: stands for a member that is not there
MISSING = Raw()


@lru_cache(1024)
def members(keys: tuple[str, ...]) -> "msgspec.json.Decoder[Any]":
    """Return a decoder of only these members of an object: raw, as ``f0``, ``f1`` and so on."""
    fields = [
        (f"f{number}", Raw, msgspec.field(default=MISSING, name=key))
        for number, key in enumerate(keys)
    ]
    return msgspec.json.Decoder(msgspec.defstruct("Members", fields))


def _unusable(path: str) -> str:
    return f"{path!r} is not a path; write it like $.data.object.id or $.items[0].id"
