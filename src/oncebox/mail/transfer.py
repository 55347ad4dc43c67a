"""Transfer encodings: what a part's bytes were before they were made fit for the road."""

import re
from binascii import Error, a2b_base64, a2b_qp

_AS_IT_IS = frozenset({"", "7bit", "8bit", "binary"})
_ALPHABET = re.compile(rb"[^A-Za-z0-9+/]")


def decode(data: bytes, encoding: str, warnings: set[str]) -> bytes:
    """Return the bytes of a part as they were written."""
    if encoding == "base64":
        return _base64(data)
    if encoding == "quoted-printable":
        return a2b_qp(data)
    if encoding not in _AS_IT_IS:
        warnings.add("encoding_unknown")
    return data


def _base64(data: bytes) -> bytes:
    """Decode base64; what is cut short or has odd characters in it is decoded as far as it goes."""
    try:
        return a2b_base64(data)
    except Error:  # it does not end on a full group of four
        letters = _ALPHABET.sub(b"", data.partition(b"=")[0])
        whole = len(letters) - (1 if len(letters) % 4 == 1 else 0)
        return a2b_base64(letters[:whole] + b"=" * (-whole % 4))
