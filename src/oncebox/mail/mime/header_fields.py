"""Header fields: splitting a header, encoded words (RFC 2047), parameters (RFC 2231)."""

import re
from binascii import Error, a2b_base64, a2b_qp
from functools import lru_cache
from urllib.parse import unquote_to_bytes

import msgspec

from oncebox.mail.limits import ParseLimits
from oncebox.mail.mime import decoding

#: one field with its folded lines; repetitions are possessive, so matching is linear
_FIELD = re.compile(rb"([!-9;-~]*+)([ \t]*+):([^\n]*+(?:\n[ \t][^\n]*+)*+)(?:\n|\Z)")
_HEADER_END = re.compile(rb"\n\r?\n")
#: the line of an mbox file or a queue before the first field
_MBOX_FROM_LINE = re.compile(rb">?From (?![ \t]*:)[^\n]*+\n")
_BARE_CR = re.compile(rb"\r(?!\n|\Z)")


class Header(msgspec.Struct):
    """The header fields of a mail or a part, in order."""

    #: names in lower case; values raw, folded and encoded
    fields: list[tuple[str, bytes]]
    #: the start of the body
    body: int
    #: a limit was exceeded
    cut: bool = False
    #: a line is neither a field nor empty
    broken: bool = False
    #: other programs may split it differently
    ambiguous: bool = False

    def first(self, name: str) -> bytes | None:
        """Return the value of the first field with a name."""
        for each, value in self.fields:
            if each == name:
                return value
        return None

    def all(self, name: str) -> list[bytes]:
        """Return the values of all fields with a name."""
        return [value for each, value in self.fields if each == name]


def split_header(raw: bytes, start: int, end: int, limits: ParseLimits) -> Header:
    """Split the header into fields."""
    stop, body = _header_extent(raw, start, end)
    header = Header([], body)
    if stop - start > limits.headers:
        stop = start + limits.headers
        header.cut = header.ambiguous = True
    _read_fields(raw[start:stop], start, header, limits)
    return header


def _header_extent(raw: bytes, start: int, end: int) -> tuple[int, int]:
    """Return the end of the header and the start of the body."""
    if raw.startswith((b"\r\n", b"\n"), start, end):
        return start, min(end, start + (2 if raw[start] == 13 else 1))  # noqa: PLR2004 - CR
    found = _HEADER_END.search(raw, start, end)
    return (found.start() + 1, found.end()) if found else (end, end)


def _read_fields(head: bytes, start: int, header: Header, limits: ParseLimits) -> None:
    separator = _MBOX_FROM_LINE.match(head)
    at = separator.end() if separator else 0
    header.ambiguous = header.ambiguous or _BARE_CR.search(head) is not None or b"\0" in head
    while at < len(head):
        found = _FIELD.match(head, at)
        if found is None:  # most programs read the rest as body
            header.ambiguous = True
            if not header.cut:
                header.broken = True
                header.body = start + at
            return
        if len(header.fields) >= limits.fields:
            header.cut = header.ambiguous = True
            return
        at = found.end()
        name, space, value = found.groups()
        if found.end() - found.start() > limits.field:
            header.cut = header.ambiguous = True
        elif not name or space:
            header.ambiguous = True  # some programs read it as a field, others do not
        else:
            header.fields.append((name.decode("ascii").lower(), value.strip(b" \t\r\n")))


_ENCODED_WORD = re.compile(r"=\?([^?\s*]{1,64})(?:\*[^?\s]{0,40})?\?([bBqQ])\?([^?]*)\?=")
#: control characters
_CONTROL = re.compile("[\x00-\x08\x0a-\x1f\x7f-\x9f\u2028\u2029]")


def decode_value(value: bytes, warnings: set[str]) -> str:
    """Return the value of a field on one line, decoded; controls become U+FFFD."""
    text = unfold(value, warnings)
    if "=?" in text:
        text = decode_encoded_words(text, warnings)
    return text if text.isprintable() else _CONTROL.sub("\ufffd", text).replace("\t", " ")


def unfold(value: bytes, warnings: set[str]) -> str:
    """Return a value on one line; other bytes than ASCII are decoded as UTF-8 if possible."""
    if b"\n" in value:
        value = value.replace(b"\r\n", b"").replace(b"\n", b"")
    return decoding.decode_charset(value, "", warnings)


