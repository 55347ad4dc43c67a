"""Fields: the header of a mail or of a part, split into its fields within the limits."""

import re

import msgspec

from oncebox.mail.limits import ParseLimits

#: one field with its folded lines; repeats are possessive, so that no input makes it slow
_FIELD = re.compile(rb"([!-9;-~]*+)([ \t]*+):([^\n]*+(?:\n[ \t][^\n]*+)*+)(?:\n|\Z)")
_END = re.compile(rb"\n\r?\n")
#: what a mailbox file or a queue writes before the first field
_POSTMARK = re.compile(rb">?From (?![ \t]*:)[^\n]*+\n")
_BARE_RETURN = re.compile(rb"\r(?!\n|\Z)")


class Header(msgspec.Struct):
    """The fields of a mail or of a part, in their order."""

    #: names in lower case; values as they came, still folded and encoded
    fields: list[tuple[str, bytes]]
    #: where the body begins
    body: int
    #: some of it was not read
    cut: bool = False
    #: a line was neither a field nor the end
    broken: bool = False
    #: other readers may split it otherwise
    doubtful: bool = False

    def first(self, name: str) -> bytes | None:
        """Return the value of the first field of that name."""
        for each, value in self.fields:
            if each == name:
                return value
        return None

    def all(self, name: str) -> list[bytes]:
        """Return the values of all fields of that name."""
        return [value for each, value in self.fields if each == name]


def split(raw: bytes, start: int, end: int, limits: ParseLimits) -> Header:
    """Split what stands before the first empty line."""
    stop, body = _extent(raw, start, end)
    header = Header([], body)
    if stop - start > limits.headers:
        stop = start + limits.headers
        header.cut = header.doubtful = True
    _read(raw[start:stop], start, header, limits)
    return header


def _extent(raw: bytes, start: int, end: int) -> tuple[int, int]:
    """Return where the header stops and where the body begins."""
    if raw.startswith((b"\r\n", b"\n"), start, end):
        return start, min(end, start + (2 if raw[start] == 13 else 1))  # noqa: PLR2004 - CR
    found = _END.search(raw, start, end)
    return (found.start() + 1, found.end()) if found else (end, end)


def _read(head: bytes, start: int, header: Header, limits: ParseLimits) -> None:
    postmark = _POSTMARK.match(head)
    at = postmark.end() if postmark else 0
    header.doubtful = header.doubtful or _BARE_RETURN.search(head) is not None or b"\0" in head
    while at < len(head):
        found = _FIELD.match(head, at)
        if found is None:
            _break(header, start + at)
            return
        if len(header.fields) >= limits.fields:
            header.cut = header.doubtful = True
            return
        at = found.end()
        _keep(found, header, limits)


def _break(header: Header, at: int) -> None:
    """End the header at a line that is no field; what follows is body, as most readers see it."""
    header.doubtful = True
    if not header.cut:
        header.broken = True
        header.body = at


def _keep(found: re.Match[bytes], header: Header, limits: ParseLimits) -> None:
    name, space, value = found.groups()
    if found.end() - found.start() > limits.field:
        header.cut = header.doubtful = True
    elif not name or space:
        header.doubtful = True  # a field to some readers, none to others
    else:
        header.fields.append((name.decode("ascii").lower(), value.strip(b" \t\r\n")))
