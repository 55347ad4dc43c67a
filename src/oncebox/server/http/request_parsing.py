"""HTTP/1.1 request framing without I/O: strict heads, bodies of exactly the announced length.

httptools reads one complete head at a time, with a new parser for each; it never sees a body. So
nothing it does behind a head (skip the body of an upgrade, merge trailer fields into the headers,
parse ahead) can happen. Where a request ends is decided here alone, from a checked Content-Length
or by decoding chunks. See docs/decisions/0040-use-one-http-front-end-with-exact-framing.md.
"""

import re
from collections.abc import Callable, Iterable
from functools import lru_cache
from typing import NamedTuple
from urllib.parse import unquote

from httptools import HttpParserError, HttpParserUpgrade, HttpRequestParser, parse_url

from oncebox.errors.http import HeadersTooLarge, RequestMalformed

Fields = list[tuple[bytes, bytes]]

_CRLF = b"\r\n"
_HEAD_END = b"\r\n\r\n"
_VERSIONS = {b" HTTP/1.1": "1.1", b" HTTP/1.0": "1.0"}
_VERSION_SIZE = 9
#: fields that may occur only once
_SINGLE_FIELDS = frozenset({
    b"authorization", b"content-length", b"content-type", b"host", b"transfer-encoding",
})  # fmt: skip
#: names that some readers, which take an underscore for a hyphen, take for a body's framing
_DISGUISED_FIELDS = frozenset({b"content_length", b"transfer_encoding"})
#: fields that would change how a request is framed, routed, authenticated or understood, were a
#: trailer merged (RFC 9110, 6.5.1)
_NOT_IN_TRAILERS = frozenset({
    b"authorization", b"cache-control", b"connection", b"content-encoding", b"content-length",
    b"content-range", b"cookie", b"expect", b"host", b"if-match",
    b"if-modified-since", b"if-none-match", b"if-range", b"if-unmodified-since", b"keep-alive",
    b"max-forwards", b"pragma", b"proxy-authorization", b"proxy-connection", b"range",
    b"set-cookie", b"te", b"trailer", b"transfer-encoding", b"upgrade",
})  # fmt: skip
_HOST = re.compile(rb"(?:[A-Za-z0-9._~%-]*|\[[0-9A-Fa-f:.]+\])(?::[0-9]{0,5})?")
#: no head begins or goes on like this, however much of it is still to come
_NO_HEAD = re.compile(rb"\A[^A-Za-z]|(?<!\r)\n|\r[^\n]|\x00")
#: the bytes of a head, but for the ends of its lines
_TEXT_BYTES = bytes({*b"\t", *range(0x20, 0x7F), *range(0x80, 0x100)})
_CHUNK_LINE = re.compile(rb"([0-9A-Fa-f]{1,16})(?:[ \t]*;[\t\x20-\x7e\x80-\xff]*)?")
_FIELD_LINE = re.compile(rb"([!#$%&'*+\-.^_`|~0-9A-Za-z]+):[\t\x20-\x7e\x80-\xff]*")
#: bytes of a request target, and of one field
_MAX_TARGET = 4_096
_MAX_FIELD = 8_000
_MAX_SIZE_DIGITS = 16
#: chunks of a body; each costs time, however small it is
_MAX_CHUNKS = 50_000
_MAX_LENGTH_DIGITS = 18


class HeadLimits(NamedTuple):
    """Limits of a head; trailer fields and chunk extensions together have the same size limit."""

    size: int
    fields: int


class RequestHead(NamedTuple):
    """A request line and its fields, checked."""

    method: str
    #: decoded; ``raw_path`` is as it was sent
    path: str
    raw_path: bytes
    query: bytes
    version: str
    #: names in lower case, in the order sent
    fields: Fields
    #: of a field that occurs several times, the last value
    by_name: dict[bytes, bytes]
    #: bytes of the body; None: it is chunked
    length: int | None
    #: whether the client wants to send another request
    keep_alive: bool


class _HeadSink:
    """What httptools calls while it reads a head: methods of built-in types, which cost least."""

    __slots__ = ("on_header", "on_url")

    def __init__(
        self,
        on_url: Callable[[bytes], object],
        on_header: Callable[[bytes, bytes], object],
    ) -> None:
        self.on_url = on_url
        self.on_header = on_header


