"""Link rules: allowlist entries for the hosts and paths that links may lead to.

``example.com`` is that host alone, ``*.example.com`` all its subdomains, ``example.com:8443``
another port, ``https://example.com/verify/`` a path prefix, ``http://example.com`` a host without
encryption, and ``*`` any public name.
See docs/decisions/0027-use-a-strict-grammar-for-link-policy.md.
"""

import re
import unicodedata
from functools import lru_cache
from urllib.parse import unquote

import msgspec

from oncebox.errors.mail import InboxInvalid
from oncebox.model.public_internet import is_internal_name

ANY_HOST = "*"
PORTS = {"https": 443, "http": 80}

_LONGEST_HOST = 253
_LABEL = r"[a-z0-9](?:[a-z0-9-]{0,61}[a-z0-9])?"
_HOST = re.compile(rf"{_LABEL}(?:\.{_LABEL})+")
#: a number that some programs read as part of an IPv4 address
_NUMBER = re.compile(r"[0-9]+|0x[0-9a-f]*")
_PORT = re.compile(r"[1-9][0-9]{0,4}")
_LAST_PORT = 65_535
_ENTRY = re.compile(
    r"(?:(?P<scheme>https?)://)?(?P<below>\*\.)?(?P<host>[^/:@?#%\\]+)(?::(?P<port>[0-9]+))?"
    r"(?P<path>/[^?#\\]*)?",
    re.IGNORECASE,
)
_PATH = re.compile(r"/[!-~]*")
_LOCAL_ORIGIN = re.compile(
    r"https?://(?:localhost|[a-z0-9](?:[a-z0-9.-]*[a-z0-9])?|\[[0-9a-f:.]+\])(?::[1-9][0-9]{0,4})?"
)
#: overlong UTF-8 of a letter, a slash or a dot, which some programs accept
_OVERLONG = re.compile(r"%c[01]%|%e0%[89]|%f0%8", re.IGNORECASE)
_MOST_DECODINGS = 4
#: what ends a path, or turns into another character, in some programs: controls, ``%u002e``
_NOT_IN_PATHS = re.compile(r"[\x00-\x1f\x7f\\]|%u[0-9a-f]{4}", re.IGNORECASE)
_ENTRY_REMEDY = (
    "a link host is a name such as app.example.com, *.example.com for all below it, "
    "https://example.com/path/, or * for any public name"
)


class LinkRule(msgspec.Struct, frozen=True, kw_only=True):
    """One entry of an allowlist."""

    #: in lower case, as A-labels; ``*`` for any public name
    host: str
    #: its subdomains, without itself
    subdomains: bool = False
    scheme: str = "https"
    port: int = 443
    #: with or without a trailing slash; empty: any
    path: str = ""

    def __str__(self) -> str:
        """Return the entry."""
        if self.host == ANY_HOST:
            return ANY_HOST
        port = "" if self.port == PORTS[self.scheme] else f":{self.port}"
        name = f"{'*.' if self.subdomains else ''}{self.host}{port}"
        plain = self.scheme == "https" and not self.path
        return name if plain else f"{self.scheme}://{name}{self.path}"


class LinkVerdict(msgspec.Struct, frozen=True, kw_only=True):
    """The link policy's decision on a link, and the parts of the link."""

    allowed: bool
    #: a stable code: why it is refused, or by what kind of entry it is allowed
    reason: str
    #: the checked URL; empty when refused
    canonical: str = ""
    host: str = ""
    parameters: tuple[tuple[str, str], ...] = ()
    #: the secret in the URL, made for one person
    token: str = ""


