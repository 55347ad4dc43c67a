"""The supervisor: a parent that keeps worker processes alive, and the leash they hang on.

The parent does nothing but start, restart and stop. Each child holds one end of a pipe whose
other end only the parent has; when the parent is gone, however it went, the pipe closes and
the child stops.
"""

import asyncio
import os
import resource
import select
import signal
from asyncio.subprocess import PIPE, Process
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from threading import Thread

import structlog

from oncebox import clock

#: a child ends with this when starting it again cannot help; the reason is on its stderr
GIVE_UP = 78
#: a child ends with this when it could not end in time what it was doing
TOO_SLOW = 75

_NOT_STARTED = 71
_FIRST_WAIT = 0.2
_LONGEST_WAIT = 5.0
_HEALTHY = 60.0

#: the command line of a child, by its number and how often it was started before
Command = Callable[[int, int], Sequence[str]]


class Backoff:
    """Waits before a restart: doubling, and short again after a healthy life."""

    def __init__(self) -> None:
        """Begin with the shortest wait."""
        self._next = _FIRST_WAIT

    def after(self, lived: float) -> float:
        """Return the wait after a process that lived for so many seconds."""
        if lived >= _HEALTHY:
            self._next = _FIRST_WAIT
        wait = self._next
        self._next = min(_LONGEST_WAIT, wait * 2)
        return wait


class Supervisor:
    """Keeps a number of child processes running until told to stop."""

    def __init__(
        self,
        command: Command,
        *,
        processes: int,
        environ: Mapping[str, str],
        log: structlog.typing.FilteringBoundLogger,
    ) -> None:
        """Prepare; nothing is started before ``run``."""
        self._command = command
        self._numbers = range(processes)
        self._environ = environ
        self._log = log
        self._running: dict[int, Process] = {}
        self._stopping = asyncio.Event()
        self._gave_up = False

    async def run(self) -> bool:
        """Keep the children running until ``stop``; say whether all went well."""
        loop = asyncio.get_running_loop()
        for number in (signal.SIGTERM, signal.SIGINT):
            loop.add_signal_handler(number, self.stop)
        await asyncio.gather(*map(self._keep, self._numbers))
        return not self._gave_up

    def stop(self) -> None:
        """Ask every child to finish; the second time, end them at once."""
        how = signal.SIGKILL if self._stopping.is_set() else signal.SIGTERM
        self._stopping.set()
        for child in self._running.values():
            _signal(child, how)

    async def _keep(self, number: int) -> None:
        """Start one child again and again."""
        backoff = Backoff()
        starts = 0
        while not self._stopping.is_set():
            began = clock.steady()
            status = await self._live(number, starts)
            starts += 1
            if status == GIVE_UP:
                self._gave_up = True
                self.stop()
            elif not self._stopping.is_set():
                wait = backoff.after(clock.steady() - began)
                self._log.warning("worker_died", process=number, status=status, restart_in=wait)
                await self._rest(wait)

    async def _live(self, number: int, starts: int) -> int:
        """See one child through its life; return how it ended."""
        try:
            child = await asyncio.create_subprocess_exec(
                *self._command(number, starts),
                stdin=PIPE,  # never written to: it closes when this process ends
                env=self._environ,
                process_group=0,  # ^C at the terminal is for the parent, which passes it on once
            )
        except OSError:  # no room for a process now; there may be later
            return _NOT_STARTED
        self._running[number] = child
        if self._stopping.is_set():
            _signal(child, signal.SIGTERM)
        try:
            return await child.wait()
        finally:
            del self._running[number]

    async def _rest(self, wait: float) -> None:
        with suppress(TimeoutError):
            async with asyncio.timeout(wait):
                await self._stopping.wait()


def _signal(child: Process, how: signal.Signals) -> None:
    with suppress(ProcessLookupError):  # it has just ended by itself
        child.send_signal(how)


# in the child


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
