"""Both clients behind one way of asking."""

import asyncio
from collections.abc import AsyncIterator, Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from oncebox.client.asynchronous import AsyncClient
from oncebox.client.sync import Client
from tests.support.databases import Place
from tests.support.running import Running, running

KEY = "obx_test"


class Speaker:
    """Asks with one of the two clients; a test does not see which."""

    def __init__(self, kind: str) -> None:
        self.kind = kind

    def ask(
        self,
        url: str,
        question: Callable[[Any], Any],
        *,
        key: str | None = KEY,
        timeout: float = 5.0,
    ) -> Any:
        """Return what comes of a question to a fresh client; a list where it is an iterator."""
        if self.kind == "async":
            return asyncio.run(_ask_later(AsyncClient(url, key, timeout=timeout), question))
        with Client(url, key, timeout=timeout) as client:
            found = question(client)
            return list(found) if isinstance(found, Iterator) else found


async def _ask_later(client: AsyncClient, question: Callable[[Any], Any]) -> Any:
    async with client:
        found = question(client)
        if isinstance(found, AsyncIterator):
            return [each async for each in found]
        return await found


@pytest.fixture(params=["sync", "async"])
def speaker(request: pytest.FixtureRequest) -> Speaker:
    """Both clients, one after the other."""
    return Speaker(request.param)


@pytest.fixture
def service(place: Place, tmp_path: Path) -> Iterator[Running]:
    """A real service, on each database in turn."""
    with running(place, tmp_path / "data") as started:
        yield started
