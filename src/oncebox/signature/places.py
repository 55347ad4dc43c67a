"""Places: where an id, a type or a list of events stands, read from their one-line spelling."""

import re
from functools import lru_cache

import msgspec

from oncebox.errors import ConfigInvalid
from oncebox.signature.field import Step, steps

_ROOT = re.compile(r"(form|header|standard):([A-Za-z0-9_.-]+)(@.*)?")


class Part(msgspec.Struct, frozen=True):
    """One piece of a place."""

    #: ``event``, ``request``, ``form``, ``header``, ``standard`` or ``always``
    root: str
    #: of a field or header; the text itself for ``always``
    name: str
    #: the way through JSON
    path: tuple[Step, ...]
    optional: bool


@lru_cache(1024)
def parts(place: str) -> tuple[Part, ...]:
    """Return the pieces of a place.

    Raises: ConfigInvalid.
    """
    return tuple(_part(text.removesuffix("?"), text.endswith("?")) for text in place.split("+"))


@lru_cache(256)
def batch(place: str) -> Part:
    """Return where a list of events stands.

    Raises: ConfigInvalid.
    """
    found = _part(place, optional=False)
    if found.root not in {"event", "form"}:
        raise ConfigInvalid(_unusable(place))
    return found


def _part(text: str, optional: bool) -> Part:  # noqa: FBT001 - called with both, here only
    if text.startswith("="):
        return Part("always", text[1:], (), optional)
    if text.startswith(("$", "^")):
        root = "event" if text.startswith("$") else "request"
        return Part(root, "", steps(f"${text[1:]}"), optional)
    found = _ROOT.fullmatch(text)
    if found is None or (found[3] and found[1] != "form"):
        raise ConfigInvalid(_unusable(text))
    name = found[2].lower() if found[1] == "header" else found[2]
    inside = steps(f"${found[3][1:]}") if found[3] else ()
    return Part(found[1], name, inside, optional)


def _unusable(text: str) -> str:
    return f"{text!r} is not a place; write it like $.id, header:x-delivery-id or form:token"
