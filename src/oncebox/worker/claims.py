"""Claims: asking the ledger for work, place after place, each in its turn."""

from collections.abc import Awaitable, Callable, Sequence
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

#: bytes of bodies that one round may bring into memory, where several places have work
_MOST_BYTES = 32 * 1024 * 1024

IsRunning = Callable[[Delivery], bool]
#: returns from where to claim now
Places = Callable[[], Awaitable[Sequence[Claimant]]]


def of_handlers(handlers: Handlers, *, tenant: str, worker: str, lease: float) -> Places:
    """Return the sources of one tenant that have handlers."""

    async def places() -> list[Claimant]:
        return [claimant(source) for source in handlers.claimable]

    def claimant(source: str) -> Claimant:
        rules = handlers.rules(source)
        retry = rules.retry
        return Claimant(
            tenant, source, worker, int(lease * 1000), retry.tries, retry.budget,
            rules.rate, rules.concurrency,
        )  # fmt: skip

    return places


class Claims:
    """Claims deliveries for one worker."""

    def __init__(self, desk: Desk, places: Places) -> None:
        """Claim from these places."""
        self._desk = desk
        self._places = places
        self._turns = count()
        self._floors: dict[tuple[str, str], int] = {}
        self._full_look_at = 0.0
        self._doubtful: dict[tuple[str, str], Claimant] = {}

    async def claim(self, most: int, is_running: IsRunning) -> list[Delivery]:
        """Lease up to ``most`` due deliveries; the place that begins changes every time."""
        if clock.steady() >= self._full_look_at:
            self._full_look_at = clock.steady() + _FULL_LOOK_EVERY
            self._floors.clear()
        claimed: list[Delivery] = []
        try:
            await self._recover(claimed, is_running)
            for who in await self._in_turn():
                if len(claimed) >= most or sum(len(each.body) for each in claimed) > _MOST_BYTES:
                    break
                claimed += await self._claim_from(who, most - len(claimed))
        except StoreError:
            if not claimed:
                raise
            # What is leased already must be begun.
        if claimed:
            faults.point("worker.leased")
        return claimed

    async def _recover(self, claimed: list[Delivery], is_running: IsRunning) -> None:
        """Add what claims leased to us when the reply to their commit was lost."""
        for place, who in list(self._doubtful.items()):
            mine = await self._desk.leased_to(who)
            del self._doubtful[place]
            claimed += [each for each in mine if not is_running(each)]

    async def claim_suspects(self, most: int) -> list[Delivery]:
        """Lease deliveries whose last worker was lost.

        Those that saw it once come together: one of them may be a killer, the others are not.
        Those that saw it twice come one by one.
        """
        found: list[Delivery] = []
        everybody = await self._in_turn()
        for who in everybody:
            if len(found) < most:
                found += await self._desk.claim_lost_once(who, most - len(found))
        for who in everybody:
            if not found:
                one = await self._desk.claim_expired(who)
                found = [one] if one is not None else []
        if found:
            faults.point("worker.leased")
        return found

    async def has_suspects(self) -> bool:
        """Say whether a lease has run out."""
        for who in await self._places():
            if await self._desk.has_expired(who):
                return True
        return False

    async def bury_hopeless(self) -> int:
        """Give up on deliveries that were lost on their last try."""
        buried = 0
        for who in await self._places():
            buried += await self._desk.bury_hopeless(who)
        return buried

    async def _claim_from(self, who: Claimant, most: int) -> list[Delivery]:
        place = (who.tenant, who.source)
        try:
            claimed = await self._desk.claim(who, most, self._floors.get(place, 0))
        except CommitUnknown:
            self._doubtful[place] = who
            raise
        if len(claimed) == most:
            # A hint for the next look: whatever is older was taken just now.
            self._floors[place] = min(each.received_at for each in claimed) - _SLACK
        else:
            self._floors.pop(place, None)
        return claimed

    async def _in_turn(self) -> list[Claimant]:
        places = list(await self._places())
        begin = next(self._turns) % len(places) if places else 0
        return places[begin:] + places[:begin]
