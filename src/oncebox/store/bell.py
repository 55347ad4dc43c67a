"""Wake-ups inside one process: who waits on a channel hears it ring."""

import asyncio
from collections import defaultdict


class Bell:
    """One flag per channel; a ring while nobody waits is heard by the next who does."""

    def __init__(self) -> None:
        """Begin with no channel rung."""
        self._rung: defaultdict[str, asyncio.Event] = defaultdict(asyncio.Event)

    def ring(self, channel: str) -> None:
        """Wake whoever waits on this channel."""
        self._rung[channel].set()

    def ring_all(self) -> None:
        """Wake everybody: something changed, nobody can say what."""
        for event in self._rung.values():
            event.set()

    async def wait(self, channel: str, within: float) -> bool:
        """Rest until the channel rings; say whether it did within that many seconds."""
        event = self._rung[channel]
        try:
            async with asyncio.timeout(within):
                await event.wait()
        except TimeoutError:
            return False
        event.clear()
        return True
