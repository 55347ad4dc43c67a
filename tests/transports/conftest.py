"""Everything about sockets is tried on both event loops: the standard one and uvloop's."""

import asyncio
from collections.abc import AsyncIterator, Callable, Mapping

import pytest
import uvloop

from oncebox.testing.smtp import ScriptedSmtp
from oncebox.transports.smtp import SmtpTransport
from tests.transports.handover import to

LOOPS: Mapping[str, Callable[[], asyncio.AbstractEventLoop]] = {
    "asyncio": asyncio.new_event_loop,
    "uvloop": uvloop.new_event_loop,
}


def pytest_asyncio_loop_factories(
    config: pytest.Config, item: pytest.Item
) -> Mapping[str, Callable[[], asyncio.AbstractEventLoop]]:
    """Return the loops that asynchronous tests run on.

    One is enough for real mail servers, and for what is tried on the other one end to end.
    """
    one = item.path.stem in {"test_peers", "test_resend"}
    return {"uvloop": LOOPS["uvloop"]} if one else LOOPS


@pytest.fixture
async def server() -> AsyncIterator[ScriptedSmtp]:
    """A server without a script."""
    async with ScriptedSmtp() as server:
        yield server


@pytest.fixture
async def way(server: ScriptedSmtp) -> AsyncIterator[SmtpTransport]:
    """The way to it, in the clear."""
    way = to(server)
    yield way
    await way.close()
