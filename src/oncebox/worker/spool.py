"""The spool: a file on this machine that remembers what was sent while the ledger was away.

One line for each step, sealed, and on disk before the next step is taken. One process at a time
has it; what another one left behind is read by the next.
"""

import base64
import binascii
import fcntl
import os
from pathlib import Path

import msgspec

from oncebox.errors import MasterKeyWrong
from oncebox.model.outcome import NotSent, Phase, Unknown
from oncebox.model.spooled import Begun, Marked, Spooled, Step
from oncebox.seal import MasterKey

_PLACE = b"oncebox fail open spool 1"
_END = b"\n"
#: bytes that a spool may have
_LARGEST = 512 * 1024 * 1024
#: of a mail whose process was lost after the marker
_LOST = Unknown(code="process_lost", phase=Phase.MARKED)

_encode = msgspec.msgpack.Encoder().encode
_decode = msgspec.msgpack.Decoder(Step).decode


class SpoolUnusable(Exception):
    """The spool cannot be used, so that nothing may be sent past the ledger."""


class Spool:
    """Steps in a file. Its words wait for the disk: call them in a thread."""

    def __init__(self, path: Path, key: MasterKey) -> None:
        """Touch nothing yet."""
        self._path = path
        self._key = key
        self._handle: int | None = None
        self._size = 0

    def open(self) -> list[Spooled] | None:
        """Have the spool, and return what was left in it; None if this process has it already.

        Raises: SpoolUnusable, also if another process has it.
        """
        if self._handle is not None:
            return None
        try:
            handle = self._locked()
            try:
                left = self._read(handle)
            except BaseException:
                os.close(handle)
                raise
        except (OSError, MasterKeyWrong, msgspec.MsgspecError, binascii.Error) as error:
            raise SpoolUnusable from error
        self._handle = handle
        return left

    def append(self, step: Step) -> None:
        """Write a step down; when this returns, it is on disk.

        Raises: SpoolUnusable; then it is not in the file.
        """
        line = base64.b64encode(self._key.seal(_encode(step), bound_to=_PLACE)) + _END
        if self._handle is None or self._size + len(line) > _LARGEST:
            raise SpoolUnusable
        try:
            _write(self._handle, line)
            os.fsync(self._handle)
        except OSError as error:
            self._cut(self._size)
            raise SpoolUnusable from error
        self._size += len(line)

    def empty(self) -> None:
        """Forget all steps.

        Raises: SpoolUnusable.
        """
        self._cut(0)

    def close(self) -> None:
        """Leave the spool to others."""
        if self._handle is not None:
            os.close(self._handle)
            self._handle = None

    def _locked(self) -> int:
        self._path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        flags = os.O_RDWR | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC | os.O_NOFOLLOW
        handle = os.open(self._path, flags, 0o600)
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
            _sync(self._path.parent)
        except BaseException:
            os.close(handle)
            raise
        return handle

    def _read(self, handle: int) -> list[Spooled]:
        """Return what is in the file; a last line that was cut short never counted."""
        with open(handle, "rb", closefd=False) as file:
            whole, _, torn = file.read().rpartition(_END)
        self._size = len(whole) + len(_END) if whole else 0
        if torn:
            os.ftruncate(handle, self._size)
            os.fsync(handle)
        return _spooled([self._step(line) for line in whole.split(_END) if line])

    def _step(self, line: bytes) -> Step:
        sealed = base64.b64decode(line, validate=True)
        step: Step = _decode(self._key.open(sealed, bound_to=_PLACE))
        return step

    def _cut(self, size: int) -> None:
        if self._handle is None:
            raise SpoolUnusable
        try:
            os.ftruncate(self._handle, size)
            os.fsync(self._handle)
        except OSError as error:
            self.close()  # nobody knows what is in it; it is read anew
            raise SpoolUnusable from error
        self._size = size


def _spooled(steps: list[Step]) -> list[Spooled]:
    """Return what may have been taken; what was never marked, or surely not taken, is nothing."""
    begun: dict[str, Begun] = {}
    found: dict[str, Spooled] = {}
    for step in steps:
        if isinstance(step, Begun):
            begun[step.new.id] = step
        elif step.id in begun:
            outcome, at = (_LOST, step.at) if isinstance(step, Marked) else (step.outcome, None)
            was = found.get(step.id)
            at = at or (was.at if was else begun[step.id].at)
            found[step.id] = Spooled(new=begun[step.id].new, at=at, outcome=outcome)
    return [each for each in found.values() if not isinstance(each.outcome, NotSent)]


def _write(handle: int, data: bytes) -> None:
    left = memoryview(data)
    while left:
        left = left[os.write(handle, left) :]


def _sync(folder: Path) -> None:
    """Bring a folder's list of files to disk."""
    handle = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
