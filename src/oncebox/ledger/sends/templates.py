"""TemplateFolder: mail templates read from files, cached until they change.

``receipt`` is in ``receipt.subject``, ``receipt.txt`` and ``receipt.html``, of which one of the
last two may be missing. Who names a template is a stranger: a name is no path, what is elsewhere
is not read, and the errors tell nothing of the machine.
"""

import os
import re
import stat
from pathlib import Path
from typing import NamedTuple

from oncebox.errors.sends import TemplateInvalid

_NAME = re.compile(r"[a-z0-9][a-z0-9_.-]{0,99}")
_SUBJECT, _TEXT, _HTML = ".subject", ".txt", ".html"
#: bytes of one file
_LARGEST = 1024 * 1024
#: templates that are kept in memory
_MOST_CACHED = 200

#: what a file had when it was read; None if it was not there
_Stamp = tuple[int, int, int, int] | None


class _CachedTemplate(NamedTuple):
    """A template in memory, and by what is seen that it is still the one on disk."""

    stamps: tuple[_Stamp, ...]
    texts: tuple[str, str, str]


class TemplateFolder:
    """Reads templates; what is in memory is as old as the files."""

    def __init__(self, path: Path) -> None:
        """Read below this folder, which need not be there."""
        self._path = path
        self._cached: dict[str, _CachedTemplate] = {}

    def get(self, name: str) -> tuple[str, str, str]:
        """Return subject, text and HTML of a template.

        Raises: TemplateInvalid.
        """
        if not _NAME.fullmatch(name):
            raise TemplateInvalid(
                "the name of a template has lower-case letters, digits and . _ - only, and begins "
                "with a letter or digit"
            )
        paths = [self._path / f"{name}{ending}" for ending in (_SUBJECT, _TEXT, _HTML)]
        stamps = tuple([_stamp(path) for path in paths])
        cached = self._cached.get(name)
        if cached is None or cached.stamps != stamps:
            subject, text, html = (self._read(path) for path in paths)
            if subject is None or (text is None and html is None):
                raise _missing(name)
            cached = _CachedTemplate(stamps, (subject.rstrip("\r\n"), text or "", html or ""))
            self._keep(name, cached)
        return cached.texts

    def _keep(self, name: str, cached: _CachedTemplate) -> None:
        if len(self._cached) >= _MOST_CACHED:
            self._cached.clear()
        self._cached[name] = cached

    def _read(self, path: Path) -> str | None:
        """Return what is in a file of the folder; None if it is not there."""
        try:
            real = path.resolve(strict=True)
            if not real.is_relative_to(self._path.resolve(strict=True)):
                raise TemplateInvalid(
                    f"{path.name} leads out of the folder of templates; put a copy there"
                )
            data = _content(real)
        except FileNotFoundError:
            return None
        except (OSError, RuntimeError):  # the latter: a link that leads to itself
            raise TemplateInvalid(f"{path.name} cannot be read; let the service read it") from None
        if data is None:
            raise TemplateInvalid(
                f"{path.name} is no file of at most {_LARGEST} bytes; make it one"
            )
        try:
            return data.decode()
        except UnicodeDecodeError:
            raise TemplateInvalid(f"{path.name} is not UTF-8; save it as that") from None


def _stamp(path: Path) -> _Stamp:
    try:
        found = path.stat()
    except OSError:
        return None
    return found.st_ino, found.st_size, found.st_mtime_ns, found.st_ctime_ns


def _content(path: Path) -> bytes | None:
    """Return the bytes of a file; None if it is none, or too large."""
    # Whatever it is, opening it waits for nobody.
    handle = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC | os.O_NOFOLLOW)
    with open(handle, "rb") as file:  # noqa: PTH123 - a path has no such word for a handle
        if not stat.S_ISREG(os.fstat(handle).st_mode):
            return None
        data = file.read(_LARGEST + 1)
    return data if len(data) <= _LARGEST else None


def _missing(name: str) -> TemplateInvalid:
    message = (
        f"there is no template {name}; put {name}{_SUBJECT}, and {name}{_TEXT} or {name}{_HTML} or "
        "both, into the folder of templates (setting sends.templates)"
    )
    return TemplateInvalid(message)
