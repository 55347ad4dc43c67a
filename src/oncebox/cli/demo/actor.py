"""An actor: a process of the story, told and heard by lines, and gone with whoever started it."""

import sys
from collections.abc import Mapping
from pathlib import Path
from subprocess import PIPE, Popen
from typing import NoReturn

from oncebox.errors import OnceboxError

_LAST_WORDS = 5


class DemoFailed(OnceboxError):
    """The demo could not be played to its end."""

    code = "demo_failed"


class Actor:
    """``python -m module arguments`` in a folder."""

    def __init__(self, command: list[str], folder: Path, environment: Mapping[str, str]) -> None:
        """Start it."""
        self._name = " ".join(command[:2])
        self._log = folder / "actors.log"
        with self._log.open("ab") as log:
            self._process = Popen(  # noqa: S603 - the demo's own commands
                [sys.executable, "-m", *command],
                cwd=folder,
                env=environment,
                stdin=PIPE,  # it closes when this process is gone, and then they go too
                stdout=PIPE,
                stderr=log,
                text=True,
                process_group=0,  # ^C is for this process, which ends the others
            )

    @property
    def pid(self) -> int:
        """The id of the process."""
        return self._process.pid

    def hear(self) -> str:
        """Wait for its next line.

        Raises: DemoFailed, if it ends without one.
        """
        assert self._process.stdout is not None  # noqa: S101 - it is a pipe
        return self._process.stdout.readline().strip() or self._fail()

    def check(self) -> None:
        """See that it has not failed by itself.

        Raises: DemoFailed.
        """
        if (self._process.poll() or 0) > 0:
            self._fail()

    def tell(self, *words: str) -> None:
        """Say a line to it."""
        assert self._process.stdin is not None  # noqa: S101 - as above
        self._process.stdin.write(f"{' '.join(words)}\n")
        self._process.stdin.flush()

    def kill(self) -> int:
        """Kill it as ``kill -9`` does, if it still lives; return the signal it died of."""
        self._process.kill()
        return -self._process.wait()

    def _fail(self) -> NoReturn:
        self._process.kill()
        status = self._process.wait()
        words = self._log.read_text(errors="replace").splitlines()[-_LAST_WORDS:]
        message = f"{self._name!r} ended with {status}: {' / '.join(words) or 'without a word'}"
        raise DemoFailed(message)
