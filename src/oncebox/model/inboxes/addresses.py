"""Mail addresses, domains and display names: parsing, normal forms, comparison keys.

Two spellings are the same address if they differ only in case, in the Unicode form of accents
(NFC, NFD), in the spelling of the domain (U-labels, A-labels), or in a plus tag. A path is never
unquoted, routed or repaired. Text that other software might read differently is refused: lists,
groups, comments, routes, and names that look like an address.
See docs/decisions/0024-use-canonical-addresses-and-a-positive-cache-for-recipients.md.
"""

import base64
import re
import unicodedata
from functools import cache, lru_cache
from typing import TYPE_CHECKING

import msgspec

from oncebox.errors.mail import AddressInvalid
from oncebox.errors.sends import MailboxInvalid

if TYPE_CHECKING:
    from publicsuffixlist import PublicSuffixList

_LONGEST_DOMAIN = 253
_DOMAIN_LABEL = r"[a-z0-9](?:[a-z0-9-]{0,61}[a-z0-9])?"
#: at least two labels, the last not a number: neither a bare word nor an IP address
_DOMAIN_NAME = re.compile(rf"(?:{_DOMAIN_LABEL}\.)+[a-z](?:[a-z0-9-]{{0,61}}[a-z0-9])?")
#: reserved names that public DNS never resolves (RFC 2606)
_RESERVED_DOMAINS = (".test", ".example", ".invalid", ".localhost")


class Domain(msgspec.Struct, frozen=True):
    """A domain for which mail is accepted."""

    #: in lower case, as A-labels
    name: str
    tenant: str
    #: the inbox for addresses without an inbox; none: they are refused
    catch_all: str | None
    #: 0 for the default domain
    created_at: int


class DnsRecord(msgspec.Struct, frozen=True):
    """A record to set in the DNS."""

    type: str
    name: str
    value: str


def domain_key(name: str) -> str:
    """Return a domain in lower case, as A-labels.

    Raises: AddressInvalid.
    """
    if len(name) <= _LONGEST_DOMAIN:
        key = name.lower() if name.isascii() else _to_ascii(name)
        if len(key) <= _LONGEST_DOMAIN and _DOMAIN_NAME.fullmatch(key):
            return key
    raise AddressInvalid("this is not a domain; write a name such as inbox.example.com")


def is_reserved_domain(name: str) -> bool:
    """Return whether no mail from the internet can be addressed to a domain."""
    return name.endswith(_RESERVED_DOMAINS)


@cache
def public_suffixes() -> "PublicSuffixList":
    """Return the list of public suffixes; loading it takes tens of milliseconds."""
    from publicsuffixlist import PublicSuffixList  # noqa: PLC0415 - large, clients do without

    return PublicSuffixList()


@lru_cache(512)  # the links of a mail have few hosts
def organisational_domain(domain: str) -> str:
    """Return the registered domain, such as example.co.uk.

    Private suffixes such as github.io count as public too: their users are independent of each
    other.
    """
    return public_suffixes().privatesuffix(domain) or domain


def dns_records(name: str, host: str) -> tuple[DnsRecord, ...]:
    """Return the DNS records that direct mail for a domain to a host."""
    if is_reserved_domain(name):
        return ()
    return (
        DnsRecord("MX", f"{name}.", f"10 {host}."),
        DnsRecord("TXT", f"{name}.", '"v=spf1 mx -all"'),
    )


def proof_record(name: str, token: str) -> DnsRecord:
    """Return the DNS record by which a tenant proves that a domain is its own."""
    return DnsRecord("TXT", f"_oncebox.{name}.", f'"oncebox-domain={token}"')


def domains_overlap(one: str, other: str) -> bool:
    """Say whether two domains are the same, or one is a subdomain of the other."""
    return one == other or one.endswith(f".{other}") or other.endswith(f".{one}")


def _to_ascii(name: str) -> str:
    """Return a name as A-labels; nothing if it is invalid."""
    import idna  # noqa: PLC0415 - its tables are large, and few names need them

    try:
        return idna.encode(name, uts46=True, std3_rules=True).decode()
    except UnicodeError:
        return ""


#: random bytes in an address: 80 bits cannot be guessed
ADDRESS_RANDOM_BYTES = 10

