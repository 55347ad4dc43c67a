"""Child processes that are started, paused, killed and cleaned away by their own id."""

import contextlib
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Collection, Iterable, Iterator, Mapping
from pathlib import Path
from typing import Self

#: The repository, from which children import both the product and these tests.
ROOT = Path(__file__).resolve().parents[2]
#: How often a waiting parent looks again.
GLANCE = 0.005
#: Process states in which not one more instruction of the program runs.
HALTED = frozenset("TtZX")
#: Process states of the dead.
DEAD = frozenset("ZX")


class TooLate(AssertionError):
    """A child did not do in time what it was waited for."""


class Child:
    """One started process, its output, and the ways to be cruel to it."""

    def __init__(self, name: str, process: subprocess.Popen[bytes], output: Path) -> None:
        self.name = name
        self.pid = process.pid
        self.output = output
        self._process = process
        self._orphans: list[int] = []

    def __repr__(self) -> str:
        return f"<Child {self.name} pid {self.pid}>"

    @property
    def running(self) -> bool:
        """Whether it has neither ended nor been killed; a paused child is running."""
        if self._process.returncode is not None:
            return False
        look = os.WEXITED | os.WNOHANG | os.WNOWAIT
        return os.waitid(os.P_PID, self.pid, look) is None

    def text(self) -> str:
        """Return everything it has printed so far, errors included."""
        return self.output.read_text(errors="replace")

    def wait_for(self, marker: str, *, timeout: float = 20.0) -> str:
        """Wait until it prints a line with the marker, and return that line.

        Raises:
            TooLate: it ended, or the time did, before such a line came.
        """
        for _ in until(timeout):
            alive = self.running  # asked before reading, so that last words are not missed
            line = next((line for line in self.text().splitlines() if marker in line), None)
            if line is not None:
                return line
            if not alive:
                break
        raise self._late(f"{marker!r} was not printed")

    def wait(self, *, timeout: float = 20.0) -> int:
        """Wait until it ends by itself and return its code, negative for a signal."""
        for _ in until(timeout):
            if not self.running:
                return self._reap()
        raise self._late("it did not end")

    def kill(self) -> None:
        """Send ``SIGKILL`` to this one process, as the kernel would, and bury it."""
        if self._process.returncode is None:
            os.kill(self.pid, signal.SIGKILL)
            self._reap()

    def kill_all(self) -> None:
        """Kill it and everything it has started, before any of them hears of the others."""
        _parent, *others = freeze([self.pid])
        for pid in others:  # none of them can end by itself now, so the numbers are still theirs
            os.kill(pid, signal.SIGKILL)
        self.kill()
        await_death(others)

    def terminate(self) -> None:
        """Ask it politely to end; follow with ``wait``."""
        if self.running:
            os.kill(self.pid, signal.SIGTERM)

    def stop(self) -> None:
        """Pause it and return when every thread of it stands still."""
        os.kill(self.pid, signal.SIGSTOP)
        await_halt([self.pid])

    def resume(self) -> None:
        """Let a paused child go on."""
        os.kill(self.pid, signal.SIGCONT)

    def clean_away(self) -> None:
        """End it and everything it has started."""
        self.kill()
        for handle in self._orphans:
            with contextlib.suppress(ProcessLookupError):
                signal.pidfd_send_signal(handle, signal.SIGKILL)
            os.close(handle)
        self._orphans.clear()

    def _reap(self) -> int:
        if self._process.returncode is None:
            os.waitid(os.P_PID, self.pid, os.WEXITED | os.WNOWAIT)
            # The unburied child still owns its number, so its session cannot be a stranger's.
            self._orphans += _handles(pid for pid in _session(self.pid) if pid != self.pid)
        return self._process.wait()

    def _late(self, what: str) -> TooLate:
        tail = "\n".join(self.text().splitlines()[-30:])
        return TooLate(f"{self!r}: {what}; its last words:\n{tail}")


