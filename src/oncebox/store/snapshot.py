"""Snapshots of a SQLite file: copied while others write, and put in its place when nobody does."""

import fcntl
import os
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager, suppress
from pathlib import Path

import apsw

from oncebox import faults
from oncebox.errors import (
    DatabaseBusy,
    DatabaseCorrupt,
    DatabaseReadOnly,
    DiskFull,
    NotFound,
    StateConflict,
    StoreFailed,
)
from oncebox.store.queries import load
from oncebox.store.sqlite import SqliteTransaction, refuse_old_library

_sql = load(__package__, "migrate.sql")

#: hears how many bytes more are done
Tell = Callable[[int], None]

#: pages copied between two words on how far it is
_PAGES = 1_000
#: how long another program may still hold the database; a short command is soon over
_PATIENCE_MS = 2_000
#: the bytes that whoever has a SQLite database open holds a lock on
_SHARED_FIRST, _SHARED_SIZE = 0x40000002, 510
#: what may lie beside a database and belongs to it
_BESIDE = ("-wal", "-shm", "-journal")


def size(path: Path) -> int:
    """Return how many bytes a copy would have, about."""
    return path.stat().st_size + _log(path)


def beside(path: Path) -> list[Path]:
    """Return the files that may lie beside a database and belong to it."""
    return [Path(f"{path}{suffix}") for suffix in _BESIDE]


def copy(source: Path, target: Path, tell: Tell) -> None:
    """Copy a database as it is now to a new file, which stands for itself without a log.

    Who writes meanwhile is not held up; what is committed later is not in the copy.

    Raises: DatabaseCorrupt, DatabaseBusy.
    """
    refuse_old_library(apsw.sqlite_lib_version())
    with _told(source), closing(_open(source)) as live, closing(_private(target)) as made:
        # One reading from beginning to end: else the copy would begin anew at every commit.
        live.execute("BEGIN")
        live.execute("SELECT 1 FROM sqlite_schema").fetchall()
        page = int(live.pragma("page_size"))
        with made.backup("main", live, "main") as copying:
            while not copying.done:
                copying.step(_PAGES)
                tell(_PAGES * page)
        live.execute("COMMIT")
    with _told(target), closing(_private(target)) as made:
        made.execute("PRAGMA journal_mode = DELETE")
    sync(target)


def check(path: Path) -> tuple[str, str]:
    """Read a whole private file, and make sure that every page and index of it is sound.

    Return the id of the master key that it belongs to, and the name of its newest migration.

    Raises: DatabaseCorrupt, NotFound, when nothing was ever stored in it.
    """
    with _told(path), closing(_private(path)) as opened:
        if opened.execute("PRAGMA integrity_check(1)").get != "ok":
            raise DatabaseCorrupt(_CORRUPT)
        try:
            tx = SqliteTransaction(opened)
            key, schema = tx.one(_sql.fact, name="master_key_id"), tx.one(_sql.newest)
        except apsw.SQLError:  # it has not even the tables
            key = schema = None
    if key is None or schema is None:
        message = "nothing was ever stored in this database; start with: oncebox serve"
        raise NotFound(message)
    return str(key[0]), str(schema[0])


def place(new: Path, path: Path, kept: Path) -> bool:
    """Put a database in the place of another, whole, while nobody has it open.

    The other is kept under a name of its own; return whether there was one. A crash at any
    moment leaves the one or the other at ``path``.

    Raises: StateConflict, DatabaseReadOnly.
    """
    if _log(new):
        message = f"{new} has a log that was not taken in; try again"
        raise StoreFailed(message)
    sync(new)
    # A file of our own where there is none: whoever opens it now waits for the lock below, and
    # is told by SQLite then that the file is no longer the one of that name.
    path.touch(mode=0o600)
    with _told(path), _alone(path):
        replaced = path.stat().st_size > 0
        if replaced:
            _put_aside(path, kept)
            kept.hardlink_to(path)
        faults.point("restore.kept")
        new.replace(path)
        sync_folder(path.parent)
    return replaced


def sync(path: Path) -> None:
    """Wait until what is in a file is on disk."""
    _sync(path, os.O_RDONLY)


def sync_folder(path: Path) -> None:
    """Wait until the names in a folder are on disk."""
    _sync(path, os.O_RDONLY | os.O_DIRECTORY)


def _sync(path: Path, flags: int) -> None:
    handle = os.open(path, flags)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


@contextmanager
def _alone(path: Path) -> Iterator[None]:
    """Hold a database that nobody else has open, its log taken in; who comes later waits."""
    try:
        connection = _sole(path)
    except (apsw.CorruptError, apsw.NotADBError, apsw.IOError):
        with _locked(path):  # nothing can be taken in; but nobody may have it open either
            yield
        return
    except apsw.BusyError as error:
        raise _in_use(path) from error
    try:
        yield
    finally:
        connection.close()


def _sole(path: Path) -> apsw.Connection:
    connection = _open(path)
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
def _locked(path: Path) -> Iterator[None]:
    with path.open("r+b") as file:
        try:
            fcntl.lockf(file, fcntl.LOCK_EX | fcntl.LOCK_NB, _SHARED_SIZE, _SHARED_FIRST)
        except OSError as error:
            raise _in_use(path) from error
        yield


def _put_aside(path: Path, kept: Path) -> None:
    """Keep what was left beside a database, so that it is never taken into another one."""
    for suffix in _BESIDE:
        with suppress(FileNotFoundError):
            Path(f"{path}{suffix}").replace(f"{kept}{suffix}")


def _open(path: Path) -> apsw.Connection:
    connection = apsw.Connection(str(path), flags=apsw.SQLITE_OPEN_READWRITE)
    connection.set_busy_timeout(_PATIENCE_MS)
    return connection


def _private(path: Path) -> apsw.Connection:
    """Open a file that nobody else knows; it may lie where locks do not work."""
    connection = apsw.Connection(str(path), vfs="unix-none")
    for pragma in ("locking_mode = EXCLUSIVE", "journal_mode = OFF", "synchronous = OFF"):
        connection.execute(f"PRAGMA {pragma}")
    return connection


def _log(path: Path) -> int:
    with suppress(FileNotFoundError):
        return Path(f"{path}-wal").stat().st_size
    return 0


@contextmanager
def _told(path: Path) -> Iterator[None]:
    """Turn apsw's errors into ours."""
    try:
        yield
    except (apsw.FullError, apsw.IOError) as error:
        message = f"the disk of {path} is full or failed; nothing was changed; free some room"
        raise DiskFull(message) from error
    except (apsw.CorruptError, apsw.NotADBError) as error:
        raise DatabaseCorrupt(_CORRUPT) from error
    except (apsw.ReadOnlyError, apsw.CantOpenError, apsw.PermissionsError) as error:
        message = f"{path} cannot be opened; check owner and permissions of it and of its folder"
        raise DatabaseReadOnly(message) from error
    except apsw.BusyError as error:
        message = "another process held the database for too long; try again"
        raise DatabaseBusy(message) from error


_CORRUPT = "the database is not healthy; use an earlier backup"


def _in_use(path: Path) -> StateConflict:
    message = f"a program has {path} open; stop every service, worker and box that uses it first"
    return StateConflict(message)
