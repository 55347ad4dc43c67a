"""Addresses: the mailboxes of a field, and whether every reader would find the same ones."""

import re

import idna
import msgspec

from oncebox.mail import words
from oncebox.model.message import Address

#: quoted text, comment brackets, one special character, white space, or anything else
_TOKEN = re.compile(
    r'"((?:[^"\\]++|\\.)*+)("?)|([()<>@,;:\\\[\]])|([ \t]++)|([^"()<>@,;:\\\[\] \t]++)'
)
_ESCAPED = re.compile(r"\\(.)", re.DOTALL)
_ATOM = re.compile(
    r"[^\x00-\x20\x7f-\x9f\"(),:;<>@\[\\\].]+(?:\.[^\x00-\x20\x7f-\x9f\"(),:;<>@\[\\\].]+)*"
)
_DOMAIN = re.compile(
    r"(?:[a-z0-9_](?:[a-z0-9_-]{0,61}[a-z0-9_])?\.)*[a-z0-9_](?:[a-z0-9_-]{0,61}[a-z0-9_])?"
)
_LONGEST_LOCAL, _LONGEST_DOMAIN = 64, 253


class Mailboxes(msgspec.Struct):
    """What a field holds."""

    found: list[Address]
    #: it is not spelled in the one way that all readers agree on
    doubtful: bool = False
    #: it has names, but not for every name an address
    incomplete: bool = False


class _Entry:
    """The tokens between two commas."""

    __slots__ = ("angle", "bare", "comments", "doubtful", "inside", "phrase")

    def __init__(self) -> None:
        #: words before the angle bracket, what is inside of it, and the comments
        self.phrase: list[str] = []
        self.inside: list[str] = []
        self.comments: list[str] = []
        #: the same without quotes and spaces put right, for an address without brackets
        self.bare: list[str] = []
        #: before, inside or behind the brackets
        self.angle = 0
        self.doubtful = False


def read(text: str, warnings: set[str]) -> Mailboxes:
    """Return the mailboxes of an unfolded but undecoded field.

    Encoded words are decoded only in names, after the field was taken apart: a comma or an
    address that somebody encoded is part of a name.
    """
    result = Mailboxes([])
    entry = _Entry()
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
            _finish(entry, result, warnings)
            group = group and special == ","
            result.doubtful = result.doubtful or special == ";"
            entry = _Entry()
        elif special == ":" and entry.angle == 0:
            result.doubtful = group = True
            entry = _Entry()
        else:
            _take(entry, (quoted, closed, special, space, word))
    result.doubtful = result.doubtful or bool(depth) or group
    _finish(entry, result, warnings)
    return result


def _take(entry: _Entry, token: tuple[str, str, str, str, str]) -> None:
    """Put a token where it belongs."""
    quoted, closed, special, space, word = token
    if special in {"<", ">"}:
        wanted = 0 if special == "<" else 1
        entry.doubtful = entry.doubtful or entry.angle != wanted
        entry.angle = max(entry.angle, wanted + 1)
        return
    is_quoted = not (special or space or word)
    plain = _ESCAPED.sub(r"\1", quoted) if is_quoted else special or space or word
    if is_quoted and not closed:
        entry.doubtful = True
    if entry.angle == 1:
        entry.inside.append(plain)
        entry.doubtful = entry.doubtful or bool(space)
    elif entry.angle:
        entry.doubtful = entry.doubtful or not space
    else:
        entry.phrase.append(plain)
        entry.bare.append(" " if space else plain)
        if special and special != "@":
            entry.doubtful = True


def _finish(entry: _Entry, result: Mailboxes, warnings: set[str]) -> None:
    """Make a mailbox of an entry."""
    comments = "".join(entry.comments).strip()
    if entry.angle:
        name = "".join(entry.phrase).strip()
        spec = "".join(entry.inside)
        entry.doubtful = entry.doubtful or entry.angle == 1 or "@" in entry.phrase
    else:
        name = comments
        spec = "".join(entry.bare).strip()
    if not spec and not name:
        return  # nothing between two commas
    address = normal(spec)
    result.doubtful = result.doubtful or entry.doubtful
    if address is None:
        result.incomplete = True
        return
    decoded = words.decode_words(name, warnings) if "=?" in name else name
    result.found.append(Address(name=" ".join(decoded.split()), address=address))


def normal(spec: str) -> str | None:
    """Return an address with its domain in lower case and as A-labels; None if it is none."""
    local, at, domain = spec.rpartition("@")
    if not at or not 0 < len(local) <= _LONGEST_LOCAL or not _ATOM.fullmatch(local):
        return None
    if "=?" in local:
        return None  # an encoded word has no place in an address
    name = normal_domain(domain)
    return None if name is None else f"{local}@{name}"


def normal_domain(domain: str) -> str | None:
    """Return a domain in lower case and as A-labels; None if it is none."""
    name = domain.lower()
    if not name.isascii():
        try:
            name = idna.encode(name, uts46=True).decode("ascii")
        except (idna.IDNAError, UnicodeError, ValueError, IndexError):
            return None
    if len(name) > _LONGEST_DOMAIN or not _DOMAIN.fullmatch(name):
        return None
    return name
