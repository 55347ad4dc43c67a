"""Tuning: what a source may say about its scheme, checked before the first request comes."""

from collections.abc import Mapping, Sequence
from functools import lru_cache
from typing import Any

import msgspec

from oncebox.errors import ConfigInvalid
from oncebox.signature import content, moment, places
from oncebox.signature.encoding import WRITTEN
from oncebox.signature.field import steps
from oncebox.signature.scheme import NO_OPTIONS, Options, Place, Scheme

#: what every scheme takes
_ALWAYS = frozenset({"window", "id", "type", "batch", "volatile"})


def options_from(values: Mapping[str, Any]) -> Options:
    """Return options as a source keeps them.

    Raises: ConfigInvalid.
    """
    if not values:
        return NO_OPTIONS
    try:
        return msgspec.convert(dict(values), Options)
    except msgspec.ValidationError as error:
        message = f"the options of the scheme cannot be used: {error}"
        raise ConfigInvalid(message) from error


def options_for(
    scheme: Scheme, values: Mapping[str, Any], *, public_url: str = "", allow_unsigned: bool = False
) -> Options:
    """Return the options of a source, with those of its own settings that the scheme takes.

    Raises: ConfigInvalid.
    """
    settings = {"public_url": public_url, "allow_unsigned": allow_unsigned}
    taken = {name: value for name, value in settings.items() if value and name in scheme.takes}
    return options_from({**values, **taken})


def check(scheme: Scheme, secrets: Sequence[str], options: Options = NO_OPTIONS) -> None:
    """Refuse a source that could never verify a request, or would let in everything.

    Raises: ConfigInvalid.
    """
    given = {name for name in options.__struct_fields__ if _is_set(options, name)}
    if extra := given - _ALWAYS - set(scheme.takes):
        message = f"the scheme {scheme.name} does not take {', '.join(sorted(extra))}"
        raise ConfigInvalid(message)
    tuned(scheme, options)
    if not scheme.keyless and not any(secret.strip() for secret in secrets):
        message = f"the scheme {scheme.name} needs a secret; without one it refuses everything"
        raise ConfigInvalid(message)
    if "topics" in scheme.takes and not options.topics:
        message = (
            f"the scheme {scheme.name} needs its topics: a signature alone only proves that "
            "somebody's topic sent it"
        )
        raise ConfigInvalid(message)
    if scheme.name == "none" and not options.allow_unsigned:
        message = "the scheme none lets in whatever anybody sends; say so with allow_unsigned"
        raise ConfigInvalid(message)


@lru_cache(1024)
def tuned(scheme: Scheme, options: Options) -> Scheme:
    """Return a scheme as the options ask for it.

    Raises: ConfigInvalid, if an option has a value nobody knows.
    """
    allowed = _ALWAYS.union(scheme.takes)
    changes: dict[str, Any] = {
        name: value
        for name in ("header", "separator", "content", "batch", "volatile")
        if name in allowed and (value := getattr(options, name))
    }
    changes |= _signing(scheme, options)
    changed = msgspec.structs.replace(scheme, **changes)
    found = {
        name: (Place(path, signed=changed.covers_place(path)),)
        for name in ("id", "type")
        if (path := getattr(options, name))
    }
    changed = msgspec.structs.replace(changed, **found)
    _check_paths(changed)
    return changed


def _check_paths(scheme: Scheme) -> None:
    """Find out now, not at the first request, that a path or a template is none."""
    if scheme.verifier is None:
        content.pieces(scheme.content)
    for place in (*scheme.id, *scheme.type):
        places.parts(place.path)
    for path in scheme.volatile:
        steps(path)
    if scheme.batch:
        places.batch(scheme.batch)


def _signing(scheme: Scheme, options: Options) -> dict[str, Any]:
    """Return the changes to how the signature is made."""
    changes: dict[str, Any] = {}
    algorithm = options.algorithm or scheme.marks[0][1]
    if "algorithm" in scheme.takes and options.algorithm:
        _choose("algorithm", algorithm, ("sha1", "sha256", "sha384", "sha512"))
        changes["marks"] = _marks(scheme, algorithm)
    if "prefix" in scheme.takes and options.prefix is not None:
        changes["marks"] = ((options.prefix, algorithm),)
    if "encoding" in scheme.takes and options.encoding:
        changes["encoding"] = _choose("encoding", options.encoding, WRITTEN)
    if "unit" in scheme.takes and options.unit:
        changes["unit"] = _choose("unit", options.unit, moment.UNITS)
    if "timestamp" in scheme.takes and options.timestamp:
        changes["timestamp"] = f"header:{options.timestamp.lower()}"
    return changes


def _marks(scheme: Scheme, algorithm: str) -> tuple[tuple[str, str], ...]:
    if all(not mark for mark, _ in scheme.marks):
        return (("", algorithm),)
    return ((f"{algorithm}=", algorithm), ("", algorithm))


def _choose(what: str, value: str, known: Sequence[str] | Mapping[str, object]) -> str:
    if value not in known:
        message = f"there is no {what} {value!r}; choose one of {', '.join(known)}"
        raise ConfigInvalid(message)
    return value


def _is_set(options: Options, name: str) -> bool:
    return bool(getattr(options, name) != getattr(NO_OPTIONS, name))
