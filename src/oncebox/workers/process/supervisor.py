"""Supervisor: a parent process that starts, restarts and stops worker processes.

It loads nothing that its children need. Each child holds a pipe that closes when this process
ends; see ``child_control``.
See docs/decisions/0003-use-a-supervisor-process-for-serve-and-worker.md.
"""

import os
import signal
import subprocess
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from enum import Enum, auto
from queue import SimpleQueue
from subprocess import PIPE, Popen
from threading import Event, Thread
from typing import Self

from oncebox.core import clock
from oncebox.core.logging import Log


class ForkedChild:
    """A forked child with the methods of ``subprocess.Popen`` that a supervisor uses."""

    def __init__(self, pid: int, pipe: int) -> None:
        self._pid = pid
        self._pipe = pipe
        self._status: int | None = None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_error: object) -> None:
        os.close(self._pipe)

    def wait(self) -> int:
        """Wait for its end; return its status, negative for a signal."""
        if self._status is None:
            self._status = os.waitstatus_to_exitcode(os.waitpid(self._pid, 0)[1])
        return self._status

    def send_signal(self, number: int) -> None:
        """Send a signal, unless the child has been waited for."""
        if self._status is None:
            os.kill(self._pid, number)

    def terminate(self) -> None:
        """Ask it to end."""
        self.send_signal(signal.SIGTERM)


def fork() -> ForkedChild | None:
    """Return the child to the parent, and None to the child, whose standard input is the pipe.

    Only for a process with one thread and nothing open.
    """
    end, pipe = os.pipe()
    pid = os.fork()
    if pid:
        os.close(end)
        return ForkedChild(pid, pipe)
    os.setpgid(0, 0)  # ^C at the terminal is for the parent, which passes it on once
    os.close(pipe)
    if end:  # it is the standard input already, where that was closed
        os.dup2(end, 0)
        os.close(end)
    return None


#: exit status of a child that a restart cannot help; the reason is on its stderr
GIVE_UP = 78

_NOT_STARTED = 71
_FIRST_WAIT = 0.2
_LONGEST_WAIT = 5.0
_HEALTHY_AFTER = 60.0

#: the command line of a child, by its number and how often it was started before
Command = Callable[[int, int], Sequence[str]]


class Backoff:
    """Waits before a restart: doubling, and short again after a long run."""

    def __init__(self) -> None:
        self._next = _FIRST_WAIT

    def delay_after(self, lived: float) -> float:
        """Return the wait after a process that lived for so many seconds."""
        if lived >= _HEALTHY_AFTER:
            self._next = _FIRST_WAIT
        wait = self._next
        self._next = min(_LONGEST_WAIT, wait * 2)
        return wait


class _Message(Enum):
    """Messages to the thread that runs the supervisor."""

    STOP = auto()
    GAVE_UP = auto()
    ENDED = auto()


class Supervisor:
    """Keeps a number of child processes running until it is stopped."""

    def __init__(
        self,
        command: Command,
        *,
        processes: int,
        environ: Mapping[str, str],
        log: Log,
        first: ForkedChild | None = None,
    ) -> None:
        """Start nothing before ``run``; ``first`` is a child that runs already."""
        self._command = command
        self._numbers = range(processes)
        self._environ = environ
        self._log = log
        self._first = first
        self._running: dict[int, Popen[bytes] | ForkedChild] = {}
        self._stopping = Event()
        self._messages: SimpleQueue[_Message] = SimpleQueue()
        self._gave_up = False

    def handle_signals(self) -> None:
        """Stop by ^C and SIGTERM; only for the main thread."""
        for number in (signal.SIGTERM, signal.SIGINT):
            signal.signal(number, lambda *_: self.stop())

    def run(self) -> bool:
        """Keep the children running until ``stop``; return False if one gave up."""
        for number in self._numbers:
            Thread(target=self._keep_running, args=(number,), daemon=True).start()
        running = len(self._numbers)
        while running:
            message = self._messages.get()
            if message is _Message.ENDED:
                running -= 1
            else:
                self._stop(again=message is _Message.STOP)
        return not self._gave_up

    def stop(self) -> None:
        """Ask every child to finish; the second time, end them at once."""
        # Only a message: this may be called by a signal handler at any point.
        self._messages.put(_Message.STOP)

    def _stop(self, *, again: bool) -> None:
        if not self._stopping.is_set():
            how = signal.SIGTERM
        elif again:
            how = signal.SIGKILL
        else:
            return
        self._stopping.set()
        for child in list(self._running.values()):
            with suppress(ProcessLookupError):  # it has just ended by itself
                child.send_signal(how)

    def _keep_running(self, number: int) -> None:
        """Start one child, and restart it whenever it ends."""
        backoff = Backoff()
        starts = 0
        while not self._stopping.is_set():
            began = clock.steady()
            status = self._run_child(number, starts)
            starts += 1
            if status == GIVE_UP:
                self._gave_up = True
                self._messages.put(_Message.GAVE_UP)
                break
            if not self._stopping.is_set():
                wait = backoff.delay_after(clock.steady() - began)
                self._log.warning("worker_died", process=number, status=status, restart_in=wait)
                self._stopping.wait(wait)
        self._messages.put(_Message.ENDED)

    def _run_child(self, number: int, starts: int) -> int:
        """Start one child and wait for its end; return its status."""
        try:
            child = self._start(number, starts)
        except OSError:  # too many processes now; a later try may succeed
            return _NOT_STARTED
        with child:
            self._running[number] = child
            if self._stopping.is_set():
                child.terminate()
            try:
                return child.wait()
            finally:
                del self._running[number]

    def _start(self, number: int, starts: int) -> Popen[bytes] | ForkedChild:
        if self._first is not None and (number, starts) == (0, 0):
            return self._first
        return subprocess.Popen(  # noqa: S603 - our own program
            self._command(number, starts),
            stdin=PIPE,  # never written to: it closes when this process ends
            env=self._environ,
            process_group=0,  # ^C at the terminal is for the parent, which passes it on once
        )