def decode_encoded_words(text: str, warnings: set[str]) -> str:
    """Decode the encoded words; white space between two of them is dropped."""
    out: list[str] = []
    #: adjacent words of one charset may split a character
    run: list[bytes] = []
    run_charset = ""
    at = 0
    for found in _ENCODED_WORD.finditer(text):
        between = text[at : found.start()]
        name = found[1].lower()
        if run and (between.strip(" \t") or name != run_charset):
            out.append(decoding.decode_charset(b"".join(run), run_charset, warnings))
            run = []
            out.append(between if between.strip(" \t") else "")
        elif not run:
            out.append(between)
        run.append(_encoded_word_bytes(found[2], found[3]))
        run_charset = name
        at = found.end()
    if run:
        out.append(decoding.decode_charset(b"".join(run), run_charset, warnings))
    out.append(text[at:])
    return "".join(out)


def _encoded_word_bytes(encoding: str, encoded: str) -> bytes:
    data = encoded.encode("utf-8")
    if encoding in "qQ":
        return a2b_qp(data.replace(b" ", b"_"), header=True)
    data = data.rstrip(b"= \t")
    try:
        return a2b_base64(data + b"=" * (-len(data) % 4))
    except Error:  # not base64: the word stays as written
        return data


_PARAMETER = re.compile(
    r";\s*+([^\s=;\"()<>@,]++)\s*+"
    r"(?:=\s*+(?:\"((?:[^\"\\]++|\\.)*+)\"?|([^;]*+)))?",
    re.DOTALL,
)
_ESCAPED = re.compile(r"\\(.)", re.DOTALL)
_CONTINUATION = re.compile(r"(.+?)\*([0-9]{1,3})?(\*)?")
_MOST_PARAMETERS = 200
_LONGEST_CACHED = 200

#: the value in lower case, and the parameters by name in lower case
ParameterizedValue = tuple[str, dict[str, str]]


def read_parameters(field: bytes | None) -> ParameterizedValue:
    """Return the value and the parameters of a field; the first one of a name counts.

    Parameters are raw, one character per byte; see ``parameter_text``.
    """
    if not field:
        return "", {}
    short = len(field) <= _LONGEST_CACHED
    return _parse_parameters_cached(field) if short else _parse_parameters(field)


def parameter_text(parameters: dict[str, str], name: str, warnings: set[str]) -> str:
    """Return a parameter as text: in one or several sections, with or without a charset."""
    pieces = _continuations(parameters, name)
    if not pieces:
        value = parameters.get(name, "")
        return decode_value(value.encode("latin-1", "replace"), warnings)
    charset, data = "", b""
    for number, encoded, value in pieces:
        piece = value
        if encoded and number == 0 and value.count("'") > 1:
            charset, _, piece = value.split("'", 2)
        raw = piece.encode("latin-1", "replace")
        data += unquote_to_bytes(raw) if encoded else raw
    text = decoding.decode_charset(data, charset, warnings)
    return decode_value(text.encode("utf-8", "replace"), warnings)


def _parse_parameters(field: bytes) -> ParameterizedValue:
    line = field.replace(b"\r\n", b"").replace(b"\n", b"").decode("latin-1")
    main = line.partition(";")[0]
    found: dict[str, str] = {}
    for match in _PARAMETER.finditer(line, len(main)):
        name, quoted, bare = match.groups()
        value = (bare or "").strip() if quoted is None else _ESCAPED.sub(r"\1", quoted)
        found.setdefault(name.lower(), value)
        if len(found) >= _MOST_PARAMETERS:
            break
    return main.partition("(")[0].strip().lower(), found


#: cached, because few different Content-Types occur
_parse_parameters_cached = lru_cache(512)(_parse_parameters)


def _continuations(parameters: dict[str, str], name: str) -> list[tuple[int, bool, str]]:
    """Return the sections ``name*0*=``, ``name*1=`` or ``name*=`` in order."""
    if not any("*" in key for key in parameters):
        return []
    found = []
    for key, value in parameters.items():
        match = _CONTINUATION.fullmatch(key) if "*" in key else None
        if match and match[1] == name:
            encoded = bool(match[3]) or match[2] is None
            found.append((int(match[2] or 0), encoded, value))
    return sorted(found)
