"""IMAP responses: a bounded parser without I/O for what a server sends (RFC 3501, RFC 9051).

Bytes are fed in pieces of any size. Lines, literals and nesting have limits, and a literal is held
only as far as it has arrived. See docs/decisions/0053-use-an-own-asyncio-connection-for-imap.md.
"""

import base64
import re
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime, timedelta, timezone
from typing import Union

import msgspec

from oncebox.mailboxes.reader import MailboxFailure

#: bytes of the text of one response, without literals
MAX_TEXT_BYTES = 2 * 1024 * 1024
#: bytes of the literals of one response, unless a command allows more
MAX_LITERAL_BYTES = 65_536
_MAX_LITERALS = 200
_MAX_DEPTH = 12
MAX_UID = 2**32 - 1

_LITERAL = re.compile(rb"~?\{([0-9]{1,20})\+?\}\Z")
_RESPONSE = re.compile(
    rb"(\*|[A-Za-z0-9]{1,32}) (?:([0-9]{1,20}) )?([A-Za-z][A-Za-z0-9.-]{0,40})(?: (.*)|)", re.DOTALL
)
_CODE = re.compile(rb"\[([A-Za-z0-9.-]{1,40})(?: ([^\]]*))?\] ?(.*)", re.DOTALL)
_TOKEN = re.compile(rb' *(?:([()])|"((?:[^"\\]|\\.)*)"|([^ ()"]+))', re.DOTALL)
_ESCAPED = re.compile(rb"\\(.)", re.DOTALL)
_STATUS_KINDS = frozenset({"OK", "NO", "BAD", "BYE", "PREAUTH"})
_UID_SET = re.compile(rb"[0-9]{1,10}(?::[0-9]{1,10})?(?:,[0-9]{1,10}(?::[0-9]{1,10})?)*")

#: an atom or string, NIL, or a list in parentheses
Value = Union[bytes, None, list["Value"]]  # noqa: UP007 - a recursive alias


class AnswerInvalid(MailboxFailure):
    """The bytes are no IMAP response."""

    def __init__(self) -> None:
        super().__init__("answer_invalid")


class AnswerTooLarge(MailboxFailure):
    """The server sends more than was asked for."""

    def __init__(self) -> None:
        super().__init__("answer_too_large")


class ImapResponse(msgspec.Struct, frozen=True, kw_only=True):
    """One response."""

    #: ``*``, ``+`` or the tag of a command
    tag: bytes
    #: such as ``OK`` or ``FETCH``; empty for ``+``
    kind: str = ""
    #: of a message, or a count
    number: int = 0
    #: of a status response, such as ``UIDVALIDITY``
    code: str = ""
    code_text: bytes = b""
    #: the data in turns: text, literal, text, …
    parts: tuple[bytes, ...] = ()

    def __repr__(self) -> str:
        return f"ImapResponse({self.kind}, code={self.code!r})"

    def values(self) -> list[Value]:
        """Return the data as atoms, strings and lists.

        Raises: AnswerInvalid.
        """
        return parse_values(self.parts)

    @property
    def text(self) -> bytes:
        """The text of a status response; never shown."""
        return self.parts[0] if self.parts else b""


class ImapResponseParser:
    """Cuts a stream of bytes into responses."""

    def __init__(self) -> None:
        #: bytes of the literals of one response; a command may change it
        self.max_literal = MAX_LITERAL_BYTES
        #: bytes of all responses so far
        self.consumed = 0
        self._buffer = bytearray()
        #: no line end before this position
        self._scanned = 0
        self._parts: list[bytes] = []
        self._text_bytes = 0
        self._literal_bytes = 0
        #: bytes of the literal that follows
        self._literal: int | None = None

    @property
    def buffered(self) -> int:
        """Bytes that are not part of a response yet."""
        return len(self._buffer)

    @property
    def needed(self) -> int:
        """Bytes that may be buffered before the next response must be read."""
        return (self._literal or 0) + MAX_LITERAL_BYTES

    @property
    def is_empty(self) -> bool:
        """Whether nothing of another response was received."""
        return not self._buffer and not self._parts

    def feed(self, data: bytes) -> None:
        """Add received bytes."""
        self._buffer += data

    def next_response(self) -> ImapResponse | None:
        """Return a complete response; None until there is one.

        Raises: AnswerInvalid, AnswerTooLarge.
        """
        while self._take_literal() and (line := self._take_line()) is not None:
            size = _literal_size(line) if _may_end_in_literal(self._parts or [line]) else None
            if size is None:
                parts, self._parts = [*self._parts, line], []
                self._text_bytes = self._literal_bytes = 0
                return parse_response(parts)
            self._begin_literal(line, size)
        return None

    def _begin_literal(self, line: bytes, size: int) -> None:
        self._literal_bytes += size
        if self._literal_bytes > self.max_literal or len(self._parts) > 2 * _MAX_LITERALS:
            raise AnswerTooLarge
        self._parts.append(line[: line.rindex(b"{")].removesuffix(b"~"))
        self._literal = size

    def _take_literal(self) -> bool:
        """Remove the literal from the buffer; False if it is incomplete."""
        if self._literal is None:
            return True
        if len(self._buffer) < self._literal:
            return False
        with memoryview(self._buffer) as view:
            self._parts.append(bytes(view[: self._literal]))
        self._discard(self._literal)
        self._literal = None
        return True

    def _take_line(self) -> bytes | None:
        """Remove a line from the buffer; None if it is incomplete."""
        end = self._buffer.find(b"\n", self._scanned)
        length = end if end >= 0 else len(self._buffer)
        if self._text_bytes + length > MAX_TEXT_BYTES:
            raise AnswerTooLarge
        if end < 0:
            self._scanned = length
            return None
        line = bytes(self._buffer[:end]).removesuffix(b"\r")
        self._text_bytes += length
        self._discard(end + 1)
        return line

    def _discard(self, size: int) -> None:
        del self._buffer[:size]
        self.consumed += size
        self._scanned = 0


