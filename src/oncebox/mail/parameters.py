"""Parameters: fields such as Content-Type, with their parameters (RFC 2045, RFC 2231)."""

import re
from functools import lru_cache
from urllib.parse import unquote_to_bytes

from oncebox.mail import charset, words

_PARAMETER = re.compile(
    r";\s*+([^\s=;\"()<>@,]++)\s*+"
    r"(?:=\s*+(?:\"((?:[^\"\\]++|\\.)*+)\"?|([^;]*+)))?",
    re.DOTALL,
)
_ESCAPED = re.compile(r"\\(.)", re.DOTALL)
_PIECE = re.compile(r"(.+?)\*([0-9]{1,3})?(\*)?")
_MOST = 200
_SHORT = 200

#: the value before the parameters in lower case, and the parameters by name in lower case
Value = tuple[str, dict[str, str]]


def read(field: bytes | None) -> Value:
    """Return a field's value and its parameters; the first of a name counts.

    Texts are still as they came, one character for each byte; see ``text``.
    """
    if not field:
        return "", {}
    return _read_known(field) if len(field) <= _SHORT else _read(field)


def text(parameters: dict[str, str], name: str, warnings: set[str]) -> str:
    """Return a parameter as text: in one piece or several, with a charset or without."""
    pieces = _pieces(parameters, name)
    if not pieces:
        value = parameters.get(name, "")
        return words.decode(value.encode("latin-1", "replace"), warnings)
    named, data = "", []
    for number, encoded, value in pieces:
        piece = value
        if encoded and number == 0:
            named, _, piece = _split_charset(value)
        data.append(_data(piece, encoded=encoded))
    return words.decode(
        charset.decode(b"".join(data), named, warnings).encode("utf-8", "replace"), warnings
    )


def _read(field: bytes) -> Value:
    line = field.replace(b"\r\n", b"").replace(b"\n", b"").decode("latin-1")
    main = line.partition(";")[0]
    found: dict[str, str] = {}
    for match in _PARAMETER.finditer(line, len(main)):
        name, quoted, bare = match.groups()
        value = (bare or "").strip() if quoted is None else _ESCAPED.sub(r"\1", quoted)
        found.setdefault(name.lower(), value)
        if len(found) >= _MOST:
            break
    return main.partition("(")[0].strip().lower(), found


#: the same few Content-Types come again and again
_read_known = lru_cache(512)(_read)


def _pieces(parameters: dict[str, str], name: str) -> list[tuple[int, bool, str]]:
    """Return the pieces of ``name*0*=``, ``name*1=`` or ``name*=`` in their order."""
    if not any("*" in key for key in parameters):
        return []
    found = []
    for key, value in parameters.items():
        match = _PIECE.fullmatch(key) if "*" in key else None
        if match and match[1] == name:
            encoded = bool(match[3]) or match[2] is None
            found.append((int(match[2] or 0), encoded, value))
    return sorted(found)


def _split_charset(value: str) -> tuple[str, str, str]:
    named, quote, rest = value.partition("'")
    language, second, piece = rest.partition("'")
    return (named, language, piece) if quote and second else ("", "", value)


def _data(piece: str, *, encoded: bool) -> bytes:
    data = piece.encode("latin-1", "replace")
    return unquote_to_bytes(data) if encoded else data
