"""The watchdog: ends a process whose event loop is blocked, so that its work can be claimed."""

import asyncio
import os
from collections.abc import Callable
from threading import Event, Thread

from oncebox import clock
from oncebox.telemetry import Telemetry

#: the exit status of a process that the watchdog ended
EXIT_STATUS = 75


def _end_process() -> None:
    os._exit(EXIT_STATUS)


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
        Thread(target=self._look, name="oncebox-watchdog", daemon=True).start()
        try:
            while True:
                self._alive_at = clock.steady()
                await asyncio.sleep(self._limit / 8)
        finally:
            self._stopped.set()

    def _look(self) -> None:
        while not self._stopped.wait(self._limit / 8):
            if clock.steady() - self._alive_at > self._limit:
                self._telemetry.log.error("event_loop_blocked", seconds=self._limit)
                self._end()
                return