def _may_end_in_literal(parts: Sequence[bytes]) -> bool:
    """Tell whether a response is data: the text of a status may end in braces."""
    first = _RESPONSE.fullmatch(parts[0])
    return bool(first and first[1] == b"*" and first[3].decode().upper() not in _STATUS_KINDS)


def _literal_size(line: bytes) -> int | None:
    found = _LITERAL.search(line)
    return int(found[1]) if found else None


def parse_response(parts: Sequence[bytes]) -> ImapResponse:
    """Return the response of a line, with its literals.

    Raises: AnswerInvalid.
    """
    if parts[0].startswith(b"+"):
        return ImapResponse(tag=b"+", parts=(parts[0][1:].strip(),))
    found = _RESPONSE.fullmatch(parts[0])
    if found is None:
        raise AnswerInvalid
    tag, number, kind, rest = found[1], int(found[2] or 0), found[3].decode().upper(), found[4]
    if number > MAX_UID or (tag != b"*" and kind not in _STATUS_KINDS):
        raise AnswerInvalid
    if kind in _STATUS_KINDS:
        return _status_response(tag, kind, rest or b"")
    return ImapResponse(tag=tag, kind=kind, number=number, parts=(rest or b"", *parts[1:]))


def _status_response(tag: bytes, kind: str, text: bytes) -> ImapResponse:
    found = _CODE.fullmatch(text)
    if found is None:
        return ImapResponse(tag=tag, kind=kind, parts=(text,))
    return ImapResponse(
        tag=tag,
        kind=kind,
        code=found[1].decode().upper(),
        code_text=found[2] or b"",
        parts=(found[3],),
    )


def parse_values(parts: Sequence[bytes]) -> list[Value]:
    """Return data as nested lists; ``parts`` are text and literals in turns.

    Raises: AnswerInvalid.
    """
    stack: list[list[Value]] = [[]]
    for position, part in enumerate(parts):
        if position % 2:
            stack[-1].append(part)
        else:
            _parse_text(part, stack)
    if len(stack) != 1:
        raise AnswerInvalid
    return stack[0]


def _parse_text(text: bytes, stack: list[list[Value]]) -> None:
    position, end = 0, len(text.rstrip(b" "))
    while position < end:
        token = _TOKEN.match(text, position)
        if token is None:
            raise AnswerInvalid
        position = token.end()
        if token[1] == b"(":
            opened: list[Value] = []
            stack[-1].append(opened)
            stack.append(opened)
        elif token[1] == b")":
            stack.pop()
        else:
            stack[-1].append(_scalar(token))
        if not 0 < len(stack) <= _MAX_DEPTH:
            raise AnswerInvalid


def _scalar(token: re.Match[bytes]) -> bytes | None:
    if token[2] is not None:
        quoted: bytes = token[2]
        return _ESCAPED.sub(rb"\1", quoted) if b"\\" in quoted else quoted
    atom: bytes = token[3]
    return None if atom.upper() == b"NIL" else atom


def fetch_items(response: ImapResponse) -> dict[str, Value]:
    """Return the items of a FETCH response by name.

    Raises: AnswerInvalid.
    """
    values = response.values()
    items = values[0] if values else None
    if not isinstance(items, list) or len(items) % 2:
        raise AnswerInvalid
    return {to_text(name).upper(): value for name, value in zip(*[iter(items)] * 2, strict=True)}