def find_head(data: bytes, searched: int, limits: HeadLimits) -> int:
    """Return the size of the head at the beginning of data, or 0 if it is not complete.

    ``searched`` bytes of it were searched before.

    Raises: HeadersTooLarge; RequestMalformed, as soon as no head can come of it.
    """
    end = data.find(_HEAD_END, max(0, searched - 3), limits.size)
    if end >= 0:
        return end + len(_HEAD_END)
    # What is wrong first decides, as it would if the bytes came one by one.
    if _NO_HEAD.search(data, max(0, searched - 1), limits.size + 1):
        raise RequestMalformed
    if len(data) > limits.size:
        raise HeadersTooLarge
    return 0


def parse_head(head: bytes, limits: HeadLimits) -> RequestHead:
    """Return a complete head, if it can be understood in one way only.

    Raises: RequestMalformed, HeadersTooLarge.
    """
    target, fields = _read_fields(head)
    by_name = dict(fields)
    method, version = _read_line(head, target)
    if not _DISGUISED_FIELDS.isdisjoint(by_name) or not _is_host(by_name.get(b"host"), version):
        raise RequestMalformed
    if len(by_name) < len(fields) and _repeats_single(fields):
        raise RequestMalformed
    if len(fields) > limits.fields or (len(head) > _MAX_TARGET and _is_large(target, fields)):
        raise HeadersTooLarge
    raw_path, query = _split_target(target, method)
    path = raw_path.decode("ascii")
    return RequestHead(
        method,
        unquote(path) if "%" in path else path,
        raw_path,
        query,
        version,
        fields,
        by_name,
        _body_length(by_name, version),
        _keeps_alive(fields, version) if b"connection" in by_name else version == "1.1",
    )


def _read_fields(head: bytes) -> tuple[bytes, Fields]:
    """Return the target and the fields that httptools finds; every line must be one of them."""
    targets: list[bytes] = []
    by_sent_name: dict[bytes, bytes] = {}
    _feed(head, _HeadSink(targets.append, by_sent_name.setdefault))
    sent: Iterable[tuple[bytes, bytes]] = by_sent_name.items()
    line_ends = head.translate(None, _TEXT_BYTES)
    if line_ends != _CRLF * (len(by_sent_name) + 2):
        sent = _repeated_fields(head)
        if line_ends != _CRLF * (len(sent) + 2):
            raise RequestMalformed
    return b"".join(targets), [(name.lower(), value.rstrip(b" \t")) for name, value in sent]


def _repeated_fields(head: bytes) -> Fields:
    """Return all fields of a head in which one name occurs several times."""
    sent: Fields = []
    _feed(head, _HeadSink(len, lambda name, value: sent.append((name, value))))
    return sent


def _feed(head: bytes, sink: _HeadSink) -> None:
    try:
        HttpRequestParser(sink).feed_data(head)
    except HttpParserUpgrade:
        pass  # an offer to upgrade may be ignored: the request is answered as HTTP/1.1
    except HttpParserError as error:
        raise RequestMalformed from error


def _read_line(head: bytes, target: bytes) -> tuple[str, str]:
    """Return method and version; nothing but one blank is before and behind the target."""
    line_end = head.find(_CRLF)
    method_end = head.find(b" ")
    version = _VERSIONS.get(head[line_end - _VERSION_SIZE : line_end], "")
    # httptools ignores line ends before a head, and repeated blanks
    is_exact = method_end + 1 + len(target) + _VERSION_SIZE == line_end
    if not version or not is_exact or not head[:1].isalpha():
        raise RequestMalformed
    return head[:method_end].decode("ascii"), version


def _repeats_single(fields: Fields) -> bool:
    names = [name for name, _ in fields if name in _SINGLE_FIELDS]
    return len(names) > len(set(names))


def _is_large(target: bytes, fields: Fields) -> bool:
    return len(target) > _MAX_TARGET or any(
        len(name) + len(value) > _MAX_FIELD for name, value in fields
    )


@lru_cache(64)
def _is_host(host: bytes | None, version: str) -> bool:
    return version == "1.0" if host is None else _HOST.fullmatch(host) is not None


def _split_target(target: bytes, method: str) -> tuple[bytes, bytes]:
    """Return path and query of a target in origin or absolute form, or the asterisk of OPTIONS."""
    if method == "CONNECT":
        raise RequestMalformed
    if target == b"*" and method == "OPTIONS":
        return target, b""
    if not target.startswith(b"/"):
        if not target.lower().startswith((b"http://", b"https://")):
            raise RequestMalformed
        try:
            target = _without_authority(target)
        except HttpParserError as error:
            raise RequestMalformed from error
    path, _, query = target.partition(b"#")[0].partition(b"?")
    return path, query


