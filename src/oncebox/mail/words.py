"""Words: the value of a header field as text, with its encoded words (RFC 2047) decoded."""

import re
from binascii import Error, a2b_base64, a2b_qp

from oncebox.mail import charset

_WORD = re.compile(r"=\?([^?\s*]{1,64})(?:\*[^?\s]{0,40})?\?([bBqQ])\?([^?]*)\?=")
#: nothing in a header steers a terminal or begins a line
_CONTROL = re.compile("[\x00-\x08\x0a-\x1f\x7f-\x9f\u2028\u2029]")


def decode(value: bytes, warnings: set[str]) -> str:
    """Return the value of a field on one line, decoded; controls become U+FFFD."""
    text = unfold(value, warnings)
    if "=?" in text:
        text = decode_words(text, warnings)
    return text if text.isprintable() else _CONTROL.sub("\ufffd", text).replace("\t", " ")


def unfold(value: bytes, warnings: set[str]) -> str:
    """Return a value on one line; bytes beyond ASCII are UTF-8, or whatever fits."""
    if b"\n" in value:
        value = value.replace(b"\r\n", b"").replace(b"\n", b"")
    return charset.decode(value, "", warnings)


def decode_words(text: str, warnings: set[str]) -> str:
    """Decode the encoded words; white space between two of them is not part of the text."""
    out: list[str] = []
    #: words of one charset side by side may share a character between them
    run: list[bytes] = []
    run_charset = ""
    at = 0
    for found in _WORD.finditer(text):
        between = text[at : found.start()]
        name = found[1].lower()
        if run and (between.strip(" \t") or name != run_charset):
            out.append(charset.decode(b"".join(run), run_charset, warnings))
            run = []
            out.append(between if between.strip(" \t") else "")
        elif not run:
            out.append(between)
        run.append(_bytes(found[2], found[3]))
        run_charset = name
        at = found.end()
    if run:
        out.append(charset.decode(b"".join(run), run_charset, warnings))
    out.append(text[at:])
    return "".join(out)


def _bytes(encoding: str, encoded: str) -> bytes:
    data = encoded.encode("utf-8")
    if encoding in "qQ":
        return a2b_qp(data.replace(b" ", b"_"), header=True)
    data = data.rstrip(b"= \t")
    try:
        return a2b_base64(data + b"=" * (-len(data) % 4))
    except Error:  # it is no base64; what was written is all there is
        return data
