"""Where a SQLite file may lie: not on a file system that other machines share."""

from pathlib import Path

import pytest

from oncebox.core.files import refuse_network_filesystem
from oncebox.db.sqlite import refuse_old_library
from oncebox.errors import DatabaseUnsafe

MOUNTS = r"""
/dev/sda1 / ext4 rw 0 0
server:/share /share nfs4 rw 0 0
/dev/sdb1 /share/local ext4 rw 0 0
//box/share /mnt/my\040share cifs rw 0 0
tmpfs /tmp tmpfs rw 0 0
sshfs#x /mnt/ssh fuse.sshfs rw 0 0
""".strip()


@pytest.fixture
def mounts(tmp_path: Path) -> Path:
    path = tmp_path / "mounts"
    path.write_text(MOUNTS)
    return path


@pytest.mark.parametrize("folder", ["/", "/var/data", "/share/local/x", "/shares", "/tmp/x"])
def test_a_local_folder_is_taken(mounts: Path, folder: str) -> None:
    refuse_network_filesystem(Path(folder), mounts)


@pytest.mark.parametrize(
    "folder", ["/share", "/share/ann/data", "/mnt/my share/x", "/mnt/ssh/deep/down"]
)
def test_a_shared_folder_is_refused_with_the_remedy(mounts: Path, folder: str) -> None:
    with pytest.raises(DatabaseUnsafe, match="ONCEBOX_DATA_DIR, or use PostgreSQL"):
        refuse_network_filesystem(Path(folder), mounts)


def test_where_nothing_can_be_told_nothing_is_refused(tmp_path: Path) -> None:
    refuse_network_filesystem(Path("/share"), tmp_path / "nothing")


@pytest.mark.parametrize("version", ["3.51.3", "3.51.10", "3.52.0", "4.0.0", "3.54.1.1"])
def test_a_library_without_the_bug_is_taken(version: str) -> None:
    refuse_old_library(version)


@pytest.mark.parametrize("version", ["3.7.0", "3.40.1", "3.51.2", "2.99.99"])
def test_a_library_that_can_corrupt_is_refused(version: str) -> None:
    with pytest.raises(DatabaseUnsafe, match=r"apsw 3\.51\.3"):
        refuse_old_library(version)
