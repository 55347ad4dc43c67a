"""A TCP proxy before the service that cuts connections at random, in the middle of anything."""

import asyncio
import contextlib
import random
import threading
from typing import Self

_CHUNK = 4096


class Cutter:
    """Carries bytes both ways; every connection is cut after a random number of them."""

    def __init__(self, port: int, chance: random.Random, *, longest: int) -> None:
        """Lead to a port on this machine; no connection lives for more than ``longest`` bytes."""
        self._target = port
        self._chance = chance
        self._longest = longest
        self._thread = threading.Thread(
            target=lambda: asyncio.run(self._serve()), name="cutter", daemon=True
        )
        self._ready = threading.Event()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._over = asyncio.Event()
        self._writers: set[asyncio.StreamWriter] = set()
        self.port = 0
        #: how many connections were cut
        self.cuts = 0

    def __enter__(self) -> Self:
        """Begin to carry."""
        self._thread.start()
        assert self._ready.wait(10)
        return self

    def __exit__(self, *_exception: object) -> None:
        """Cut everything."""
        assert self._loop is not None
        self._loop.call_soon_threadsafe(self._over.set)
        self._thread.join(10)

    async def _serve(self) -> None:
        server = await asyncio.start_server(self._accept, "127.0.0.1", 0)
        self.port = server.sockets[0].getsockname()[1]
        self._loop = asyncio.get_running_loop()
        self._ready.set()
        await self._over.wait()
        server.close()
        for each in self._writers:
            each.transport.abort()
        while self._writers:  # noqa: ASYNC110 - the last of them rings no bell
            await asyncio.sleep(0.01)

    async def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Carry both ways until either side is gone or enough was carried."""
        ends = {writer}
        self._writers |= ends
        with contextlib.suppress(OSError):
            from_service, there = await asyncio.open_connection("127.0.0.1", self._target)
            ends.add(there)
            self._writers |= ends
            ways = [_copy(reader, there), self._copy_some(from_service, writer)]
            tasks = [asyncio.create_task(each) for each in ways]
            await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
            for each in tasks:
                each.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)
        for end in ends:
            end.transport.abort()
        self._writers -= ends

    async def _copy_some(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        budget = self._chance.randint(200, self._longest)
        while data := await reader.read(_CHUNK):
            writer.write(data[:budget])
            await writer.drain()
            budget -= len(data)
            if budget <= 0:
                self.cuts += 1
                return


async def _copy(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    while data := await reader.read(_CHUNK):
        writer.write(data)
        await writer.drain()
