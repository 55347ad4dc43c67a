"""The tries under way in this process: their leases renewed, their time limits kept."""

import asyncio
from collections.abc import Callable, Coroutine
from dataclasses import dataclass
from enum import Enum, auto

from prometheus_client import Gauge

from oncebox import clock
from oncebox.ledger.deliveries.desk import Desk
from oncebox.model.delivery import Delivery
from oncebox.telemetry import Telemetry
from oncebox.worker.renewal import LOOK_EVERY, keep_renewing


class Stopped(Enum):
    """Why a try was cancelled."""

    #: somebody else owns the delivery now
    LEASE_LOST = auto()
    #: its time is up
    TIME_LIMIT = auto()
    #: the worker stops and gives it back
    WORKER_STOPS = auto()


@dataclass(slots=True)
class _Try:
    """One try under way."""

    delivery: Delivery
    task: asyncio.Task[None]
    renew_at: float
    limit_at: float
    is_over: bool = False
    stopped: Stopped | None = None

    def needs_renewal(self, now: float) -> bool:
        return self.renew_at <= now and (self.is_over or now < self.limit_at)

    def stop(self, why: Stopped) -> None:
        if self.stopped is None:
            self.stopped = why
            self.task.cancel()


class Running:
    """Starts tries, keeps their leases alive, and stops those that may not go on."""

    def __init__(
        self,
        desk: Desk,
        telemetry: Telemetry,
        *,
        lease: float,
        most_bytes: int | None = None,
        gauge: Gauge | None = None,
    ) -> None:
        """Begin with nothing under way; start nothing new above ``most_bytes`` of bodies."""
        self._desk = desk
        self._telemetry = telemetry
        self._lease = lease
        self._most_bytes = most_bytes
        self._bytes = 0
        self._tries: dict[tuple[str, int], _Try] = {}
        self._over = 0
        self._changed = asyncio.Event()
        (gauge or telemetry.in_flight).set_function(lambda: len(self._tries))

    def __len__(self) -> int:
        """How many tries are not settled yet."""
        return len(self._tries)

    @property
    def executing(self) -> int:
        """How many handlers are running; the rest only wait for their commit."""
        return len(self._tries) - self._over

    def start(self, delivery: Delivery, work: Coroutine[None, None, None], limit: float) -> None:
        """Run a try beside the others, for at most ``limit`` seconds."""
        if delivery.fence > 1:
            self._end_earlier(delivery)
        now = clock.steady()
        task = asyncio.create_task(work)
        self._tries[_key(delivery)] = _Try(delivery, task, now + self._lease / 3, now + limit)
        self._bytes += len(delivery.body)

    def _end_earlier(self, delivery: Delivery) -> None:
        """Stop a try of ours that somebody took over from, and from whom we have it back."""
        for (id_, _fence), each in self._tries.items():
            if id_ == delivery.id:
                each.stop(Stopped.LEASE_LOST)

    def over(self, delivery: Delivery) -> None:
        """Mark a try whose handler has ended; it keeps its lease until it is settled."""
        found = self._tries.get(_key(delivery))
        if found is not None:
            found.is_over = True
            self._over += 1
            self._changed.set()

    def end(self, delivery: Delivery) -> None:
        """Forget a try that is settled, or that somebody else owns now."""
        found = self._tries.pop(_key(delivery), None)
        if found is not None:
            self._bytes -= len(delivery.body)
            self._over -= found.is_over
        self._changed.set()

    def has(self, delivery: Delivery) -> bool:
        """Say whether this very try is under way."""
        return _key(delivery) in self._tries

    def why_stopped(self, delivery: Delivery) -> Stopped | None:
        """Say why a try was cancelled; nothing if it was not by us."""
        found = self._tries.get(_key(delivery))
        return found.stopped if found else None

    async def room_for(self, most: int, within: float) -> int:
        """Wait until at least half of ``most`` handlers could be started; return how many.

        Tries that wait for their commit take no room, up to as many again.
        """
        await self._until(lambda: self._has_room(most), within)
        if self._is_full:
            return 0
        return max(0, min(most - self.executing, 2 * most - len(self)))

    @property
    def _is_full(self) -> bool:
        return self._most_bytes is not None and self._bytes >= self._most_bytes

    def _has_room(self, most: int) -> bool:
        return self.executing <= most // 2 and len(self) < 2 * most and not self._is_full

    async def none_left(self, within: float) -> bool:
        """Wait until every try is settled; say whether that came true in time."""
        return await self._until(lambda: not self._tries, within)

    async def _until(self, holds: Callable[[], bool], within: float) -> bool:
        if holds():
            return True
        try:
            async with asyncio.timeout(within):
                while not holds():
                    self._changed.clear()
                    await self._changed.wait()
        except TimeoutError:
            return False
        return True

    def give_back_all(self) -> None:
        """Stop every try, because the worker stops."""
        for each in self._tries.values():
            each.stop(Stopped.WORKER_STOPS)

    async def keep_watch(self) -> None:
        """Renew leases and end overlong tries, until cancelled."""
        renewing = keep_renewing(self._renew, self._lease, self._telemetry)
        await asyncio.gather(self._keep_limits(), renewing)

    async def _keep_limits(self) -> None:
        while True:
            await asyncio.sleep(min(LOOK_EVERY, self._lease / 6))
            now = clock.steady()
            for each in list(self._tries.values()):
                if each.limit_at <= now:
                    each.stop(Stopped.TIME_LIMIT)
                if each.limit_at + self._lease <= now and not each.is_over:
                    # It ignores its cancellation. Its lease has run out, so others may have it.
                    self._telemetry.log.warning("handler_does_not_stop", delivery=each.delivery.id)
                    self.end(each.delivery)

    async def _renew(self) -> None:
        """Prolong the leases that are getting old; stop the tries that lost theirs.

        Renewal ends at the time limit: a handler that does not stop then loses its lease.
        """
        now = clock.steady()
        old = [each for each in self._tries.values() if each.needs_renewal(now)]
        if not old:
            return
        held = [(each.delivery.id, each.delivery.fence) for each in old]
        ours = await self._desk.renew(held, int(self._lease * 1000))
        for each in old:
            each.renew_at = now + self._lease / 3
            if each.delivery.id not in ours:
                each.stop(Stopped.LEASE_LOST)


def _key(delivery: Delivery) -> tuple[str, int]:
    """Return what tells a try from an earlier one of the same delivery."""
    return (delivery.id, delivery.fence)
