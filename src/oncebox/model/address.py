"""Addresses: how one is written so that it leads to its inbox, and what is none.

Two spellings are the same address if they differ in upper and lower case, in the way accents are
written (Unicode's NFC and NFD), in the spelling of the domain (U-labels and A-labels), or in what
stands behind a plus sign. Everything that other software might read differently is refused.
"""

import re
import unicodedata
from functools import lru_cache

from oncebox.mail_errors import AddressInvalid
from oncebox.model.domain import domain_key

#: random bytes in an address: 80 bits, which nobody guesses
RANDOM_BYTES = 10

_LONGEST_LOCAL = 64
#: others may have longer ones; no server must take them
_LONGEST_SENDER = 320
#: atoms between single dots (RFC 5321); ``%`` and ``!`` once meant "send it on", so nobody may
_ATOM = r"[a-z0-9#$&'*+/=?^_`{|}~\x80-\U0010ffff-]+"
_LOCAL = re.compile(rf"{_ATOM}(?:\.{_ATOM})*")
#: C0 and C1 controls, lone surrogates, and the two separators some readers take for a newline
_CONTROLS = re.compile("[\x00-\x1f\x7f-\x9f\ud800-\udfff\u2028\u2029]")
_ALPHABET = "0123456789abcdefghjkmnpqrstvwxyz"
_BITS = 5


@lru_cache(4096)
def address_key(local: str, domain: str) -> str:
    """Return what an address is looked up by: lower case, NFC, A-labels, nothing behind a plus.

    Raises: AddressInvalid.
    """
    name = _local(local, _LONGEST_LOCAL).partition("+")[0]
    if not name or name.endswith("."):
        raise AddressInvalid(_REMEDY)
    return f"{name}@{domain_key(domain)}"


def sender_key(address: str) -> str:
    """Return a sender's address as rules are compared with it; what follows a plus counts.

    Raises: AddressInvalid.
    """
    local, _, domain = address.rpartition("@")
    return f"{_local(local, _LONGEST_SENDER)}@{domain_key(domain)}"


def make_local(random: bytes) -> str:
    """Return the part before the ``@`` of a new address, from 10 random bytes."""
    if len(random) != RANDOM_BYTES:
        message = f"an address is made of {RANDOM_BYTES} random bytes, not {len(random)}"
        raise ValueError(message)
    number = int.from_bytes(random, "big")
    shifts = range(RANDOM_BYTES * 8 - _BITS, -1, -_BITS)
    return "".join(_ALPHABET[number >> shift & 31] for shift in shifts)


def is_plain(text: str, longest: int) -> bool:
    """Say whether a text is there, not too long, and without control characters."""
    return 1 <= len(text) <= longest and _CONTROLS.search(text) is None


def _local(text: str, longest: int) -> str:
    """Return the part before the ``@`` with all its spellings made one."""
    if not 1 <= len(text) <= longest:
        raise AddressInvalid(_REMEDY)
    key = text.lower() if text.isascii() else _folded(text)
    if len(key.encode()) > longest or not _LOCAL.fullmatch(key):
        raise AddressInvalid(_REMEDY)
    return key


def _folded(text: str) -> str:
    """Return a text without case and in NFC, if it has only letters, marks and digits.

    Forms for compatibility, such as full-width letters, are refused: they look like others.
    """
    key = unicodedata.normalize("NFC", unicodedata.normalize("NFD", text).casefold())
    strange = any(unicodedata.category(each)[0] not in "LMN" for each in key if each > "\x7f")
    if strange or unicodedata.normalize("NFKC", key) != key:
        raise AddressInvalid(_REMEDY)
    return key


_REMEDY = (
    "that is no address we take; write letters, digits and single . _ - before the @, "
    "such as orders@inbox.example.com"
)
