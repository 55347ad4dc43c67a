"""Where a SQLite file may lie: not on a file system that other machines share."""

from pathlib import Path

from oncebox.errors import DatabaseUnsafe

_SHARED = {
    "9p", "afs", "beegfs", "ceph", "cifs", "davfs", "fuse.ceph", "fuse.glusterfs", "fuse.juicefs",
    "fuse.rclone", "fuse.s3fs", "fuse.sshfs", "gfs2", "glusterfs", "gpfs", "lustre", "ncpfs", "nfs",
    "nfs4", "ocfs2", "smb3", "smbfs", "vboxsf", "virtiofs",
}  # fmt: skip
_MOUNTS = Path("/proc/self/mounts")


def refuse_network(folder: Path, mounts: Path = _MOUNTS) -> None:
    """Refuse a folder on a network file system, where SQLite's locks and syncs cannot be trusted.

    Raises: DatabaseUnsafe.
    """
    kind = _kind(folder.resolve(), mounts)
    if kind in _SHARED:
        message = (
            f"{folder} is on a network file system ({kind}), which can lose or corrupt SQLite; "
            "choose a local folder with ONCEBOX_DATA_DIR, or use PostgreSQL"
        )
        raise DatabaseUnsafe(message)


def _kind(folder: Path, mounts: Path) -> str:
    """Return the type of the file system a folder lies on, or nothing where it cannot be told."""
    if not mounts.exists():
        return ""
    found = (0, "")
    for line in mounts.read_text("utf-8", "replace").splitlines():
        _device, point, kind, *_rest = line.split(" ")
        point = point.replace("\\040", " ")
        if folder.is_relative_to(point) and len(point) >= found[0]:
            found = (len(point), kind)
    return found[1]
