"""Where a SQLite file may lie, and who may read it."""

import asyncio
import os
from pathlib import Path

import pytest

from oncebox.core.files import (
    create_private_file,
    create_private_folder,
    refuse_network_filesystem,
)
from oncebox.core.metrics import Telemetry
from oncebox.db import startup
from oncebox.db.sqlite import SqliteSession, refuse_old_library
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


def _mode(path: Path) -> int:
    return path.stat().st_mode & 0o777


def test_a_new_database_can_be_read_by_its_owner_only(tmp_path: Path) -> None:
    path = tmp_path / "new" / "oncebox.db"
    before = os.umask(0o022)
    try:
        modes = asyncio.run(_modes_of_a_new_database(path))
    finally:
        os.umask(before)

    assert _mode(path.parent) == 0o700
    assert modes == dict.fromkeys(("oncebox.db", "oncebox.db-wal", "oncebox.db-shm"), 0o600)


async def _modes_of_a_new_database(path: Path) -> dict[str, int]:
    """Write to a new database; return the modes of its files while it is open."""
    database = startup.connect(f"sqlite:///{path}")
    try:
        await startup.prepare(database, Telemetry(), migrate=True)
        return {each.name: _mode(each) for each in path.parent.iterdir()}
    finally:
        await database.close()


def test_a_second_session_leaves_the_locks_of_the_first(tmp_path: Path) -> None:
    """The system drops all locks of a process on a file when any handle of it is closed."""
    path = tmp_path / "oncebox.db"
    first = SqliteSession(path, writable=True)
    first.connection.execute("CREATE TABLE t (x); BEGIN IMMEDIATE; INSERT INTO t VALUES (1)")
    held = Path("/proc/locks").read_text().count(f":{path.stat().st_ino} ")
    second = SqliteSession(path, writable=True)
    still_held = Path("/proc/locks").read_text().count(f":{path.stat().st_ino} ")
    second.close()
    first.close()

    assert still_held >= held > 0


def test_the_mode_of_a_database_that_exists_is_left_alone(tmp_path: Path) -> None:
    path = tmp_path / "oncebox.db"
    path.touch()
    path.chmod(0o640)

    create_private_file(path)
    create_private_folder(tmp_path)

    assert _mode(path) == 0o640
