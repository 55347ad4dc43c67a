"""Other people's programs, from Debian's packages: installed when first asked for."""

import fcntl
import os
import shutil
import subprocess
import tempfile
from pathlib import Path

# Tests run in several processes at once; apt does not like that.
_LOCK = Path(tempfile.gettempdir()) / "oncebox-apt.lock"
_WAIT = ("-o", "DPkg::Lock::Timeout=900")
_PATH = os.pathsep.join((os.environ.get("PATH", ""), "/usr/sbin", "/sbin"))
_LONGEST = 900


class ProgramMissing(AssertionError):
    """A program is not there and could not be installed; a test never passes without it."""


def program(name: str, package: str, *libraries: str) -> str:
    """Return the path of a program, after installing its package where it is missing."""
    if shutil.which(name, path=_PATH) is None or not all(map(_is_installed, libraries)):
        _install(package, *libraries)
    found = shutil.which(name, path=_PATH)
    if found is None:
        message = f"{name} is missing: install Debian's package {package}"
        raise ProgramMissing(message)
    return found


def _is_installed(package: str) -> bool:
    return any(Path("/var/lib/dpkg/info").glob(f"{package}*.list"))


def _install(*packages: str) -> None:
    if os.geteuid() != 0 or shutil.which("apt-get") is None:
        return
    # A package may want to start a server of its own; a run level of 1 forbids it.
    environment = {**os.environ, "DEBIAN_FRONTEND": "noninteractive", "RUNLEVEL": "1"}
    install = ["apt-get", *_WAIT, "install", "--yes", "--quiet", "--no-install-recommends"]
    install += packages
    with _LOCK.open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if _run(install, environment):
            _run(["apt-get", *_WAIT, "update", "--quiet"], environment)
            _run(install, environment)


def _run(words: list[str], environment: dict[str, str], folder: Path | None = None) -> int:
    return subprocess.run(
        words, check=False, capture_output=True, env=environment, timeout=_LONGEST, cwd=folder
    ).returncode


def unpacked(folder: str, *packages: str) -> Path:
    """Return a folder with the files of packages that conflict with installed ones.

    It is kept for later runs. Nothing is installed, and nothing of theirs is run.
    """
    root = Path(tempfile.gettempdir()) / f"oncebox-{folder}"
    with _LOCK.open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not (root / "complete").exists():
            _unpack(root, packages)
    return root


def _unpack(root: Path, packages: tuple[str, ...]) -> None:
    shutil.rmtree(root, ignore_errors=True)
    root.mkdir(mode=0o755)
    download = ["apt-get", *_WAIT, "download", "--quiet", *packages]
    environment = dict(os.environ)
    if _run(download, environment, root):
        _run(["apt-get", *_WAIT, "update", "--quiet"], environment)
        _run(download, environment, root)
    archives = sorted(root.glob("*.deb"))
    for each in archives:
        if _run(["dpkg", "--extract", str(each), str(root)], environment):
            message = f"{each.name} cannot be unpacked"
            raise ProgramMissing(message)
        each.unlink()
    if len(archives) != len(packages):
        message = f"Debian's packages are missing: {', '.join(packages)}"
        raise ProgramMissing(message)
    (root / "complete").touch()
