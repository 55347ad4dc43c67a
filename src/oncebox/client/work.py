"""Work: a claimed delivery inside ``with``, its lease kept alive beside it.

What the block raises is told to the service and logged, and then the next delivery's turn has
come: one bad delivery does not end its worker.
"""

import asyncio
import logging
import threading
from collections.abc import Awaitable, Callable
from contextlib import suppress
from functools import partial
from types import TracebackType
from typing import Any, Protocol, Self, TypeVar

from oncebox.client.call import Plan
from oncebox.client.shift import Fetched
from oncebox.client.tries import Try
from oncebox.errors import EffectInDoubt, LeaseLost, OnceboxError
from oncebox.model.calling import WINDOW, Function
from oncebox.model.retry import describe

T = TypeVar("T")

_log = logging.getLogger("oncebox.client")


class Driver(Protocol):
    """Takes the steps of a plan."""

    def drive(self, plan: Plan[T], sleep: Callable[[float], Any] = ...) -> T:
        """Return what comes of a plan."""


class AsyncDriver(Protocol):
    """Takes the steps of a plan."""

    async def drive(self, plan: Plan[T]) -> T:
        """Return what comes of a plan."""


class _Over(Exception):
    """Ends the heartbeats of work that is over."""


class Work(Try):
    """One claimed delivery: ``with work: …`` completes it, or fails it if the block raises."""

    def __init__(self, driver: Driver, fetched: Fetched, time_limit: float) -> None:
        """Have everything said by this driver."""
        super().__init__(fetched, time_limit)
        self._driver = driver
        self._over = threading.Event()

    def do(
        self,
        name: str,
        function: Function,
        /,
        *args: Any,
        safe: str | Function | None = None,
        timeout: float | None = None,
        window: float = WINDOW,
        **kwargs: Any,
    ) -> Any:
        """Call a function at most once per delivery and name; a repeat gets the stored result.

        ``safe`` says what to do when an earlier try began it and was never heard of again:
        ``"idempotent"`` calls it again with the same key while ``window`` lasts, ``"once"``
        holds the delivery for a person, a function asks the other side (it returns ``Done(…)``
        or raises ``NotDone``). The function runs in this thread and cannot be interrupted: let
        it end by itself within ``timeout`` seconds.

        Raises: EffectNameTwice, EffectMisused, EffectInDoubt, LeaseLost, and whatever it raises.
        """
        bound = partial(function, *args, **kwargs)
        plan = self._doing(name, bound, safe=safe, timeout=timeout, window=window)
        return self._driver.drive(plan)

    def __enter__(self) -> Self:
        """Begin, with heartbeats from a thread beside."""
        self._enter()
        threading.Thread(target=self._beat, name="oncebox-heartbeat", daemon=True).start()
        return self

    def __exit__(self, _kind: object, error: BaseException | None, _trace: object) -> bool:
        """Tell the service how it ended; only what is meant for the program goes on."""
        try:
            self._driver.drive(self._ending(error))
        except OnceboxError as failure:
            _tell_unheard(self, failure)
        finally:
            self._over.set()
        _tell(self, error)
        return isinstance(error, Exception)

    def _beat(self) -> None:
        with suppress(_Over, OnceboxError):  # the work is over, or the client was closed
            self._driver.drive(self._beating(), self._rest)

    def _rest(self, seconds: float) -> None:
        if self._over.wait(seconds):
            raise _Over


class AsyncWork(Try):
    """One claimed delivery: ``async with work: …`` completes it, or fails it.

    If the lease is lost or the time limit is up, the block is cancelled.
    """

    def __init__(self, driver: AsyncDriver, fetched: Fetched, time_limit: float) -> None:
        """Have everything said by this driver."""
        super().__init__(fetched, time_limit)
        self._driver = driver
        self._scope = asyncio.timeout(None)
        self._beats: asyncio.Task[None] | None = None

    async def do(
        self,
        name: str,
        function: Function,
        /,
        *args: Any,
        safe: str | Function | None = None,
        timeout: float | None = None,  # noqa: ASYNC109 - it bounds the user's call, not ours
        window: float = WINDOW,
        **kwargs: Any,
    ) -> Any:
        """Call a function at most once per delivery and name; see ``Work.do``.

        A plain function runs in a thread; one that outlives its ``timeout`` is left to itself.

        Raises: EffectNameTwice, EffectMisused, EffectInDoubt, LeaseLost, and whatever it raises.
        """
        bound = partial(function, *args, **kwargs)
        plan = self._doing(name, bound, safe=safe, timeout=timeout, window=window)
        return await self._driver.drive(plan)

    async def __aenter__(self) -> Self:
        """Begin, with heartbeats from a task beside."""
        self._enter()
        await self._scope.__aenter__()
        self._beats = asyncio.create_task(self._beat(self._scope))
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> bool:
        """Tell the service how it ended; only what is meant for the program goes on."""
        error = await self._left(self._scope.__aexit__(kind, error, trace), error)
        try:
            await self._driver.drive(self._ending(error))
        except OnceboxError as failure:
            _tell_unheard(self, failure)
        finally:
            if self._beats is not None:
                self._beats.cancel()
        _tell(self, error)
        return isinstance(error, Exception)

    async def _left(
        self, leaving: Awaitable[bool | None], error: BaseException | None
    ) -> BaseException | None:
        """Leave the scope of the block; return why it ended, if not well."""
        try:
            await leaving
        except TimeoutError as stopped:
            return (
                LeaseLost("the lease was lost, so the work was stopped") if self.lost else stopped
            )
        return error

    async def _beat(self, scope: asyncio.Timeout) -> None:
        await self._driver.drive(self._beating())
        with suppress(RuntimeError):  # the block has ended meanwhile
            scope.reschedule(asyncio.get_running_loop().time())


def _tell(work: Try, error: BaseException | None) -> None:
    """Log how a block ended, for whoever looks after the program."""
    if isinstance(error, (LeaseLost, EffectInDoubt)):
        _log.warning("%r: %s", work, describe(error))
    elif isinstance(error, Exception):
        _log.warning("%r failed: %s", work, describe(error), exc_info=error)


def _tell_unheard(work: Try, failure: OnceboxError) -> None:
    _log.warning("%r ended, but the service did not take note: %s", work, describe(failure))
