"""SQLite backups: online copy, verification, tar archive with manifest, atomic replacement."""

import fcntl
import hashlib
import io
import tarfile
from collections.abc import Callable, Iterator, Mapping
from contextlib import closing, contextmanager, suppress
from pathlib import Path
from typing import IO, Annotated, Self

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

ARCHIVE_FORMAT = 1
DATABASE_FILE = "oncebox.db"
KEY_FILE = "oncebox.key"
SETTINGS_FILE = "oncebox.toml"
#: what the names of templates begin with
TEMPLATES_PREFIX = "templates/"

_MANIFEST_FILE = "manifest.json"
_MAX_MANIFEST_BYTES = 16 * 1024 * 1024
_CHUNK_BYTES = 1024 * 1024
#: milliseconds; no backup of ours is from later
_YEAR_3000 = 32_503_680_000_000
#: what reading a tar file raises where that is damaged; its sizes may be beyond all bounds
_DAMAGE_ERRORS = (EOFError, ValueError, OverflowError, MemoryError, tarfile.TarError)


class ArchiveEntry(msgspec.Struct, frozen=True):
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
    files: dict[str, ArchiveEntry] = {}
    format: int = ARCHIVE_FORMAT


def write_archive(
    target: Path, manifest: Manifest, files: Mapping[str, Path | bytes], tell: Callable[[int], None]
) -> Manifest:
    """Write an archive; ``tell`` hears of every piece that is written, in bytes."""
    entries: dict[str, ArchiveEntry] = {}
    with tarfile.open(target, "w", format=tarfile.PAX_FORMAT) as packed:
        for name, content in files.items():
            with _open_content(content) as file:
                source = _HashingReader(file, tell)
                info = _tar_info(name, _content_size(content), manifest.made_at)
                packed.addfile(info, source)
                entries[name] = ArchiveEntry(info.size, source.hash.hexdigest())
        whole = msgspec.structs.replace(manifest, files=entries)
        text = msgspec.json.format(msgspec.json.encode(whole)) + b"\n"
        packed.addfile(_tar_info(_MANIFEST_FILE, len(text), manifest.made_at), io.BytesIO(text))
    return whole


class Archive:
    """An archive that is read: ``with Archive(path) as archive``."""

    def __init__(self, path: Path) -> None:
        """Open it and read its manifest.

        Raises: NotFound, BackupDamaged.
        """
        self._path = path
        try:
            self._tar = tarfile.open(path, "r:")  # noqa: SIM115 - closed by ``__exit__``
        except OSError as error:
            raise NotFound(f"{path} cannot be read: {error.strerror}") from error
        except _DAMAGE_ERRORS as error:
            raise self._damaged() from error
        try:
            self.manifest = self._read_manifest()
        except BaseException:
            self._tar.close()
            raise

    def __enter__(self) -> Self:
        """Be open."""
        return self

    def __exit__(self, *_exception: object) -> None:
        """Close the file."""
        self._tar.close()

    def unpack(self, name: str, target: IO[bytes], tell: Callable[[int], None]) -> None:
        """Write one of its files somewhere, and make sure that it is what was packed.

        Raises: BackupDamaged.
        """
        entry = self.manifest.files.get(name)
        member = self._tar.extractfile(self._members[name]) if name in self._members else None
        if entry is None or member is None:
            raise self._damaged()
        try:
            source = _HashingReader(member, tell)
            while source.size <= entry.size and (piece := source.read(_CHUNK_BYTES)):
                target.write(piece)
        except _DAMAGE_ERRORS as error:
            raise self._damaged() from error
        if (source.size, source.hash.hexdigest()) != (entry.size, entry.sha256):
            raise self._damaged()

    def read_bytes(self, name: str) -> bytes:
        """Return one of its small files.

        Raises: BackupDamaged.
        """
        found = io.BytesIO()
        self.unpack(name, found, lambda _size: None)
        return found.getvalue()

    def _read_manifest(self) -> Manifest:
        try:
            self._members = {each.name: each for each in self._tar if each.isfile()}
            member = self._members[_MANIFEST_FILE]
            file = self._tar.extractfile(member)
            if file is None or member.size > _MAX_MANIFEST_BYTES:
                raise self._damaged()
            found = msgspec.json.decode(file.read(), type=Manifest)
        except (KeyError, OSError, *_DAMAGE_ERRORS, msgspec.DecodeError) as error:
            raise self._damaged() from error
        if DATABASE_FILE not in found.files:
            raise self._damaged()
        if found.format != ARCHIVE_FORMAT:
            raise BackupDamaged(
                f"{self._path} was made by a newer Oncebox ({found.version}); install that"
            )
        return found

    def _damaged(self) -> BackupDamaged:
        message = f"{self._path} is no backup, or not as it was made; take another one"
        return BackupDamaged(message)


class _HashingReader:
    """Reads a file, and knows what was read."""

    def __init__(self, file: IO[bytes], tell: Callable[[int], None]) -> None:
        self._file = file
        self._report_progress = tell
        self.hash = hashlib.sha256()
        self.size = 0

    def read(self, size: int = _CHUNK_BYTES) -> bytes:
        piece = self._file.read(size)
        self.hash.update(piece)
        self.size += len(piece)
        self._report_progress(len(piece))
        return piece


def _tar_info(name: str, size: int, made_at: int) -> tarfile.TarInfo:
    info = tarfile.TarInfo(name)
    info.size, info.mtime, info.mode = size, made_at // 1000, 0o600
    return info


def _content_size(content: Path | bytes) -> int:
    return len(content) if isinstance(content, bytes) else content.stat().st_size


