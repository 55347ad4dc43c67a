"""The lookout: looks at the database for all who wait, again and again, while anybody does."""

import asyncio
from collections.abc import Awaitable, Callable, Sized

from oncebox.errors import StoreError
from oncebox.store.database import Database
from oncebox.telemetry import Telemetry

#: the longest rest between two looks, in seconds
_POLL = 1.0


class Lookout:
    """Repeats one look whenever a channel rings, and at least once a second."""

    def __init__(
        self,
        database: Database,
        telemetry: Telemetry,
        channel: str,
        look: Callable[[], Awaitable[None]],
        waiting: Sized,
    ) -> None:
        """Look as long as ``waiting`` is not empty; nothing is read before ``begin``."""
        self._database = database
        self._telemetry = telemetry
        self._channel = channel
        self._look = look
        self._waiting = waiting
        self._task: asyncio.Task[None] | None = None

    def begin(self) -> None:
        """Look from now on, if nobody does; called by whoever begins to wait."""
        if self._task is None:
            self._task = asyncio.create_task(self._run())

    async def close(self) -> None:
        """Look no more."""
        task, self._task = self._task, None
        if task is not None:
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)

    async def _run(self) -> None:
        ear = self._database.ear(self._channel)
        while self._waiting:
            try:
                await self._look()
            except StoreError as error:
                self._telemetry.store_errors.labels(error.code).inc()
            except Exception:
                # Everybody who waits depends on this; the next look may go better.
                self._telemetry.log.exception("lookout_stumbled", channel=self._channel)
            await ear.wait(_POLL)
        self._task = None  # no await since the last look: who comes now begins anew
