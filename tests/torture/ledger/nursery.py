"""A warm process from which agents are forked: the imports, most of a short life, happen once.

An agent born here has no memory but the imported modules: it opens its database itself, and
its fault plan is armed after the fork.
"""

import asyncio
import contextlib
import importlib
import json
import os
import select
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import traceback
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Self

from oncebox.core import faults
from tests.torture.processes import ROOT, Child, until

#: What is started, unless somebody says otherwise.
PROGRAMS = ("tests.torture.ledger.agent", "tests.torture.ledger.zombie")
#: What a box imports only when it opens its database.
_LATE = ("oncebox.db.postgres",)
_LOOK_EVERY = 0.005


class Nursling(Child):
    """A forked agent; its end is told by the nursery, in a file beside its output."""

    def __init__(self, pid: int, output: Path) -> None:
        self.name = "agent"
        self.pid = pid
        self.output = output
        try:
            self._handle: int | None = os.pidfd_open(pid)
        except ProcessLookupError:
            self._handle = None  # it lived too short a life for us to meet it

    @property
    def running(self) -> bool:
        return not _ending(self.output).exists()

    def kill(self) -> None:
        if self._handle is not None:
            with contextlib.suppress(ProcessLookupError):
                signal.pidfd_send_signal(self._handle, signal.SIGKILL)
        self._reap()

    def clean_away(self) -> None:
        self.kill()
        if self._handle is not None:
            os.close(self._handle)
            self._handle = None

    def _reap(self) -> int:
        for _ in until(10.0):
            if not self.running:
                return int(_ending(self.output).read_text())
        raise self._late("it was not buried")


class Nursery:
    """Forks agents on demand; leaving the block ends all of them."""

    def __init__(self, folder: Path, programs: Sequence[str] = PROGRAMS) -> None:
        self._folder = folder
        self._programs = programs
        self._lock = threading.Lock()
        self._ours, self._theirs = socket.socketpair()
        self._born: list[Nursling] = []

    def __enter__(self) -> Self:
        with self._theirs:
            os.set_inheritable(self._theirs.fileno(), True)
            self._process = subprocess.Popen(
                [
                    *(sys.executable, "-u", "-m", __spec__.name),
                    *(str(self._theirs.fileno()), *self._programs),
                ],
                cwd=ROOT,
                stdin=subprocess.DEVNULL,
                pass_fds=[self._theirs.fileno()],
                start_new_session=True,
            )
        self._words = self._ours.makefile("r")
        return self

    def __exit__(self, *exception: object) -> None:
        for nursling in reversed(self._born):
            nursling.clean_away()
        self._words.close()
        self._ours.close()
        self._process.wait(10)

    def start(self, module: str, *arguments: str, faults: str = "") -> Nursling:
        """Start one of the programs with these arguments and this fault plan."""
        descriptor, output = tempfile.mkstemp("-agent.out", dir=self._folder)
        os.close(descriptor)
        wish = json.dumps(
            {"module": module, "arguments": arguments, "faults": faults, "output": output}
        )
        with self._lock:
            self._ours.sendall(wish.encode() + b"\n")
            nursling = Nursling(int(self._words.readline()), Path(output))
            self._born.append(nursling)
        return nursling


def _ending(output: Path) -> Path:
    return output.with_suffix(".end")


def main(descriptor: int, programs: Sequence[str]) -> None:
    """Fork whatever is wished for and bury the dead, until the parent hangs up."""
    for module in (*programs, *_LATE):
        importlib.import_module(module)
    line = socket.socket(fileno=descriptor)
    words = line.makefile("rb")
    alive: dict[int, Path] = {}
    while True:
        _bury(alive)
        if not select.select([line], [], [], _LOOK_EVERY)[0]:
            continue
        wish = words.readline()
        if not wish:
            break
        asked = json.loads(wish)
        pid = os.fork()
        if pid == 0:
            line.close()
            _live(asked)
        alive[pid] = Path(asked["output"])
        line.sendall(f"{pid}\n".encode())
    for pid in alive:
        os.kill(pid, signal.SIGKILL)


def _bury(alive: dict[int, Path]) -> None:
    for pid in list(alive):
        dead, status = os.waitpid(pid, os.WNOHANG)
        if dead:
            ending = _ending(alive.pop(pid))
            draft = ending.with_suffix(".draft")
            draft.write_text(str(os.waitstatus_to_exitcode(status)))
            draft.rename(ending)


def _live(asked: dict[str, Any]) -> None:
    """Be the agent, and never return to the nursery."""
    code = 1
    try:
        os.setsid()
        sink = os.open(asked["output"], os.O_WRONLY | os.O_APPEND)
        os.dup2(sink, 1)
        os.dup2(sink, 2)
        faults.arm(asked["faults"])
        program = importlib.import_module(asked["module"])
        asyncio.run(program.main(program.options(asked["arguments"])))
        code = 0
    except BaseException:  # noqa: BLE001 - its last words, for the parent to read
        traceback.print_exc()
    finally:
        os._exit(code)


if __name__ == "__main__":
    main(int(sys.argv[1]), sys.argv[2:])
