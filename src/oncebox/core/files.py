"""Local files: free space, detection of network file systems, atomic private writes, fsync."""

import os
from contextlib import suppress
from pathlib import Path

from oncebox.errors import DatabaseUnsafe

_NETWORK_FILESYSTEMS = {
    "9p", "afs", "beegfs", "ceph", "cifs", "davfs", "fuse.ceph", "fuse.glusterfs", "fuse.juicefs",
    "fuse.rclone", "fuse.s3fs", "fuse.sshfs", "gfs2", "glusterfs", "gpfs", "lustre", "ncpfs", "nfs",
    "nfs4", "ocfs2", "smb3", "smbfs", "vboxsf", "virtiofs",
}  # fmt: skip
_MOUNT_TABLE = Path("/proc/self/mounts")


def refuse_network_filesystem(folder: Path, mounts: Path = _MOUNT_TABLE) -> None:
    """Refuse a folder on a network file system, where SQLite's locks and syncs cannot be trusted.

    Raises: DatabaseUnsafe.
    """
    kind = _filesystem_type(folder.resolve(), mounts)
    if kind in _NETWORK_FILESYSTEMS:
        raise DatabaseUnsafe(
            f"{folder} is on a network file system ({kind}), which can lose or corrupt SQLite; "
            "choose a local folder with ONCEBOX_DATA_DIR, or use PostgreSQL"
        )


def _filesystem_type(folder: Path, mounts: Path) -> str:
    """Return the type of a folder's file system; empty if it is unknown."""
    if not mounts.exists():
        return ""
    found = (0, "")
    for line in mounts.read_text("utf-8", "replace").splitlines():
        _device, point, kind, *_rest = line.split(" ")
        point = point.replace("\\040", " ")
        if folder.is_relative_to(point) and len(point) >= found[0]:
            found = (len(point), kind)
    return found[1]


def create_private_folder(folder: Path) -> None:
    """Create a folder that only its owner can read, unless there is one."""
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)


def create_private_file(path: Path) -> None:
    """Create an empty file that only its owner can read, unless there is one.

    SQLite gives the files that it creates beside it the same mode. A file that exists is not even
    opened: closing it would drop the locks that SQLite holds on it in this process.
    """
    if not path.exists():
        write_private_file(path, b"")


def write_private_file(path: Path, content: bytes, *, replace: bool = False) -> bool:
    """Write a 0600 file that appears whole or not at all; return whether it was written.

    Another file is not replaced, unless the caller says so.
    """
    draft = path.with_name(f"{path.name}.{os.getpid()}.draft")
    handle = os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW, 0o600)
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        if replace:
            draft.replace(path)
            return True
        with suppress(FileExistsError):
            os.link(draft, path)
            return True
        return False
    finally:
        draft.unlink(missing_ok=True)


def sync_file(path: Path) -> None:
    """Sync the content of a file to disk."""
    _fsync_path(path, os.O_RDONLY)


def sync_folder(path: Path) -> None:
    """Sync the entries of a folder to disk."""
    _fsync_path(path, os.O_RDONLY | os.O_DIRECTORY)


def _fsync_path(path: Path, flags: int) -> None:
    handle = os.open(path, flags)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
