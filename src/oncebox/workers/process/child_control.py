"""Controls inside a child process: stop with the parent, memory limit, event-loop watchdog.

A child holds one end of a pipe whose other end only its parent has; when the parent is gone,
however it went, the pipe closes and the child stops.
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

#: a child ends with this when it could not end in time what it was doing
EXIT_TOO_SLOW = 75


class ParentWatch:
    """Stops a child when it is told to, or when its parent is gone; and if need be, ends it.

    A thread waits for either, so that a blocked event loop cannot miss it.
    """

    def __init__(self, stop: Callable[[], None], *, within: float) -> None:
        """Call ``stop`` in the running loop; end the process if it is alive ``within`` later."""
        self._loop = asyncio.get_running_loop()
        self._stop = stop
        self._within = within
        self._parent_pipe = _take_stdin()
        self._stop_read, self._stop_write = os.pipe()

    def start(self) -> None:
        """Begin to listen to signals and to the parent's end of the pipe."""
        for number in (signal.SIGTERM, signal.SIGINT):
            # A handler that only writes a byte cannot disturb what it interrupts.
            signal.signal(number, lambda *_: os.write(self._stop_write, b"."))
        Thread(target=self._wait_for_stop, name="oncebox-leash", daemon=True).start()

    def _wait_for_stop(self) -> None:
        select.select([self._stop_read, self._parent_pipe], [], [])
        with suppress(RuntimeError):  # the loop has ended already
            self._loop.call_soon_threadsafe(self._stop)
        select.select([], [], [], self._within)
        os._exit(EXIT_TOO_SLOW)


def _take_stdin() -> int:
    """Keep the parent's pipe for ourselves; whoever reads standard input finds it empty."""
    parent = os.dup(0)
    nothing = os.open(os.devnull, os.O_RDONLY)
    os.dup2(nothing, 0)
    os.close(nothing)
    return parent


def limit_memory(mebibytes: int) -> None:
    """Bound the address space of this process, so that one handler cannot eat the machine."""
    if mebibytes:
        _, hard = resource.getrlimit(resource.RLIMIT_AS)
        wanted = mebibytes * 1024 * 1024
        limit = wanted if hard == resource.RLIM_INFINITY else min(wanted, hard)
        resource.setrlimit(resource.RLIMIT_AS, (limit, hard))


#: the exit status of a process that the watchdog ended
EXIT_BLOCKED = 75


def _end_process() -> None:
    os._exit(EXIT_BLOCKED)


class Watchdog:
    """A thread that expects a sign of life from the loop."""

    def __init__(
        self, telemetry: Telemetry, *, limit: float, end: Callable[[], None] = _end_process
    ) -> None:
        """Call ``end`` once the loop has been blocked for ``limit`` seconds; 0 is never."""
        self._telemetry = telemetry
        self._limit = limit
        self._end = end
        self._alive_at = clock.steady()
        self._stopped = Event()

    async def watch(self) -> None:
        """Give signs of life until cancelled."""
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
