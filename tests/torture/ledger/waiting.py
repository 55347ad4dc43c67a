"""Waiting for what nobody announces: a file, a state in a database."""

import asyncio
from collections.abc import Awaitable, Callable

_GLANCE = 0.005


async def until(holds: Callable[[], bool]) -> None:
    """Look again and again until it is so."""
    while not holds():  # noqa: ASYNC110 - there is no event to wait for
        await asyncio.sleep(_GLANCE)


async def until_told(asked: Callable[[], Awaitable[bool]], *, every: float = 0.02) -> None:
    """Ask again and again until the answer is yes."""
    while not await asked():  # noqa: ASYNC110 - there is no event to wait for
        await asyncio.sleep(every)
