"""Mail addresses, domains and display names: parsing, normal forms, comparison keys.

Two spellings are the same address if they differ in upper and lower case, in the way accents are
written (Unicode's NFC and NFD), in the spelling of the domain (U-labels and A-labels), or in what
stands behind a plus sign. Everything that other software might read differently is refused.

Addresses are judged here by their form alone. A path is never unquoted, routed or repaired:
what is not a plain ``local@domain`` is no address.

One text is one mailbox. What another reader could take for two addresses, or for another one,
is refused: lists, groups, comments, routes, and names that look like an address.
"""

import re
import unicodedata
from functools import lru_cache

import msgspec

from oncebox.errors.mail import AddressInvalid
from oncebox.errors.sends import MailboxInvalid

_LONGEST_DOMAIN = 253
_DOMAIN_LABEL = r"[a-z0-9](?:[a-z0-9-]{0,61}[a-z0-9])?"
#: at least two labels, the last no number: neither a bare word nor an IP address
_DOMAIN_NAME = re.compile(rf"(?:{_DOMAIN_LABEL}\.)+[a-z](?:[a-z0-9-]{{0,61}}[a-z0-9])?")
#: names that no resolver outside ever answers for (RFC 2606)
_RESERVED_DOMAINS = (".test", ".example", ".invalid", ".localhost")


class Domain(msgspec.Struct, frozen=True):
    """A domain that mail is taken for."""

    #: in lower case, as A-labels
    name: str
    tenant: str
    #: the inbox for addresses that no inbox has; none: they are refused
    catch_all: str | None
    #: 0 for the default domain, which is there by itself
    created_at: int


class DnsRecord(msgspec.Struct, frozen=True):
    """A record to set in the DNS."""

    type: str
    name: str
    value: str


def domain_key(name: str) -> str:
    """Return a domain as it is kept: in lower case, as A-labels.

    Raises: AddressInvalid.
    """
    if len(name) <= _LONGEST_DOMAIN:
        key = name.lower() if name.isascii() else _to_ascii(name)
        if len(key) <= _LONGEST_DOMAIN and _DOMAIN_NAME.fullmatch(key):
            return key
    raise AddressInvalid("that is no domain; write a name such as inbox.example.com")


def dns_records(name: str, host: str) -> tuple[DnsRecord, ...]:
    """Return what must be set in the DNS so that mail for a domain comes to a host."""
    if name.endswith(_RESERVED_DOMAINS):
        return ()
    return (
        DnsRecord("MX", f"{name}.", f"10 {host}."),
        DnsRecord("TXT", f"{name}.", '"v=spf1 mx -all"'),
    )


def _to_ascii(name: str) -> str:
    """Return a name with U-labels as A-labels; nothing where there is no such name."""
    import idna  # noqa: PLC0415 - its tables are large, and few names need them

    try:
        return idna.encode(name, uts46=True, std3_rules=True).decode()
    except UnicodeError:
        return ""


#: random bytes in an address: 80 bits, which nobody guesses
ADDRESS_RANDOM_BYTES = 10

_LONGEST_LOCAL = 64
#: others may have longer ones; no server must take them
_LONGEST_SENDER = 320
#: atoms between single dots (RFC 5321); ``%`` and ``!`` once meant "send it on", so nobody may
_LOCAL_ATOM = r"[a-z0-9#$&'*+/=?^_`{|}~\x80-\U0010ffff-]+"
_LOCAL_PART = re.compile(rf"{_LOCAL_ATOM}(?:\.{_LOCAL_ATOM})*")
_BASE32 = "0123456789abcdefghjkmnpqrstvwxyz"
_BITS_PER_CHARACTER = 5


@lru_cache(4096)
def address_key(local: str, domain: str) -> str:
    """Return what an address is looked up by: lower case, NFC, A-labels, nothing behind a plus.

    Raises: AddressInvalid.
    """
    name = _normal_local_part(local, _LONGEST_LOCAL).partition("+")[0]
    if not name or name.endswith("."):
        raise AddressInvalid(_ADDRESS_REMEDY)
    return f"{name}@{domain_key(domain)}"


def sender_key(address: str) -> str:
    """Return a sender's address as rules are compared with it; what follows a plus counts.

    Raises: AddressInvalid.
    """
    local, _, domain = address.rpartition("@")
    return f"{_normal_local_part(local, _LONGEST_SENDER)}@{domain_key(domain)}"


