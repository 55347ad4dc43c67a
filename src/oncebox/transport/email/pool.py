"""Open lines to a relay, kept for the next mail and checked before they carry it."""

import asyncio
import ssl

from oncebox.transport.email.conversation import Conversation
from oncebox.transport.email.relay import Progress, Relay, greet


class Pool:
    """At most so many lines at once; those that rest are used again, the latest first."""

    def __init__(self, relay: Relay, tls: ssl.SSLContext, *, most: int, idle: float) -> None:
        """Open nothing yet; a line that nobody needs for ``idle`` seconds is closed."""
        self._relay = relay
        self._tls = tls
        self._idle_for = idle
        self._places = asyncio.Semaphore(most)
        self._resting: list[Conversation] = []
        self._leaving: set[asyncio.Task[None]] = set()
        self._is_closed = False

    async def take(self, progress: Progress) -> Conversation:
        """Return a line that answers, opened if need be.

        Raises: what `trouble` tells apart.
        """
        await self._places.acquire()
        try:
            return await self._kept() or await greet(self._relay, self._tls, progress)
        except BaseException:
            self._places.release()
            raise

    def give(self, line: Conversation) -> None:
        """Take a line back; one that does not rest is cut."""
        self._places.release()
        if not line.rests or self._is_closed or self._idle_for <= 0:
            line.abort()
            return
        loop = asyncio.get_running_loop()
        line.retiring = loop.call_later(self._idle_for, self._retire, line)
        self._resting.append(line)

    async def close(self) -> None:
        """Say goodbye on all lines that rest; those in use are cut when they are given back."""
        self._is_closed = True
        for line in list(self._resting):
            self._retire(line)
        if self._leaving:
            await asyncio.wait(self._leaving)

    async def _kept(self) -> Conversation | None:
        while self._resting:
            line = self._resting.pop()
            _stay(line)
            is_fit = False
            try:
                is_fit = line.rests and await line.answers()
            finally:
                if not is_fit:
                    line.abort()
            if is_fit:
                return line
        return None

    def _retire(self, line: Conversation) -> None:
        self._resting.remove(line)
        _stay(line)
        leaving = asyncio.get_running_loop().create_task(line.leave())
        self._leaving.add(leaving)
        leaving.add_done_callback(self._leaving.discard)


def _stay(line: Conversation) -> None:
    if line.retiring is not None:
        line.retiring.cancel()
        line.retiring = None
