"""Notification topics and the Poller that repeats a read whenever a topic is notified."""

import asyncio
from collections.abc import Awaitable, Callable, Sized

from oncebox.core.metrics import Telemetry
from oncebox.db.database import Database
from oncebox.errors import StoreError
from oncebox.ledger.transactions import Ledger

#: seconds between two reads, at most
_POLL_SECONDS = 1.0


class Poller:
    """Repeats a read whenever a topic is notified, and at least once a second."""

    def __init__(
        self,
        database: Database | Ledger,
        telemetry: Telemetry,
        channel: str,
        look: Callable[[], Awaitable[None]],
        waiting: Sized,
    ) -> None:
        """Read as long as ``waiting`` is not empty; nothing is read before ``start``."""
        self._database = database
        self._telemetry = telemetry
        self._topic = channel
        self._read = look
        self._waiters = waiting
        self._task: asyncio.Task[None] | None = None

    def start(self) -> None:
        """Start reading, if it is not running; call it with every new waiter."""
        if self._task is None:
            self._task = asyncio.create_task(self._run())

    async def close(self) -> None:
        """Stop reading."""
        task, self._task = self._task, None
        if task is not None:
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)

    async def _run(self) -> None:
        subscription = self._database.subscribe(self._topic)
        while self._waiters:
            try:
                await self._read()
            except StoreError as error:
                self._telemetry.store_errors.labels(error.code).inc()
            except Exception:
                # All waiters depend on this; the next read may succeed.
                self._telemetry.log.exception("poller_failed", topic=self._topic)
            await subscription.wait(_POLL_SECONDS)
        self._task = None  # no await since the last check: the next waiter starts it again


#: events were recorded and can be numbered
EVENTS = "events"
#: events were numbered and can be read
STREAM = "stream"
#: a delivery became due
DUE = "due"
#: a message was stored, or an inbox or artifact changed
MESSAGES = "messages"
#: there is something to send, or a send has changed
SENDS = "sends"