def make_local_part(random: bytes) -> str:
    """Return the part before the ``@`` of a new address, from 10 random bytes."""
    if len(random) != ADDRESS_RANDOM_BYTES:
        raise ValueError(
            f"an address is made of {ADDRESS_RANDOM_BYTES} random bytes, not {len(random)}"
        )
    number = int.from_bytes(random, "big")
    shifts = range(ADDRESS_RANDOM_BYTES * 8 - _BITS_PER_CHARACTER, -1, -_BITS_PER_CHARACTER)
    return "".join(_BASE32[number >> shift & 31] for shift in shifts)


def _normal_local_part(text: str, longest: int) -> str:
    """Return the part before the ``@`` with all its spellings made one."""
    if not 1 <= len(text) <= longest:
        raise AddressInvalid(_ADDRESS_REMEDY)
    key = text.lower() if text.isascii() else _casefolded(text)
    if len(key.encode()) > longest or not _LOCAL_PART.fullmatch(key):
        raise AddressInvalid(_ADDRESS_REMEDY)
    return key


def _casefolded(text: str) -> str:
    """Return a text without case and in NFC, if it has only letters, marks and digits.

    Forms for compatibility, such as full-width letters, are refused: they look like others.
    """
    key = unicodedata.normalize("NFC", unicodedata.normalize("NFD", text).casefold())
    strange = any(unicodedata.category(each)[0] not in "LMN" for each in key if each > "\x7f")
    if strange or unicodedata.normalize("NFKC", key) != key:
        raise AddressInvalid(_ADDRESS_REMEDY)
    return key


_ADDRESS_REMEDY = (
    "that is no address we take; write letters, digits and single . _ - before the @, "
    "such as orders@inbox.example.com"
)


_LONGEST_PATH = 254
_PATH_ATOM = r"[A-Za-z0-9!#$%&'*+/=?^_`{|}~-]+"
_PATH_LABEL = r"[A-Za-z0-9_](?:[A-Za-z0-9_-]{0,61}[A-Za-z0-9_])?"
_PLAIN_PATH = re.compile(rf"({_PATH_ATOM}(?:\.{_PATH_ATOM})*)@({_PATH_LABEL}(?:\.{_PATH_LABEL})*)")
#: a quoted local part without escapes, which some senders have
_QUOTED_PATH = re.compile(rf'"[ !#-\[\]-~]{{1,62}}"@{_PATH_LABEL}(?:\.{_PATH_LABEL})*')
#: what once told a relay where to send a mail on to
_ROUTING_CHARACTERS = re.compile("[%!]")
_NON_ASCII = re.compile("[^\x00-\x7f]")


# addresses


def split_address(path: str, longest_local: int = _LONGEST_LOCAL) -> tuple[str, str] | None:
    """Return local part and domain of a plain address, or None if it is none.

    Characters beyond ASCII are taken in their composed form (NFC); those that are invisible,
    turn the direction of writing or are no characters make it no address.
    """
    plain = path
    if not path.isascii():
        path = _to_nfc(path)
        plain = _NON_ASCII.sub("x", path)  # what is left beyond ASCII is as good as a letter
    found = _PLAIN_PATH.fullmatch(plain)
    if found is None:
        return None
    at = found.end(1)
    local, domain = path[:at], path[at + 1 :]
    return (local, domain) if _is_within_limits(local, domain, longest_local) else None


def split_recipient(path: str) -> tuple[str, str] | None:
    """Return local part and domain of an address that mail may be for."""
    parts = split_address(path)
    return None if parts is None or _ROUTING_CHARACTERS.search(parts[0]) else parts


def is_sender_path(path: str) -> bool:
    """Say whether mail may come from an address; nobody at all is one too.

    Senders write the recipient, a number and a signature into the address for bounces, and no
    server minds that it gets longer than a local part should be.
    """
    if not path or split_address(path, _LONGEST_PATH) is not None:
        return True
    return len(path) <= _LONGEST_PATH and _QUOTED_PATH.fullmatch(path) is not None


def _to_nfc(path: str) -> str:
    """Return a path in its composed form; nothing if it has what nobody can see."""
    composed = unicodedata.normalize("NFC", path)
    return "" if any(map(_is_invisible, _NON_ASCII.findall(composed))) else composed


def _is_invisible(character: str) -> bool:
    """Say whether a character is a control, a format, a space, or unassigned."""
    return unicodedata.category(character)[0] in "CZ"


