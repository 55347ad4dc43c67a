"""Who reads a page and types what stands there, filling in what every reader has to fill in."""

import ast
import inspect
import os
import re
import shlex
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from oncebox.service import Role
from tests.cli.ledger import Handler, Ledger
from tests.support.databases import fresh_sqlite
from tests.support.program import KEY
from tests.support.running import Running

_EXPORT = re.compile(r"export (\w+)=(.*)")
#: what a page leaves to its reader, such as ``inb_…``
_BLANK = re.compile(r"\b(\w+_)…")


class Reader:
    """Types commands of ``oncebox`` in this process, and everything else into a shell."""

    def __init__(
        self, captured: pytest.CaptureFixture[str], patch: pytest.MonkeyPatch, folder: Path
    ) -> None:
        self.folder = folder
        self._place = fresh_sqlite(folder)
        self._ledger = Ledger(captured, patch)
        self._patch = patch
        patch.chdir(folder)
        for name in [each for each in os.environ if each.startswith("ONCEBOX_")]:
            patch.delenv(name)
        self.set(
            ONCEBOX_DATA_DIR=str(folder),
            ONCEBOX_DATABASE_URL=self._place.url,
            ONCEBOX_MASTER_KEY=KEY,
        )
        self._ledger.type("migrate")

    def set(self, **variables: str) -> None:
        """Set variables of the environment."""
        for name, value in variables.items():
            self._patch.setenv(name, value)

    @contextmanager
    def service(self, role: Role = Role.ALL) -> Iterator[Running]:
        """Run a service over what the reader sees, whose address and key are set."""
        service = Running(self._place, self.folder, role=role)
        service.start()
        self.set(ONCEBOX_URL=service.url, ONCEBOX_API_KEY=service.key)
        try:
            yield service
        finally:
            service.stop()

    def type(self, block: str, stdin: bytes = b"", code: int = 0, **blanks: str) -> str:
        """Type a block, line after line; return what it prints. ``inb="inb_1"`` fills ``inb_…``."""
        lines = [_filled(each, blanks) for each in block.replace("\\\n", "").splitlines()]
        return "".join(self._line(each, stdin, code) for each in lines if each.strip())

    def ids(self, *words: str) -> list[str]:
        """Return the ids that a command prints with ``--quiet``."""
        return self._ledger.type(*words, "--quiet").out.split()

    def work(self, handler: Handler, *, source: str) -> None:
        """Run a handler until nothing more of its source waits."""
        self._ledger.work(handler, source=source)

    def run(self, code: str, **names: Any) -> dict[str, Any]:
        """Run a block of Python; return the names it has left."""
        exec(compile(code, "a page", "exec"), names)  # noqa: S102 - it is our own page
        return names

    def _line(self, line: str, stdin: bytes, code: int) -> str:
        if export := _EXPORT.fullmatch(line):
            self.set(**{export[1]: export[2]})
            return ""
        words = shlex.split(line, comments=True)
        if not words or words[0] != "oncebox":
            return self._in_a_shell(line)
        words, into = _redirected(words[1:], ">")
        words, source = _redirected(words, "<")
        answer = self._ledger.type(
            *(found for word in words for found in self._spelled_out(word)),
            stdin=Path(source).read_bytes() if source else stdin,
        )
        assert answer.code == code, f"{line}: {answer.err}{answer.out}"
        if into:
            Path(into).write_text(answer.out)
        return answer.out

    def _spelled_out(self, word: str) -> list[str]:
        found = sorted(self.folder.glob(word)) if word.startswith("*") else []
        return [each.name for each in found] or [word]

    def _in_a_shell(self, line: str) -> str:
        ended = subprocess.run(
            ["bash", "-euc", line], check=False, capture_output=True, text=True, cwd=self.folder
        )
        assert ended.returncode == 0, f"{line}: {ended.stderr}"
        return ended.stdout


async def run_awaiting(code: str, names: dict[str, Any]) -> dict[str, Any]:
    """Run a block in which ``await`` stands outside of functions; return the names it has left."""
    compiled = compile(code, "a page", "exec", flags=ast.PyCF_ALLOW_TOP_LEVEL_AWAIT)
    ran = eval(compiled, names)  # noqa: S307 - it is our own page
    if inspect.isawaitable(ran):
        await ran
    return names


def _filled(line: str, blanks: dict[str, str]) -> str:
    return _BLANK.sub(lambda found: blanks.get(found[1][:-1], found[0]), line)


def _redirected(words: list[str], sign: str) -> tuple[list[str], str | None]:
    if sign not in words:
        return words, None
    place = words.index(sign)
    return [*words[:place], *words[place + 2 :]], words[place + 1]
