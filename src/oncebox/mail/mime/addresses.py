"""Addresses: domain names in ASCII (IDNA), mailboxes of a field, the one sender in From.

A From that programs may read differently is ambiguous, and matches no rule about senders.
"""

import re
import unicodedata
from email.utils import getaddresses

import idna
import msgspec

from oncebox.mail.mime import header_fields
from oncebox.model.inboxes.received_mail import HeaderAddress, ParsedSender, SenderStatus

_LONGEST_NAME = 253
#: a host name, or a DNS name such as ``_dmarc.example.com``
_DNS_LABEL = re.compile(r"[a-z0-9_](?:[a-z0-9_-]{0,61}[a-z0-9_])?")


def ascii_domain(text: str) -> str:
    """Return a domain in lower case and ASCII, without the last dot; empty if invalid."""
    if len(text) > _LONGEST_NAME + 1:
        return ""
    name = text.removesuffix(".").lower()
    if not name.isascii():
        try:
            name = idna.encode(name, uts46=True).decode("ascii")
        except (ValueError, IndexError):  # ValueError is a base class of idna's errors
            return ""
    fits = 0 < len(name) <= _LONGEST_NAME and all(map(_DNS_LABEL.fullmatch, name.split(".")))
    return name if fits else ""


#: quoted text, parentheses, one special character, white space, or other text
_TOKEN = re.compile(
    r'"((?:[^"\\]++|\\.)*+)("?)|([()<>@,;:\\\[\]])|([ \t]++)|([^"()<>@,;:\\\[\] \t]++)'
)
_ESCAPED = re.compile(r"\\(.)", re.DOTALL)
_ATOM = re.compile(
    r"[^\x00-\x20\x7f-\x9f\"(),:;<>@\[\\\].]+(?:\.[^\x00-\x20\x7f-\x9f\"(),:;<>@\[\\\].]+)*"
)
_LONGEST_LOCAL = 64


class MailboxList(msgspec.Struct):
    """The mailboxes of a field."""

    found: list[HeaderAddress]
    #: programs may read it differently
    ambiguous: bool = False
    #: it has a name without an address
    incomplete: bool = False


class _MailboxEntry:
    """The tokens between two commas."""

    __slots__ = ("ambiguous", "angle", "bare", "comments", "inside", "phrase")

    def __init__(self) -> None:
        #: the words before the angle bracket, the text inside, and the comments
        self.phrase: list[str] = []
        self.inside: list[str] = []
        self.comments: list[str] = []
        #: the same verbatim, for an address without brackets
        self.bare: list[str] = []
        #: before, inside or after the brackets
        self.angle = 0
        self.ambiguous = False


def read_mailboxes(text: str, warnings: set[str]) -> MailboxList:
    """Return the mailboxes of an unfolded but undecoded field.

    Encoded words are decoded only in names, after splitting: an encoded comma or address is part
    of a name.
    """
    result = MailboxList([])
    entry = _MailboxEntry()
    depth = 0
    group = False
    for quoted, closed, special, space, word in _TOKEN.findall(text):
        if depth:
            depth += {"(": 1, ")": -1}.get(special, 0)
            entry.comments.append(special if special != ")" or depth else " ")
            entry.comments.append(quoted or space or word)
        elif special == "(":
            depth = 1
        elif special in {",", ";"} and entry.angle != 1:
            _finish_entry(entry, result, warnings)
            group = group and special == ","
            result.ambiguous = result.ambiguous or special == ";"
            entry = _MailboxEntry()
        elif special == ":" and entry.angle == 0:
            result.ambiguous = group = True
            entry = _MailboxEntry()
        else:
            _add_token(entry, (quoted, closed, special, space, word))
    result.ambiguous = result.ambiguous or bool(depth) or group
    _finish_entry(entry, result, warnings)
    return result


def _add_token(entry: _MailboxEntry, token: tuple[str, str, str, str, str]) -> None:
    quoted, closed, special, space, word = token
    if special in {"<", ">"}:
        wanted = 0 if special == "<" else 1
        entry.ambiguous = entry.ambiguous or entry.angle != wanted
        entry.angle = max(entry.angle, wanted + 1)
        return
    is_quoted = not (special or space or word)
    plain = _ESCAPED.sub(r"\1", quoted) if is_quoted else special or space or word
    if is_quoted and not closed:
        entry.ambiguous = True
    if entry.angle == 1:
        entry.inside.append(plain)
        entry.ambiguous = entry.ambiguous or bool(space)
    elif entry.angle:
        entry.ambiguous = entry.ambiguous or not space
    else:
        entry.phrase.append(plain)
        entry.bare.append(" " if space else plain)
        if special and special != "@":
            entry.ambiguous = True


