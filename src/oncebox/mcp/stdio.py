"""The tools over stdin and stdout, for one caller; standard output holds nothing else."""

import asyncio
import os
import signal
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from mcp.server.stdio import stdio_server

from oncebox.client import AsyncClient
from oncebox.credentials import Credentials
from oncebox.mcp.hand import Hand, Progress, mark_of
from oncebox.mcp.server import Context, server


def run(access: Credentials) -> None:
    """Serve until the caller closes our input."""
    # At once: the ledger holds all there is to lose, and the reader of stdin cannot be stopped.
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    try:
        asyncio.run(_serve(access))
    except* BrokenPipeError:
        os._exit(0)  # the caller has died, and nobody is left to hear of it


async def _serve(access: Credentials) -> None:
    stopping = asyncio.Event()
    mark = mark_of(access.key)
    async with AsyncClient(access.url, access.key) as client:

        @asynccontextmanager
        async def hands(_context: Context, progress: Progress) -> AsyncIterator[Hand]:
            yield Hand(client=client, mark=mark, progress=progress, stopping=stopping)

        tools = server(hands)
        async with stdio_server() as (read, write):
            await tools.run(read, write, tools.create_initialization_options())
