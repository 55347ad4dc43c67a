"""A folder where a large file is made before anybody sees it."""

import fcntl
import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from oncebox.errors import DatabaseReadOnly, DiskFull, StateConflict

_MEBIBYTE = 1024 * 1024


@contextmanager
def workshop(folder: Path, room: int) -> Iterator[Path]:
    """Make a private folder for one process, empty, with room for so many bytes; remove it after.

    What a killed process has left in it is thrown away by the next.

    Raises: StateConflict, DiskFull, DatabaseReadOnly.
    """
    try:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        handle = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    except OSError as error:
        message = f"{folder.parent} cannot be written; choose another folder, or check its owner"
        raise DatabaseReadOnly(message) from error
    try:
        _take(handle, folder)
        for left in folder.iterdir():
            left.unlink()
        _refuse_full(folder, room)
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)
        os.close(handle)


def _take(handle: int, folder: Path) -> None:
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError as error:
        message = f"another process is at work in {folder}; wait for it, or stop it"
        raise StateConflict(message) from error


def _refuse_full(folder: Path, room: int) -> None:
    free = shutil.disk_usage(folder).free
    if free < room:
        message = (
            f"{folder.parent} has {free // _MEBIBYTE} MiB free and {room // _MEBIBYTE} MiB are "
            "needed; free some room, or choose another folder"
        )
        raise DiskFull(message)
