"""``Oncebox``: the ledger and its worker, embedded in a program of your own."""

import asyncio
import os
import platform
import random
from collections.abc import Callable, Iterable
from typing import Any, Self, TypeVar

from oncebox import config, ids
from oncebox.assembly import Rooms, open_rooms
from oncebox.config import Settings
from oncebox.errors import OnceboxError
from oncebox.model.delivery import Accepted
from oncebox.model.retry import RetryRules
from oncebox.telemetry import Telemetry
from oncebox.worker.handlers import ANY_TYPE, Handlers
from oncebox.worker.loop import Worker
from oncebox.worker.watchdog import Watchdog

F = TypeVar("F", bound=Callable[..., Any])


class Oncebox:
    """Accepts deliveries, and runs your handlers so that each has its effect once.

    Without an argument it opens the database that ``oncebox`` uses everywhere else.
    """

    def __init__(
        self,
        url: str | None = None,
        *,
        settings: Settings | None = None,
        migrate: bool | None = None,
    ) -> None:
        """Prepare; nothing is opened before ``async with``."""
        self.settings = settings or config.load(database_url=url)
        self.telemetry = Telemetry()
        self.handlers = Handlers(_retry_rules(self.settings))
        self._migrate = migrate
        self._rooms: Rooms | None = None
        self._working: asyncio.Task[None] | None = None
        self._worker: Worker | None = None

    def on(
        self,
        source: str,
        type: str = ANY_TYPE,  # noqa: A002 - the word users know
        *,
        limit: float | None = None,
    ) -> Callable[[F], F]:
        """Register a handler for a type of a source, or for all its types.

        Raises: HandlerTwice.
        """

        def register(function: F) -> F:
            self.handlers.add(source, type, function, limit)
            return function

        return register

    def policy(self, source: str) -> Callable[[F], F]:
        """Register what decides, after the claim, whether a delivery runs, is held or dropped.

        Raises: HandlerTwice.
        """

        def register(function: F) -> F:
            self.handlers.add_policy(source, function)
            return function

        return register

    def source(
        self,
        source: str,
        *,
        tries: int | None = None,
        budget: float | None = None,
        first_wait: float | None = None,
        longest_wait: float | None = None,
        redelivery: str = "rearm",
    ) -> None:
        """Set what is particular to a source; times are in seconds.

        Raises: ConfigInvalid.
        """
        retry = {
            "tries": tries,
            "budget": _milliseconds(budget),
            "first_wait": _milliseconds(first_wait),
            "longest_wait": _milliseconds(longest_wait),
        }
        self.handlers.set_rules(source, redelivery=redelivery, retry=retry)

    async def accept(
        self,
        source: str,
        *,
        key: str | None = None,
        body: bytes | str = b"",
        headers: Iterable[tuple[str, str]] = (),
        type: str = "",  # noqa: A002 - the word users know
        order_key: str | None = None,
    ) -> Accepted:
        """Store an arrival once. When this returns, it is on disk.

        Raises: InputRefused, StoreUnavailable.
        """
        return await self.rooms.intake.accept(
            source,
            key=key,
            body=body.encode() if isinstance(body, str) else body,
            headers=headers,
            type_=type,
            order_key=order_key,
            redelivery=self.handlers.rules(source).redelivery,
        )

    @property
    def rooms(self) -> Rooms:
        """The opened rooms.

        Raises: OnceboxError, when the box is not open.
        """
        if self._rooms is None:
            message = "the box is not open; use it inside: async with box"
            raise OnceboxError(message)
        return self._rooms

    def metrics(self) -> str:
        """Return all metrics as Prometheus text."""
        return self.telemetry.scrape()

    async def open(self) -> None:
        """Open the database without starting to work."""
        if self._rooms is None:
            self._rooms = await open_rooms(self.settings, self.telemetry, migrate=self._migrate)

    def _start_working(self) -> None:
        self._worker = Worker(
            self.rooms.desk,
            self.handlers,
            self.telemetry,
            name=f"{platform.node()}:{os.getpid()}:{ids.new('wrk')[-6:]}",
            tenant=self.settings.tenant,
            settings=self.settings.worker,
            random=random.random,
        )
        self._working = asyncio.create_task(self._worker.run())

    def stop_working(self) -> None:
        """Ask the worker to finish what it does, or give it back."""
        if self._worker is not None:
            self._worker.stop()

    async def work(self) -> None:
        """Work until ``stop_working``, guarded by the watchdog."""
        watching = asyncio.create_task(
            Watchdog(self.telemetry, limit=self.settings.worker.watchdog).watch()
        )
        try:
            self._start_working()
            await self._finished()
        finally:
            watching.cancel()

    async def _finished(self) -> None:
        if self._working is not None:
            await self._working

    async def close(self) -> None:
        """Stop working and let go of the database."""
        self.stop_working()
        if self._working is not None:
            await asyncio.gather(self._working, return_exceptions=True)
        if self._rooms is not None:
            await self._rooms.close()
        self._rooms = self._worker = self._working = None

    async def __aenter__(self) -> Self:
        """Open, and start working if there are handlers."""
        await self.open()
        if self.handlers.sources:
            self._start_working()
        return self

    async def __aexit__(self, *_error: object) -> None:
        """Stop and close."""
        await self.close()


def _retry_rules(settings: Settings) -> RetryRules:
    retry = settings.retry
    return RetryRules(
        tries=retry.tries,
        budget=int(retry.budget * 1000),
        first_wait=int(retry.first_wait * 1000),
        longest_wait=int(retry.longest_wait * 1000),
    )


def _milliseconds(seconds: float | None) -> int | None:
    return None if seconds is None else int(seconds * 1000)