def _is_within_limits(local: str, domain: str, longest_local: int) -> bool:
    size = len(local) if local.isascii() else len(local.encode())
    rest = len(domain) if domain.isascii() else len(domain.encode())
    return size <= longest_local and size + rest < _LONGEST_PATH


_LONGEST_MAILBOX = 1_000
_LONGEST_NAME = 200
#: an address is read a dozen times on its way, and the same ones come again
_CACHE_SIZE = 4_096
#: a name in quotes, or without them and without what has a meaning in address fields; the address
_NAMED_MAILBOX = re.compile(r'(?:"((?:[^"\\]|\\.)*+)"|([^"<>()\[\]\\,;:@]*+)) ?<([^<>\s]++)>')
_ESCAPE = re.compile(r"\\(.)")
#: controls, and what is invisible or turns the direction of writing
_INVISIBLE = re.compile(
    "[\x00-\x1f\x7f-\x9f\u00ad\u034f\u061c\u115f\u1160\u17b4\u17b5\u180b-\u180f\u200b\u200e"
    "\u200f\u2028-\u202e\u2060-\u206f\u3164\ud800-\udfff\ufeff\uffa0\U000e0000-\U000e0fff]"
)
#: what joins letters or keeps them apart, in Persian or in emoji; in an address it is refused
_JOINERS = re.compile("[\u200c\u200d]")
#: what makes a part of a name look like an address
_ADDRESS_LIKE = re.compile("[@<>]")
#: words that need no quotes
_UNQUOTED_NAME = re.compile(r"[A-Za-z0-9!#$%&'*+/=?^_`{|}~-]+(?: [A-Za-z0-9!#$%&'*+/=?^_`{|}~-]+)*")
_MAILBOX_REMEDY = "write one address, such as ann@example.com or Ann Lee <ann@example.com>"


class Mailbox(msgspec.Struct, frozen=True):
    """One address, and the name that is shown with it."""

    #: empty if there is none
    name: str
    #: the local part as it was given, in NFC; the domain in lower case, as A-labels
    address: str
    #: what all spellings of the address have in common
    key: str
    #: name and address as they are written in JSON, and by people
    text: str

    def __str__(self) -> str:
        return self.text


@lru_cache(_CACHE_SIZE)
def parse_mailbox(text: str) -> Mailbox:
    """Return the one mailbox that a text names.

    Raises: MailboxInvalid.
    """
    # As it was given, with its blanks: that is what is remembered.
    if len(text) > _LONGEST_MAILBOX or _INVISIBLE.search(text):
        raise MailboxInvalid(f"an address is too long or has control characters; {_MAILBOX_REMEDY}")
    text = text.strip(" ")
    found = _NAMED_MAILBOX.fullmatch(text)
    if found is None:
        address, key = _normal_address(text)
        return Mailbox("", address, key, address)
    name = _display_name(found[2] if found[1] is None else _ESCAPE.sub(r"\1", found[1]))
    address, key = _normal_address(found[3])
    return Mailbox(name, address, key, f"{quote_name(name)} <{address}>" if name else address)


def quote_name(name: str) -> str:
    """Return a name with quotes around it, if it needs them."""
    if _UNQUOTED_NAME.fullmatch(name):
        return name
    return '"' + name.replace("\\", "\\\\").replace('"', '\\"') + '"'


def _display_name(text: str) -> str:
    """Return a name with single spaces; one that looks like an address misleads whoever reads.

    Readers, ours among them, take a name with joiners in it for a forged one: they are left out.
    """
    name = " ".join(unicodedata.normalize("NFC", _JOINERS.sub("", text)).split())
    if len(name) > _LONGEST_NAME or _ADDRESS_LIKE.search(unicodedata.normalize("NFKC", name)):
        raise MailboxInvalid(f"a name is too long or has an address in it; {_MAILBOX_REMEDY}")
    return name


def _normal_address(text: str) -> tuple[str, str]:
    """Return an address that every server reads alike, and its key."""
    parts = split_recipient(text)
    if parts is None:
        raise MailboxInvalid(f"that is not one address; {_MAILBOX_REMEDY}")
    local, domain = parts
    try:
        address = f"{local}@{domain_key(domain)}"
        return address, sender_key(address)
    except AddressInvalid as error:
        raise MailboxInvalid(
            f"that is no address mail can be sent to; {_MAILBOX_REMEDY}"
        ) from error
