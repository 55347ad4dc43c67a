"""The schemes by name: those that come along, and those that installed packages add."""

from functools import cache
from importlib.metadata import EntryPoint, entry_points

from oncebox.errors import SchemeInvalid, UnknownScheme
from oncebox.signature.providers import code, money, post, relays, talk
from oncebox.signature.scheme import Scheme

#: where packages offer their own: the name is the scheme's, the value a ``Scheme``
GROUP = "oncebox.schemes"

BUILT_IN: dict[str, Scheme] = {
    scheme.name: scheme for room in (money, code, talk, post, relays) for scheme in room.SCHEMES
}


def find(name: str) -> Scheme:
    """Return the scheme of that name; what comes along cannot be replaced.

    Raises: UnknownScheme, or SchemeInvalid if a package offers one that cannot be used.
    """
    found = BUILT_IN.get(name)
    if found is not None:
        return found
    offered = [each for each in added() if each.name == name]
    if not offered:
        message = f"there is no scheme {name!r}; oncebox hook schemes lists them"
        raise UnknownScheme(message)
    return _loaded(offered[0])


def added() -> tuple[EntryPoint, ...]:
    """Return what installed packages offer, unopened."""
    return tuple(entry_points(group=GROUP))


def names() -> list[str]:
    """Return all names, those of packages last."""
    return [*BUILT_IN, *sorted({each.name for each in added()} - set(BUILT_IN))]


@cache
def _loaded(offer: EntryPoint) -> Scheme:
    try:
        found = offer.load()
    except Exception as error:
        # A package is somebody else's code: whatever it raises, its name is what helps.
        message = f"{_whose(offer)} cannot be loaded: {type(error).__name__}: {error}"
        raise SchemeInvalid(message) from error
    if not isinstance(found, Scheme):
        message = f"{_whose(offer)} is a {type(found).__name__}, not a Scheme"
        raise SchemeInvalid(message)
    if found.name != offer.name:
        message = f"{_whose(offer)} calls itself {found.name!r}; give it one name"
        raise SchemeInvalid(message)
    return found


def _whose(offer: EntryPoint) -> str:
    package = f" of the package {offer.dist.name}" if offer.dist else ""
    return f"the scheme {offer.name!r}{package} ({offer.value})"
