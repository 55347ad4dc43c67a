"""Patience: writes that must not be lost are repeated until the database is back."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import TypeVar

from oncebox.errors import DatabaseClosed, RowRefused, StoreError

T = TypeVar("T")

_FIRST_WAIT = 0.05
_LONGEST_WAIT = 1.0


async def patiently(write: Callable[[], Awaitable[T]]) -> T:
    """Repeat a write that is safe to repeat, until it goes through.

    Bounded from outside: by the handler's time limit, or by the end of the worker.
    """
    wait = _FIRST_WAIT
    while True:
        try:
            return await write()
        except (DatabaseClosed, RowRefused):
            raise
        except StoreError:  # also a standby, a changed password: temporary while work is under way
            await asyncio.sleep(wait)
            wait = min(_LONGEST_WAIT, wait * 2)
