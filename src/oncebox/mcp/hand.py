"""The hand of a tool: the caller's own client, and a way to wait that shows it is alive."""

import asyncio
import hashlib
from collections.abc import Awaitable, Callable, Coroutine
from dataclasses import dataclass
from typing import Any, TypeVar

from oncebox import clock
from oncebox.client import AsyncClient
from oncebox.refusals import ServerBusy

T = TypeVar("T")

#: tells how many seconds of how many have passed
Progress = Callable[[float, float], Awaitable[None]]

#: seconds between two signs of life
_EVERY = 5.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Hand:
    """What one call of a tool works with; every request is made with the caller's key."""

    client: AsyncClient
    #: what the caller's API key is known by here; not the key
    mark: str
    progress: Progress
    #: set when nobody should be kept waiting any longer
    stopping: asyncio.Event

    async def wait(self, work: Coroutine[Any, Any, T], within: float) -> T:
        """Return what comes of work that may take its time, telling how far it is.

        Raises: ServerBusy, when the service stops meanwhile; and whatever the work raises.
        """
        began, task = clock.steady(), asyncio.ensure_future(work)
        stopped = asyncio.ensure_future(self.stopping.wait())
        try:
            while not task.done():
                if stopped.done():
                    message = "the service is stopping"
                    raise ServerBusy(message)
                await self.progress(min(clock.steady() - began, within), within)
                await asyncio.wait(
                    {task, stopped}, timeout=_EVERY, return_when=asyncio.FIRST_COMPLETED
                )
            return task.result()
        finally:
            task.cancel()
            stopped.cancel()


def mark_of(key: str) -> str:
    """Return by what the caller of an API key is known again."""
    return hashlib.sha256(b"mcp\0" + key.encode()).hexdigest()[:32]