class Children:
    """All children of one trial; leaving the block ends every one of them."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._started: list[Child] = []

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exception: object) -> None:
        self.close()

    def __iter__(self) -> Iterator[Child]:
        return iter(self._started)

    def close(self) -> None:
        """End every child, newest first, whatever state it is in."""
        for child in reversed(self._started):
            child.clean_away()
        self._started.clear()

    def python(
        self, module: str, *arguments: str, environment: Mapping[str, str] | None = None
    ) -> Child:
        """Start ``python -m module arguments`` with the repository as its working folder."""
        command = [sys.executable, "-u", "-X", "faulthandler", "-m", module, *arguments]
        return self.start(module.rpartition(".")[2], command, environment=environment)

    def start(
        self, name: str, command: list[str], *, environment: Mapping[str, str] | None = None
    ) -> Child:
        """Start a command whose output is kept in a file of its own."""
        # A file never used before: an earlier child's "ready" must not be taken for this one's.
        descriptor, output = tempfile.mkstemp(f"-{name}.out", dir=self._folder)
        with os.fdopen(descriptor, "wb") as sink:
            process = subprocess.Popen(
                [*_leash(), *command],
                cwd=ROOT,
                env={**os.environ, **(environment or {})},
                stdin=subprocess.DEVNULL,
                stdout=sink,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )
        child = Child(name, process, Path(output))
        self._started.append(child)
        return child


def until(timeout: float) -> Iterator[None]:
    """Yield again and again, a find_cached apart, until the time has passed."""
    end = time.monotonic() + timeout
    while time.monotonic() < end:
        yield
        time.sleep(GLANCE)


def freeze(pids: Iterable[int], *, timeout: float = 10.0) -> list[int]:
    """Pause these processes and all they have started; return everyone who stands still."""
    frozen: list[int] = []
    fresh = list(pids)
    while fresh:
        for pid in fresh:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGSTOP)
        await_halt(fresh, timeout=timeout)
        frozen += fresh
        # Only now can nobody among them start another.
        fresh = sorted(set(kids(frozen)) - set(frozen))
    return frozen


def await_halt(pids: Iterable[int], *, timeout: float = 10.0) -> None:
    """Wait until no thread of these processes can run; one inside a flush ends it first."""
    _await_states(list(pids), HALTED, timeout)


def await_death(pids: Iterable[int], *, timeout: float = 10.0) -> None:
    """Wait until these processes are dead, buried or not."""
    _await_states(list(pids), DEAD, timeout)


def is_paused(pid: int) -> bool:
    """Tell whether a process is alive and stands still."""
    states = list(_thread_states(pid))
    return bool(states) and not DEAD.intersection(states) and HALTED.issuperset(states)


def kids(parents: Collection[int]) -> list[int]:
    """List the processes that these have started, buried or not."""
    return [pid for pid, above, _ in _table() if above in parents]


def _await_states(pids: list[int], wanted: frozenset[str], timeout: float) -> None:
    for _ in until(timeout):
        if all(state in wanted for pid in pids for state in _thread_states(pid)):
            return
    message = f"processes {pids} did not reach a state of {sorted(wanted)} in {timeout} s"
    raise TooLate(message)


def _leash() -> list[str]:
    """Let the kernel end children whose parent was killed before it could clean up."""
    setpriv = shutil.which("setpriv")
    return [setpriv, "--pdeathsig", "KILL"] if setpriv else []


def _handles(pids: Iterable[int]) -> list[int]:
    handles = []
    for pid in pids:
        with contextlib.suppress(ProcessLookupError):
            handles.append(os.pidfd_open(pid))
    return handles


def _session(leader: int) -> list[int]:
    return [pid for pid, _, session in _table() if session == leader]


def _table() -> Iterator[tuple[int, int, int]]:
    """Yield process, parent and session of everyone on this machine."""
    for folder in Path("/proc").iterdir():
        if folder.name.isdigit() and (fields := _stat(folder)):
            yield int(folder.name), int(fields[1]), int(fields[3])


def _thread_states(pid: int) -> Iterator[str]:
    try:
        threads = list(Path(f"/proc/{pid}/task").iterdir())
    except (FileNotFoundError, ProcessLookupError):
        return
    for thread in threads:
        if fields := _stat(thread):
            yield fields[0]


def _stat(folder: Path) -> list[str]:
    """Return the fields after the name, which may itself hold spaces and brackets."""
    try:
        text = (folder / "stat").read_text(errors="replace")
    except (FileNotFoundError, ProcessLookupError):
        return []
    return text.rpartition(")")[2].split()
