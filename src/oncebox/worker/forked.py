"""A first child by fork: it goes on with what its parent has loaded, instead of loading it again.

Only for a parent that is still alone: one thread, nothing open.
"""

import os
import signal
from typing import Self


class Forked:
    """A child as ``subprocess.Popen`` would show it, as far as a supervisor looks."""

    def __init__(self, pid: int, leash: int) -> None:
        """Know its process, and the end of its pipe that closes when this process ends."""
        self._pid = pid
        self._leash = leash
        self._status: int | None = None

    def __enter__(self) -> Self:
        """Hold the pipe."""
        return self

    def __exit__(self, *_error: object) -> None:
        """Let the pipe go."""
        os.close(self._leash)

    def wait(self) -> int:
        """Wait for its end; return its status, negative for a signal."""
        if self._status is None:
            self._status = os.waitstatus_to_exitcode(os.waitpid(self._pid, 0)[1])
        return self._status

    def send_signal(self, number: int) -> None:
        """Send a signal, unless it has been buried."""
        if self._status is None:
            os.kill(self._pid, number)

    def terminate(self) -> None:
        """Ask it to end."""
        self.send_signal(signal.SIGTERM)


def fork() -> Forked | None:
    """Return the child to the parent, and None to the child, whose standard input is the pipe."""
    end, leash = os.pipe()
    pid = os.fork()
    if pid:
        os.close(end)
        return Forked(pid, leash)
    os.setpgid(0, 0)  # ^C at the terminal is for the parent, which passes it on once
    os.close(leash)
    if end:  # it is the standard input already, where that was closed
        os.dup2(end, 0)
        os.close(end)
    return None
