"""Where tests put files that nobody needs afterwards: in memory, where there is enough of it."""

import os
import shutil
import tempfile
from pathlib import Path

#: names another folder, such as one on a disk
VARIABLE = "ONCEBOX_TEST_SCRATCH"
_MEMORY = Path("/dev/shm")
#: several times what a run was seen to need
_ENOUGH = 3 * 2**30


def scratch() -> Path:
    """Return a folder in which temporary folders are made.

    The databases of the tests flush every commit, as they do in production. A file system in
    memory answers at once; a disk may take some milliseconds for each.
    """
    named = os.environ.get(VARIABLE)
    if named:
        return Path(named)
    return _MEMORY if _is_roomy(_MEMORY) else Path(tempfile.gettempdir())


def _is_roomy(folder: Path) -> bool:
    """Tell whether a whole run's files have room there, and may be programs."""
    if not (folder.is_dir() and os.access(folder, os.W_OK)):
        return False
    if os.statvfs(folder).f_flag & os.ST_NOEXEC:
        return False
    return shutil.disk_usage(folder).free >= _ENOUGH
