"""Claims: asking the ledger for work, source after source, each in its turn."""

from collections.abc import Callable, Iterator
from itertools import count

from oncebox import clock, faults
from oncebox.errors import CommitUnknown, StoreError
from oncebox.ledger.deliveries.desk import Desk
from oncebox.ledger.deliveries.leases import Claimant
from oncebox.model.delivery import Delivery
from oncebox.worker.handlers import Handlers

#: seconds between two looks without the hint below which nothing is due
_FULL_LOOK_EVERY = 1.0
#: milliseconds behind the hint in which work that committed late may still lie
_SLACK = 2_000

IsRunning = Callable[[Delivery], bool]


class Claims:
    """Claims deliveries of the sources that have handlers."""

    def __init__(
        self, desk: Desk, handlers: Handlers, *, tenant: str, worker: str, lease: float
    ) -> None:
        """Claim for one worker of one tenant."""
        self._desk = desk
        self._handlers = handlers
        self._tenant = tenant
        self._worker = worker
        self._lease = int(lease * 1000)
        self._turns = count()
        self._floors: dict[str, int] = {}
        self._full_look_at = 0.0
        self._doubtful: set[str] = set()

    async def claim(self, most: int, is_running: IsRunning) -> list[Delivery]:
        """Lease up to ``most`` due deliveries; the source that begins changes every time."""
        if clock.steady() >= self._full_look_at:
            self._full_look_at = clock.steady() + _FULL_LOOK_EVERY
            self._floors.clear()
        claimed: list[Delivery] = []
        for source in self._in_turn():
            try:
                claimed += await self._recover(source, is_running)
                if len(claimed) < most:
                    claimed += await self._claim_from(source, most - len(claimed))
            except StoreError:
                if not claimed:
                    raise
                break  # what is leased already must be begun
        if claimed:
            faults.point("worker.leased")
        return claimed

    async def _recover(self, source: str, is_running: IsRunning) -> list[Delivery]:
        """Find what a claim leased to us when the reply to its commit was lost."""
        if source not in self._doubtful:
            return []
        mine = await self._desk.leased_to(self._claimant(source))
        self._doubtful.discard(source)
        return [each for each in mine if not is_running(each)]

    async def claim_suspects(self, most: int) -> list[Delivery]:
        """Lease deliveries whose last worker was lost.

        Those that saw it once come together: one of them may be a killer, the others are not.
        Those that saw it twice come one by one.
        """
        found: list[Delivery] = []
        for source in self._in_turn():
            if len(found) < most:
                room = most - len(found)
                found += await self._desk.claim_lost_once(self._claimant(source), room)
        for source in self._in_turn():
            if not found:
                one = await self._desk.claim_expired(self._claimant(source))
                found = [one] if one is not None else []
        if found:
            faults.point("worker.leased")
        return found

    async def has_suspects(self) -> bool:
        """Say whether a lease has run out."""
        for source in self._handlers.claimable:
            if await self._desk.has_expired(self._claimant(source)):
                return True
        return False

    async def bury_hopeless(self) -> int:
        """Give up on deliveries that were lost on their last try."""
        buried = 0
        for source in self._handlers.claimable:
            buried += await self._desk.bury_hopeless(self._claimant(source))
        return buried

    async def _claim_from(self, source: str, most: int) -> list[Delivery]:
        floor = self._floors.get(source, 0)
        try:
            claimed = await self._desk.claim(self._claimant(source), most, floor)
        except CommitUnknown:
            self._doubtful.add(source)
            raise
        if len(claimed) == most:
            # A hint for the next look: whatever is older was taken just now.
            self._floors[source] = min(each.received_at for each in claimed) - _SLACK
        else:
            self._floors.pop(source, None)
        return claimed

    def _claimant(self, source: str) -> Claimant:
        rules = self._handlers.rules(source)
        retry = rules.retry
        return Claimant(
            self._tenant, source, self._worker, self._lease, retry.tries, retry.budget,
            rules.rate, rules.concurrency,
        )  # fmt: skip

    def _in_turn(self) -> Iterator[str]:
        sources = self._handlers.claimable
        begin = next(self._turns) % len(sources) if sources else 0
        yield from sources[begin:] + sources[:begin]