def search_uids(response: ImapResponse, lowest: int, highest: int) -> Iterator[int]:
    """Yield the uids of a SEARCH or ESEARCH response within bounds.

    Raises: AnswerInvalid.
    """
    if response.kind == "SEARCH":
        for each in response.parts[0].split():
            if each.startswith(b"("):  # (MODSEQ 5) follows the last one
                return
            if lowest <= (uid := to_number(each)) <= highest:
                yield uid
        return
    values = response.values()
    if b"ALL" in values[:-1]:
        found = values[values.index(b"ALL") + 1]
        yield from _uids_of_set(found, lowest, highest)


def _uids_of_set(text: Value, lowest: int, highest: int) -> Iterator[int]:
    if not isinstance(text, bytes) or not _UID_SET.fullmatch(text):
        raise AnswerInvalid
    for each in text.split(b","):
        first, _, last = each.partition(b":")
        ends = sorted((to_number(first), to_number(last or first)))
        yield from range(max(ends[0], lowest), min(ends[1], highest) + 1)


def to_number(value: Value, *, most: int = MAX_UID) -> int:
    """Return a number of the protocol.

    Raises: AnswerInvalid.
    """
    if not isinstance(value, bytes) or not value.isdigit() or len(value) > 20:  # noqa: PLR2004
        raise AnswerInvalid
    number = int(value)
    if number > most:
        raise AnswerInvalid
    return number


def to_text(value: Value) -> str:
    """Return an atom or string.

    Raises: AnswerInvalid.
    """
    if not isinstance(value, bytes):
        raise AnswerInvalid
    return value.decode("utf-8", "replace")


_DATE = re.compile(
    rb" ?([0-9]{1,2})-([A-Za-z]{3})-([0-9]{4}) ([0-9]{2}):([0-9]{2}):([0-9]{2}) "
    rb"([+-])([0-9]{2})([0-9]{2})"
)
_MONTHS = ("Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec")


def parse_date(value: Value) -> int | None:
    """Return an INTERNALDATE in milliseconds since 1970; None if it is invalid or earlier."""
    found = _DATE.fullmatch(value) if isinstance(value, bytes) else None
    month = found[2].decode().capitalize() if found else ""
    if found is None or month not in _MONTHS:
        return None
    sign = -1 if found[7] == b"-" else 1
    day, year, hour, minute, second = (int(found[each]) for each in (1, 3, 4, 5, 6))
    try:
        zone = timezone(sign * timedelta(hours=int(found[8]), minutes=int(found[9])))
        moment = datetime(
            year, _MONTHS.index(month) + 1, day, hour, minute, min(second, 59), tzinfo=zone
        )
    except ValueError:
        return None
    milliseconds = int(moment.timestamp() * 1000)
    return milliseconds if milliseconds >= 0 else None


def search_date(milliseconds: int) -> bytes:
    """Return the day before a moment, for SEARCH SINCE: servers use the day of their own zone."""
    day = datetime.fromtimestamp(milliseconds / 1000, UTC) - timedelta(days=1)
    return f"{day.day}-{_MONTHS[day.month - 1]}-{day.year:04}".encode()


def uid_set(uids: Sequence[int]) -> bytes:
    """Return ascending uids as a set such as ``1:3,7``."""
    ranges: list[list[int]] = []
    for uid in uids:
        if ranges and ranges[-1][1] == uid - 1:
            ranges[-1][1] = uid
        else:
            ranges.append([uid, uid])
    return b",".join(b"%d" % a if a == b else b"%d:%d" % (a, b) for a, b in ranges)


def encode_folder(name: str) -> bytes:
    """Return a folder name as a quoted string, in modified UTF-7 (RFC 3501, 5.1.3)."""
    encoded = _NOT_ASCII.sub(_encode_run, name.replace("&", "&-"))
    return b'"%s"' % encoded.replace("\\", "\\\\").replace('"', '\\"').encode()


def decode_folder(name: bytes) -> str:
    """Return the name of a folder; one that is not in modified UTF-7 is returned as it is."""
    text = name.decode("utf-8", "replace")
    try:
        return _ENCODED.sub(_decode_run, text)
    except (UnicodeError, ValueError):
        return text


_NOT_ASCII = re.compile("[^\x20-\x7e]+")
_ENCODED = re.compile("&([A-Za-z0-9+,]*)-")


def _encode_run(found: re.Match[str]) -> str:
    run = base64.b64encode(found[0].encode("utf-16-be")).decode()
    return "&" + run.rstrip("=").replace("/", ",") + "-"


def _decode_run(found: re.Match[str]) -> str:
    if not found[1]:
        return "&"
    padded = found[1].replace(",", "/") + "=" * (-len(found[1]) % 4)
    return base64.b64decode(padded).decode("utf-16-be")
