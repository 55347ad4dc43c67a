"""The leash: how a supervised process hears that it should stop, and how it is kept in bounds.

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
from threading import Thread

#: a child ends with this when it could not end in time what it was doing
TOO_SLOW = 75


class Leash:
    """Stops a child when it is told to, or when its parent is gone; and if need be, ends it.

    A thread waits for either, so that a blocked event loop cannot miss it.
    """

    def __init__(self, stop: Callable[[], None], *, within: float) -> None:
        """Call ``stop`` in the running loop; end the process if it is alive ``within`` later."""
        self._loop = asyncio.get_running_loop()
        self._stop = stop
        self._within = within
        self._parent = _take_stdin()
        self._told, self._tell = os.pipe()

    def attach(self) -> None:
        """Begin to listen to signals and to the parent's end of the pipe."""
        for number in (signal.SIGTERM, signal.SIGINT):
            # A handler that only writes a byte cannot disturb what it interrupts.
            signal.signal(number, lambda *_: os.write(self._tell, b"."))
        Thread(target=self._wait, name="oncebox-leash", daemon=True).start()

    def _wait(self) -> None:
        select.select([self._told, self._parent], [], [])
        with suppress(RuntimeError):  # the loop has ended already
            self._loop.call_soon_threadsafe(self._stop)
        select.select([], [], [], self._within)
        os._exit(TOO_SLOW)


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
