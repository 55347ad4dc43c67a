"""Workers of both kinds behind one way of handling work."""

import asyncio
from collections.abc import Awaitable, Callable, Coroutine
from typing import Any

from oncebox.client.asynchronous import AsyncClient
from oncebox.client.sync import Client
from tests.support.running import Running

SOURCE = "jobs"

#: handles work; ``do`` is the work's own, and is awaited whichever kind it is
Handler = Callable[[Any, Callable[..., Awaitable[Any]]], Coroutine[Any, Any, None]]


def work(
    kind: str,
    service: Running,
    handler: Handler,
    *,
    url: str = "",
    tries: int | None = None,
    **options: Any,
) -> None:
    """Work until there is nothing due, or for so many tries."""
    options = {"idle": 0 if tries is None else 20, **options}
    most = 1_000 if tries is None else tries
    if kind == "async":
        asyncio.run(_work_later(url or service.url, service.key, handler, most, options))
        return
    with Client(url or service.url, service.key, timeout=10) as client:
        for number, each in enumerate(client.deliveries.work(SOURCE, **options), 1):
            with each:
                _now(handler(each, _awaitable(each.do)))
            if number == most:
                break


async def _work_later(
    url: str, key: str, handler: Handler, most: int, options: dict[str, Any]
) -> None:
    async with AsyncClient(url, key, timeout=10) as client:
        left = most
        async for each in client.deliveries.work(SOURCE, **options):
            async with each:
                await handler(each, each.do)
            left -= 1
            if not left:
                break


def _awaitable(do: Callable[..., Any]) -> Callable[..., Awaitable[Any]]:
    async def awaited(*args: Any, **kwargs: Any) -> Any:
        return do(*args, **kwargs)

    return awaited


def _now(coroutine: Coroutine[Any, Any, None]) -> None:
    """Run a coroutine that never really waits."""
    try:
        coroutine.send(None)
    except StopIteration:
        return
    message = "the handler of a sync worker must not wait"
    raise AssertionError(message)
