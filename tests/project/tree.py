"""Where the project's files are, for the tests that read them."""

import subprocess
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
PACKAGE = ROOT / "src" / "oncebox"

_MADE_HERE = {"__pycache__", "build", "dist"}
_HIDDEN_BUT_OURS = {".ci", ".gitignore"}


def modules() -> list[Path]:
    """Every Python file of the package."""
    return sorted(PACKAGE.rglob("*.py"))


def pages() -> list[Path]:
    """Every SQL file of the package."""
    return sorted(PACKAGE.rglob("*.sql"))


def name(path: Path) -> str:
    """The path as a reader would type it."""
    return path.relative_to(ROOT).as_posix()


def project_files() -> list[Path]:
    """Every file that is tracked or would be; without git, every file that make did not make."""
    listed = subprocess.run(
        ["/usr/bin/env", "git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"],
        check=False,
        cwd=ROOT,
        capture_output=True,
    )
    if listed.returncode:
        return sorted(_walk(ROOT))
    paths = (ROOT / path for path in listed.stdout.decode().split("\0") if path)
    return sorted(path for path in paths if path.is_file())


def _walk(folder: Path) -> Iterator[Path]:
    for path in folder.iterdir():
        hidden = path.name.startswith(".") and path.name not in _HIDDEN_BUT_OURS
        if hidden or path.name in _MADE_HERE:
            continue
        if path.is_dir():
            yield from _walk(path)
        else:
            yield path
