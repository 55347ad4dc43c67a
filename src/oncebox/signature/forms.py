"""Form bodies as pairs of bytes: URL-encoded or multipart, read within limits."""

import re
from urllib.parse import unquote_to_bytes

from oncebox.signature.request import Request

Pairs = list[tuple[bytes, bytes]]

_MOST_FIELDS = 2_000
_LONGEST_PART_HEADER = 8_192
_BOUNDARY = re.compile(
    r"""multipart/form-data.*;\s*boundary=(?:"([^"]{1,70})"|([^\s;"]{1,70}))""", re.IGNORECASE
)
#: only where a line begins: else each of many in one line would be looked at to its end
_NAME = re.compile(
    rb"""[\r\n]content-disposition:[ \t]*form-data;[^\r\n]*?\bname="([^"\r\n]*)\"""", re.IGNORECASE
)
_FILE = re.compile(rb"[\r\n]content-disposition:[^\r\n]*\bfilename\*?=", re.IGNORECASE)


def pairs(request: Request) -> Pairs | None:
    """Return the fields of a form in order, or None if the body is not one, or too large a one."""
    if request.content_type == "multipart/form-data":
        return _multipart(request)
    return urlencoded(request.body)


def urlencoded(text: bytes) -> Pairs | None:
    """Return the fields of URL-encoded text; empty values count, and ``;`` separates nothing."""
    if not text:
        return []
    if text.count(b"&") >= _MOST_FIELDS:
        return None
    return [
        (_decoded(name), _decoded(value))
        for name, _, value in (each.partition(b"=") for each in text.split(b"&") if each)
    ]


def last(fields: Pairs | None, name: str) -> bytes | None:
    """Return the last value of a field."""
    wanted = name.encode()
    return next((value for each, value in reversed(fields or []) if each == wanted), None)


def _decoded(text: bytes) -> bytes:
    # Bytes stay bytes: text would merge different malformed bodies into one.
    return unquote_to_bytes(text.replace(b"+", b" "))


def _multipart(request: Request) -> Pairs | None:
    found = _BOUNDARY.match(request.table.get("content-type", ""))
    if found is None:
        return None
    line = b"\r\n--" + (found[1] or found[2]).encode("utf-8", "surrogatepass")
    body = b"\r\n" + request.body
    if body.count(line) > _MOST_FIELDS:
        return None
    fields: Pairs = []
    for part in body.split(line)[1:-1]:
        head, _, value = part.partition(b"\r\n\r\n")
        name = _NAME.search(head) if len(head) <= _LONGEST_PART_HEADER else None
        if name is not None and not _FILE.search(head):
            fields.append((name[1], value))
    return fields
