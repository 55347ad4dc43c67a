"""Archives: a backup as one tar file, with a manifest at its end that vouches for the rest."""

import hashlib
import io
import tarfile
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import IO, Annotated, Self

import msgspec

from oncebox.errors import BackupDamaged, NotFound

FORMAT = 1
DATABASE = "oncebox.db"
KEY = "oncebox.key"
SETTINGS = "oncebox.toml"
#: what the names of templates begin with
TEMPLATES = "templates/"

_MANIFEST = "manifest.json"
_LARGEST_MANIFEST = 16 * 1024 * 1024
_CHUNK = 1024 * 1024
#: milliseconds; no backup of ours is from later
_YEAR_3000 = 32_503_680_000_000
#: what reading a tar file raises where that is damaged; its sizes may be beyond all bounds
_DAMAGE = (EOFError, ValueError, OverflowError, MemoryError, tarfile.TarError)


class Entry(msgspec.Struct, frozen=True):
    """A file of an archive, and what it must be."""

    size: int
    sha256: str


class Manifest(msgspec.Struct, frozen=True, kw_only=True):
    """What an archive says of itself."""

    #: milliseconds since 1970; all that was acknowledged before is in it
    made_at: Annotated[int, msgspec.Meta(ge=0, lt=_YEAR_3000)]
    #: of the Oncebox that made it
    version: str
    #: which key opens what is sealed in it; the key itself is there only if it was asked for
    master_key_id: str
    #: the newest migration of its database
    schema: str
    files: dict[str, Entry] = {}
    format: int = FORMAT


def write(
    target: Path, manifest: Manifest, files: Mapping[str, Path | bytes], tell: Callable[[int], None]
) -> Manifest:
    """Write an archive; ``tell`` hears of every piece that is written, in bytes."""
    entries: dict[str, Entry] = {}
    with tarfile.open(target, "w", format=tarfile.PAX_FORMAT) as packed:
        for name, content in files.items():
            with _opened(content) as file:
                source = _Hashing(file, tell)
                info = _info(name, _size(content), manifest.made_at)
                packed.addfile(info, source)
                entries[name] = Entry(info.size, source.hash.hexdigest())
        whole = msgspec.structs.replace(manifest, files=entries)
        text = msgspec.json.format(msgspec.json.encode(whole)) + b"\n"
        packed.addfile(_info(_MANIFEST, len(text), manifest.made_at), io.BytesIO(text))
    return whole


class Archive:
    """An archive that is read: ``with Archive(path) as archive``."""

    def __init__(self, path: Path) -> None:
        """Open it and read its manifest.

        Raises: NotFound, BackupDamaged.
        """
        self._path = path
        try:
            self._packed = tarfile.open(path, "r:")  # noqa: SIM115 - closed by ``__exit__``
        except OSError as error:
            message = f"{path} cannot be read: {error.strerror}"
            raise NotFound(message) from error
        except _DAMAGE as error:
            raise self._damaged() from error
        try:
            self.manifest = self._read_manifest()
        except BaseException:
            self._packed.close()
            raise

    def __enter__(self) -> Self:
        """Be open."""
        return self

    def __exit__(self, *_exception: object) -> None:
        """Close the file."""
        self._packed.close()

    def unpack(self, name: str, target: IO[bytes], tell: Callable[[int], None]) -> None:
        """Write one of its files somewhere, and make sure that it is what was packed.

        Raises: BackupDamaged.
        """
        entry = self.manifest.files.get(name)
        member = self._packed.extractfile(self._members[name]) if name in self._members else None
        if entry is None or member is None:
            raise self._damaged()
        try:
            source = _Hashing(member, tell)
            while source.size <= entry.size and (piece := source.read(_CHUNK)):
                target.write(piece)
        except _DAMAGE as error:
            raise self._damaged() from error
        if (source.size, source.hash.hexdigest()) != (entry.size, entry.sha256):
            raise self._damaged()

    def text(self, name: str) -> bytes:
        """Return one of its small files.

        Raises: BackupDamaged.
        """
        found = io.BytesIO()
        self.unpack(name, found, lambda _size: None)
        return found.getvalue()

    def _read_manifest(self) -> Manifest:
        try:
            self._members = {each.name: each for each in self._packed if each.isfile()}
            member = self._members[_MANIFEST]
            file = self._packed.extractfile(member)
            if file is None or member.size > _LARGEST_MANIFEST:
                raise self._damaged()
            found = msgspec.json.decode(file.read(), type=Manifest)
        except (KeyError, OSError, *_DAMAGE, msgspec.DecodeError) as error:
            raise self._damaged() from error
        if DATABASE not in found.files:
            raise self._damaged()
        if found.format != FORMAT:
            message = f"{self._path} was made by a newer Oncebox ({found.version}); install that"
            raise BackupDamaged(message)
        return found

    def _damaged(self) -> BackupDamaged:
        message = f"{self._path} is no backup, or not as it was made; take another one"
        return BackupDamaged(message)


class _Hashing:
    """Reads a file, and knows what was read."""

    def __init__(self, file: IO[bytes], tell: Callable[[int], None]) -> None:
        self._file = file
        self._tell = tell
        self.hash = hashlib.sha256()
        self.size = 0

    def read(self, size: int = _CHUNK) -> bytes:
        piece = self._file.read(size)
        self.hash.update(piece)
        self.size += len(piece)
        self._tell(len(piece))
        return piece


def _info(name: str, size: int, made_at: int) -> tarfile.TarInfo:
    info = tarfile.TarInfo(name)
    info.size, info.mtime, info.mode = size, made_at // 1000, 0o600
    return info


def _size(content: Path | bytes) -> int:
    return len(content) if isinstance(content, bytes) else content.stat().st_size


def _opened(content: Path | bytes) -> IO[bytes]:
    return io.BytesIO(content) if isinstance(content, bytes) else content.open("rb")
