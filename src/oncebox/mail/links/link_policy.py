"""Link policy: which links clients may receive, by a strict URL grammar and an allowlist.

A link is checked verbatim: nothing is trimmed, repaired or decoded, so that no two programs can
read it differently. The URL of the verdict is the string that was checked.
See docs/decisions/0027-use-a-strict-grammar-for-link-policy.md.
"""

import re
from collections.abc import Callable, Iterable, Sequence
from functools import lru_cache
from typing import TYPE_CHECKING

import msgspec

from oncebox.errors.mail import InboxInvalid
from oncebox.mail.links import url_secrets
from oncebox.model.inboxes.link_rules import (
    ANY_HOST,
    PORTS,
    LinkRule,
    LinkVerdict,
    host_problem,
    is_ambiguous_path,
    parse_port,
    parse_rule,
)
from oncebox.model.public_internet import is_internal_name, is_public_answer

if TYPE_CHECKING:
    from publicsuffixlist import PublicSuffixList

#: returns all addresses of a host; None or nothing if it has none
Resolve = Callable[[str], Sequence[str] | None]

_LONGEST = 8_192
#: printable ASCII without the backslash, which browsers read as a slash
_CHARACTERS = re.compile(r"[!-\[\]-~]*")
_URL = re.compile(r"(https?)://([^/?#]*)([/?#].*)?", re.IGNORECASE)
#: the host after the scheme
_HOST = re.compile(r"\[[^\]]*\]|[^:/?#]*")
#: the local machine, on any port
_LOOPBACK = re.compile(
    r"https?://(?:(?:[a-z0-9-]+\.)*localhost|127(?:\.[0-9]{1,3}){3}|\[::1\])(?::[1-9][0-9]{0,4})?"
    r"(?:[/?#].*)?",
    re.IGNORECASE,
)
#: reserved for examples: allowed where listed, never public
_EXAMPLE_DOMAIN = "example"


class _LinkParts(msgspec.Struct, frozen=True):
    """A URL that matches the grammar."""

    scheme: str
    host: str
    port: int
    #: path, query and fragment, verbatim
    rest: str

    @property
    def canonical(self) -> str:
        port = "" if self.port == PORTS[self.scheme] else f":{self.port}"
        slash = "" if self.rest.startswith("/") else "/"
        return f"{self.scheme}://{self.host}{port}{slash}{self.rest}"

    @property
    def path(self) -> str:
        return self.rest.partition("#")[0].partition("?")[0]


def link_verdict(
    url: str,
    allow: Sequence[str],
    *,
    local: Sequence[str] = (),
    here: bool = False,
    resolve: Resolve | None = None,
) -> LinkVerdict:
    """Check a link against an allowlist.

    ``local`` are exact origins for tests, such as ``http://localhost:3000``; ``here`` allows the
    local machine on any port, as test mode does. ``resolve`` returns the addresses of a host, all
    of which must be public.
    """
    problem = _character_problem(url)
    if problem:
        return LinkVerdict(allowed=False, reason=problem)
    if _is_local(url, local) or (here and _LOOPBACK.fullmatch(url)):
        return _allowed_verdict(url, "local", url.partition("://")[2])
    parts = _parse_link(url)
    if isinstance(parts, str):
        return LinkVerdict(allowed=False, reason=parts)
    reason, allowed = _match_rules(parts, allow)
    if allowed and resolve is not None:
        reason, allowed = _check_addresses(resolve(parts.host), reason)
    if not allowed:
        return LinkVerdict(allowed=False, reason=reason, host=parts.host)
    return _allowed_verdict(parts.canonical, reason, parts.host)


def _allowed_verdict(url: str, reason: str, host: str) -> LinkVerdict:
    named = _HOST.match(host)
    return LinkVerdict(
        allowed=True,
        reason=reason,
        canonical=url,
        host=named[0].lower() if named else "",
        parameters=url_secrets.url_parameters(url),
        token=url_secrets.secret_token(url),
    )


