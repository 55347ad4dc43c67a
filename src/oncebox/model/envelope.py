"""An envelope: who handed a mail over, from whom and for which inboxes; not what is in it.

Addresses are judged here by their form alone. A path is never unquoted, routed or repaired:
what is not a plain ``local@domain`` is no address.
"""

import re
import unicodedata
from collections.abc import Iterable

import msgspec

#: the source of all mail; no user's source can have that name
MAIL = "@mail"
#: the type of a mail's delivery, and the road it came by
TYPE = "mail.received"
ROAD = "smtp"

_LONGEST = 254
_LONGEST_LOCAL = 64
_ATOM = r"[A-Za-z0-9!#$%&'*+/=?^_`{|}~-]+"
_LABEL = r"[A-Za-z0-9_](?:[A-Za-z0-9_-]{0,61}[A-Za-z0-9_])?"
_PLAIN = re.compile(rf"({_ATOM}(?:\.{_ATOM})*)@({_LABEL}(?:\.{_LABEL})*)")
#: a quoted local part without escapes, which some senders have
_QUOTED = re.compile(rf'"[ !#-\[\]-~]{{1,62}}"@{_LABEL}(?:\.{_LABEL})*')
#: what once told a relay where to send a mail on to
_ROUTING = re.compile("[%!]")
_WIDE = re.compile("[^\x00-\x7f]")
_YES, _NO = "yes", "no"


class Recipient(msgspec.Struct, frozen=True, kw_only=True):
    """One address a mail is for, and the inbox it leads to."""

    inbox_id: str
    tenant: str
    #: as in RCPT TO
    address: str


class Envelope(msgspec.Struct, frozen=True, kw_only=True):
    """What an SMTP client said before the mail itself."""

    #: its address
    client: str
    #: what it calls itself
    helo: str
    #: where bounces go; empty for a mail that is a bounce itself
    sender: str
    recipients: tuple[Recipient, ...]
    #: the version of TLS; empty without
    tls: str = ""
    #: whether addresses and headers may be UTF-8
    utf8: bool = False


def encode(envelope: Envelope) -> list[tuple[str, str]]:
    """Return an envelope as the ordered headers of a delivery."""
    return [
        ("client", envelope.client),
        ("helo", envelope.helo),
        ("sender", envelope.sender),
        ("tls", envelope.tls),
        ("utf8", _YES if envelope.utf8 else _NO),
        *(
            ("recipient", f"{each.inbox_id} {each.tenant} {each.address}")
            for each in envelope.recipients
        ),
    ]


def decode(headers: Iterable[tuple[str, str]]) -> Envelope:
    """Return the envelope that was stored as the headers of a delivery."""
    pairs = list(headers)
    said = {name: value for name, value in pairs if name != "recipient"}
    return Envelope(
        client=said["client"],
        helo=said["helo"],
        sender=said["sender"],
        tls=said["tls"],
        utf8=said["utf8"] == _YES,
        recipients=tuple(_recipient(value) for name, value in pairs if name == "recipient"),
    )


def _recipient(text: str) -> Recipient:
    inbox_id, tenant, address = text.split(" ", 2)
    return Recipient(inbox_id=inbox_id, tenant=tenant, address=address)


# addresses


def split(path: str, longest_local: int = _LONGEST_LOCAL) -> tuple[str, str] | None:
    """Return local part and domain of a plain address, or None if it is none.

    Characters beyond ASCII are taken in their composed form (NFC); those that are invisible,
    turn the direction of writing or are no characters make it no address.
    """
    plain = path
    if not path.isascii():
        path = _composed(path)
        plain = _WIDE.sub("x", path)  # what is left beyond ASCII is as good as a letter
    found = _PLAIN.fullmatch(plain)
    if found is None:
        return None
    at = found.end(1)
    local, domain = path[:at], path[at + 1 :]
    return (local, domain) if _fits(local, domain, longest_local) else None


def recipient(path: str) -> tuple[str, str] | None:
    """Return local part and domain of an address that mail may be for."""
    parts = split(path)
    return None if parts is None or _ROUTING.search(parts[0]) else parts


def is_sender(path: str) -> bool:
    """Say whether mail may come from an address; nobody at all is one too.

    Senders write the recipient, a number and a signature into the address for bounces, and no
    server minds that it gets longer than a local part should be.
    """
    if not path or split(path, _LONGEST) is not None:
        return True
    return len(path) <= _LONGEST and _QUOTED.fullmatch(path) is not None


def _composed(path: str) -> str:
    """Return a path in its composed form; nothing if it has what nobody can see."""
    composed = unicodedata.normalize("NFC", path)
    return "" if any(map(_is_hidden, _WIDE.findall(composed))) else composed


def _is_hidden(character: str) -> bool:
    """Say whether a character is a control, a format, a space, or unassigned."""
    return unicodedata.category(character)[0] in "CZ"


def _fits(local: str, domain: str, longest_local: int) -> bool:
    size = len(local) if local.isascii() else len(local.encode())
    rest = len(domain) if domain.isascii() else len(domain.encode())
    return size <= longest_local and size + rest < _LONGEST
