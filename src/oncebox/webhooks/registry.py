"""Scheme registry: built-in schemes and those of installed packages, by name."""

import difflib
from functools import cache
from importlib.metadata import EntryPoint, entry_points

from oncebox.errors import SchemeInvalid, UnknownScheme
from oncebox.webhooks.inbound import INBOUND_SCHEMES
from oncebox.webhooks.providers import SCHEMES
from oncebox.webhooks.scheme import Scheme

#: where packages offer their own: the name is the scheme's, the value a ``Scheme``
ENTRY_POINT_GROUP = "oncebox.schemes"

BUILT_IN_SCHEMES: dict[str, Scheme] = {
    scheme.name: scheme
    for scheme in sorted((*SCHEMES, *INBOUND_SCHEMES), key=lambda scheme: scheme.name)
}


def find_scheme(name: str) -> Scheme:
    """Return the scheme of that name; built-in schemes cannot be replaced.

    Raises: UnknownScheme, or SchemeInvalid if a package offers one that cannot be used.
    """
    found = BUILT_IN_SCHEMES.get(name)
    if found is not None:
        return found
    offered = [each for each in installed_schemes() if each.name == name]
    if not offered:
        raise UnknownScheme(unknown_scheme_message(name))
    return _load_entry_point(offered[0])


def unknown_scheme_message(name: str) -> str:
    """Return the sentence about a name that is no scheme, with the names that resemble it."""
    close = difflib.get_close_matches(name, scheme_names(), n=3)
    guess = f"did you mean {' or '.join(map(repr, close))}? " if close else ""
    return f"there is no scheme {name!r}; {guess}list them with: oncebox hook schemes"


def installed_schemes() -> tuple[EntryPoint, ...]:
    """Return the entry points of installed packages, not loaded."""
    return tuple(entry_points(group=ENTRY_POINT_GROUP))


def scheme_names() -> list[str]:
    """Return all names, those of packages last."""
    return [
        *BUILT_IN_SCHEMES,
        *sorted({each.name for each in installed_schemes()} - set(BUILT_IN_SCHEMES)),
    ]


@cache
def _load_entry_point(offer: EntryPoint) -> Scheme:
    try:
        found = offer.load()
    except Exception as error:
        # Third-party code may raise anything; the name of the package helps most.
        raise SchemeInvalid(
            f"{_describe_entry_point(offer)} cannot be loaded: {type(error).__name__}: {error}"
        ) from error
    if not isinstance(found, Scheme):
        raise SchemeInvalid(
            f"{_describe_entry_point(offer)} is a {type(found).__name__}, not a Scheme"
        )
    if found.name != offer.name:
        raise SchemeInvalid(
            f"{_describe_entry_point(offer)} calls itself {found.name!r}; give it one name"
        )
    return found


def _describe_entry_point(offer: EntryPoint) -> str:
    package = f" of the package {offer.dist.name}" if offer.dist else ""
    return f"the scheme {offer.name!r}{package} ({offer.value})"