_LONGEST_LOCAL = 64
#: longer than RFC 5321 allows, since some senders are
_LONGEST_SENDER = 320
#: atoms between single dots (RFC 5321), without ``%`` and ``!``, which once meant a relay
_LOCAL_ATOM = r"[a-z0-9#$&'*+/=?^_`{|}~\x80-\U0010ffff-]+"
_LOCAL_PART = re.compile(rf"{_LOCAL_ATOM}(?:\.{_LOCAL_ATOM})*")
_TO_CROCKFORD = str.maketrans(
    "ABCDEFGHIJKLMNOPQRSTUVWXYZ234567", "0123456789abcdefghjkmnpqrstvwxyz"
)


@lru_cache(4096)
def address_key(local: str, domain: str) -> str:
    """Return the lookup key of an address: lower case, NFC, A-labels, no plus tag.

    Raises: AddressInvalid.
    """
    name = _normal_local_part(local, _LONGEST_LOCAL).partition("+")[0]
    if not name or name.endswith("."):
        raise AddressInvalid(_ADDRESS_REMEDY)
    return f"{name}@{domain_key(domain)}"


def sender_key(address: str) -> str:
    """Return a sender's address for comparison with rules; a plus tag counts.

    Raises: AddressInvalid.
    """
    local, _, domain = address.rpartition("@")
    return f"{_normal_local_part(local, _LONGEST_SENDER)}@{domain_key(domain)}"


def make_local_part(random: bytes) -> str:
    """Return a local part from 10 random bytes, in Crockford base32."""
    if len(random) != ADDRESS_RANDOM_BYTES:
        raise ValueError(f"an address needs {ADDRESS_RANDOM_BYTES} random bytes, not {len(random)}")
    return base64.b32encode(random).decode().translate(_TO_CROCKFORD)


def _normal_local_part(text: str, longest: int) -> str:
    """Return the normal form of a local part."""
    if not 1 <= len(text) <= longest:
        raise AddressInvalid(_ADDRESS_REMEDY)
    key = text.lower() if text.isascii() else _casefolded(text)
    if len(key.encode()) > longest or not _LOCAL_PART.fullmatch(key):
        raise AddressInvalid(_ADDRESS_REMEDY)
    return key


def _casefolded(text: str) -> str:
    """Return a text of letters, marks and digits, case-folded and in NFC.

    Compatibility forms, such as full-width letters, are refused: they look like other letters.
    """
    key = unicodedata.normalize("NFC", unicodedata.normalize("NFD", text).casefold())
    strange = any(unicodedata.category(each)[0] not in "LMN" for each in key if each > "\x7f")
    if strange or unicodedata.normalize("NFKC", key) != key:
        raise AddressInvalid(_ADDRESS_REMEDY)
    return key


_ADDRESS_REMEDY = (
    "this address is not accepted; write letters, digits and single . _ - before the @, "
    "such as orders@inbox.example.com"
)

_LONGEST_PATH = 254
_PATH_ATOM = r"[A-Za-z0-9!#$%&'*+/=?^_`{|}~-]+"
_PATH_LABEL = r"[A-Za-z0-9_](?:[A-Za-z0-9_-]{0,61}[A-Za-z0-9_])?"
_PLAIN_PATH = re.compile(rf"({_PATH_ATOM}(?:\.{_PATH_ATOM})*)@({_PATH_LABEL}(?:\.{_PATH_LABEL})*)")
#: a quoted local part without escapes, which some senders use
_QUOTED_PATH = re.compile(rf'"[ !#-\[\]-~]{{1,62}}"@{_PATH_LABEL}(?:\.{_PATH_LABEL})*')
#: characters that once named a relay
_ROUTING_CHARACTERS = re.compile("[%!]")
_NON_ASCII = re.compile("[^\x00-\x7f]")
#: paths that are cached; those of clients recur
_MOST_PATHS = 1_024


@lru_cache(_MOST_PATHS)
def split_address(path: str, longest_local: int = _LONGEST_LOCAL) -> tuple[str, str] | None:
    """Return local part and domain of a plain address; None if it is not one.

    Non-ASCII characters are normalised to NFC; invisible ones and controls are refused.
    """
    plain = path
    if not path.isascii():
        path = unicodedata.normalize("NFC", path)
        beyond = _NON_ASCII.findall(path)
        if any(unicodedata.category(each)[0] in "CZ" for each in beyond):
            return None
        plain = _NON_ASCII.sub("x", path)  # any other character counts as a letter
    found = _PLAIN_PATH.fullmatch(plain)
    if found is None:
        return None
    at = found.end(1)
    local, domain = path[:at], path[at + 1 :]
    return (local, domain) if _is_within_limits(local, domain, longest_local) else None


