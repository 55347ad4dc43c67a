"""A mail as DKIM sees it: fields in order, and the body in its canonical forms.

Everything here is linear in the size of the mail; dkimpy's own way through a body is not.
"""

import hashlib
import re

#: name and value, with the value's line ends
Field = tuple[bytes, bytes]

#: bytes and number of header fields that are looked at
MOST_HEADER = 256 * 1024
MOST_FIELDS = 1_000

_END = b"\r\n"
_NAME = re.compile(rb"([\x21-\x39\x3b-\x7e]+):")


class Unreadable(Exception):
    """The header is too large, or programs may disagree on what it says."""


class SignedMail:
    """The fields and the body of one mail."""

    def __init__(self, raw: bytes) -> None:
        """Take the mail apart.

        Raises: Unreadable.
        """
        head, self._body = _halves(raw)
        self.fields = _fields(head)
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

    def _form(self, relaxed: bool) -> bytes:  # noqa: FBT001 - it is the key of the form
        if relaxed not in self._forms:
            self._forms[relaxed] = canonical_body(self._body, relaxed=relaxed)
        return self._forms[relaxed]


def canonical_body(body: bytes, *, relaxed: bool) -> bytes:
    """Return the body in the canonical form of RFC 6376, 3.4.3 or 3.4.4."""
    if body.count(b"\n") != body.count(_END):
        body = body.replace(_END, b"\n").replace(b"\n", _END)
    if body and not body.endswith(_END):
        body += _END
    if relaxed:
        body = body.replace(b"\t", b" ")
        while b"  " in body:  # each round halves the gaps; an expression takes ten times as long
            body = body.replace(b"  ", b" ")
        body = body.replace(b" \r\n", _END)
    kept = _without_empty_end(body)
    if kept or not relaxed:
        kept += _END
    return kept


def _without_empty_end(body: bytes) -> bytes:
    """Return the body without its last line end and without empty lines before that."""
    text = body.rstrip(_END)
    # A lone CR is text: what stands up to the last one that no LF follows is kept.
    lone = body.rfind(b"\r\r", len(text))
    return text if lone < 0 else body[: lone + 1]


def _halves(raw: bytes) -> tuple[bytes, bytes]:
    """Return header and body; all line ends of the header are of one kind."""
    first = raw.find(b"\n")
    end = _END if first > 0 and raw[first - 1 : first] == b"\r" else b"\n"
    if raw.startswith(end):
        return b"", raw[len(end) :]
    cut = raw.find(end + end)
    head, body = (raw, b"") if cut < 0 else (raw[:cut], raw[cut + 2 * len(end) :])
    head = head.removesuffix(end)
    if len(head) > MOST_HEADER:
        message = "the header is too large"
        raise Unreadable(message)
    if end == _END:
        if head.count(b"\r") != head.count(_END) or head.count(b"\n") != head.count(_END):
            message = "the header has line ends of several kinds"
            raise Unreadable(message)
        return head, body
    if b"\r" in head:
        message = "the header has line ends of several kinds"
        raise Unreadable(message)
    return head.replace(b"\n", _END), body


def _fields(head: bytes) -> list[Field]:
    lines = head.split(_END) if head else []
    if lines and lines[0].startswith(b"From "):
        del lines[0]  # the mark of a mail in a file
    unfolded: list[list[bytes]] = []
    for line in lines:
        if line[:1] in {b" ", b"\t"} and unfolded:
            unfolded[-1].append(line)
        else:
            unfolded.append([line])
    if len(unfolded) > MOST_FIELDS:
        message = "the header has too many fields"
        raise Unreadable(message)
    return [_field(lines) for lines in unfolded]


def _field(lines: list[bytes]) -> Field:
    found = _NAME.match(lines[0])
    if found is None:
        message = "a line of the header is no field"
        raise Unreadable(message)
    value = _END.join([lines[0][found.end() :], *lines[1:]]) + _END
    return found[1], value
