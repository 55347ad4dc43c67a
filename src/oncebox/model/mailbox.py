"""Mailboxes: who a mail is from or for, as people write it: ``Ann Lee <ann@example.com>``.

One text is one mailbox. What another reader could take for two addresses, or for another one,
is refused: lists, groups, comments, routes, and names that look like an address.
"""

import re
import unicodedata
from functools import lru_cache

import msgspec

from oncebox.mail_errors import AddressInvalid
from oncebox.model.address import sender_key
from oncebox.model.domain import domain_key
from oncebox.model.envelope import recipient
from oncebox.send_errors import MailboxInvalid

_LONGEST = 1_000
_LONGEST_NAME = 200
#: an address is read a dozen times on its way, and the same ones come again
_REMEMBERED = 4_096
#: a name in quotes, or without them and without what has a meaning in address fields; the address
_NAMED = re.compile(r'(?:"((?:[^"\\]|\\.)*+)"|([^"<>()\[\]\\,;:@]*+)) ?<([^<>\s]++)>')
_ESCAPED = re.compile(r"\\(.)")
#: controls, and what is invisible or turns the direction of writing
_ODD = re.compile(
    "[\x00-\x1f\x7f-\x9f\u00ad\u034f\u061c\u115f\u1160\u17b4\u17b5\u180b-\u180f\u200b\u200e"
    "\u200f\u2028-\u202e\u2060-\u206f\u3164\ud800-\udfff\ufeff\uffa0\U000e0000-\U000e0fff]"
)
#: what joins letters or keeps them apart, in Persian or in emoji; in an address it is refused
_JOINERS = re.compile("[\u200c\u200d]")
#: what makes a part of a name look like an address
_MISLEADING = re.compile("[@<>]")
#: words that need no quotes
_ATOMS = re.compile(r"[A-Za-z0-9!#$%&'*+/=?^_`{|}~-]+(?: [A-Za-z0-9!#$%&'*+/=?^_`{|}~-]+)*")
_REMEDY = "write one address, such as ann@example.com or Ann Lee <ann@example.com>"


class Mailbox(msgspec.Struct, frozen=True):
    """One address, and the name that is shown with it."""

    #: empty if there is none
    name: str
    #: the local part as it was given, in NFC; the domain in lower case, as A-labels
    address: str

    def __str__(self) -> str:
        """Return it as it is written in JSON, and by people."""
        return f"{quoted(self.name)} <{self.address}>" if self.name else self.address

    @property
    def domain(self) -> str:
        """Return what stands behind the ``@``."""
        return self.address.rpartition("@")[2]

    @property
    def key(self) -> str:
        """Return what all spellings of the address have in common."""
        return _key(self.address)


@lru_cache(_REMEMBERED)
def read_mailbox(text: str) -> Mailbox:
    """Return the one mailbox that a text names.

    Raises: MailboxInvalid.
    """
    # As it was given, with its blanks: that is what is remembered.
    if len(text) > _LONGEST or _ODD.search(text):
        raise MailboxInvalid(f"an address is too long or has control characters; {_REMEDY}")
    text = text.strip(" ")
    found = _NAMED.fullmatch(text)
    if found is None:
        return Mailbox("", _address(text))
    name = found[2] if found[1] is None else _ESCAPED.sub(r"\1", found[1])
    return Mailbox(_name(name), _address(found[3]))


def quoted(name: str) -> str:
    """Return a name with quotes around it, if it needs them."""
    if _ATOMS.fullmatch(name):
        return name
    return '"' + name.replace("\\", "\\\\").replace('"', '\\"') + '"'


def _name(text: str) -> str:
    """Return a name with single spaces; one that looks like an address misleads whoever reads.

    Readers, ours among them, take a name with joiners in it for a forged one: they are left out.
    """
    name = " ".join(unicodedata.normalize("NFC", _JOINERS.sub("", text)).split())
    if len(name) > _LONGEST_NAME or _MISLEADING.search(unicodedata.normalize("NFKC", name)):
        raise MailboxInvalid(f"a name is too long or has an address in it; {_REMEDY}")
    return name


def _address(text: str) -> str:
    """Return an address that every server reads alike, and that has a key."""
    parts = recipient(text)
    if parts is None:
        raise MailboxInvalid(f"that is not one address; {_REMEDY}")
    local, domain = parts
    try:
        address = f"{local}@{domain_key(domain)}"
        sender_key(address)
    except AddressInvalid as error:
        raise MailboxInvalid(f"that is no address mail can be sent to; {_REMEDY}") from error
    return address


@lru_cache(_REMEMBERED)
def _key(address: str) -> str:
    return sender_key(address)
