"""In-process notifications by topic: Notifier, Subscription, and the Poller that reads on each."""

import asyncio
from collections import Counter, defaultdict
from collections.abc import Awaitable, Callable, Sized
from typing import TYPE_CHECKING, Protocol

from oncebox.errors import StoreError

if TYPE_CHECKING:  # commands that only read do not load the metrics
    from oncebox.core.metrics import Telemetry

#: seconds between two reads of a poller, at most
_POLL_SECONDS = 1.0


class Notifier:
    """Counts the notifications of each topic, so that every subscription sees all of them."""

    def __init__(self, before_wait: Callable[[], None] = lambda: None) -> None:
        """Call ``before_wait`` whenever a subscription is about to wait."""
        self._before_wait = before_wait
        self._counts: Counter[str] = Counter()
        #: notifications of all topics at once
        self._count_of_all = 0
        self._waiters: defaultdict[str, set[asyncio.Future[None]]] = defaultdict(set)
        self._default_subscriptions: dict[str, Subscription] = {}

    @property
    def has_waiters(self) -> bool:
        """Whether any subscription waits."""
        return any(self._waiters.values())

    def notify(self, topic: str) -> None:
        """Wake the waiters of a topic."""
        self._counts[topic] += 1
        _wake(self._waiters[topic])

    def notify_all(self) -> None:
        """Wake all waiters: something changed, but nobody can say what."""
        self._count_of_all += 1
        for waiting in self._waiters.values():
            _wake(waiting)

    def subscribe(self, topic: str) -> "Subscription":
        """Return a subscription that sees every notification from now on."""
        return Subscription(self, topic)

    async def wait(self, topic: str, within: float) -> bool:
        """Wait for a notification; one that came while nobody waited counts too."""
        if topic not in self._default_subscriptions:
            self._default_subscriptions[topic] = Subscription(self, topic, seen=0)
        return await self._default_subscriptions[topic].wait(within)

    def count(self, topic: str) -> int:
        """Return how often a topic was notified."""
        return self._counts[topic] + self._count_of_all

    async def wait_for_next(self, topic: str, within: float) -> bool:
        """Wait for the next notification; say whether it came within so many seconds."""
        self._before_wait()
        notified: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiters[topic].add(notified)
        try:
            async with asyncio.timeout(within):
                await notified
        except TimeoutError:
            return False
        finally:
            self._waiters[topic].discard(notified)
        return True


class Subscription:
    """A subscription to a topic; notifications between two waits end the next one at once.

    It belongs to one waiter: two would take each other's notifications.
    """

    def __init__(self, notifier: Notifier, topic: str, seen: int | None = None) -> None:
        """See notifications from now on, or after so many."""
        self._notifier = notifier
        self._topic = topic
        self._seen_count = notifier.count(topic) if seen is None else seen

    async def wait(self, within: float) -> bool:
        """Wait for a notification; say whether it came within so many seconds."""
        before = self._seen_count
        notified = self._notifier.count(self._topic) != before
        if not notified:
            notified = await self._notifier.wait_for_next(self._topic, within)
        self._seen_count = self._notifier.count(self._topic)
        return notified or self._seen_count != before


def _wake(waiting: set[asyncio.Future[None]]) -> None:
    for notified in waiting:
        if not notified.done():
            notified.set_result(None)


class _Topics(Protocol):
    def subscribe(self, topic: str, /) -> Subscription:
        """Return a subscription to a topic."""


class Poller:
    """Repeats a read whenever a topic is notified, and at least once a second."""

    def __init__(
        self,
        topics: _Topics,
        telemetry: "Telemetry",
        topic: str,
        read: Callable[[], Awaitable[None]],
        waiting: Sized,
    ) -> None:
        """Read as long as ``waiting`` is not empty; nothing is read before ``start``."""
        self._topics = topics
        self._telemetry = telemetry
        self._topic = topic
        self._read = read
        self._waiting = waiting
        self._task: asyncio.Task[None] | None = None

    def start(self) -> None:
        """Start reading, if it is not running; call it with every new waiter."""
        if self._task is None:
            self._task = asyncio.create_task(self._run())

    async def close(self) -> None:
        """Stop reading."""
        task, self._task = self._task, None
        if task is not None:
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)

    async def _run(self) -> None:
        subscription = self._topics.subscribe(self._topic)
        while self._waiting:
            try:
                await self._read()
            except StoreError as error:
                self._telemetry.count_store_error("poll", error)
            except Exception:
                # All waiters depend on this; the next read may succeed.
                self._telemetry.log.exception("poll_failed", topic=self._topic)
            await subscription.wait(_POLL_SECONDS)
        self._task = None  # no await since the last check: the next waiter starts it again
