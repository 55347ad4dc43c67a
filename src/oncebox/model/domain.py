"""Domains that mail is taken for: how their names are written, and the records they need."""

import re

import msgspec

from oncebox.mail_errors import AddressInvalid

_LONGEST = 253
_LABEL = r"[a-z0-9](?:[a-z0-9-]{0,61}[a-z0-9])?"
#: at least two labels, the last no number: neither a bare word nor an IP address
_NAME = re.compile(rf"(?:{_LABEL}\.)+[a-z](?:[a-z0-9-]{{0,61}}[a-z0-9])?")
#: names that no resolver outside ever answers for (RFC 2606)
_RESERVED = (".test", ".example", ".invalid", ".localhost")


class Domain(msgspec.Struct, frozen=True):
    """A domain that mail is taken for."""

    #: in lower case, as A-labels
    name: str
    tenant: str
    #: the inbox for addresses that no inbox has; none: they are refused
    catch_all: str | None
    #: 0 for the default domain, which is there by itself
    created_at: int


class Record(msgspec.Struct, frozen=True):
    """A record to set in the DNS."""

    type: str
    name: str
    value: str


def domain_key(name: str) -> str:
    """Return a domain as it is kept: in lower case, as A-labels.

    Raises: AddressInvalid.
    """
    if len(name) <= _LONGEST:
        key = name.lower() if name.isascii() else _ascii(name)
        if len(key) <= _LONGEST and _NAME.fullmatch(key):
            return key
    message = "that is no domain; write a name such as inbox.example.com"
    raise AddressInvalid(message)


def records(name: str, host: str) -> tuple[Record, ...]:
    """Return what must be set in the DNS so that mail for a domain comes to a host."""
    if name.endswith(_RESERVED):
        return ()
    return (
        Record("MX", f"{name}.", f"10 {host}."),
        Record("TXT", f"{name}.", '"v=spf1 mx -all"'),
    )


def _ascii(name: str) -> str:
    """Return a name with U-labels as A-labels; nothing where there is no such name."""
    import idna  # noqa: PLC0415 - its tables are large, and few names need them

    try:
        return idna.encode(name, uts46=True, std3_rules=True).decode()
    except UnicodeError:
        return ""
