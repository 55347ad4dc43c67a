"""TemplateFolder: mail templates read from files, cached until they change.

The template ``receipt`` consists of ``receipt.subject`` and of ``receipt.txt``, ``receipt.html`` or
both. Names come from API callers: a name is not a path, files outside the folder are not read, and
errors reveal nothing about the machine.
"""

import os
import re
import stat
from pathlib import Path

from oncebox.errors.sends import TemplateInvalid

_NAME = re.compile(r"[a-z0-9][a-z0-9_.-]{0,99}")
#: bytes of one file
_LARGEST = 1024 * 1024
_MAX_CACHED = 200

#: inode, size and times of a file; None if it is missing
_Stamp = tuple[int, int, int, int] | None
#: subject, text and HTML
_Texts = tuple[str, str, str]


class TemplateFolder:
    """Reads templates from a folder, which need not exist."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._cached: dict[str, tuple[tuple[_Stamp, ...], _Texts]] = {}

    def get(self, name: str) -> _Texts:
        """Return subject, text and HTML of a template."""
        if not _NAME.fullmatch(name):
            raise TemplateInvalid(
                "the name of a template has lower-case letters, digits and . _ - only, and begins "
                "with a letter or digit"
            )
        paths = [self._path / f"{name}{ending}" for ending in (".subject", ".txt", ".html")]
        stamps = tuple([_stamp(path) for path in paths])
        cached_stamps, texts = self._cached.get(name, (None, ("", "", "")))
        if cached_stamps != stamps:
            subject, text, html = (self._read(path) for path in paths)
            if subject is None or (text is None and html is None):
                raise TemplateInvalid(
                    f"there is no template {name}; put {name}.subject, and {name}.txt or "
                    f"{name}.html or both, into the folder of templates (setting sends.templates)"
                )
            texts = (subject.rstrip("\r\n"), text or "", html or "")
            if len(self._cached) >= _MAX_CACHED:
                self._cached.clear()
            self._cached[name] = (stamps, texts)
        return texts

    def _read(self, path: Path) -> str | None:
        """Return the content of a file in the folder; None if it is missing."""
        try:
            real = path.resolve(strict=True)
            if not real.is_relative_to(self._path.resolve(strict=True)):
                raise TemplateInvalid(
                    f"{path.name} leads out of the folder of templates; put a copy there"
                )
            data = _content(real)
        except FileNotFoundError:
            return None
        except (OSError, RuntimeError):  # RuntimeError: a cycle of links
            raise TemplateInvalid(
                f"{path.name} cannot be read; give the service read permission"
            ) from None
        if data is None:
            raise TemplateInvalid(
                f"{path.name} is not a regular file of at most {_LARGEST} bytes; replace it"
            )
        try:
            return data.decode()
        except UnicodeDecodeError:
            raise TemplateInvalid(f"{path.name} is not UTF-8; save it as UTF-8") from None


def _stamp(path: Path) -> _Stamp:
    try:
        found = path.stat()
    except OSError:
        return None
    return found.st_ino, found.st_size, found.st_mtime_ns, found.st_ctime_ns


def _content(path: Path) -> bytes | None:
    """Return the bytes of a file; None if it is not a regular file, or too large."""
    # O_NONBLOCK: opening a named pipe must not block.
    handle = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC | os.O_NOFOLLOW)
    with open(handle, "rb") as file:  # noqa: PTH123 - pathlib opens no handles
        if not stat.S_ISREG(os.fstat(handle).st_mode):
            return None
        data = file.read(_LARGEST + 1)
    return data if len(data) <= _LARGEST else None
