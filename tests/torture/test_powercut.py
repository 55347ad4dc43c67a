"""A power cut takes what was not flushed, leaves what was, and never stays mounted."""

import os
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.torture.powercut import CannotCutPower, CutDisk
from tests.torture.processes import Children

WRITER = (
    "import os, sys, time\n"
    "file = open(sys.argv[1], 'ab', buffering=0)\n"
    "for n in range(10**9):\n"
    "    file.write(b'%d\\n' % n)\n"
    "    if n == 100: os.fsync(file.fileno()); print('flushed', flush=True)\n"
    "    time.sleep(0.0005)\n"
)


@pytest.fixture
def disk() -> Iterator[CutDisk]:
    disk = CutDisk(mebibytes=32)
    try:
        disk.open()
    except CannotCutPower as reason:
        pytest.skip(str(reason))
    yield disk
    disk.close()


def test_what_was_not_flushed_is_gone(disk: CutDisk) -> None:
    (disk.folder / "kept").write_text("kept")
    disk.flush()
    (disk.folder / "gone").write_text("gone")

    disk.cut()
    disk.remount()

    assert (disk.folder / "kept").read_text() == "kept"
    assert not (disk.folder / "gone").exists()


def test_writers_die_and_their_flushed_part_stays(disk: CutDisk, tmp_path: Path) -> None:
    path = disk.folder / "numbers"
    with Children(tmp_path) as children:
        writer = children.start("writer", [sys.executable, "-c", WRITER, str(path)])
        writer.wait_for("flushed")
        time.sleep(0.05)
        disk.cut([writer.pid])
        assert not writer.running
    disk.remount()

    assert path.read_text().splitlines()[:101] == [str(number) for number in range(101)]


def test_the_disk_can_be_cut_again_and_again(disk: CutDisk) -> None:
    for number in range(5):
        (disk.folder / f"{number}").touch()
        disk.flush()
        disk.cut()
        disk.remount()

    assert disk.cuts == 5
    assert {path.name for path in disk.folder.iterdir()} >= set("01234")


def test_closing_unmounts_and_leaves_nothing_behind(disk: CutDisk) -> None:
    folder = disk.folder
    disk.close()

    assert str(folder) not in Path("/proc/self/mounts").read_text()
    assert not folder.parent.exists()


def test_nothing_is_mounted_outside_our_own_namespace(disk: CutDisk) -> None:
    assert str(disk.folder) in Path("/proc/self/mounts").read_text()
    assert str(disk.folder) not in Path("/proc/1/mounts").read_text()


def test_without_root_it_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "geteuid", lambda: 1000)

    with pytest.raises(CannotCutPower, match="root"):
        CutDisk().open()
