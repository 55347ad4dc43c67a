"""A folder where a large file is made before anybody sees it."""

import errno
import fcntl
import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from oncebox.errors import DatabaseReadOnly, DiskFull, OnceboxError, StateConflict

_MEBIBYTE = 1024 * 1024
_FULL = frozenset({errno.ENOSPC, errno.EDQUOT})


@contextmanager
def workshop(folder: Path, room: int) -> Iterator[Path]:
    """Make a private folder for one process, empty, with room for so many bytes; remove it after.

    What a killed process has left in it is thrown away by the next.

    Raises: StateConflict, DiskFull, DatabaseReadOnly.
    """
    try:
        handle = _taken(folder)
        try:
            for left in folder.iterdir():
                left.unlink()
            _refuse_full(folder, room)
            yield folder
        finally:
            shutil.rmtree(folder, ignore_errors=True)
            os.close(handle)
    except OSError as error:
        raise _unusable(folder.parent, error) from error


def _taken(folder: Path) -> int:
    """Have the folder for ourselves; whoever does not get it leaves it alone.

    Where anybody may make folders, one of this name may be a trap: a link to files that would
    be thrown away, or somebody's own, in which the copy could be read.
    """
    made = _made(folder)
    handle = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW)
    try:
        if not made:
            _refuse_foreign(folder, handle)
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BaseException as error:
        os.close(handle)
        if isinstance(error, BlockingIOError):
            message = f"another process is at work in {folder}; wait for it, or stop it"
            raise StateConflict(message) from error
        raise
    return handle


def _refuse_foreign(folder: Path, handle: int) -> None:
    if os.fstat(handle).st_uid != os.geteuid():
        message = f"{folder} belongs to somebody else; remove it, or choose another folder"
        raise StateConflict(message)


def _made(folder: Path) -> bool:
    """Make the folder; say whether it was not there."""
    folder.parent.mkdir(parents=True, exist_ok=True)
    try:
        folder.mkdir(mode=0o700)
    except FileExistsError:
        return False
    return True


def _refuse_full(folder: Path, room: int) -> None:
    free = shutil.disk_usage(folder).free
    if free < room:
        message = (
            f"{folder.parent} has {free // _MEBIBYTE} MiB free and {room // _MEBIBYTE} MiB are "
            "needed; free some room, or choose another folder"
        )
        raise DiskFull(message)


def _unusable(folder: Path, error: OSError) -> OnceboxError:
    if error.errno in _FULL:
        return DiskFull(f"the disk of {folder} is full; nothing was changed; free some room")
    message = f"{folder} cannot be used ({error.strerror}); choose another, or check its owner"
    return DatabaseReadOnly(message)
