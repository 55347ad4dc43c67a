"""SQLite backups: online copy, verification, tar archive with manifest, atomic replacement.

See docs/decisions/0008-use-single-file-backups-and-paused-restores.md.
"""

import fcntl
import hashlib
import io
import tarfile
from collections.abc import Callable, Iterator, Mapping
from contextlib import closing, contextmanager, suppress
from pathlib import Path
from typing import IO, Annotated

import apsw
import msgspec

from oncebox.core import faults
from oncebox.core.files import sync_file, sync_folder
from oncebox.db.queries import load
from oncebox.db.sqlite import SqliteTransaction, refuse_old_library
from oncebox.errors import (
    BackupDamaged,
    DatabaseBusy,
    DatabaseCorrupt,
    DatabaseReadOnly,
    DiskFull,
    NotFound,
    StateConflict,
    StoreFailed,
)

_sql = load(__package__, "migrate.sql")

DATABASE_FILE = "oncebox.db"
KEY_FILE = "oncebox.key"
SETTINGS_FILE = "oncebox.toml"
TEMPLATES_PREFIX = "templates/"

_FORMAT = 1
_MANIFEST_FILE = "manifest.json"
_MAX_MANIFEST_BYTES = 16 * 1024 * 1024
_CHUNK_BYTES = 1024 * 1024
#: milliseconds; no backup was made later
_YEAR_3000 = 32_503_680_000_000
#: errors while reading a damaged archive, whose sizes may be absurd
_DAMAGE_ERRORS = (
    EOFError, LookupError, ValueError, OverflowError, MemoryError, tarfile.TarError,
    msgspec.DecodeError,
)  # fmt: skip
#: pages copied between two reports of progress
_PAGES_PER_STEP = 1_000
#: how long another process may still hold the database; a short command ends soon
_BUSY_TIMEOUT_MS = 2_000
#: the bytes that every process with the SQLite database open holds a lock on
_SHARED_LOCK_START, _SHARED_LOCK_SIZE = 0x40000002, 510
_SIDECAR_SUFFIXES = ("-wal", "-shm", "-journal")
_CORRUPT_MESSAGE = "the database is corrupt; use an earlier backup"

#: called with how many more bytes are done
ReportProgress = Callable[[int], None]


class ArchiveEntry(msgspec.Struct, frozen=True):
    """The size and hash of a file in an archive."""

    size: int
    sha256: str


class Manifest(msgspec.Struct, frozen=True, kw_only=True):
    """The description of an archive, stored as its last file."""

    #: milliseconds since 1970; everything acknowledged earlier is in the backup
    made_at: Annotated[int, msgspec.Meta(ge=0, lt=_YEAR_3000)]
    #: of the Oncebox that made it
    version: str
    #: the master key its secrets are encrypted with; the key itself is included only on request
    master_key_id: str
    #: the newest migration of its database
    schema: str
    files: dict[str, ArchiveEntry] = {}
    format: int = _FORMAT


def write_archive(
    target: Path, manifest: Manifest, files: Mapping[str, IO[bytes]], report: ReportProgress
) -> Manifest:
    """Write files into an archive; return its manifest with their hashes."""
    made_at = manifest.made_at
    with tarfile.open(target, "w", format=tarfile.PAX_FORMAT) as tar:

        def add(name: str, file: IO[bytes]) -> ArchiveEntry:
            info = tarfile.TarInfo(name)
            info.size, info.mtime, info.mode = file.seek(0, io.SEEK_END), made_at // 1000, 0o600
            file.seek(0)
            source = _HashingReader(file, report)
            tar.addfile(info, source)
            return ArchiveEntry(info.size, source.hash.hexdigest())

        entries = {name: add(name, file) for name, file in files.items()}
        complete = msgspec.structs.replace(manifest, files=entries)
        text = msgspec.json.format(msgspec.json.encode(complete)) + b"\n"
        add(_MANIFEST_FILE, io.BytesIO(text))
    return complete


