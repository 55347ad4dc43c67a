"""The demo shop: handlers run by `oncebox worker oncebox.cli.demo.shop:box`."""

import asyncio

from oncebox.box import Oncebox
from oncebox.cli.demo.programs import SideEffects
from oncebox.model.deliveries.delivery import Delivery
from oncebox.workers.deliveries.once import Once

box = Oncebox()
world = SideEffects(box.settings.folder / "world")


@box.on("shop", "invoice.paid")
async def invoice_paid(_delivery: Delivery, once: Once) -> None:
    """Thank the customer; the run itself is counted outside the journal."""
    world.do("invoice handled")
    await once.do("thank", world.do, "thanked")


@box.on("shop", "order.paid")
async def order_paid(_delivery: Delivery, once: Once) -> None:
    """Charge, then ship; the demo kills the worker in between."""
    await once.do("charge", world.do, "charged")
    world.do("between")
    while not world.count("go on"):  # noqa: ASYNC110 - another process does it
        await asyncio.sleep(0.02)
    await once.do("ship", world.do, "shipped")
