"""Spool for large incoming mail: encrypted temporary files and a memory budget.

A spool file never has a name, so a crash leaves nothing behind. Its content is encrypted with a
key in memory only, because the blocks of a deleted file stay on the disk. Threads do the work.
"""

import asyncio
import errno
import os
import tempfile
from collections import deque
from collections.abc import AsyncIterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager
from pathlib import Path
from threading import Lock
from typing import IO

from cryptography.hazmat.primitives.ciphers import Cipher
from cryptography.hazmat.primitives.ciphers.algorithms import AES256
from cryptography.hazmat.primitives.ciphers.modes import CTR

from oncebox.errors import DiskFull
from oncebox.server.smtp import smtp_replies
from oncebox.server.smtp.smtp_session import MailContent

_THREADS = 2


class MailSpool:
    """The spool of one server: large mails, each in a file of its own."""

    def __init__(self, folder: Path, *, in_memory: int) -> None:
        self._folder = folder
        self._threads = ThreadPoolExecutor(_THREADS, thread_name_prefix="oncebox-spool")
        self.memory = MemoryBudget(in_memory)

    def file(self) -> "SpoolFile":
        """Return a new file; it is created by the first write."""
        return SpoolFile(self._folder, self._threads)

    def close(self) -> None:
        """End the threads when their work is done."""
        self._threads.shutdown(wait=False)


class SpoolFile:
    """The part of one large mail that is on disk."""

    def __init__(self, folder: Path, threads: ThreadPoolExecutor) -> None:
        self._folder = folder
        self._threads = threads
        self._file: IO[bytes] | None = None
        self._is_closed = False
        # Nobody else can write into the file, so it need not be authenticated.
        self._cipher = Cipher(AES256(os.urandom(32)), CTR(os.urandom(16)))
        self._encryptor = self._cipher.encryptor()
        #: held by the thread that works on the file
        self._lock = Lock()

    async def add(self, pieces: Sequence[bytes]) -> None:
        """Append.

        Raises: OSError.
        """
        await asyncio.get_running_loop().run_in_executor(self._threads, self._add, pieces)

    async def flush(self, content: MailContent) -> None:
        """Append the received part of a mail; if that fails, the mail is refused at its end."""
        try:
            await self.add(content.release())
        except OSError as error:
            content.refuse(failure_reply(error))

    async def read(self) -> bytes:
        """Return the whole content.

        Raises: OSError.
        """
        return await asyncio.get_running_loop().run_in_executor(self._threads, self._read)

    def close(self) -> None:
        """Delete the file when the work on it is done."""
        self._threads.submit(self._close)

    def _add(self, pieces: Sequence[bytes]) -> None:
        with self._lock:
            if self._is_closed:
                return  # the connection is gone
            if self._file is None:
                self._folder.mkdir(mode=0o700, parents=True, exist_ok=True)
                # Closed by ``_close``, or with the process.
                self._file = tempfile.TemporaryFile(dir=self._folder, buffering=0)  # noqa: SIM115
            for piece in pieces:
                _write_all(self._file, self._encryptor.update(piece))

    def _read(self) -> bytes:
        with self._lock:
            if self._file is None:
                return b""
            self._file.seek(0)
            return self._cipher.decryptor().update(self._file.read())

    def _close(self) -> None:
        with self._lock:
            self._is_closed = True
            if self._file is not None:
                self._file.close()
                self._file = None


def _write_all(file: IO[bytes], piece: bytes) -> None:
    """Write all of a piece; one system call may write a part of it."""
    left = memoryview(piece)
    while left:
        left = left[file.write(left) :]


class MemoryBudget:
    """Bytes that may be in memory at once; further reservations wait in order."""

    def __init__(self, most: int) -> None:
        self._max_bytes = most
        self.used = 0
        self._waiting: deque[tuple[int, asyncio.Future[None]]] = deque()

    @asynccontextmanager
    async def reserve(self, size: int) -> AsyncIterator[None]:
        """Reserve so many bytes; a reservation larger than the budget takes all of it."""
        size = min(size, self._max_bytes)
        if self._waiting or self.used + size > self._max_bytes:
            turn = asyncio.get_running_loop().create_future()
            self._waiting.append((size, turn))
            try:
                await turn
            except asyncio.CancelledError:
                if turn.done() and not turn.cancelled():
                    self._release(size)  # reserved just when it was cancelled
                raise
        else:
            self.used += size
        try:
            yield
        finally:
            self._release(size)

    def _release(self, size: int) -> None:
        self.used -= size
        while self._waiting:
            size, turn = self._waiting[0]
            if turn.done():  # cancelled
                self._waiting.popleft()
                continue
            if self.used + size > self._max_bytes:
                break
            self._waiting.popleft()
            self.used += size
            turn.set_result(None)


_DISK_FULL_ERRORS = frozenset({errno.ENOSPC, errno.EDQUOT, errno.EFBIG})


def failure_reply(error: BaseException) -> bytes:
    """Return the reply that makes the sender try again."""
    full = isinstance(error, DiskFull) or (
        isinstance(error, OSError) and error.errno in _DISK_FULL_ERRORS
    )
    return smtp_replies.DISK_FULL if full else smtp_replies.TRY_LATER
