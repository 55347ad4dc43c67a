"""The handlers under torture: one for each kind of errand, touching the world through ``once``."""

import asyncio
from dataclasses import dataclass

from oncebox.box import Oncebox
from oncebox.db.database import Transaction
from oncebox.errors import NotDone, Permanent, Transient
from oncebox.model.deliveries.delivery import Delivery
from oncebox.model.deliveries.effects import Done
from oncebox.workers.deliveries.once import Once
from tests.torture.history import Downstream, read_downstream
from tests.torture.ledger.errands import FRAIL, STURDY, Kind

#: The name of the one effect each handler has.
EFFECT = "call"
#: How long a call may take at most, in seconds; shorter than every lease used here.
CALL_TIMEOUT = 0.4
#: A table of our own beside the ledger's, for effects that commit with their journal.
MARKS = "CREATE TABLE IF NOT EXISTS torture_marks (delivery TEXT NOT NULL)"
_MARK = {
    "sqlite": "INSERT INTO torture_marks (delivery) VALUES (?)",
    "postgres": "INSERT INTO torture_marks (delivery) VALUES (%s)",
}


@dataclass(frozen=True, slots=True)
class Work:
    """What the handlers work with."""

    world: Downstream
    #: Seconds each handler takes before it touches the world.
    slow: float = 0.0


def insert_mark(tx: Transaction, kind: str, delivery: str) -> str:
    """Write into the table of our own; nothing in it stops a second mark."""
    tx.execute(_MARK[kind], (delivery,))
    return "marked"


def register(box: Oncebox, work: Work) -> None:
    """Give the box a handler for every kind."""
    hands = _Hands(box, work)
    box.on(STURDY, Kind.IDEMPOTENT)(hands.idempotent)
    box.on(STURDY, Kind.ONCE)(hands.once)
    box.on(STURDY, Kind.VERIFIED)(hands.verified)
    box.on(STURDY, Kind.OWN)(hands.own)
    box.on(STURDY, Kind.FLAKY)(hands.flaky)
    box.on(STURDY, Kind.FATAL)(hands.fatal)
    for source in FRAIL:
        box.on(source)(hands.idempotent)
        box.source(source, tries=1)


class _Hands:
    """The handlers, sharing a world."""

    def __init__(self, box: Oncebox, work: Work) -> None:
        self._box = box
        self._world = work.world
        self._slow = work.slow

    async def idempotent(self, delivery: Delivery, once: Once) -> None:
        async def call(idempotency_key: str) -> str:
            self._world.call(idempotency_key, delivery=delivery.id, fence=delivery.fence)
            return "called"

        await asyncio.sleep(self._slow)
        assert await once.do(EFFECT, call, timeout=CALL_TIMEOUT) == "called"

    async def once(self, delivery: Delivery, once: Once) -> None:
        await asyncio.sleep(self._slow)
        result = await once.do(EFFECT, lambda: self._call(delivery), timeout=CALL_TIMEOUT)
        assert result == "called"

    async def verified(self, delivery: Delivery, once: Once) -> None:
        async def call() -> str:
            # In the loop's own thread: a process frozen at a labelled point is in no call.
            return self._call(delivery)

        def ask() -> Done:
            if any(effect.key == _key(delivery) for effect in read_downstream(self._world.path)):
                return Done("called")
            raise NotDone

        await asyncio.sleep(self._slow)
        assert await once.do(EFFECT, call, safe=ask, timeout=CALL_TIMEOUT) == "called"

    async def own(self, delivery: Delivery, once: Once) -> None:
        await asyncio.sleep(self._slow)
        kind = self._box.components.database.kind
        assert await once.transaction(EFFECT, insert_mark, kind, delivery.id) == "marked"

    async def flaky(self, delivery: Delivery, once: Once) -> None:
        await self.once(delivery, once)
        if delivery.tries == 1:
            raise Transient("the first try always fails")

    async def fatal(self, delivery: Delivery, once: Once) -> None:
        raise Permanent("this kind never works")

    def _call(self, delivery: Delivery) -> str:
        self._world.call(_key(delivery), delivery=delivery.id, fence=delivery.fence)
        return "called"


def _key(delivery: Delivery) -> str:
    return f"call/{delivery.id}"