class Archive:
    """An archive opened for reading, see ``open_archive``."""

    def __init__(self, path: Path, file: IO[bytes]) -> None:
        self._path = path
        with _refusing_damage(path, OSError):
            self._tar = tarfile.open(fileobj=file, mode="r:")  # noqa: SIM115 - the file is closed
            self._members = {each.name: each for each in self._tar if each.isfile()}
            text = self._open_member(_MANIFEST_FILE).read(_MAX_MANIFEST_BYTES)
            self.manifest = msgspec.json.decode(text, type=Manifest)
            if DATABASE_FILE not in self.manifest.files:
                raise KeyError(DATABASE_FILE)
        if self.manifest.format != _FORMAT:
            raise BackupDamaged(
                f"{path} was made by a newer Oncebox; install version {self.manifest.version}"
            )

    def unpack(self, name: str, target: IO[bytes], report: ReportProgress) -> None:
        """Write one of its files to a target and check its size and hash.

        Raises: BackupDamaged.
        """
        with _refusing_damage(self._path):
            entry = self.manifest.files[name]
            source = _HashingReader(self._open_member(name), report)
            while source.size <= entry.size and (piece := source.read(_CHUNK_BYTES)):
                target.write(piece)
            if (source.size, source.hash.hexdigest()) != (entry.size, entry.sha256):
                raise ValueError(name)

    def read_bytes(self, name: str) -> bytes:
        """Return the content of a small file.

        Raises: BackupDamaged.
        """
        content = io.BytesIO()
        self.unpack(name, content, lambda _size: None)
        return content.getvalue()

    def _open_member(self, name: str) -> IO[bytes]:
        file = self._tar.extractfile(self._members[name])
        if file is None:
            raise KeyError(name)
        return file


@contextmanager
def open_archive(path: Path) -> Iterator[Archive]:
    """Open an archive for reading.

    Raises: NotFound, BackupDamaged.
    """
    try:
        file = path.open("rb")
    except OSError as error:
        raise NotFound(f"{path} cannot be read: {error.strerror}") from error
    with file:
        yield Archive(path, file)


@contextmanager
def _refusing_damage(path: Path, *more: type[Exception]) -> Iterator[None]:
    try:
        yield
    except _DAMAGE_ERRORS + more as error:
        raise BackupDamaged(f"{path} is damaged or not a backup; use another one") from error


class _HashingReader:
    """Reads a file; counts and hashes what was read."""

    def __init__(self, file: IO[bytes], report: ReportProgress) -> None:
        self._file = file
        self._report = report
        self.hash = hashlib.sha256()
        self.size = 0

    def read(self, size: int = _CHUNK_BYTES) -> bytes:
        piece = self._file.read(size)
        self.hash.update(piece)
        self.size += len(piece)
        self._report(len(piece))
        return piece


def database_size(path: Path) -> int:
    """Return the approximate size of a copy in bytes."""
    return path.stat().st_size + _wal_size(path)


def sidecar_files(path: Path) -> list[Path]:
    """Return the files SQLite may keep beside a database."""
    return [Path(f"{path}{suffix}") for suffix in _SIDECAR_SUFFIXES]


def copy_database(source: Path, target: Path, report: ReportProgress) -> None:
    """Copy a database as it is now to a new file that needs no log.

    Writers are not blocked; later commits are not in the copy.

    Raises: DatabaseCorrupt, DatabaseBusy.
    """
    refuse_old_library(apsw.sqlite_lib_version())
    with (
        _translate_errors(source),
        closing(_open_shared(source)) as live,
        closing(_open_private(target)) as made,
    ):
        # One read transaction for all of it: else the copy would start over at every commit.
        live.execute("BEGIN")
        live.execute("SELECT 1 FROM sqlite_schema").fetchall()
        page = int(live.pragma("page_size"))
        with made.backup("main", live, "main") as copying:
            while not copying.done:
                copying.step(_PAGES_PER_STEP)
                report(_PAGES_PER_STEP * page)
        live.execute("COMMIT")
    with _translate_errors(target), closing(_open_private(target)) as made:
        made.execute("PRAGMA journal_mode = DELETE")
    sync_file(target)


def verify_database(path: Path) -> tuple[str, str]:
    """Check every page and index of a private file; return its master key id and newest migration.

    Raises: DatabaseCorrupt; NotFound, if nothing was ever stored in it.
    """
    with _translate_errors(path), closing(_open_private(path)) as opened:
        if opened.execute("PRAGMA integrity_check(1)").get != "ok":
            raise DatabaseCorrupt(_CORRUPT_MESSAGE)
        try:
            tx = SqliteTransaction(opened)
            key, schema = tx.one(_sql.fact, name="master_key_id"), tx.one(_sql.newest)
        except apsw.SQLError:  # it has no tables
            key = schema = None
    if key is None or schema is None:
        raise NotFound("nothing was ever stored in this database; start with: oncebox serve")
    return str(key[0]), str(schema[0])