def _finish_entry(entry: _MailboxEntry, result: MailboxList, warnings: set[str]) -> None:
    comments = "".join(entry.comments).strip()
    if entry.angle:
        name = "".join(entry.phrase).strip()
        spec = "".join(entry.inside)
        entry.ambiguous = entry.ambiguous or entry.angle == 1 or "@" in entry.phrase
    else:
        name = comments
        spec = "".join(entry.bare).strip()
    if not spec and not name:
        return  # empty entry
    address = normalize_address(spec)
    result.ambiguous = result.ambiguous or entry.ambiguous
    if address is None:
        result.incomplete = True
        return
    decoded = header_fields.decode_encoded_words(name, warnings) if "=?" in name else name
    result.found.append(HeaderAddress(name=" ".join(decoded.split()), address=address))


def normalize_address(spec: str) -> str | None:
    """Return an address with its domain in lower case and as A-labels; None if invalid."""
    local, at, domain = spec.rpartition("@")
    if not at or not 0 < len(local) <= _LONGEST_LOCAL or not _ATOM.fullmatch(local):
        return None
    if "=?" in local:
        return None  # encoded words are not allowed in addresses
    name = "" if domain.endswith(".") else ascii_domain(domain)
    return f"{local}@{name}" if name else None


#: text that may be mistaken for an address
_ADDRESS_LIKE = re.compile(r"[^\s\"<>(),:;@]+\s*@\s*[^\s\"<>(),:;@.]+\.[^\s\"<>(),:;@]+")
_INVISIBLE = re.compile(
    "[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f\u200b-\u200f\u2028-\u202e\u2060-\u206f\ufeff]"
)
#: longest From field
_LONGEST_FROM = 2_000
_MISSING = ParsedSender()
_AMBIGUOUS = ParsedSender(standing=SenderStatus.AMBIGUOUS)


def read_sender(fields: list[bytes], warnings: set[str], *, ambiguous: bool) -> ParsedSender:
    """Return the sender of the From fields; ``ambiguous`` says that the header is."""
    if not fields and not ambiguous:
        return _MISSING
    sender = _AMBIGUOUS
    if len(fields) == 1 and not ambiguous and len(fields[0]) <= _LONGEST_FROM:
        sender = _single_sender(header_fields.unfold(fields[0], warnings), warnings)
    if sender.standing is SenderStatus.AMBIGUOUS:
        warnings.add("from_ambiguous")
    return sender


def _single_sender(text: str, warnings: set[str]) -> ParsedSender:
    mailboxes = read_mailboxes(text, warnings)
    decoded = header_fields.decode_encoded_words(text, warnings) if "=?" in text else text
    if not mailboxes.found and "@" not in unicodedata.normalize("NFKC", decoded):
        return _MISSING  # no program reads an address here
    if len(mailboxes.found) != 1 or mailboxes.ambiguous or mailboxes.incomplete:
        return _AMBIGUOUS
    mailbox = mailboxes.found[0]
    if _INVISIBLE.search(decoded) or not _other_parsers_agree(text, decoded, mailbox):
        return _AMBIGUOUS
    return ParsedSender(
        address=mailbox.address,
        name=mailbox.name,
        domain=mailbox.address.rpartition("@")[2],
        standing=SenderStatus.SINGLE,
    )


def _other_parsers_agree(text: str, decoded: str, mailbox: HeaderAddress) -> bool:
    """Say whether the field has no other address, and a second parser agrees."""
    shown = unicodedata.normalize("NFKC", f"{decoded} {mailbox.name}")
    for found in _ADDRESS_LIKE.findall(shown):
        seen = normalize_address("".join(found.split()).strip(".'"))
        if seen is None or seen.lower() != mailbox.address.lower():
            return False
    others = [address for _, address in getaddresses([text])]
    return len(others) == 1 and normalize_address(others[0]) == mailbox.address
