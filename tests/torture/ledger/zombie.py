"""A worker that is frozen in the middle of its handlers, or one that takes over from it.

Each place is a moment of a handler's life at which its process stops for too long.
"""

import argparse
import asyncio
import sys
import time
from collections.abc import Sequence
from enum import StrEnum
from pathlib import Path

from oncebox.box import Oncebox
from oncebox.errors import Permanent, Transient
from oncebox.model.deliveries.delivery import Delivery
from oncebox.workers.deliveries.once import Once, SyncOnce
from tests.torture.history import Downstream
from tests.torture.ledger.agent import await_settled, prepare, say
from tests.torture.ledger.boxes import new_box
from tests.torture.ledger.handlers import EFFECT, insert_mark
from tests.torture.ledger.waiting import until

#: How long a claim lasts, and how long a call may take, in seconds: long enough that on a busy
#: machine only who is frozen is late.
LEASE, CALL_TIMEOUT = 5.0, 4.8
SOURCE = "grave"
#: A source whose deliveries are given up when their only worker is lost.
FRAIL = "frail-grave"


class Place(StrEnum):
    """Where in its handler a zombie was frozen; the type of the delivery."""

    BEFORE_CALL = "before-call"
    BEFORE_CALL_IN_THREAD = "before-call-in-thread"
    BEFORE_OWN_TRANSACTION = "before-own-transaction"
    IN_CALL_ONCE = "in-call-once"
    IN_CALL_IDEMPOTENT = "in-call-idempotent"
    AFTER_CALL = "after-call"
    AFTER_CALL_IN_LANE = "after-call-in-lane"
    BEFORE_FAILING = "before-failing"
    BEFORE_GIVING_UP = "before-giving-up"
    BURIED = "buried"


class Hands:
    """The handlers; each stands still at its place until the gate is there."""

    def __init__(self, box: Oncebox, world: Downstream, gate: Path, *, first: bool) -> None:
        self._box = box
        self._world = world
        self._gate = gate
        self._first = first
        self.in_place = 0

    def register(self) -> None:
        """Give the box a handler for every place."""
        self._box.source(FRAIL, tries=1)
        self._box.on(FRAIL)(self._after_call)
        for place, handler in (
            (Place.BEFORE_CALL, self._before_call),
            (Place.BEFORE_CALL_IN_THREAD, self._before_call_in_thread),
            (Place.BEFORE_OWN_TRANSACTION, self._before_own_transaction),
            (Place.IN_CALL_ONCE, self._in_call_once),
            (Place.IN_CALL_IDEMPOTENT, self._in_call_idempotent),
            (Place.AFTER_CALL, self._after_call),
            (Place.AFTER_CALL_IN_LANE, self._after_call),
            (Place.BEFORE_FAILING, self._before_failing),
            (Place.BEFORE_GIVING_UP, self._before_giving_up),
        ):
            self._box.on(SOURCE, place)(handler)

    async def _before_call(self, delivery: Delivery, once: Once) -> None:
        await self._stand_still(delivery)
        await self._call(delivery, once)

    def _before_call_in_thread(self, delivery: Delivery, once: SyncOnce) -> None:
        self._stand_still_in_thread()
        once.do(EFFECT, lambda: self._touch(delivery), timeout=CALL_TIMEOUT)

    async def _before_own_transaction(self, delivery: Delivery, once: Once) -> None:
        await self._stand_still(delivery)
        await once.transaction(EFFECT, insert_mark, self._box.components.database.kind, delivery.id)

    async def _in_call_once(self, delivery: Delivery, once: Once) -> None:
        def call() -> None:
            self._stand_still_in_thread()
            self._touch(delivery)

        await once.do(EFFECT, call, timeout=CALL_TIMEOUT)

    async def _in_call_idempotent(self, delivery: Delivery, once: Once) -> None:
        def call(idempotency_key: str) -> None:
            self._stand_still_in_thread()
            self._world.call(idempotency_key, delivery=delivery.id, fence=delivery.fence)

        await once.do(EFFECT, call, timeout=CALL_TIMEOUT)

    async def _after_call(self, delivery: Delivery, once: Once) -> None:
        await self._call(delivery, once)
        await self._stand_still(delivery)

    async def _before_failing(self, delivery: Delivery, once: Once) -> None:
        await self._stand_still(delivery)
        if self._first:
            raise Transient("the zombie fails")

    async def _before_giving_up(self, delivery: Delivery, once: Once) -> None:
        await self._stand_still(delivery)
        if self._first:
            raise Permanent("the zombie gives up")

    async def _call(self, delivery: Delivery, once: Once) -> None:
        await once.do(EFFECT, lambda: self._touch(delivery), timeout=CALL_TIMEOUT)

    def _touch(self, delivery: Delivery) -> None:
        self._world.call(f"call/{delivery.id}", delivery=delivery.id, fence=delivery.fence)

    async def _stand_still(self, delivery: Delivery) -> None:
        """Wait for the gate; every other one dawdles, so that it is told of its loss first."""
        self.in_place += 1
        await until(self._gate.exists)
        if self._first and sum(delivery.id.encode()) % 2:
            await asyncio.sleep(LEASE / 3)

    def _stand_still_in_thread(self) -> None:
        self.in_place += 1
        while not self._gate.exists():
            time.sleep(0.005)


async def main(given: argparse.Namespace) -> None:
    """Take part as the first worker, who is frozen, or as a second one."""
    first = given.count > 0
    box = new_box(given.url, lease=LEASE, concurrency=max(given.count, 8))
    with Downstream(given.world) as world:
        hands = Hands(box, world, given.gate, first=first)
        hands.register()
        await box.open()
        await box.components.database.write(prepare, box.components.database.kind)
        for number in range(given.count):
            await _accept(box, f"{given.seed}-{number}", list(Place)[number % len(Place)])
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(box.work())
            if first:
                await _until_frozen_and_woken(hands, given)
            else:
                say("ready")
                await await_settled(box)
            box.stop_working()
        await box.close()


async def _accept(box: Oncebox, key: str, place: Place) -> None:
    source = FRAIL if place is Place.BURIED else SOURCE
    lane = key if place is Place.AFTER_CALL_IN_LANE else None
    await box.accept(source, key=key, body=key, type=place, order_key=lane)


async def _until_frozen_and_woken(hands: Hands, given: argparse.Namespace) -> None:
    await until(lambda: hands.in_place == given.count)
    say("in place")
    await until(given.gate.exists)


def options(arguments: Sequence[str]) -> argparse.Namespace:
    """Read the command line."""
    parser = argparse.ArgumentParser()
    parser.add_argument("url")
    parser.add_argument("world", type=Path)
    parser.add_argument("gate", type=Path)
    parser.add_argument("--seed", default="0")
    parser.add_argument("--count", type=int, default=0, help="be the first, with so many")
    return parser.parse_args(arguments)


if __name__ == "__main__":
    asyncio.run(main(options(sys.argv[1:])))
