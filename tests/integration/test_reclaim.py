"""One process that claims a delivery again while its own earlier, lost try is still running."""

import asyncio

from oncebox.box import Oncebox
from oncebox.db.database import Transaction
from oncebox.ledger.deliveries import inspections
from oncebox.model.deliveries.delivery import Delivery, DeliveryState
from oncebox.settings_loading import load_settings
from oncebox.workers.deliveries.once import Once
from tests.support.databases import Place
from tests.torture.ledger.boxes import MASTER_KEY
from tests.torture.ledger.waiting import until, until_told

#: So long that only the test ends a lease here.
NEVER_RENEWED = 600.0
#: What another worker does that takes over, fails at once and goes away.
TAKE_OVER_AND_FAIL = """
UPDATE oncebox_deliveries
SET fence = fence + 1, tries = tries + 1, state = 'failed', due_at = 1, worker = 'other'
"""


async def test_a_lost_try_does_not_end_the_one_that_followed_it_in_the_same_process(
    place: Place,
) -> None:
    worker = {"poll": 0.05, "lease": NEVER_RENEWED, "concurrency": 4, "stop_within": 2.0}
    settings = load_settings({}, database_url=place.url, master_key=MASTER_KEY, worker=worker)
    box = Oncebox(settings=settings, migrate=True)
    gates = {1: asyncio.Event(), 3: asyncio.Event()}
    begun: list[int] = []

    @box.on("shop")
    async def handle(delivery: Delivery, once: Once) -> None:
        begun.append(delivery.fence)
        await gates[delivery.fence].wait()

    @box.on("quick")
    async def pass_by(delivery: Delivery, once: Once) -> None:
        pass

    async with box:
        id_ = (await box.accept("shop", key="1")).id
        await until(lambda: begun == [1])
        await box.components.database.write(_take_over_and_fail)
        await until(lambda: begun == [1, 3])
        gates[1].set()  # the lost try ends first, and learns that it does not count
        await asyncio.sleep(0.2)
        assert "oncebox_in_flight 1.0" in box.metrics()  # and so its lease is renewed
        others = [(await box.accept("quick", key=str(number))).id for number in range(20)]
        gates[3].set()
        await until_told(lambda: _all_done(box, [id_, *others]))
        facts = await box.components.database.read(inspections.read_facts, "default", id_)
        assert "oncebox_in_flight 0.0" in box.metrics()

    assert (facts.fence, facts.outcome) == (3, "handled")


def _take_over_and_fail(tx: Transaction) -> None:
    tx.execute(TAKE_OVER_AND_FAIL)


async def _all_done(box: Oncebox, ids: list[str]) -> bool:
    read = box.components.database.read
    found = [await read(inspections.read_facts, "default", id_) for id_ in ids]
    return {facts.state for facts in found} == {DeliveryState.DONE}
