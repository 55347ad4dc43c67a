"""An action inside ``with``: begun, kept alive beside the block, and ended with it."""

import asyncio
import threading
from contextlib import suppress
from types import TracebackType
from typing import Any, Self

from oncebox.client.acting import Acting, Wish
from oncebox.client.work import AsyncDriver, Driver
from oncebox.errors import LeaseLost, OnceboxError


class _Over(Exception):
    """Ends the heartbeats of an action that is over."""


class Action(Acting):
    """``with attempt.action(…) as action:``; look at ``action.go`` before you do it.

    The end of the block says that it is done, unless ``done`` or ``not_done`` said more. An
    error that proves that nothing happened says so; any other leaves the action in doubt.
    """

    def __init__(self, driver: Driver, wish: Wish) -> None:
        """Have everything said by this driver."""
        super().__init__(wish)
        self._driver = driver
        self._over = threading.Event()

    def begin(self) -> Self:
        """Begin it, or learn how it stands; inside ``with`` that has happened.

        Raises: ActionInFlight, ActionHeld.
        """
        self._driver.drive(self._beginning())
        return self

    def done(self, result: Any = None) -> None:
        """Say that it happened, and what to give to repeats."""
        self._driver.drive(self._prove(result))

    def not_done(self) -> None:
        """Say that it did not happen, so that it may begin again.

        Raises: LeaseLost.
        """
        self._driver.drive(self._deny())

    def heartbeat(self) -> None:
        """Keep it for longer; inside ``with`` that happens by itself.

        Raises: LeaseLost.
        """
        self._driver.drive(self._beat())

    def __enter__(self) -> Self:
        """Begin, with heartbeats from a thread beside."""
        self.begin()
        if self._standing.fence is not None:
            threading.Thread(target=self._keep, name="oncebox-action", daemon=True).start()
        return self

    def __exit__(self, _kind: object, error: BaseException | None, _trace: object) -> None:
        """Say how it ended; what the block raised goes on."""
        try:
            self._driver.drive(self._leaving(error))
        finally:
            self._over.set()

    def _keep(self) -> None:
        with suppress(_Over, OnceboxError):  # it is over, or the client was closed
            self._driver.drive(self._beating(), self._rest)

    def _rest(self, seconds: float) -> None:
        if self._over.wait(seconds):
            raise _Over


class AsyncAction(Acting):
    """``async with attempt.action(…) as action:``; as ``Action``.

    If the lease is lost, the block is cancelled.
    """

    def __init__(self, driver: AsyncDriver, wish: Wish) -> None:
        """Have everything said by this driver."""
        super().__init__(wish)
        self._driver = driver
        self._scope = asyncio.timeout(None)
        self._beats: asyncio.Task[None] | None = None

    async def begin(self) -> Self:
        """Begin it, or learn how it stands; inside ``async with`` that has happened.

        Raises: ActionInFlight, ActionHeld.
        """
        await self._driver.drive(self._beginning())
        return self

    async def done(self, result: Any = None) -> None:
        """Say that it happened, and what to give to repeats."""
        await self._driver.drive(self._prove(result))

    async def not_done(self) -> None:
        """Say that it did not happen, so that it may begin again.

        Raises: LeaseLost.
        """
        await self._driver.drive(self._deny())

    async def heartbeat(self) -> None:
        """Keep it for longer; inside ``async with`` that happens by itself.

        Raises: LeaseLost.
        """
        await self._driver.drive(self._beat())

    async def __aenter__(self) -> Self:
        """Begin, with heartbeats from a task beside."""
        await self.begin()
        await self._scope.__aenter__()
        if self._standing.fence is not None:
            self._beats = asyncio.create_task(self._keep(self._scope))
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """Say how it ended; what the block raised goes on.

        Raises: LeaseLost, if it was stopped because of that.
        """
        try:
            await self._scope.__aexit__(kind, error, trace)
            await self._driver.drive(self._leaving(error))
        except TimeoutError as stopped:
            if not (self.lost and self._scope.expired()):
                raise
            message = f"the lease of {self.name!r} was lost, so it was stopped"
            raise LeaseLost(message) from stopped
        finally:
            if self._beats is not None:
                self._beats.cancel()

    async def _keep(self, scope: asyncio.Timeout) -> None:
        await self._driver.drive(self._beating())
        if self.lost:
            with suppress(RuntimeError):  # the block has ended meanwhile
                scope.reschedule(asyncio.get_running_loop().time())
