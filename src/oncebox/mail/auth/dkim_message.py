"""DKIM messages (RFC 6376): header fields and body, and their canonical forms.

Signing and verification share this module. Everything is linear in the size of the mail.
"""

import hashlib
import re
from collections.abc import Iterable, Sequence

#: name and value, with the value's line ends
HeaderField = tuple[bytes, bytes]

#: limits of a header: bytes, fields
MOST_HEADER = 256 * 1024
MOST_FIELDS = 1_000

_CRLF = b"\r\n"
_NAME = re.compile(rb"([\x21-\x39\x3b-\x7e]+):")


class AmbiguousHeader(Exception):
    """The header is too large, or programs may read it differently."""


class SignedMail:
    """The header fields and the body of one mail."""

    def __init__(self, raw: bytes) -> None:
        """Split the mail into header fields and body.

        Raises: AmbiguousHeader.
        """
        head, self._body = _header_and_body(raw)
        self.fields = _split_fields(head)
        self._digests: dict[tuple[bool, int | None], bytes] = {}
        self._forms: dict[bool, bytes] = {}

    def body_size(self, *, relaxed: bool) -> int:
        """Return the number of bytes in the canonical body."""
        return len(self._form(relaxed))

    def body_digest(self, *, relaxed: bool, length: int | None) -> bytes:
        """Return the SHA-256 of the canonical body, or of its beginning."""
        key = (relaxed, length)
        if key not in self._digests:
            self._digests[key] = hashlib.sha256(self._form(relaxed)[:length]).digest()
        return self._digests[key]

    def _form(self, relaxed: bool) -> bytes:  # noqa: FBT001 - the key of the cache
        if relaxed not in self._forms:
            self._forms[relaxed] = canonical_body(self._body, relaxed=relaxed)
        return self._forms[relaxed]


def canonical_body(body: bytes, *, relaxed: bool) -> bytes:
    """Return the body in the canonical form of RFC 6376, 3.4.3 or 3.4.4."""
    if body.count(b"\n") != body.count(_CRLF):
        body = body.replace(_CRLF, b"\n").replace(b"\n", _CRLF)
    if body and not body.endswith(_CRLF):
        body += _CRLF
    if relaxed:
        body = body.replace(b"\t", b" ")
        # Each round halves the gaps; a regular expression takes ten times as long.
        while b"  " in body:
            body = body.replace(b"  ", b" ")
        body = body.replace(b" \r\n", _CRLF)
    canonical = _without_empty_lines_at_end(body)
    if canonical or not relaxed:
        canonical += _CRLF
    return canonical


def _without_empty_lines_at_end(body: bytes) -> bytes:
    """Return the body without its last line end and without empty lines before that."""
    text = body.rstrip(_CRLF)
    # A CR without LF is text: everything up to the last one is kept.
    lone = body.rfind(b"\r\r", len(text))
    return text if lone < 0 else body[: lone + 1]


def _header_and_body(raw: bytes) -> tuple[bytes, bytes]:
    """Return header and body; the header must have line ends of one kind."""
    first = raw.find(b"\n")
    end = _CRLF if first > 0 and raw[first - 1 : first] == b"\r" else b"\n"
    if raw.startswith(end):
        return b"", raw[len(end) :]
    cut = raw.find(end + end)
    head, body = (raw, b"") if cut < 0 else (raw[:cut], raw[cut + 2 * len(end) :])
    head = head.removesuffix(end)
    if len(head) > MOST_HEADER:
        raise AmbiguousHeader("the header is too large")
    if end != _CRLF:
        mixed = b"\r" in head
        head = head.replace(b"\n", _CRLF)
    else:
        mixed = head.count(b"\r") != head.count(_CRLF) or head.count(b"\n") != head.count(_CRLF)
    if mixed:
        raise AmbiguousHeader("the header has line ends of several kinds")
    return head, body


def _split_fields(head: bytes) -> list[HeaderField]:
    lines = head.split(_CRLF) if head else []
    if lines and lines[0].startswith(b"From "):
        del lines[0]  # the separator line of an mbox file
    unfolded: list[list[bytes]] = []
    for line in lines:
        if line[:1] in {b" ", b"\t"} and unfolded:
            unfolded[-1].append(line)
        else:
            unfolded.append([line])
    if len(unfolded) > MOST_FIELDS:
        raise AmbiguousHeader("the header has too many fields")
    return [_split_field(lines) for lines in unfolded]


def _split_field(lines: list[bytes]) -> HeaderField:
    found = _NAME.match(lines[0])
    if found is None:
        raise AmbiguousHeader("a line of the header is no field")
    value = _CRLF.join([lines[0][found.end() :], *lines[1:]]) + _CRLF
    return found[1], value


_WHITE_SPACE = re.compile(rb"[ \t]+")


def canonical_fields(
    fields: Sequence[HeaderField], names: Iterable[bytes], *, relaxed: bool
) -> bytes:
    """Return the signed fields in canonical form; of several with one name, the lowest first.

    ``names`` are in lower case. A name without a field left adds nothing.
    """
    left: dict[bytes, list[HeaderField]] = {}
    for field in fields:
        left.setdefault(field[0].lower(), []).append(field)
    return b"".join([
        canonical_field(left[name].pop(), relaxed=relaxed) for name in names if left.get(name)
    ])  # fmt: skip


def canonical_field(field: HeaderField, *, relaxed: bool) -> bytes:
    """Return a field in the canonical form of RFC 6376, 3.4.1 or 3.4.2."""
    name, value = field
    if not relaxed:
        return name + b":" + value
    return name.lower() + b":" + _WHITE_SPACE.sub(b" ", value.replace(_CRLF, b"")).strip() + _CRLF