@lru_cache(1024)
def parse_rule(text: str) -> LinkRule:
    """Return the rule of an entry.

    Raises: InboxInvalid.
    """
    if text == ANY_HOST:
        return LinkRule(host=ANY_HOST)
    found = _ENTRY.fullmatch(text)
    if found is None:
        raise InboxInvalid(_ENTRY_REMEDY)
    scheme = (found["scheme"] or "https").lower()
    host = _ascii_host(found["host"])
    port = PORTS[scheme] if found["port"] is None else parse_port(found["port"])
    path = found["path"] or ""
    if path == "/" or (path and not found["scheme"]):
        # A bare slash is not a path, and a path without a scheme may be a mistake.
        if path != "/":
            raise InboxInvalid(_ENTRY_REMEDY)
        path = ""
    if port is None or host_problem(host) or is_internal_name(host) or not _is_prefix(path):
        raise InboxInvalid(_ENTRY_REMEDY)
    return LinkRule(host=host, subdomains=bool(found["below"]), scheme=scheme, port=port, path=path)


def normalize_entry(text: str) -> str:
    """Return the normal form of an entry.

    Raises: InboxInvalid.
    """
    return str(parse_rule(text))


def normalize_origin(text: str) -> str:
    """Return the normal form of a local origin, such as ``http://localhost:3000``.

    Raises: InboxInvalid.
    """
    origin = text.lower()
    if not _LOCAL_ORIGIN.fullmatch(origin):
        raise InboxInvalid(
            "a local origin is a scheme, a host and a port, such as http://localhost:3000"
        )
    return origin


def host_problem(host: str) -> str:
    """Return the problem of a host in lower case; nothing if it is a name of two or more labels.

    Non-ASCII names and IP addresses in any spelling are refused.
    """
    labels = host.split(".")
    if _NUMBER.fullmatch(labels[-1]):
        return "ip_literal"
    if len(host) > _LONGEST_HOST or (len(labels) > 1 and not _HOST.fullmatch(host)):
        return "host_invalid"
    if len(labels) == 1:
        return "single_label"
    if not all(map(_is_canonical_a_label, labels)):
        return "host_not_decodable"
    return ""


def parse_port(text: str) -> int | None:
    """Return a port in its canonical spelling; None if it is not one."""
    return int(text) if _PORT.fullmatch(text) and int(text) <= _LAST_PORT else None


def is_ambiguous_path(path: str) -> bool:
    """Return whether programs may resolve a path differently."""
    plain, deep = path, 0
    while deep < _MOST_DECODINGS and (decoded := unquote(plain, "latin-1")) != plain:
        plain, deep = decoded, deep + 1
    if deep == _MOST_DECODINGS or _OVERLONG.search(path) or ";" in path:
        return True
    # Some programs take other characters for a dot or a slash, such as full-width ones.
    read = plain.encode("latin-1", "replace").decode("utf-8", "replace")
    spellings = (plain, unicodedata.normalize("NFKC", read))
    return any(_has_steps(each, path.count("/")) for each in spellings)


def _has_steps(plain: str, slashes: int) -> bool:
    """Return whether a decoded path may lead elsewhere: it has as many slashes, or steps up."""
    if _NOT_IN_PATHS.search(plain) or plain.count("/") != slashes:
        return True
    segments = (each.partition(";")[0].strip() for each in plain.split("/"))
    return any(each and not each.strip(".") for each in segments)


def _is_prefix(path: str) -> bool:
    return not path or (bool(_PATH.fullmatch(path)) and not is_ambiguous_path(path))


def _ascii_host(host: str) -> str:
    """Return a host in lower case, as A-labels; nothing if it is invalid."""
    if host.isascii():
        return host.lower()
    import idna  # noqa: PLC0415 - its tables are large, and few names need them

    try:
        return idna.encode(host, uts46=True, std3_rules=True).decode()
    except UnicodeError:
        return ""


def _is_canonical_a_label(label: str) -> bool:
    """Return whether an A-label is the canonical encoding of a U-label."""
    if not label.startswith("xn--"):
        return True
    import idna  # noqa: PLC0415 - its tables are large, and few names need them

    try:
        shown = label[4:].encode().decode("punycode")
        mapped = idna.uts46_remap(shown, std3_rules=True, transitional=False)
    except UnicodeError:
        return False
    encoded = "xn--" + shown.encode("punycode").decode()
    return not shown.isascii() and mapped == shown and encoded == label
