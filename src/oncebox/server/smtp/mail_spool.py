"""Spool for large incoming mail: encrypted temporary files and a memory budget.

A spool file has no name from its first moment on, so that whatever happens it leaves nothing
behind. What is in it is encrypted with a key that is nowhere but in memory, because a disk keeps
what files without a name have left on it. All work on it is done in threads.
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
    """Where the large mails of one server are, each in a file of its own."""

    def __init__(self, folder: Path, *, in_memory: int) -> None:
        """Keep files in a folder, and at most so many bytes of them in memory."""
        self._folder = folder
        self._threads = ThreadPoolExecutor(_THREADS, thread_name_prefix="oncebox-spool")
        self.memory = MemoryBudget(in_memory)

    def file(self) -> "SpoolFile":
        """Return a new file; it is made when something is written."""
        return SpoolFile(self._folder, self._threads)

    def close(self) -> None:
        """End the threads when their work is done."""
        self._threads.shutdown(wait=False)


class SpoolFile:
    """One mail on disk, or a part of it."""

    def __init__(self, folder: Path, threads: ThreadPoolExecutor) -> None:
        """Prepare; nothing is opened yet."""
        self._folder = folder
        self._threads = threads
        self._file: IO[bytes] | None = None
        self._is_closed = False
        # Nobody else can write into the file, so that it need not be authenticated.
        self._cipher = Cipher(AES256(os.urandom(32)), CTR(os.urandom(16)))
        self._encryptor = self._cipher.encryptor()
        #: held by the thread that works on the file
        self._lock = Lock()

    async def add(self, pieces: Sequence[bytes]) -> None:
        """Append.

        Raises: OSError.
        """
        await asyncio.get_running_loop().run_in_executor(self._threads, self._add, pieces)

    async def read(self) -> bytes:
        """Return the whole.

        Raises: OSError.
        """
        return await asyncio.get_running_loop().run_in_executor(self._threads, self._read)

    def close(self) -> None:
        """Let go of the file, when the work on it is done."""
        self._threads.submit(self._close)

    def _add(self, pieces: Sequence[bytes]) -> None:
        with self._lock:
            if self._is_closed:
                return  # nobody waits for it any more
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
    """Write a piece whole, also where the system takes a part of it."""
    left = memoryview(piece)
    while left:
        left = left[file.write(left) :]


class MemoryBudget:
    """Bytes that may be in memory at once; whoever wants more than is left waits in line."""

    def __init__(self, most: int) -> None:
        """Begin with all of them free."""
        self._max_bytes = most
        self._used = 0
        self._waiting: deque[tuple[int, asyncio.Future[None]]] = deque()

    @property
    def used(self) -> int:
        """Bytes that are lent."""
        return self._used

    @asynccontextmanager
    async def reserve(self, size: int) -> AsyncIterator[None]:
        """Lend so many bytes; what is larger than everything goes alone."""
        size = min(size, self._max_bytes)
        if self._waiting or not self._fits(size):
            turn = asyncio.get_running_loop().create_future()
            self._waiting.append((size, turn))
            try:
                await turn
            except asyncio.CancelledError:
                if turn.done() and not turn.cancelled():
                    self._release(size)  # it was lent in the very moment of the cancellation
                raise
        else:
            self._used += size
        try:
            yield
        finally:
            self._release(size)

    def _fits(self, size: int) -> bool:
        return self._used + size <= self._max_bytes

    def _release(self, size: int) -> None:
        self._used -= size
        while self._waiting:
            size, turn = self._waiting[0]
            if turn.done():  # whoever it was has gone
                self._waiting.popleft()
                continue
            if not self._fits(size):
                break
            self._waiting.popleft()
            self._used += size
            turn.set_result(None)


#: trouble of the system that means that there is no room
_DISK_FULL_ERRORS = frozenset({errno.ENOSPC, errno.EDQUOT, errno.EFBIG})


class SpooledMail:
    """One large mail: what of it is on disk."""

    def __init__(self, spool: MailSpool, content: MailContent) -> None:
        """Begin with nothing."""
        self.content = content
        self._file = spool.file()

    async def flush(self) -> None:
        """Bring what has come to disk; where that fails, the mail is refused at its end."""
        try:
            await self._file.add(self.content.release())
        except OSError as error:
            self.content.refuse(failure_reply(error))

    async def read_all(self) -> bytes:
        """Return the mail.

        Raises: OSError.
        """
        return await self._file.read()

    def close(self) -> None:
        """Let go of it."""
        self._file.close()


def failure_reply(error: BaseException) -> bytes:
    """Return the reply that lets a sender try again, whatever happened to us."""
    full = isinstance(error, DiskFull) or (
        isinstance(error, OSError) and error.errno in _DISK_FULL_ERRORS
    )
    return smtp_replies.DISK_FULL if full else smtp_replies.TRY_LATER
