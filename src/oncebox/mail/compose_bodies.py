"""Bodies on the wire: texts and attachments in lines that every server leaves as they are.

A text is written as quoted-printable, or as base64 where that is shorter. Neither has a lone
dot or ``From`` at the beginning of a line, a blank at the end of one, or anything beyond ASCII,
so nothing on the way has a reason to change what was signed.
"""

import re
from binascii import b2a_base64

import msgspec

_END = b"\r\n"
_LINE = 76
#: what is written as it is
_UNSAFE = re.compile(rb"[^ !-<>-~\r\n]")
_BLANK_AT_END = re.compile(rb" (?=\r\n|\Z)")
#: at most 73 bytes of a line, never a part of ``=XX``; two more may come at its beginning
_PIECE = re.compile(rb"[^\r\n]{1,73}(?<!=)(?<!=.)")
_TOUCHED = re.compile(rb"\.|From ")
_ESCAPES = [b"=%02X" % byte for byte in range(256)]


class Body(msgspec.Struct, frozen=True):
    """What a part holds, and how it is encoded."""

    encoding: str
    data: bytes


def of_text(text: str) -> Body:
    """Return a text on the wire, its lines ended by CR LF."""
    lines = text.replace("\r\n", "\n").replace("\r", "\n").replace("\n", "\r\n")
    data = lines.encode("utf-8")
    # Each byte that must be escaped takes three: from a sixth of them on, base64 is shorter.
    if len(_UNSAFE.findall(data)) * 6 > len(data):
        return of_bytes(data)
    return Body("quoted-printable", quoted_printable(data))


def of_bytes(data: bytes) -> Body:
    """Return bytes on the wire."""
    encoded = b2a_base64(data, newline=False)
    lines = [encoded[at : at + _LINE] for at in range(0, len(encoded), _LINE)]
    return Body("base64", _END.join(lines))


def quoted_printable(data: bytes) -> bytes:
    """Return text with CR LF line ends as quoted-printable."""
    safe = _BLANK_AT_END.sub(b"=20", _UNSAFE.sub(_escaped, data))
    return _END.join([_wrapped(line) for line in safe.split(_END)])


def _escaped(found: re.Match[bytes]) -> bytes:
    return _ESCAPES[found[0][0]]


def _wrapped(line: bytes) -> bytes:
    """Break a line where it is too long, and escape what servers change at a beginning."""
    return b"=\r\n".join([_untouched(piece) for piece in _PIECE.findall(line)])


def _untouched(piece: bytes) -> bytes:
    return _ESCAPES[piece[0]] + piece[1:] if _TOUCHED.match(piece) else piece
