"""Names: how a domain is spelled when it is asked for or compared."""

import re

import idna

_LONGEST = 253
#: a host name, or a name such as ``_dmarc.example.com`` that only DNS knows
_ASCII = re.compile(r"[a-z0-9_](?:[a-z0-9_-]{0,61}[a-z0-9_])?")


def ascii_name(text: str) -> str:
    """Return the name in lower case and ASCII, without the last dot; empty if it is none."""
    if len(text) > _LONGEST + 1:
        return ""
    name = text.removesuffix(".").lower()
    if not name.isascii():
        name = _encoded(name)
    fits = 0 < len(name) <= _LONGEST and all(map(_ASCII.fullmatch, name.split(".")))
    return name if fits else ""


def _encoded(name: str) -> str:
    try:
        return idna.encode(name, uts46=True).decode("ascii")
    except UnicodeError:  # idna's errors are of that kind
        return ""