def _character_problem(url: str) -> str:
    if not url:
        return "empty"
    if len(url) > _LONGEST:
        return "too_long"
    if _CHARACTERS.fullmatch(url):
        return ""
    return "backslash" if "\\" in url and url.isascii() and url.isprintable() else "not_printable"


def _is_local(url: str, local: Iterable[str]) -> bool:
    """Say whether a link has one of these origins, verbatim."""
    for origin in local:
        rest = url[len(origin) :]
        same = url[: len(origin)].lower() == origin.lower()
        if same and (not rest or rest[0] in "/?#"):
            return True
    return False


def _parse_link(url: str) -> _LinkParts | str:
    """Return the parts of a link, or the reason code if it is invalid."""
    found = _URL.fullmatch(url)
    if found is None:
        return "scheme"
    scheme, authority, rest = found[1].lower(), found[2], found[3] or ""
    host, colon, digits = authority.lower().partition(":")
    problem = _authority_problem(authority) or host_problem(host)
    if problem:
        return problem
    port = parse_port(digits) if colon else PORTS[scheme]
    if port is None:
        return "port_invalid"
    return "internal_name" if is_internal_name(host) else _LinkParts(scheme, host, port, rest)


def _authority_problem(authority: str) -> str:
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


def _match_rules(parts: _LinkParts, allow: Iterable[str]) -> tuple[str, bool]:
    """Return the kind of entry that allows a link, or the reason code if none does."""
    nearest = "host_not_allowed"
    for entry in allow:
        try:
            rule = parse_rule(entry)
        except InboxInvalid:
            continue  # an empty entry allows nothing
        reason, allowed = _match_rule(parts, rule)
        if allowed:
            return reason, True
        if nearest == "host_not_allowed":
            nearest = reason
    return nearest, False


def _match_rule(parts: _LinkParts, rule: LinkRule) -> tuple[str, bool]:
    if rule.host == ANY_HOST:
        problem = _public_name_problem(parts.host)
    elif rule.subdomains:
        problem = "" if parts.host.endswith(f".{rule.host}") else "host_not_allowed"
    else:
        problem = "" if parts.host == rule.host else "host_not_allowed"
    problem = problem or _origin_problem(parts, rule)
    if problem:
        return problem, False
    if rule.host == ANY_HOST:
        return "any_public", True
    return ("path" if rule.path else "below" if rule.subdomains else "host"), True


def _origin_problem(parts: _LinkParts, rule: LinkRule) -> str:
    if parts.scheme != rule.scheme:
        return "scheme"
    if parts.port != rule.port:
        return "port_not_allowed"
    if rule.path and not _is_below_path(parts.path, rule.path):
        return "path_not_allowed"
    return ""


def _is_below_path(path: str, prefix: str) -> bool:
    """Say whether a path is below another, at a segment boundary."""
    if is_ambiguous_path(path):
        return False
    below = prefix if prefix.endswith("/") else f"{prefix}/"
    return path == prefix or path.startswith(below)


def _public_name_problem(host: str) -> str:
    """Return why an unlisted host is not a public name; empty if it is."""
    if any(label.startswith("xn--") for label in host.split(".")):
        return "look_alike_possible"
    known = (
        host.rpartition(".")[2] != _EXAMPLE_DOMAIN
        and _public_suffixes().publicsuffix(host) is not None
    )
    return "" if known else "internal_name"


@lru_cache(1)
def _public_suffixes() -> "PublicSuffixList":
    from publicsuffixlist import PublicSuffixList  # noqa: PLC0415 - large, and rarely needed

    return PublicSuffixList(accept_unknown=False, only_icann=True)


def _check_addresses(addresses: Sequence[str] | None, reason: str) -> tuple[str, bool]:
    if not addresses:
        return "not_resolved", False
    if not all(map(is_public_answer, addresses)):
        return "address_not_public", False
    return reason, True
