"""Link policy: which links may be handed out; a positive grammar, and an allowlist.

A link is judged as it stands: nothing is trimmed, repaired or decoded, so that no two programs
can read it differently. What is handed out is the string that was judged.
"""

import re
from collections.abc import Callable, Iterable, Sequence
from functools import lru_cache
from typing import TYPE_CHECKING

import msgspec

from oncebox.mail import tokens
from oncebox.mail_errors import InboxInvalid
from oncebox.model.internet import is_internal, leads_public
from oncebox.model.link_rule import (
    ANY,
    PORTS,
    LinkRule,
    check_entry,
    check_origin,
    host_trouble,
    path_trouble,
    read_port,
    read_rule,
)

if TYPE_CHECKING:
    from publicsuffixlist import PublicSuffixList

__all__ = ["LinkVerdict", "Resolve", "check_entry", "check_origin", "judge"]

#: gives every address of a host; None or nothing if it has none
Resolve = Callable[[str], Sequence[str] | None]

_LONGEST = 8_192
#: printable ASCII without the backslash, which browsers read as a slash
_CHARACTERS = re.compile(r"[!-\[\]-~]*")
_URL = re.compile(r"(https?)://([^/?#]*)([/?#].*)?", re.IGNORECASE)
#: a host at the beginning of what follows the scheme
_HOST = re.compile(r"\[[^\]]*\]|[^:/?#]*")
#: this machine, on any port
_HERE = re.compile(
    r"https?://(?:(?:[a-z0-9-]+\.)*localhost|127(?:\.[0-9]{1,3}){3}|\[::1\])(?::[1-9][0-9]{0,4})?"
    r"(?:[/?#].*)?",
    re.IGNORECASE,
)
#: reserved for examples: a stand-in where somebody names it, but never public by itself
_EXAMPLE = "example"


class LinkVerdict(msgspec.Struct, frozen=True, kw_only=True):
    """Whether a link may be handed out, and its parts."""

    allowed: bool
    #: a stable code: why it is refused, or by what kind of entry it is allowed
    reason: str
    #: what was judged, to be handed out; empty when refused
    canonical: str = ""
    host: str = ""
    parameters: tuple[tuple[str, str], ...] = ()
    #: what in it looks like a secret made for one person
    token: str = ""


class _Parts(msgspec.Struct, frozen=True):
    """A link that fits the grammar."""

    scheme: str
    host: str
    port: int
    #: path, query and fragment as they stand
    rest: str

    @property
    def canonical(self) -> str:
        port = "" if self.port == PORTS[self.scheme] else f":{self.port}"
        slash = "" if self.rest.startswith("/") else "/"
        return f"{self.scheme}://{self.host}{port}{slash}{self.rest}"

    @property
    def path(self) -> str:
        return self.rest.partition("#")[0].partition("?")[0]


def judge(
    url: str,
    allow: Sequence[str],
    *,
    local: Sequence[str] = (),
    here: bool = False,
    resolve: Resolve | None = None,
) -> LinkVerdict:
    """Judge a link by an allowlist.

    ``local`` are exact origins for tests, such as ``http://localhost:3000``; ``here`` allows this
    machine on any port, as test mode does. ``resolve`` asks for the addresses of a host, all of
    which must be public.
    """
    trouble = _characters_trouble(url)
    if trouble:
        return LinkVerdict(allowed=False, reason=trouble)
    if _is_local(url, local) or (here and _HERE.fullmatch(url)):
        return _allowed(url, "local", url.partition("://")[2])
    parts = _read(url)
    if isinstance(parts, str):
        return LinkVerdict(allowed=False, reason=parts)
    reason, allowed = _by_rules(parts, allow)
    if allowed and resolve is not None:
        reason, allowed = _by_addresses(resolve(parts.host), reason)
    if not allowed:
        return LinkVerdict(allowed=False, reason=reason, host=parts.host)
    return _allowed(parts.canonical, reason, parts.host)


def _allowed(url: str, reason: str, host: str) -> LinkVerdict:
    named = _HOST.match(host)
    return LinkVerdict(
        allowed=True,
        reason=reason,
        canonical=url,
        host=named[0].lower() if named else "",
        parameters=tokens.parameters(url),
        token=tokens.token(url),
    )