def _open_content(content: Path | bytes) -> IO[bytes]:
    return io.BytesIO(content) if isinstance(content, bytes) else content.open("rb")


#: hears how many bytes more are done
ReportProgress = Callable[[int], None]

#: pages copied between two words on how far it is
_PAGES_PER_STEP = 1_000
#: how long another program may still hold the database; a short command is soon over
_BACKUP_BUSY_TIMEOUT_MS = 2_000
#: the bytes that whoever has a SQLite database open holds a lock on
_SHARED_LOCK_START, _SHARED_LOCK_SIZE = 0x40000002, 510
#: what may lie beside a database and belongs to it
_SIDECAR_SUFFIXES = ("-wal", "-shm", "-journal")


def database_size(path: Path) -> int:
    """Return how many bytes a copy would have, about."""
    return path.stat().st_size + _wal_size(path)


def sidecar_files(path: Path) -> list[Path]:
    """Return the files that may lie beside a database and belong to it."""
    return [Path(f"{path}{suffix}") for suffix in _SIDECAR_SUFFIXES]


def copy_database(source: Path, target: Path, tell: ReportProgress) -> None:
    """Copy a database as it is now to a new file, which stands for itself without a log.

    Who writes meanwhile is not held up; what is committed later is not in the copy.

    Raises: DatabaseCorrupt, DatabaseBusy.
    """
    refuse_old_library(apsw.sqlite_lib_version())
    with (
        _translate_errors(source),
        closing(_open_shared(source)) as live,
        closing(_open_private(target)) as made,
    ):
        # One reading from beginning to end: else the copy would begin anew at every commit.
        live.execute("BEGIN")
        live.execute("SELECT 1 FROM sqlite_schema").fetchall()
        page = int(live.pragma("page_size"))
        with made.backup("main", live, "main") as copying:
            while not copying.done:
                copying.step(_PAGES_PER_STEP)
                tell(_PAGES_PER_STEP * page)
        live.execute("COMMIT")
    with _translate_errors(target), closing(_open_private(target)) as made:
        made.execute("PRAGMA journal_mode = DELETE")
    sync_file(target)


def verify_database(path: Path) -> tuple[str, str]:
    """Read a whole private file, and make sure that every page and index of it is sound.

    Return the id of the master key that it belongs to, and the name of its newest migration.

    Raises: DatabaseCorrupt, NotFound, when nothing was ever stored in it.
    """
    with _translate_errors(path), closing(_open_private(path)) as opened:
        if opened.execute("PRAGMA integrity_check(1)").get != "ok":
            raise DatabaseCorrupt(_CORRUPT_MESSAGE)
        try:
            tx = SqliteTransaction(opened)
            key, schema = tx.one(_sql.fact, name="master_key_id"), tx.one(_sql.newest)
        except apsw.SQLError:  # it has not even the tables
            key = schema = None
    if key is None or schema is None:
        raise NotFound("nothing was ever stored in this database; start with: oncebox serve")
    return str(key[0]), str(schema[0])


def replace_database(new: Path, path: Path, kept: Path) -> bool:
    """Put a database in the place of another, whole, while nobody has it open.

    The other is kept under a name of its own; return whether there was one. A crash at any
    moment leaves the one or the other at ``path``.

    Raises: StateConflict, DatabaseReadOnly.
    """
    if _wal_size(new):
        raise StoreFailed(f"{new} has a log that was not taken in; try again")
    sync_file(new)
    # A file of our own where there is none: whoever opens it now waits for the lock below, and
    # is told by SQLite then that the file is no longer the one of that name.
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
    """Hold a database that nobody else has open, its log taken in; who comes later waits."""
    try:
        connection = _open_exclusive(path)
    except (apsw.CorruptError, apsw.NotADBError, apsw.IOError):
        with _shared_bytes_locked(
            path
        ):  # nothing can be taken in; but nobody may have it open either
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
        # Every user of a log holds a shared lock for as long as it has the file open. Locks that
        # are taken in this mode stay until the end, so that nobody slips in between.
        connection.execute("PRAGMA locking_mode = EXCLUSIVE")
        connection.execute("PRAGMA journal_mode = DELETE")
        connection.execute("BEGIN EXCLUSIVE")
        # In this mode the journal of the change above stays, though it is over.
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
    """Keep what was left beside a database, so that it is never taken into another one."""
    for suffix in _SIDECAR_SUFFIXES:
        with suppress(FileNotFoundError):
            Path(f"{path}{suffix}").replace(f"{kept}{suffix}")


def _open_shared(path: Path) -> apsw.Connection:
    connection = apsw.Connection(str(path), flags=apsw.SQLITE_OPEN_READWRITE)
    connection.set_busy_timeout(_BACKUP_BUSY_TIMEOUT_MS)
    return connection


def _open_private(path: Path) -> apsw.Connection:
    """Open a file that nobody else knows; it may lie where locks do not work."""
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
            f"the disk of {path} is full or failed; nothing was changed; free some room"
        ) from error
    except (apsw.CorruptError, apsw.NotADBError) as error:
        raise DatabaseCorrupt(_CORRUPT_MESSAGE) from error
    except (apsw.ReadOnlyError, apsw.CantOpenError, apsw.PermissionsError) as error:
        raise DatabaseReadOnly(
            f"{path} cannot be opened; check owner and permissions of it and of its folder"
        ) from error
    except apsw.BusyError as error:
        raise DatabaseBusy("another process held the database for too long; try again") from error


_CORRUPT_MESSAGE = "the database is not healthy; use an earlier backup"


def _in_use_error(path: Path) -> StateConflict:
    message = f"a program has {path} open; stop every service, worker and box that uses it first"
    return StateConflict(message)
