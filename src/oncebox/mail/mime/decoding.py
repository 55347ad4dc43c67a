"""Transfer encodings and charsets: the bytes of a part or field to text."""

import re
from binascii import Error, a2b_base64, a2b_qp

#: codec by charset name. Codecs that are no charsets (``zlib``), or hide their text (``utf-7``),
#: are left out on purpose.
_CODECS = {
    **dict.fromkeys(("utf-8", "utf8", "unicode-1-1-utf-8"), "utf-8"),
    **dict.fromkeys(
        ("us-ascii", "ascii", "ansi_x3.4-1968", "iso646-us", "iso-ir-6", "7bit", "8bit"), "ascii"
    ),
    # as in browsers: text labelled Latin-1 is often Windows-1252
    **dict.fromkeys(
        ("iso-8859-1", "iso8859-1", "latin1", "latin-1", "l1", "cp1252", "ansi"), "cp1252"
    ),
    **{f"iso-8859-{n}": f"iso8859-{n}" for n in (2, 3, 4, 5, 6, 7, 8, 10, 13, 14, 15, 16)},
    **{f"iso8859-{n}": f"iso8859-{n}" for n in (2, 3, 4, 5, 6, 7, 8, 10, 13, 14, 15, 16)},
    **{f"windows-125{n}": f"cp125{n}" for n in range(9)},
    **{f"cp125{n}": f"cp125{n}" for n in range(9)},
    **dict.fromkeys(("latin2", "l2"), "iso8859-2"),
    **dict.fromkeys(("latin9", "latin-9"), "iso8859-15"),
    **dict.fromkeys(("iso-8859-8-i", "iso-8859-8-e"), "iso8859-8"),
    **dict.fromkeys(("iso-8859-9", "iso8859-9", "latin5"), "cp1254"),
    **dict.fromkeys(("iso-8859-11", "tis-620", "windows-874", "cp874"), "cp874"),
    **dict.fromkeys(("koi8-r", "koi8r"), "koi8-r"),
    **dict.fromkeys(("koi8-u", "koi8u"), "koi8-u"),
    **dict.fromkeys(("gb2312", "gbk", "gb18030", "cp936", "x-gbk", "gb_2312-80"), "gb18030"),
    **dict.fromkeys(("big5", "big5-hkscs", "cn-big5", "cp950"), "big5hkscs"),
    **dict.fromkeys(("shift_jis", "shift-jis", "sjis", "x-sjis", "cp932", "windows-31j"), "cp932"),
    **dict.fromkeys(("euc-jp", "eucjp", "x-euc-jp"), "euc_jp"),
    **dict.fromkeys(("iso-2022-jp", "csiso2022jp", "iso-2022-jp-2"), "iso2022_jp_2"),
    **dict.fromkeys(("euc-kr", "ks_c_5601-1987", "ksc5601", "cp949", "uhc"), "cp949"),
    "iso-2022-kr": "iso2022_kr",
    **dict.fromkeys(("macintosh", "mac", "x-mac-roman"), "mac-roman"),
    "x-mac-cyrillic": "mac-cyrillic",
    **dict.fromkeys(("cp437", "ibm437"), "cp437"),
    **dict.fromkeys(("cp850", "ibm850"), "cp850"),
    **dict.fromkeys(("cp866", "ibm866"), "cp866"),
}
#: codecs whose label is often wrong for UTF-8
_OFTEN_UTF8 = frozenset({"ascii", "cp1252", "cp1254"})
_LONGEST_NAME = 40
_META = re.compile(
    rb"<meta\b[^>]{0,200}?charset\s{0,9}=\s{0,9}[\"']?([A-Za-z0-9_.:-]{1,40})", re.IGNORECASE
)
_META_WITHIN = 2048


def decode_charset(data: bytes, name: str, warnings: set[str]) -> str:
    """Decode bytes, also with an unknown or wrong charset."""
    codec = _codec(name)
    if data.isascii() and codec in {"utf-8", "ascii", "cp1252", ""}:
        return _clean(data.decode("ascii"))
    if codec is None:
        warnings.add("charset_unknown")
        return _clean(data.decode("latin-1"))
    text = _utf8(data) if codec in {"", "utf-8"} or codec in _OFTEN_UTF8 else None
    if text is not None:
        if codec not in {"", "utf-8"}:
            warnings.add("charset_repaired")
        return _clean(text)
    return _clean(_decode_by_codec(codec, data, warnings))


def charset_in_html(data: bytes) -> str:
    """Return the charset declared at the beginning of HTML."""
    found = _META.search(data, 0, _META_WITHIN)
    return found[1].decode("ascii") if found else ""


def _codec(name: str) -> str | None:
    """Return the codec; empty without a charset, None if it is not in the table."""
    if not name:
        return ""
    return _CODECS.get(name.strip("\"' \t").lower()) if len(name) <= _LONGEST_NAME else None


def _utf8(data: bytes) -> str | None:
    try:
        return data.decode("utf-8")
    except UnicodeDecodeError:
        return None


def _decode_by_codec(codec: str, data: bytes, warnings: set[str]) -> str:
    """Decode with a codec; if it fails, with UTF-8, or with replacement characters."""
    if codec in {"", "ascii"}:
        codec = "cp1252"
        warnings.add("charset_repaired")
    try:
        return data.decode(codec)
    except UnicodeDecodeError:
        pass
    if codec != "cp1252":  # Windows-1252 leaves five bytes undefined, which Latin-1 defines
        warnings.add("charset_repaired")
        return _utf8(data) or data.decode(codec, "replace")
    return data.decode("latin-1")


def _clean(text: str) -> str:
    """Remove a byte order mark, and NUL, which some databases cannot store."""
    return text.removeprefix("\ufeff").replace("\0", "\ufffd")


_IDENTITY_ENCODINGS = frozenset({"", "7bit", "8bit", "binary"})
_NOT_BASE64 = re.compile(rb"[^A-Za-z0-9+/]")


def decode_transfer(data: bytes, encoding: str, warnings: set[str]) -> bytes:
    """Return the bytes of a part without transfer encoding."""
    if encoding == "base64":
        return _decode_base64(data)
    if encoding == "quoted-printable":
        return a2b_qp(data)
    if encoding not in _IDENTITY_ENCODINGS:
        warnings.add("encoding_unknown")
    return data


def _decode_base64(data: bytes) -> bytes:
    """Decode base64; truncated or malformed data is decoded as far as possible."""
    try:
        return a2b_base64(data)
    except Error:  # not a multiple of four characters
        letters = _NOT_BASE64.sub(b"", data.partition(b"=")[0])
        whole = len(letters) - (1 if len(letters) % 4 == 1 else 0)
        return a2b_base64(letters[:whole] + b"=" * (-whole % 4))
