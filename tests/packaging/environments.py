"""Environments with nothing but our wheel, made by uv as a user would."""

import fcntl
import os
import shutil
import subprocess
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cache
from importlib.metadata import distributions
from pathlib import Path

import pytest

from tests.project.tree import ROOT, name, project_files

UV = ROOT / ".boot" / "bin" / "uv"
PINS = ROOT / "requirements" / "run.txt"
_LONGEST = 110


def run(*words: str | Path, folder: Path, environment: Mapping[str, str] | None = None) -> str:
    """Run a command to its end; return what it printed."""
    ended = subprocess.run(
        words,
        capture_output=True,
        check=False,
        cwd=folder,
        env={**os.environ, **_uv_settings(), **(environment or {})},
        text=True,
        timeout=_LONGEST,
    )
    assert ended.returncode == 0, ended.stdout + ended.stderr
    return ended.stdout


@cache
def _uv_settings() -> dict[str, str]:
    """Let uv find its cache, whatever HOME says, and take only an interpreter that is here."""
    if not UV.exists():
        pytest.skip("uv comes with make setup")
    kept = subprocess.run([UV, "cache", "dir"], capture_output=True, check=True, text=True).stdout
    return {
        "UV_CACHE_DIR": kept.strip(),
        "UV_PYTHON_DOWNLOADS": "never",
        "UV_SYSTEM_CERTS": "true",
        "UV_NO_CONFIG": "1",
    }


def tree(folder: Path) -> Path:
    """Copy the project as git has it, without what was made here."""
    for path in project_files():
        copy = folder / name(path)
        copy.parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(path, copy)
    return folder


def made_once(factory: pytest.TempPathFactory, what: str, make: Callable[[Path], None]) -> Path:
    """Return a folder that is filled once, for all workers of a run."""
    temporary = factory.getbasetemp()
    shared = temporary.parent if "PYTEST_XDIST_WORKER" in os.environ else temporary
    folder, done = shared / f"oncebox-{what}", shared / f"oncebox-{what}.done"
    with (shared / f"oncebox-{what}.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not done.exists():
            folder.mkdir()
            make(folder)
            done.touch()
    return folder


@dataclass(frozen=True)
class Installed:
    """An environment, and a home of its user that is empty at first."""

    folder: Path
    home: Path

    @property
    def bin(self) -> Path:
        return self.folder / "bin"

    @property
    def environment(self) -> dict[str, str]:
        """What a newcomer has: a home, a path, and ports that nobody else uses."""
        return {
            "HOME": str(self.home),
            "PATH": f"{self.bin}:/usr/bin:/bin",
            "ONCEBOX_HTTP__PORT": "0",
            "ONCEBOX_SMTP__PORT": "0",
        }

    @property
    def distributions(self) -> dict[str, list[str]]:
        """What is installed, each with what it requires."""
        (place,) = self.folder.glob("lib/python*/site-packages")
        return {
            each.name.lower().replace("_", "-"): each.requires or []
            for each in distributions(path=[str(place)])
        }

    def run(self, *words: str) -> str:
        return run(self.bin / words[0], *words[1:], folder=self.home, environment=self.environment)

    def fail(self, *words: str, **environment: str) -> str:
        """Run a command that must fail; return its error."""
        ended = subprocess.run(
            [self.bin / words[0], *words[1:]],
            capture_output=True,
            check=False,
            cwd=self.home,
            env={**self.environment, **environment},
            text=True,
            timeout=_LONGEST,
        )
        assert ended.returncode not in {0, 2}, ended.stdout
        return ended.stderr
