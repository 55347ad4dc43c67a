"""A written page as its reader uses it: blocks to copy, and a terminal to type them into."""

import re
import subprocess
from collections.abc import Mapping
from pathlib import Path
from typing import Self

from tests.project.tree import ROOT

FENCE = re.compile(r"^```(\w+)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
_MARK = "-- done --"


def blocks(path: Path, language: str) -> list[str]:
    """Return the blocks of a page in one language, in order."""
    return [text for kind, text in FENCE.findall(path.read_text()) if kind == language]


class Terminal:
    """A shell into which commands are typed one after another; it keeps what they set."""

    def __init__(self, environment: Mapping[str, str], folder: Path = ROOT) -> None:
        self._shell = subprocess.Popen(
            ["bash", "-eu"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            cwd=folder,
            env=environment,
        )

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exception: object) -> None:
        self._shell.kill()
        self._shell.communicate()

    def type(self, commands: str) -> str:
        """Type commands and return what they print; one that fails ends the terminal."""
        assert self._shell.stdin is not None
        assert self._shell.stdout is not None
        self._shell.stdin.write(f"{commands}\necho; echo '{_MARK}'\n")
        self._shell.stdin.flush()
        printed: list[str] = []
        for line in self._shell.stdout:
            if line.rstrip("\n") == _MARK:
                return "".join(printed)
            printed.append(line)
        message = f"a command failed after {printed}: {commands}"
        raise AssertionError(message)
