"""Checkpoints of the SQLite log, by one process at a time and off the writer's path."""

import fcntl
import os
from contextlib import suppress
from pathlib import Path
from threading import Thread

import apsw

from oncebox import faults

#: pages in the log before it is copied into the database
_PAGES = 16_000


class Checkpointer:
    """Copies the log into the database in the background, then lets the writer finish it.

    Every connection has its own checkpoints switched off; whichever process holds the lock
    beside the database copies for all. The background copy does the bulk without stopping
    the writer; the writer then copies the little that came meanwhile, and the log starts anew.
    Nothing here may fail a commit that has already happened.
    """

    def __init__(self, path: Path) -> None:
        """Prepare for the database at this path; the lock is taken when first needed."""
        self._path = path
        self._lock = path.with_name(path.name + "-checkpoint")
        self._handle: int | None = None
        self._thread: Thread | None = None
        self._copied = False

    def after_commit(self, connection: apsw.Connection, pages: int) -> None:
        """Start or finish a checkpoint when the log has grown; called by the writer."""
        if self._copied:
            self._copied = False
            checkpoint(connection)
        elif pages > _PAGES and self._is_free():
            self._start_copy()

    def _start_copy(self) -> None:
        thread = Thread(target=self._copy, name="oncebox-checkpoint", daemon=True)
        try:
            thread.start()
        except RuntimeError:  # no thread to be had; the commit is safe, the copy can wait
            self._give_lock_back()
        else:
            self._thread = thread

    def close(self) -> None:
        """Wait for a running copy."""
        if self._thread is not None:
            self._thread.join()

    def _is_free(self) -> bool:
        running = self._thread is not None and self._thread.is_alive()
        return not running and self._take_lock()

    def _take_lock(self) -> bool:
        try:
            handle = os.open(self._lock, os.O_RDWR | os.O_CREAT, 0o600)
        except OSError:
            return False
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            os.close(handle)
            return False
        self._handle = handle
        return True

    def _copy(self) -> None:
        """Copy, then give the lock back: this process may never write again."""
        try:
            with suppress(apsw.Error):  # the next one will do it
                connection = apsw.Connection(str(self._path))
                try:
                    connection.execute("PRAGMA synchronous = FULL")
                    checkpoint(connection)
                    self._copied = True
                finally:
                    connection.close()
        finally:
            self._give_lock_back()

    def _give_lock_back(self) -> None:
        if self._handle is not None:
            os.close(self._handle)
            self._handle = None


def checkpoint(connection: apsw.Connection) -> None:
    """Copy what can be copied without stopping anybody; what cannot waits for the next."""
    faults.point("upkeep.checkpointing")
    with suppress(apsw.Error):
        connection.wal_checkpoint(mode=apsw.SQLITE_CHECKPOINT_PASSIVE)
