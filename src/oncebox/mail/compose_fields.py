"""Header fields on the wire: folded, in ASCII, so that readers find again what was given.

Names and free text beyond ASCII become encoded words (RFC 2047), parameters are written as in
RFC 2231. Only a local part beyond ASCII stays what it is (RFC 6532): there is no other way to
write it, and the servers must know SMTPUTF8 for it.
"""

import re
from base64 import b64encode
from collections.abc import Iterable, Iterator, Sequence
from urllib.parse import quote

from oncebox.model.mailbox import Mailbox, quoted

#: characters of a line, where it can be broken
_WIDTH = 76
#: a longer name is followed by a line of its own, so that an encoded word fits behind it
_SHORT_NAME = 20
#: a line of a mail has no more than 998 characters, and this one may stand behind a name
_LONGEST_WORD = 900
_FOLD = "\r\n "
#: bytes in one encoded word: with what stands around them they fit behind a short name
_WORD_BYTES = 30
_WORD_CHARACTERS = 43
#: what can stand in an encoded word as it is, wherever the word stands (RFC 2047, 5)
_SAFE = frozenset(b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789!*+-/")
_SPACE = ord(" ")
#: words between single spaces, of which none can be taken for an encoded one
_PLAIN = re.compile(r"(?!.*=\?)[!-~]+(?: [!-~]+)*")
#: a parameter that needs no more than quotes
_QUOTABLE = re.compile(r"(?!.*=\?)[!#-\[\]-~](?:[ !#-\[\]-~]{0,58}[!#-\[\]-~])?")
#: characters of one piece of a parameter that needs several
_PIECE = 50


def plain(name: str, value: str) -> bytes:
    """Return a field whose value is in ASCII, and broken between words."""
    return _folded(name, value.split(" "))


def free(name: str, value: str) -> bytes:
    """Return a field of free text, such as a subject."""
    words = value.split(" ")
    if not _PLAIN.fullmatch(value) or max(map(len, words)) > _LONGEST_WORD:
        words = encoded_words(value)
    return _folded(name, words)


def people(name: str, mailboxes: Sequence[Mailbox]) -> bytes:
    """Return a field of addresses."""
    tokens: list[str] = []
    for mailbox in mailboxes:
        tokens += [*_phrase(mailbox.name), f"<{mailbox.address}>"]
        tokens[-1] += ","
    tokens[-1] = tokens[-1].removesuffix(",")
    return _folded(name, tokens)


def with_parameters(name: str, value: str, parameters: Iterable[tuple[str, str]]) -> bytes:
    """Return a field such as Content-Type, each parameter on a line of its own."""
    pieces = [piece for key, text in parameters for piece in _parameter(key, text)]
    return f"{name}: {f';{_FOLD}'.join([value, *pieces])}\r\n".encode("ascii")


def encoded_words(text: str) -> list[str]:
    """Return a text as encoded words, none of which ends within a character."""
    data = text.encode("utf-8")
    if sum(byte in _SAFE for byte in data) * 2 > len(data):
        return [f"=?utf-8?q?{word}?=" for word in _q_words(text)]
    return [f"=?utf-8?b?{word}?=" for word in _b_words(text)]


def _folded(name: str, tokens: Iterable[str]) -> bytes:
    """Return a field with line ends before tokens that do not fit any more."""
    line = f"{name}:"
    lines: list[str] = []
    for token in tokens:
        full = len(line) + 1 + len(token) > _WIDTH
        if full and len(line) > (_SHORT_NAME if not lines else 1):
            lines.append(line)
            line = ""
        line += f" {token}"
    return "\r\n".join([*lines, line, ""]).encode("utf-8")


def _phrase(name: str) -> list[str]:
    """Return what stands before an address."""
    if not name:
        return []
    return encoded_words(name) if "=?" in name or not name.isascii() else [quoted(name)]


def _q_words(text: str) -> Iterator[str]:
    word = ""
    for character in text:
        written = "".join(map(_q, character.encode("utf-8")))
        if len(word) + len(written) > _WORD_CHARACTERS:
            yield word
            word = ""
        word += written
    yield word


def _q(byte: int) -> str:
    if byte == _SPACE:
        return "_"
    return chr(byte) if byte in _SAFE else f"={byte:02X}"


def _b_words(text: str) -> Iterator[str]:
    word = b""
    for character in text:
        data = character.encode("utf-8")
        if len(word) + len(data) > _WORD_BYTES:
            yield b64encode(word).decode("ascii")
            word = b""
        word += data
    yield b64encode(word).decode("ascii")


def _parameter(name: str, text: str) -> list[str]:
    """Return a parameter: in quotes, or with its charset and in as many pieces as it needs."""
    if _QUOTABLE.fullmatch(text):
        return [f'{name}="{text}"']
    pieces = [""]
    for character in text:  # some readers decode each piece by itself
        written = quote(character, safe="")
        if len(pieces[-1]) + len(written) > _PIECE:
            pieces.append("")
        pieces[-1] += written
    if len(pieces) == 1:
        return [f"{name}*=utf-8''{pieces[0]}"]
    pieces[0] = f"utf-8''{pieces[0]}"
    return [f"{name}*{number}*={piece}" for number, piece in enumerate(pieces)]
