"""Wake-ups inside one process: whoever listens on a channel hears every ring, in its own time."""

import asyncio
from collections import Counter, defaultdict
from collections.abc import Callable


class Bell:
    """Counts the rings of each channel, so that any number of ears can each hear all of them."""

    def __init__(self, attend: Callable[[], None] = lambda: None) -> None:
        """Begin with no ring; ``attend`` is called whenever somebody is about to wait."""
        self._attend = attend
        self._rings: Counter[str] = Counter()
        #: rings of all channels at once
        self._of_all = 0
        self._waiting: defaultdict[str, set[asyncio.Future[None]]] = defaultdict(set)
        self._common: dict[str, Ear] = {}

    @property
    def is_awaited(self) -> bool:
        """Whether anybody waits, on any channel."""
        return any(self._waiting.values())

    def ring(self, channel: str) -> None:
        """Wake everybody who waits on this channel."""
        self._rings[channel] += 1
        _wake(self._waiting[channel])

    def ring_all(self) -> None:
        """Wake everybody: something changed, nobody can say what."""
        self._of_all += 1
        for waiting in self._waiting.values():
            _wake(waiting)

    def ear(self, channel: str) -> "Ear":
        """Return an ear that hears every ring from now on."""
        return Ear(self, channel)

    async def wait(self, channel: str, within: float) -> bool:
        """Rest until the channel rings; a ring while nobody waits is heard by the next who does."""
        if channel not in self._common:
            self._common[channel] = Ear(self, channel, heard=0)
        return await self._common[channel].wait(within)

    def count(self, channel: str) -> int:
        """Return how often a channel has been rung."""
        return self._rings[channel] + self._of_all

    async def rung(self, channel: str, within: float) -> bool:
        """Rest until the next ring; say whether it came within that many seconds."""
        self._attend()
        ring: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiting[channel].add(ring)
        try:
            async with asyncio.timeout(within):
                await ring
        except TimeoutError:
            return False
        finally:
            self._waiting[channel].discard(ring)
        return True


class Ear:
    """One who listens on a channel; a ring while it does not wait is heard when it next does.

    It belongs to one waiter. Two that shared one would take each other's rings.
    """

    def __init__(self, bell: Bell, channel: str, heard: int | None = None) -> None:
        """Hear what is rung from now on, or after so many rings."""
        self._bell = bell
        self._channel = channel
        self._heard = bell.count(channel) if heard is None else heard

    async def wait(self, within: float) -> bool:
        """Rest until the channel rings; say whether it did within that many seconds."""
        before = self._heard
        rang = self._bell.count(self._channel) != before
        if not rang:
            rang = await self._bell.rung(self._channel, within)
        self._heard = self._bell.count(self._channel)
        return rang or self._heard != before


def _wake(waiting: set[asyncio.Future[None]]) -> None:
    for ring in waiting:
        if not ring.done():
            ring.set_result(None)
