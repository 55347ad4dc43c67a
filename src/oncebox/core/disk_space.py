"""Free disk space, and what is refused while there is little of it.

Large mail first, then all mail, webhooks last: a mail server tries again for days, and a provider
for hours. See docs/decisions/0047-use-counted-bytes-and-free-space-for-storage-limits.md.
"""

import os
from collections.abc import Callable, Iterable
from enum import IntEnum
from pathlib import Path
from typing import NamedTuple

from oncebox.core import clock
from oncebox.core.metrics import Telemetry

#: seconds for which a measurement is used
_MEASURE_EVERY = 1.0
#: the largest share of a disk that is kept free
_SHARE = 20


class DiskLevel(IntEnum):
    """What is refused."""

    OK = 0
    NO_LARGE_MAIL = 1
    NO_MAIL = 2
    NO_WEBHOOKS = 3


class Disk(NamedTuple):
    """Bytes of a disk."""

    free: int
    size: int


def measure(folder: Path) -> Disk:
    """Measure the disk of a folder, which need not exist yet.

    Raises: OSError.
    """
    present = next(each for each in (folder, *folder.absolute().parents) if each.exists())
    found = os.statvfs(present)
    return Disk(found.f_bavail * found.f_frsize, found.f_blocks * found.f_frsize)


def level_of(disk: Disk, watermark: int) -> DiskLevel:
    """Return what is refused on a disk; a small one is filled to a twentieth of it."""
    least = min(watermark, disk.size // _SHARE)
    levels = (
        (least // 4, DiskLevel.NO_WEBHOOKS),
        (least // 2, DiskLevel.NO_MAIL),
        (least, DiskLevel.NO_LARGE_MAIL),
    )
    return next((level for below, level in levels if disk.free < below), DiskLevel.OK)


class DiskSpace:
    """The free space on the disks of some folders, measured once a second while it is asked for."""

    def __init__(
        self,
        folders: Iterable[Path],
        watermark: int,
        telemetry: Telemetry,
        *,
        measure: Callable[[Path], Disk] = measure,
        steady: Callable[[], float] = clock.steady,
    ) -> None:
        """Refuse work below ``watermark`` free bytes; 0 is never."""
        self._folders = tuple(dict.fromkeys(folders))
        self._watermark = watermark
        self._telemetry = telemetry
        self._measure = measure
        self._steady = steady
        self._free = 0
        self._level = DiskLevel.OK
        self._measure_at = 0.0

    @property
    def free(self) -> int:
        """The free bytes of the fullest disk."""
        self._update()
        return self._free

    @property
    def level(self) -> DiskLevel:
        """What is refused now."""
        self._update()
        return self._level

    def _update(self) -> None:
        now = self._steady()
        if now < self._measure_at:
            return
        self._measure_at = now + _MEASURE_EVERY
        try:
            disks = [self._measure(folder) for folder in self._folders]
        except OSError as error:
            # The database will report it if it matters.
            self._telemetry.log.warning("free_disk_unknown", error=type(error).__name__)
            return
        self._free = min(disk.free for disk in disks)
        level = max(level_of(disk, self._watermark) for disk in disks)
        if level is not self._level:
            write = self._telemetry.log.warning if level else self._telemetry.log.info
            write("free_disk", state=level.name.lower(), free_bytes=self._free)
            self._level = level