def replace_database(new: Path, path: Path, kept: Path) -> bool:
    """Replace a database that no process has open; return whether there was one.

    The old one is kept under another name. A crash at any moment leaves the old or the new
    database at ``path``.

    Raises: StateConflict, DatabaseReadOnly.
    """
    if _wal_size(new):
        raise StoreFailed(f"{new} has a write-ahead log that was not merged; try again")
    sync_file(new)
    # Where there is no file, create one: a process that opens it now waits for the lock below,
    # and SQLite then reports that the file at this name has changed.
    path.touch(mode=0o600)
    with _translate_errors(path), _exclusively(path):
        replaced = path.stat().st_size > 0
        if replaced:
            _keep_sidecars(path, kept)
            kept.hardlink_to(path)
        faults.point("restore.kept")
        new.replace(path)
        sync_folder(path.parent)
    return replaced


@contextmanager
def _exclusively(path: Path) -> Iterator[None]:
    """Lock a database that no other process has open, its log merged; later openers wait."""
    try:
        connection = _open_exclusive(path)
    except (apsw.CorruptError, apsw.NotADBError, apsw.IOError):
        # Its log cannot be merged, but no process may have it open either.
        with _shared_bytes_locked(path):
            yield
        return
    except apsw.BusyError as error:
        raise _in_use_error(path) from error
    try:
        yield
    finally:
        connection.close()


def _open_exclusive(path: Path) -> apsw.Connection:
    connection = _open_shared(path)
    try:
        # In WAL mode a process holds a shared lock as long as it has the file open. Locks taken
        # in this mode are held until the end, so that no other process gets in between.
        connection.execute("PRAGMA locking_mode = EXCLUSIVE")
        connection.execute("PRAGMA journal_mode = DELETE")
        connection.execute("BEGIN EXCLUSIVE")
        # In this mode the journal of the statement above stays.
        Path(f"{path}-journal").unlink(missing_ok=True)
    except BaseException:
        connection.close()
        raise
    return connection


@contextmanager
def _shared_bytes_locked(path: Path) -> Iterator[None]:
    with path.open("r+b") as file:
        try:
            fcntl.lockf(file, fcntl.LOCK_EX | fcntl.LOCK_NB, _SHARED_LOCK_SIZE, _SHARED_LOCK_START)
        except OSError as error:
            raise _in_use_error(path) from error
        yield


def _keep_sidecars(path: Path, kept: Path) -> None:
    """Rename the old database's log, so that it is never merged into another database."""
    for suffix in _SIDECAR_SUFFIXES:
        with suppress(FileNotFoundError):
            Path(f"{path}{suffix}").replace(f"{kept}{suffix}")


def _open_shared(path: Path) -> apsw.Connection:
    connection = apsw.Connection(str(path), flags=apsw.SQLITE_OPEN_READWRITE)
    connection.set_busy_timeout(_BUSY_TIMEOUT_MS)
    return connection


def _open_private(path: Path) -> apsw.Connection:
    """Open a file no other process knows, perhaps on a file system without locks."""
    connection = apsw.Connection(str(path), vfs="unix-none")
    for pragma in ("locking_mode = EXCLUSIVE", "journal_mode = OFF", "synchronous = OFF"):
        connection.execute(f"PRAGMA {pragma}")
    return connection


def _wal_size(path: Path) -> int:
    with suppress(FileNotFoundError):
        return Path(f"{path}-wal").stat().st_size
    return 0


@contextmanager
def _translate_errors(path: Path) -> Iterator[None]:
    """Turn apsw's errors into ours."""
    try:
        yield
    except (apsw.FullError, apsw.IOError) as error:
        raise DiskFull(
            f"the disk of {path} is full or failed; nothing was changed; free some space"
        ) from error
    except (apsw.CorruptError, apsw.NotADBError) as error:
        raise DatabaseCorrupt(_CORRUPT_MESSAGE) from error
    except (apsw.ReadOnlyError, apsw.CantOpenError, apsw.PermissionsError) as error:
        raise DatabaseReadOnly(
            f"{path} cannot be opened; check owner and permissions of it and of its folder"
        ) from error
    except apsw.BusyError as error:
        raise DatabaseBusy("another process held the database for too long; try again") from error


def _in_use_error(path: Path) -> StateConflict:
    return StateConflict(
        f"a process has {path} open; stop every service, worker and box that uses it first"
    )