def _characters_trouble(url: str) -> str:
    if not url:
        return "empty"
    if len(url) > _LONGEST:
        return "too_long"
    if _CHARACTERS.fullmatch(url):
        return ""
    return "backslash" if "\\" in url and url.isascii() and url.isprintable() else "not_printable"


def _is_local(url: str, local: Iterable[str]) -> bool:
    """Say whether a link is of one of these origins, letter by letter."""
    for origin in local:
        rest = url[len(origin) :]
        same = url[: len(origin)].lower() == origin.lower()
        if same and (not rest or rest[0] in "/?#"):
            return True
    return False


def _read(url: str) -> _Parts | str:
    """Return the parts of a link, or why it is none."""
    found = _URL.fullmatch(url)
    if found is None:
        return "scheme"
    scheme, authority, rest = found[1].lower(), found[2], found[3] or ""
    trouble = _authority_trouble(authority)
    if trouble:
        return trouble
    host, colon, digits = authority.lower().partition(":")
    trouble = host_trouble(host)
    if trouble:
        return trouble
    port = read_port(digits) if colon else PORTS[scheme]
    if port is None:
        return "port_invalid"
    return "internal_name" if is_internal(host) else _Parts(scheme, host, port, rest)


def _authority_trouble(authority: str) -> str:
    if not authority:
        return "no_host"
    if "@" in authority:
        return "userinfo"
    if "%" in authority:
        return "host_escaped"
    if "[" in authority or "]" in authority:
        return "ip_literal"
    host = authority.partition(":")[0]
    if host.endswith("."):
        return "trailing_dot"
    return "" if host else "no_host"


def _by_rules(parts: _Parts, allow: Iterable[str]) -> tuple[str, bool]:
    """Return by what kind of entry a link is allowed, or why by none."""
    nearest = "host_not_allowed"
    for entry in allow:
        try:
            rule = read_rule(entry)
        except InboxInvalid:
            continue  # an entry that says nothing allows nothing
        reason, allowed = _by_rule(parts, rule)
        if allowed:
            return reason, True
        if nearest == "host_not_allowed":
            nearest = reason
    return nearest, False


def _by_rule(parts: _Parts, rule: LinkRule) -> tuple[str, bool]:
    if rule.host == ANY:
        trouble = _public_trouble(parts.host)
    elif rule.below:
        trouble = "" if parts.host.endswith(f".{rule.host}") else "host_not_allowed"
    else:
        trouble = "" if parts.host == rule.host else "host_not_allowed"
    trouble = trouble or _origin_trouble(parts, rule)
    if trouble:
        return trouble, False
    if rule.host == ANY:
        return "any_public", True
    return ("path" if rule.path else "below" if rule.below else "host"), True


def _origin_trouble(parts: _Parts, rule: LinkRule) -> str:
    if parts.scheme != rule.scheme:
        return "scheme"
    if parts.port != rule.port:
        return "port_not_allowed"
    if rule.path and not _is_under(parts.path, rule.path):
        return "path_not_allowed"
    return ""


def _is_under(path: str, prefix: str) -> bool:
    """Say whether a path is below another, at the border of a segment."""
    if path_trouble(path):
        return False
    below = prefix if prefix.endswith("/") else f"{prefix}/"
    return path == prefix or path.startswith(below)


def _public_trouble(host: str) -> str:
    """Say why a name that nobody has listed is not one of the open internet."""
    if any(label.startswith("xn--") for label in host.split(".")):
        return "look_alike_possible"
    known = host.rpartition(".")[2] != _EXAMPLE and _suffixes().publicsuffix(host) is not None
    return "" if known else "internal_name"


@lru_cache(1)
def _suffixes() -> "PublicSuffixList":
    """Return which last labels are given out."""
    from publicsuffixlist import PublicSuffixList  # noqa: PLC0415 - large, and rarely asked for

    return PublicSuffixList(accept_unknown=False, only_icann=True)


def _by_addresses(addresses: Sequence[str] | None, reason: str) -> tuple[str, bool]:
    if not addresses:
        return "not_resolved", False
    if not all(map(leads_public, addresses)):
        return "address_not_public", False
    return reason, True
