"""Controls inside a child process: stop with the parent, memory limit, event-loop watchdog.

A child holds one end of a pipe whose other end only its parent has; when the parent ends, the
pipe closes and the child stops.
"""

import asyncio
import os
import resource
import select
import signal
from collections.abc import Callable
from contextlib import suppress
from threading import Event, Thread

from oncebox.core import clock
from oncebox.core.metrics import Telemetry

#: exit status of a child that did not stop in time, or whose event loop was blocked
EXIT_TOO_SLOW = 75


class ParentWatch:
    """Stops a child on a signal or when its parent is gone, and kills it if it does not stop.

    A thread waits for both, so that a blocked event loop cannot miss them.
    """

    def __init__(self, stop: Callable[[], None], *, within: float) -> None:
        """Call ``stop`` in the running loop; end the process if it is alive ``within`` later."""
        self._loop = asyncio.get_running_loop()
        self._stop = stop
        self._within = within
        self._parent_pipe = _take_stdin()
        self._stop_read, self._stop_write = os.pipe()

    def start(self) -> None:
        """Begin to watch for signals and for the end of the parent."""
        for number in (signal.SIGTERM, signal.SIGINT):
            # A handler that only writes a byte is safe at any point of the program.
            signal.signal(number, lambda *_: os.write(self._stop_write, b"."))
        Thread(target=self._wait_for_stop, name="oncebox-parent-watch", daemon=True).start()

    def _wait_for_stop(self) -> None:
        select.select([self._stop_read, self._parent_pipe], [], [])
        with suppress(RuntimeError):  # the loop has ended already
            self._loop.call_soon_threadsafe(self._stop)
        select.select([], [], [], self._within)
        os._exit(EXIT_TOO_SLOW)


def _take_stdin() -> int:
    """Return the parent's pipe; readers of standard input find it empty."""
    parent = os.dup(0)
    nothing = os.open(os.devnull, os.O_RDONLY)
    os.dup2(nothing, 0)
    os.close(nothing)
    return parent


def limit_memory(mebibytes: int) -> None:
    """Limit the address space of this process."""
    if mebibytes:
        _, hard = resource.getrlimit(resource.RLIMIT_AS)
        wanted = mebibytes * 1024 * 1024
        limit = wanted if hard == resource.RLIM_INFINITY else min(wanted, hard)
        resource.setrlimit(resource.RLIMIT_AS, (limit, hard))


class Watchdog:
    """A thread that ends the process when the event loop is blocked."""

    def __init__(
        self,
        telemetry: Telemetry,
        *,
        limit: float,
        end: Callable[[], None] = lambda: os._exit(EXIT_TOO_SLOW),
    ) -> None:
        """Call ``end`` once the loop has been blocked for ``limit`` seconds; 0 is never."""
        self._telemetry = telemetry
        self._limit = limit
        self._end = end
        self._alive_at = clock.steady()
        self._stopped = Event()

    async def watch(self) -> None:
        """Show that the loop is running, until cancelled."""
        if not self._limit:
            return
        Thread(target=self._check_loop, name="oncebox-watchdog", daemon=True).start()
        try:
            while True:
                self._alive_at = clock.steady()
                await asyncio.sleep(self._limit / 8)
        finally:
            self._stopped.set()

    def _check_loop(self) -> None:
        while not self._stopped.wait(self._limit / 8):
            if clock.steady() - self._alive_at > self._limit:
                self._telemetry.log.error("event_loop_blocked", seconds=self._limit)
                self._end()
                return
