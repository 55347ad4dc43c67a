"""A disk whose power can be cut: whatever was not flushed to it is gone."""

import contextlib
import ctypes
import errno
import fcntl
import os
import shutil
import signal
import struct
import subprocess
import sys
import tempfile
from collections.abc import Iterable
from pathlib import Path
from typing import Final, Self

from tests.torture.processes import TooLate, await_death, freeze, until

#: ``FS_IOC_SHUTDOWN``: from this call on, the file system writes nothing more.
_SHUTDOWN: Final = 0x8004587D
#: Throw the journal's unwritten part away too, as a real power cut does.
_NO_LOG_FLUSH: Final = struct.pack("I", 2)
#: ``CLONE_NEWNS``: mounts of this process are seen by itself and its children only.
_NEW_MOUNT_NAMESPACE: Final = 0x00020000
#: ``MS_REC | MS_PRIVATE``: nothing mounted here is passed on to the outside.
_PRIVATE_FROM_ROOT_DOWN: Final = (1 << 14) | (1 << 18)

_TOOLS: Final = ("mkfs.ext4", "mount", "umount")
_PATIENCE: Final = 10.0


class CannotCutPower(RuntimeError):
    """This machine does not let us mount a disk of our own; the message says why."""


class CutDisk:
    """An ext4 file system in an image file, mounted where only we and our children see it.

    Use it as a context manager from the main thread. Processes that shall write to it must be
    started after that. If this process is killed, the kernel takes mount and loop device away
    with the last of the children.
    """

    def __init__(self, *, mebibytes: int = 256, parent: Path | None = None) -> None:
        self._mebibytes = mebibytes
        self._parent = parent if parent is not None else _quick_place()
        self._home: Path | None = None
        self._mounted = False
        #: How many times the power was cut.
        self.cuts = 0

    def __enter__(self) -> Self:
        self.open()
        return self

    def __exit__(self, *exception: object) -> None:
        self.close()

    @property
    def folder(self) -> Path:
        """The root of the disk; anybody may walk into it, so servers need not run as root."""
        if self._home is None:
            message = "the disk is not open"
            raise RuntimeError(message)
        return self._home / "disk"

    @property
    def _image(self) -> Path:
        return self.folder.with_name("image")

    def open(self) -> None:
        """Make the image and mount it.

        Raises:
            CannotCutPower: not Linux, not root, a tool is missing or the mount was refused.
        """
        _enter_own_mount_namespace()
        self._home = Path(tempfile.mkdtemp(prefix="cutdisk-", dir=self._parent))
        try:
            self._home.chmod(0o755)
            self.folder.mkdir()
            self._make_image()
            self.remount()
            self.folder.chmod(0o755)
        except BaseException:
            self.close()
            raise

    def cut(self, pids: Iterable[int] = ()) -> None:
        """Cut the power under these processes and all they have started; then they are dead.

        Everyone is paused first: a flush in flight at the instant of the cut may be answered
        with success although nothing was written, which no honest disk does. Afterwards the
        disk is unmounted; call ``remount`` to see what is left.
        """
        frozen = freeze(pids)
        self._shut_down()
        for pid in frozen:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        await_death(frozen)
        self._unmount()
        self.cuts += 1

    def flush(self) -> None:
        """Write everything down: what is on the disk now survives the next cut."""
        handle = os.open(self.folder, os.O_RDONLY | os.O_DIRECTORY)
        try:
            if ctypes.CDLL(None, use_errno=True).syncfs(handle) != 0:
                raise OSError(ctypes.get_errno(), "syncfs failed")
        finally:
            os.close(handle)

    def remount(self) -> None:
        """Turn the power on again: mount the image, which replays its journal."""
        if self._mounted:
            return
        reason = ""
        for _ in until(_PATIENCE):
            # Loop devices are shared with the whole machine: somebody may take the free one
            # between our look and our grasp, and the kernel frees the last one a little late.
            done = _run("mount", "-t", "ext4", "-o", "loop", str(self._image), str(self.folder))
            if done.returncode == 0:
                self._mounted = True
                return
            reason = done.stderr.strip()
            if os.geteuid() != 0 or "permission denied" in reason.lower():
                break
        message = f"mount refused: {reason}"
        raise CannotCutPower(message)

    def close(self) -> None:
        """Unmount for sure and delete the image."""
        if self._home is None:
            return
        if self._mounted:
            try:
                self._unmount()
            except TooLate:
                # Somebody still holds a file there; the mount goes when they do.
                _run("umount", "--lazy", str(self.folder))
                self._mounted = False
        shutil.rmtree(self._home, ignore_errors=True)
        self._home = None

    def _make_image(self) -> None:
        with self._image.open("wb") as image:
            image.truncate(self._mebibytes << 20)
        quick = "nodiscard,lazy_itable_init=0,lazy_journal_init=0"
        done = _run("mkfs.ext4", "-q", "-F", "-E", quick, str(self._image))
        if done.returncode != 0:
            message = f"mkfs.ext4 failed: {done.stderr.strip()}"
            raise CannotCutPower(message)

    def _shut_down(self) -> None:
        handle = os.open(self.folder, os.O_RDONLY | os.O_DIRECTORY)
        try:
            fcntl.ioctl(handle, _SHUTDOWN, _NO_LOG_FLUSH)
        finally:
            os.close(handle)

    def _unmount(self) -> None:
        reason = ""
        for _ in until(_PATIENCE):
            done = _run("umount", str(self.folder))
            if done.returncode == 0:
                self._mounted = False
                return
            reason = done.stderr.strip()
        message = f"umount refused for {_PATIENCE} s: {reason}"
        raise TooLate(message)


def _quick_place() -> Path | None:
    """Prefer memory: the image is the platter, and a quick platter makes more commits a cut."""
    memory = Path("/dev/shm")
    return memory if memory.is_dir() and os.access(memory, os.W_OK) else None


def _enter_own_mount_namespace() -> None:
    """Move this process into a mount namespace of its own, once."""
    _require_tools()
    if _mount_namespace() in _entered:
        return
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.unshare(_NEW_MOUNT_NAMESPACE) != 0:
        raise _refused("unshare")
    if libc.mount(b"none", b"/", None, ctypes.c_ulong(_PRIVATE_FROM_ROOT_DOWN), None) != 0:
        raise _refused("making mounts private")
    _entered.add(_mount_namespace())


_entered: Final[set[Path]] = set()


def _mount_namespace() -> Path:
    return Path("/proc/self/ns/mnt").readlink()


def _require_tools() -> None:
    if sys.platform != "linux":
        message = f"needs Linux, this is {sys.platform}"
        raise CannotCutPower(message)
    if os.geteuid() != 0:
        message = "needs root to mount a disk image"
        raise CannotCutPower(message)
    absent = [tool for tool in _TOOLS if shutil.which(tool) is None]
    if absent:
        message = f"tools not found: {', '.join(absent)}"
        raise CannotCutPower(message)


def _refused(what: str) -> CannotCutPower:
    number = ctypes.get_errno()
    return CannotCutPower(f"{what} refused: {errno.errorcode.get(number)}, {os.strerror(number)}")


def _run(*command: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(command, capture_output=True, text=True, check=False)
