"""The desk: the ledger of deliveries as a worker uses it, with commits shared where many write."""

from collections.abc import Callable, Sequence
from typing import Any

from oncebox.ledger.deliveries import effects, leases, notices, settlements
from oncebox.ledger.deliveries.effects import Begun
from oncebox.ledger.deliveries.intake import DUE
from oncebox.ledger.deliveries.settlements import Settled
from oncebox.ledger.events.outbox import EVENTS
from oncebox.model.delivery import Delivery, Settlement
from oncebox.model.effect import Begin, Effect, Finish
from oncebox.store.bell import Ear
from oncebox.store.database import Database, Transaction
from oncebox.store.group import Group


class Desk:
    """The verbs of leases, settlements and effects, bound to one database and its clock."""

    def __init__(self, database: Database) -> None:
        """Serve any number of tries at the same time."""
        self._database = database
        self.clock = database.clock
        #: seconds a user's transaction may take; on SQLite everybody else waits meanwhile
        self.transaction_limit = 1.0 if database.kind == "sqlite" else 10.0
        self._allow = Group(database, settlements.allow)
        self._begin = Group(database, effects.begin, shortcut=effects.begin_new)
        self._begin_again = Group(database, effects.begin_again)
        self._finish = Group(database, effects.finish, shortcut=effects.finish)

    # leases

    async def claim(self, who: leases.Claimant, most: int, floor: int) -> list[Delivery]:
        """Lease due deliveries of one source."""
        return await self._database.write(leases.claim, who, most, self.clock(), floor)

    async def leased_to(self, who: leases.Claimant) -> list[Delivery]:
        """Return what is leased to this worker now."""
        return await self._database.read(leases.leased_to, who)

    async def claim_expired(self, who: leases.Claimant) -> Delivery | None:
        """Lease one delivery whose worker was lost."""
        return await self._database.write(leases.claim_expired, who, self.clock())

    async def claim_lost_once(self, who: leases.Claimant, most: int) -> list[Delivery]:
        """Lease deliveries whose worker was lost for the first time."""
        return await self._database.write(leases.claim_lost_once, who, most, self.clock())

    async def has_expired(self, who: leases.Claimant) -> bool:
        """Say whether there is work whose worker was lost."""
        return await self._database.read(leases.has_expired, who, self.clock())

    async def bury_hopeless(self, who: leases.Claimant) -> int:
        """Give up on deliveries that were lost on their last try."""
        buried = await self._database.write(leases.bury_hopeless, who, self.clock())
        if buried:
            self._database.ring(EVENTS)
        return buried

    async def renew(self, held: Sequence[tuple[str, int]], lease: int) -> set[str]:
        """Prolong leases; return the ids of those that are still ours."""
        return await self._database.write(leases.renew, held, self.clock() + lease)

    # settlements

    async def settle(self, batch: Sequence[Settlement]) -> list[bool]:
        """End tries; say for each whether it counts."""
        if self._database.round_trips:
            counts = await self._database.write_one(self._complete_all, batch)
            if counts is not None:
                return counts
        settled = await self._database.write(self._settle, batch)
        for deed, result in settled.done:
            if deed.after is not None:
                deed.after(result)
        if any(notices.are_due(each.state) for each in batch):
            self._database.ring(EVENTS)
        return settled.counts

    def _complete_all(self, tx: Transaction, batch: Sequence[Settlement]) -> list[bool] | None:
        return settlements.complete_all(tx, batch, self.clock())

    def _settle(self, tx: Transaction, batch: Sequence[Settlement]) -> Settled:
        return settlements.settle_with_deeds(tx, batch, self.clock())

    async def allow(self, delivery: Delivery) -> bool:
        """Journal that a policy let a delivery run; say whether its lease still holds."""
        return await self._allow.submit(delivery)

    # effects

    async def begin(self, wish: Begin) -> Begun:
        """Journal an effect as started, or learn what is known of it."""
        return await self._begin.submit(wish)

    async def begin_again(self, wish: Begin) -> bool:
        """Start an effect anew."""
        return await self._begin_again.submit(wish)

    async def finish(self, ending: Finish) -> None:
        """Record how an effect ended."""
        await self._finish.submit(ending)

    async def transact(self, wish: Begin, work: Callable[[Any], bytes | None]) -> Effect:
        """Run a function of a transaction and journal it, in one commit."""
        return await self._database.write_alone(effects.transact, wish, work)

    # wake-ups

    def ring(self) -> None:
        """Wake the workers: something became due."""
        self._database.ring(DUE)

    def ear(self) -> Ear:
        """Return an ear for one of several in this process who wait for work."""
        return self._database.ear(DUE)

    async def rest(self, within: float) -> None:
        """Wait until something becomes due, at most ``within`` seconds."""
        await self._database.wait(DUE, within)