def _without_authority(target: bytes) -> bytes:
    url = parse_url(target)
    return (url.path or b"/") + (b"?" + url.query if url.query else b"")


def _body_length(by_name: dict[bytes, bytes], version: str) -> int | None:
    coding, length = by_name.get(b"transfer-encoding"), by_name.get(b"content-length")
    if coding is not None:
        if length is not None or version != "1.1" or coding.lower() != b"chunked":
            raise RequestMalformed
        return None
    if length is None:
        return 0
    if not length.isdigit() or len(length) > _MAX_LENGTH_DIGITS:
        raise RequestMalformed
    return int(length)


def _keeps_alive(fields: Fields, version: str) -> bool:
    listed = b",".join(value for name, value in fields if name == b"connection")
    options = {option.strip() for option in listed.lower().split(b",")}
    return b"close" not in options and (version == "1.1" or b"keep-alive" in options)


class LengthBody:
    """Takes a body of a known length out of what a connection receives."""

    __slots__ = ("_missing", "done")

    def __init__(self, length: int) -> None:
        self._missing = length
        self.done = not length

    def take(self, data: bytes) -> tuple[bytes, bytes]:
        """Return the part of data that belongs to the body, and what follows the body."""
        if len(data) < self._missing:
            self._missing -= len(data)
            return data, b""
        body, rest = data[: self._missing], data[self._missing :]
        self._missing, self.done = 0, True
        return body, rest


class ChunkedBody:
    """Decodes a chunked body; drops chunk extensions and trailer fields, within limits."""

    __slots__ = ("_chunks", "_extra", "_held", "_left", "_max_extra", "_read_line", "done")

    def __init__(self, max_extra: int) -> None:
        self._max_extra = max_extra
        #: bytes of extensions and trailer fields so far
        self._extra = 0
        self._chunks = 0
        #: an incomplete line
        self._held = b""
        #: bytes still to come of a chunk
        self._left = 0
        #: reads the next line
        self._read_line: Callable[[bytes], None] = self._read_size
        self.done = False

    def take(self, data: bytes) -> tuple[bytes, bytes]:
        """Return the part of the body found in data, and what follows the body.

        Raises: RequestMalformed, HeadersTooLarge.
        """
        data, self._held = self._held + data, b""
        at, pieces = 0, []
        while not self.done:
            if self._left:
                piece = data[at : at + self._left]
                if not piece:
                    break
                pieces.append(piece)
                at += len(piece)
                self._left -= len(piece)
                continue
            end = data.find(_CRLF, at)
            # An incomplete line may end by the CR of its end.
            size = (len(data) - data.endswith(b"\r") if end < 0 else end) - at
            try:
                self._check_size(size)
                if end < 0:
                    self._held = data[at:]
                    break
                self._read_line(data[at:end])
            except (RequestMalformed, HeadersTooLarge):
                if not pieces:
                    raise
                return b"".join(pieces), data[at:]  # first what came before the error
            at = end + len(_CRLF)
        return b"".join(pieces), data[at:] if self.done else b""

    def _check_size(self, size: int) -> None:
        """Make sure that a line, complete or not, is within the limit."""
        if self._extra + size > self._max_extra + _MAX_SIZE_DIGITS:
            raise HeadersTooLarge

    def _read_size(self, line: bytes) -> None:
        match = _CHUNK_LINE.fullmatch(line)
        if match is None:
            raise RequestMalformed
        self._extra += len(line) - len(match[1])
        self._chunks += 1
        if self._chunks > _MAX_CHUNKS:
            raise HeadersTooLarge
        self._left = int(match[1], 16)
        self._read_line = self._read_chunk_end if self._left else self._read_trailer

    def _read_chunk_end(self, line: bytes) -> None:
        if line:
            raise RequestMalformed
        self._read_line = self._read_size

    def _read_trailer(self, line: bytes) -> None:
        if not line:
            self.done = True
            return
        match = _FIELD_LINE.fullmatch(line)
        if match is None or match[1].lower().replace(b"_", b"-") in _NOT_IN_TRAILERS:
            raise RequestMalformed
        self._extra += len(line)


def body_reader(head: RequestHead, limits: HeadLimits) -> LengthBody | ChunkedBody:
    """Return what takes the body of a request out of the bytes behind its head."""
    return ChunkedBody(limits.size) if head.length is None else LengthBody(head.length)
