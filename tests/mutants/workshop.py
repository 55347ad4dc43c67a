"""A copy of the project in which faults are planted and tests are run."""

import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Self

ROOT = Path(__file__).resolve().parents[2]
#: the tests of pages read the documentation
_COPIED = ("src", "tests", "docs")
_LONGEST = 600.0
#: pytest's word for "tests ran, and some failed"; anything else is no verdict on the code.
_RED = 1
_WHERE = "import oncebox, tests; print(oncebox.__file__); print(tests.__file__)"


class Unfit(Exception):
    """A patch that does not fit the source any more, or a copy that is not what is run."""


@dataclass(frozen=True, slots=True)
class Patch:
    """One change of one file: a text that is there once, and what takes its place."""

    file: str
    old: str
    new: str

    def apply(self, root: Path) -> None:
        """Change the file below this root.

        Raises:
            Unfit: the text is not there, or not once.
        """
        path = root / self.file
        text = path.read_text("utf-8") if path.is_file() else ""
        if text.count(self.old) != 1:
            raise Unfit(f"{self.file} has this {text.count(self.old)} times, not once: {self.old}")
        path.write_text(text.replace(self.old, self.new), "utf-8")


@dataclass(frozen=True, slots=True)
class Selection:
    """A narrow selection of tests, by pytest's words."""

    selection: tuple[str, ...]

    def __str__(self) -> str:
        return " ".join(one.rpartition("::")[2] for one in self.selection)

    @property
    def command(self) -> list[str]:
        quiet = ("-q", "-p", "no:cacheprovider", "--no-header", "--tb=line")
        return ["pytest", *quiet, *self.selection]

    def is_red(self, code: int, output: str) -> bool:
        """Say whether tests failed; a file that cannot be imported is no failure of a test."""
        return code == _RED and " failed" in output


@dataclass(frozen=True, slots=True)
class Torture:
    """A scenario in its short form, and the promises of which one must be seen broken."""

    scenario: str
    database: str
    rules: tuple[str, ...]

    def __str__(self) -> str:
        return f"{self.scenario} ({self.database}): {'/'.join(self.rules)}"

    @property
    def command(self) -> list[str]:
        return ["tests.torture", self.scenario, "--short", f"--database={self.database}"]

    def is_red(self, code: int, output: str) -> bool:
        """Say whether one of the promises was broken."""
        rules = "|".join(self.rules)
        broken = re.search(
            rf"^    (?:(?:{rules}): |in all .*\b(?:{rules})\b)", output, re.MULTILINE
        )
        return code == _RED and broken is not None


Killer = Selection | Torture


@dataclass(frozen=True, slots=True)
class Verdict:
    """What one run of a killer showed."""

    red: bool
    green: bool
    seconds: float
    output: str


class Workshop:
    """A temporary copy of sources and tests, in which what is imported is the copy."""

    def __init__(self, patches: Sequence[Patch] = ()) -> None:
        self._patches = patches
        self._folder = tempfile.TemporaryDirectory(prefix="mutant-", ignore_cleanup_errors=True)
        self._root = Path(self._folder.name)

    def __enter__(self) -> Self:
        # Servers that refuse to run as root must be able to walk in.
        self._root.chmod(0o755)
        for name in _COPIED:
            # Bytecode comes along: it is current wherever no fault is planted.
            shutil.copytree(ROOT / name, self._root / name)
        shutil.copy(ROOT / "pyproject.toml", self._root)
        for patch in self._patches:
            patch.apply(self._root)
        self._refuse_the_original()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._folder.cleanup()

    def run(self, killer: Killer) -> Verdict:
        """Run one selection or scenario against the copy."""
        began = time.monotonic()
        try:
            done = self._python("-m", *killer.command)
        except subprocess.TimeoutExpired as late:
            return Verdict(red=False, green=False, seconds=_LONGEST, output=str(late))
        output = done.stdout + done.stderr
        return Verdict(
            red=killer.is_red(done.returncode, output),
            green=done.returncode == 0,
            seconds=time.monotonic() - began,
            output=output,
        )

    def _refuse_the_original(self) -> None:
        """Make sure that the copy is what will be tested."""
        done = self._python("-c", _WHERE)
        places = done.stdout.split()
        inside = [Path(place).resolve().is_relative_to(self._root.resolve()) for place in places]
        if inside != [True, True]:
            raise Unfit(f"not the copy is imported, but {places} {done.stderr}")

    def _python(self, *arguments: str) -> subprocess.CompletedProcess[str]:
        environment = {
            **os.environ,
            "PYTHONPATH": os.pathsep.join((str(self._root / "src"), str(self._root))),
        }
        return subprocess.run(
            [sys.executable, *arguments],
            check=False,
            cwd=self._root,
            env=environment,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=_LONGEST,
        )
