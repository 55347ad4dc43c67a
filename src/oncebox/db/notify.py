"""In-process notifications by channel: each subscription sees every one, even between waits."""

import asyncio
from collections import Counter, defaultdict
from collections.abc import Callable


class Notifier:
    """Counts the rings of each channel, so that any number of ears can each hear all of them."""

    def __init__(self, attend: Callable[[], None] = lambda: None) -> None:
        """Begin with no ring; ``attend`` is called whenever somebody is about to wait."""
        self._before_wait = attend
        self._counts: Counter[str] = Counter()
        #: rings of all channels at once
        self._count_of_all = 0
        self._waiters: defaultdict[str, set[asyncio.Future[None]]] = defaultdict(set)
        self._default_subscriptions: dict[str, Subscription] = {}

    @property
    def has_waiters(self) -> bool:
        """Whether anybody waits, on any channel."""
        return any(self._waiters.values())

    def notify(self, channel: str) -> None:
        """Wake everybody who waits on this channel."""
        self._counts[channel] += 1
        _wake(self._waiters[channel])

    def notify_all(self) -> None:
        """Wake everybody: something changed, nobody can say what."""
        self._count_of_all += 1
        for waiting in self._waiters.values():
            _wake(waiting)

    def subscribe(self, channel: str) -> "Subscription":
        """Return an ear that hears every ring from now on."""
        return Subscription(self, channel)

    async def wait(self, channel: str, within: float) -> bool:
        """Rest until the channel rings; a ring while nobody waits is heard by the next who does."""
        if channel not in self._default_subscriptions:
            self._default_subscriptions[channel] = Subscription(self, channel, heard=0)
        return await self._default_subscriptions[channel].wait(within)

    def count(self, channel: str) -> int:
        """Return how often a channel has been rung."""
        return self._counts[channel] + self._count_of_all

    async def wait_for_next(self, channel: str, within: float) -> bool:
        """Rest until the next ring; say whether it came within that many seconds."""
        self._before_wait()
        ring: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiters[channel].add(ring)
        try:
            async with asyncio.timeout(within):
                await ring
        except TimeoutError:
            return False
        finally:
            self._waiters[channel].discard(ring)
        return True


class Subscription:
    """One who listens on a channel; a ring while it does not wait is heard when it next does.

    It belongs to one waiter. Two that shared one would take each other's rings.
    """

    def __init__(self, bell: Notifier, channel: str, heard: int | None = None) -> None:
        """Hear what is rung from now on, or after so many rings."""
        self._notifier = bell
        self._channel = channel
        self._seen_count = bell.count(channel) if heard is None else heard

    async def wait(self, within: float) -> bool:
        """Rest until the channel rings; say whether it did within that many seconds."""
        before = self._seen_count
        rang = self._notifier.count(self._channel) != before
        if not rang:
            rang = await self._notifier.wait_for_next(self._channel, within)
        self._seen_count = self._notifier.count(self._channel)
        return rang or self._seen_count != before


def _wake(waiting: set[asyncio.Future[None]]) -> None:
    for ring in waiting:
        if not ring.done():
            ring.set_result(None)
