"""Canaries: words that nobody else writes, looked for in every form in which bytes keep them."""

import base64
from collections.abc import Iterable
from math import ceil
from pathlib import Path


def forms(word: str) -> set[bytes]:
    """Return a word as it may lie in a file: as text, wide, in base64, in hexadecimal."""
    plain = word.encode()
    found = {plain, plain.lower(), word.encode("utf-16-le"), plain.hex().encode()}
    for shift in range(3):
        whole = base64.b64encode(b"?" * shift + plain)
        # The letters at both ends may also hold bits of the neighbours.
        found.add(whole[ceil(shift * 8 / 6) : (shift + len(plain)) * 8 // 6])
    return found


def in_files(folder: Path, words: Iterable[str]) -> set[tuple[str, str]]:
    """Return which words are in which files of a folder, by name."""
    wanted = {word: forms(word) for word in words}
    found = set()
    for path in folder.rglob("*"):
        content = _content(path)
        found |= {
            (path.name, word)
            for word, spelled in wanted.items()
            if any(each in content for each in spelled)
        }
    return found


def _content(path: Path) -> bytes:
    try:
        return path.read_bytes() if path.is_file() else b""
    except FileNotFoundError:  # the database has let it go
        return b""
