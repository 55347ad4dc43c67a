"""The shop's handlers, run by ``oncebox worker oncebox.cli.demo.shop:box``."""

import asyncio

from oncebox.box import Oncebox
from oncebox.cli.demo.world import World
from oncebox.model.delivery import Delivery
from oncebox.worker.once import Once

_GLANCE = 0.02

box = Oncebox()
world = World(box.settings.folder / "world")


@box.on("shop", "invoice.paid")
async def invoice_paid(_delivery: Delivery, once: Once) -> None:
    """Thank for the money; that it ran at all is noted past the journal."""
    world.do("invoice handled")
    await once.do("thank", world.do, "thanked")


@box.on("shop", "order.paid")
async def order_paid(_delivery: Delivery, once: Once) -> None:
    """Charge, then ship; in between there is time to be killed."""
    await once.do("charge", world.do, "charged")
    world.do("between")
    while not world.count("go on"):  # noqa: ASYNC110 - another process does it
        await asyncio.sleep(_GLANCE)
    await once.do("ship", world.do, "shipped")
