"""The sends that one process is at: how many by which way, their leases kept, and how they stop."""

import asyncio
from collections import Counter
from collections.abc import Callable, Coroutine
from dataclasses import dataclass, field

from oncebox import clock
from oncebox.ledger.sends.desk import SendDesk
from oncebox.model.send import ClaimedSend, Marker, Send
from oncebox.telemetry import Telemetry
from oncebox.worker.renewal import keep_renewing

Way = tuple[str, str]


@dataclass(slots=True, eq=False)
class Try:
    """One try under way."""

    claimed: ClaimedSend
    renew_at: float
    task: asyncio.Task[None] | None = field(default=None, repr=False)
    #: the transport was told that it may hand over
    marked: bool = False
    #: how it ended is known, and only has to be written down
    over: bool = False

    @property
    def send(self) -> Send:
        """What is tried."""
        return self.claimed.send

    @property
    def way(self) -> Way:
        """By which way."""
        return (self.send.tenant, self.send.transport)


class UnderWay:
    """Starts tries and keeps their leases: until the hand-over, the answer, and the settlement."""

    def __init__(
        self,
        desk: SendDesk,
        telemetry: Telemetry,
        now: clock.Clock,
        *,
        lease: float,
        concurrency: int,
    ) -> None:
        """Begin with nothing; ``lease`` is in seconds."""
        self._desk = desk
        self._telemetry = telemetry
        self._now = now
        self._lease = lease
        self._concurrency = concurrency
        self._tries: set[Try] = set()
        self._ways: Counter[Way] = Counter()
        self._changed = asyncio.Event()
        telemetry.sends_in_flight.set_function(lambda: len(self._tries))

    @property
    def lease(self) -> int:
        """The milliseconds a lease lasts."""
        return int(self._lease * 1000)

    def start(
        self, claimed: ClaimedSend, work: Callable[[Try], Coroutine[None, None, None]]
    ) -> None:
        """See a try through beside the others."""
        one = Try(claimed, clock.steady() + self._lease / 3)
        self._tries.add(one)
        self._ways[one.way] += 1
        one.task = asyncio.create_task(work(one))
        one.task.add_done_callback(lambda _: self._end(one))

    def _end(self, one: Try) -> None:
        self._tries.discard(one)
        self._ways[one.way] -= 1
        if not self._ways[one.way]:
            del self._ways[one.way]
        self._changed.set()

    def room_by(self, way: Way) -> int:
        """Return how many more may be begun by a way.

        One way never takes all the room, or a server that answers nobody would stop all mail.
        """
        others = len(self._tries) - self._ways[way]
        share = max(1, (self._concurrency - others) * 3 // 4)
        free = self._concurrency - len(self._tries)
        return max(0, min(share - self._ways[way], free))

    async def has_room(self, within: float) -> bool:
        """Wait until something can be begun; say whether it can."""
        return await self._until(lambda: len(self._tries) < self._concurrency, within)

    async def none_left(self, within: float) -> bool:
        """Wait until every try is settled; say whether that came true in time."""
        return await self._until(lambda: not self._tries, within)

    def stop_all(self) -> None:
        """End every hand-over: what is not marked is given back, the rest is in doubt."""
        for each in self._tries:
            if not each.over and each.task is not None:
                each.task.cancel()

    async def keep_leases(self) -> None:
        """Renew leases before they run out, until cancelled."""
        await keep_renewing(self._renew, self._lease, self._telemetry)

    async def _renew(self) -> None:
        """Prolong what gets old; who lost a lease learns it at the marker, or brings proof."""
        now = clock.steady()
        old = [each for each in self._tries if each.renew_at <= now]
        if not old:
            return
        until = self._now() + self.lease
        held = await asyncio.gather(*(self._desk.renew(_marker(each.send, until)) for each in old))
        for each, still_ours in zip(old, held, strict=True):
            # One that somebody else has is never asked for again.
            each.renew_at = now + self._lease / 3 if still_ours else float("inf")
            if not still_ours and not each.over:
                self._telemetry.lease_conflicts.inc()

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


def _marker(send: Send, until: int) -> Marker:
    return Marker(tenant=send.tenant, id=send.id, fence=send.fence, until=until)
