"""SingleFlight: concurrent and soon repeated calls for one key share one result.

A mail to many inboxes is one delivery for each, with the same bytes. Parsed and checked for each,
one mail to a hundred recipients would cost as much as a hundred.
"""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Generic, TypeVar

T = TypeVar("T")

#: results that are kept, and the bytes of the mails they came from
_MOST_KEPT = 32
_MOST_BYTES = 8 * 1024 * 1024


class SingleFlight(Generic[T]):
    """Results by key, of which the oldest are dropped.

    An error is shared by those who wait; it is kept only if it is one of ``kept_errors``.
    """

    def __init__(self, *kept_errors: type[Exception]) -> None:
        self._kept_errors = kept_errors
        self._results: dict[str, asyncio.Task[T]] = {}
        self._sizes: dict[str, int] = {}

    async def result(self, key: str, size: int, call: Callable[[], Awaitable[T]]) -> T:
        """Return the result for a key; the first caller's call computes it.

        A caller that is cancelled leaves the others their result.
        """
        task = self._results.get(key)
        if task is None:
            task = self._results[key] = asyncio.ensure_future(_run(call))
            self._sizes[key] = size
            task.add_done_callback(lambda done: self._drop_if_failed(key, done))
            self._drop_oldest()
        return await asyncio.shield(task)

    def _drop_if_failed(self, key: str, done: asyncio.Task[T]) -> None:
        error = None if done.cancelled() else done.exception()
        is_kept = not done.cancelled() and (error is None or isinstance(error, self._kept_errors))
        if not is_kept and self._results.get(key) is done:
            self._drop(key)

    def _drop_oldest(self) -> None:
        for key in list(self._results):
            if len(self._results) <= _MOST_KEPT and sum(self._sizes.values()) <= _MOST_BYTES:
                return
            if self._results[key].done():
                self._drop(key)

    def _drop(self, key: str) -> None:
        del self._results[key], self._sizes[key]


async def _run(call: Callable[[], Awaitable[T]]) -> T:
    return await call()
