"""Sockets are tried on both event loops; one Dovecot serves all tests of a process."""

import asyncio
from collections.abc import AsyncIterator, Callable, Iterator, Mapping

import pytest
import uvloop

from oncebox.testing.imap import ScriptedImap
from tests.support.dovecot import Dovecot

LOOPS: Mapping[str, Callable[[], asyncio.AbstractEventLoop]] = {
    "asyncio": asyncio.new_event_loop,
    "uvloop": uvloop.new_event_loop,
}


def pytest_asyncio_loop_factories(
    config: pytest.Config, item: pytest.Item
) -> Mapping[str, Callable[[], asyncio.AbstractEventLoop]]:
    """Return the loops that asynchronous tests run on; one is enough for a real server."""
    return (
        LOOPS
        if item.path.stem in {"test_imap", "test_imap_connection"}
        else {"uvloop": LOOPS["uvloop"]}
    )


@pytest.fixture
async def imap() -> AsyncIterator[ScriptedImap]:
    """A server without a script."""
    async with ScriptedImap() as server:
        yield server


@pytest.fixture(scope="session")
def dovecot() -> Iterator[Dovecot]:
    """A real server."""
    with Dovecot() as server:
        yield server
