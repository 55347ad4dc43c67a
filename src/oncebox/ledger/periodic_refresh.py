"""Periodic refresh of what a process keeps in memory from the database."""

import asyncio
from abc import ABC, abstractmethod
from typing import TYPE_CHECKING

from oncebox.errors import StoreError

if TYPE_CHECKING:  # commands that only read do not load the metrics
    from oncebox.core.metrics import Telemetry

#: seconds between two refreshes
REFRESH_SECONDS = 2.0


class PeriodicRefresh(ABC):
    """Calls its own ``refresh`` every few seconds; an error is reported and does not end it."""

    def __init__(
        self, name: str, telemetry: "Telemetry", *, every: float = REFRESH_SECONDS
    ) -> None:
        """Report errors under ``name``; ``every`` is in seconds."""
        self._name = name
        self._telemetry = telemetry
        self._every = every
        self._task: asyncio.Task[None] | None = None

    @abstractmethod
    async def refresh(self) -> None:
        """Read what has changed."""

    def start(self) -> None:
        """Refresh periodically, for the first time after one period."""
        if self._task is None:
            self._task = asyncio.create_task(self._refresh_periodically())

    async def close(self) -> None:
        """Stop refreshing."""
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)
            self._task = None

    async def _refresh_periodically(self) -> None:
        while True:
            await asyncio.sleep(self._every)
            try:
                await self.refresh()
            except StoreError as error:
                self._telemetry.count_store_error(self._name, error)
            except Exception:  # the next refresh may succeed
                self._telemetry.log.exception("refresh_failed", what=self._name)
