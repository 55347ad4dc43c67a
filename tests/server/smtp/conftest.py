"""Everything about SMTP is tried on both event loops: the standard one and uvloop's."""

import asyncio
from collections.abc import Callable, Mapping

import pytest
import uvloop

LOOPS: Mapping[str, Callable[[], asyncio.AbstractEventLoop]] = {
    "asyncio": asyncio.new_event_loop,
    "uvloop": uvloop.new_event_loop,
}


def pytest_asyncio_loop_factories(
    config: pytest.Config, item: pytest.Item
) -> Mapping[str, Callable[[], asyncio.AbstractEventLoop]]:
    """Return the loops that asynchronous tests run on."""
    return LOOPS