def split_recipient(path: str) -> tuple[str, str] | None:
    """Return local part and domain of a recipient address."""
    parts = split_address(path)
    return None if parts is None or _ROUTING_CHARACTERS.search(parts[0]) else parts


def is_sender_path(path: str) -> bool:
    """Return whether a MAIL FROM path is accepted; it may be empty.

    Bounce addresses contain the recipient, a number and a signature, so a local part may be
    longer than the standard allows.
    """
    if not path or split_address(path, _LONGEST_PATH) is not None:
        return True
    return len(path) <= _LONGEST_PATH and _QUOTED_PATH.fullmatch(path) is not None


def _is_within_limits(local: str, domain: str, longest_local: int) -> bool:
    size = len(local) if local.isascii() else len(local.encode())
    rest = len(domain) if domain.isascii() else len(domain.encode())
    return size <= longest_local and size + rest < _LONGEST_PATH


_LONGEST_MAILBOX = 1_000
_LONGEST_NAME = 200
#: an address is parsed a dozen times per mail, and addresses recur
_CACHE_SIZE = 4_096
#: a quoted name, or one without characters that address fields reserve; then the address
_NAMED_MAILBOX = re.compile(r'(?:"((?:[^"\\]|\\.)*+)"|([^"<>()\[\]\\,;:@]*+)) ?<([^<>\s]++)>')
_ESCAPE = re.compile(r"\\(.)")
#: controls, and invisible or bidirectional characters
_INVISIBLE = re.compile(
    "[\x00-\x1f\x7f-\x9f\u00ad\u034f\u061c\u115f\u1160\u17b4\u17b5\u180b-\u180f\u200b\u200e"
    "\u200f\u2028-\u202e\u2060-\u206f\u3164\ud800-\udfff\ufeff\uffa0\U000e0000-\U000e0fff]"
)
#: zero-width joiners, as in Persian or in emoji; in an address they are refused
_JOINERS = re.compile("[\u200c\u200d]")
#: characters that make a name look like an address
_ADDRESS_LIKE = re.compile("[@<>]")
#: names that need no quotes
_UNQUOTED_NAME = re.compile(r"[A-Za-z0-9!#$%&'*+/=?^_`{|}~-]+(?: [A-Za-z0-9!#$%&'*+/=?^_`{|}~-]+)*")
_MAILBOX_REMEDY = "write one address, such as ann@example.com or Ann Lee <ann@example.com>"


class Mailbox(msgspec.Struct, frozen=True):
    """One address, and its display name."""

    name: str
    #: the local part as given, in NFC; the domain in lower case, as A-labels
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
    """Return a name, quoted if necessary."""
    if _UNQUOTED_NAME.fullmatch(name):
        return name
    return '"' + name.replace("\\", "\\\\").replace('"', '\\"') + '"'


def _display_name(text: str) -> str:
    """Return a name with single spaces; one that looks like an address is refused.

    Joiners are removed: mail readers, ours included, take a name with joiners for a forgery.
    """
    name = " ".join(unicodedata.normalize("NFC", _JOINERS.sub("", text)).split())
    if len(name) > _LONGEST_NAME or _ADDRESS_LIKE.search(unicodedata.normalize("NFKC", name)):
        raise MailboxInvalid(f"a name is too long or has an address in it; {_MAILBOX_REMEDY}")
    return name


def _normal_address(text: str) -> tuple[str, str]:
    """Return an address that every server reads alike, and its key."""
    parts = split_recipient(text)
    if parts is None:
        raise MailboxInvalid(f"this is not one address; {_MAILBOX_REMEDY}")
    local, domain = parts
    try:
        address = f"{local}@{domain_key(domain)}"
        return address, sender_key(address)
    except AddressInvalid as error:
        raise MailboxInvalid(f"mail cannot be sent to this address; {_MAILBOX_REMEDY}") from error
