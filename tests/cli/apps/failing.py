"""A handler that does what the body says: succeed, fail for good, or wait for a person."""

from oncebox.box import Oncebox
from oncebox.errors import Permanent
from oncebox.model.deliveries.delivery import Allow, Delivery, Hold
from oncebox.workers.deliveries.once import Once

box = Oncebox()


@box.policy("shop")
async def policy(delivery: Delivery) -> Allow | Hold:
    return Hold("somebody should look") if "held" in delivery.text else Allow()


@box.on("shop")
async def handler(delivery: Delivery, once: Once) -> None:
    if "dead" in delivery.text:
        raise Permanent("it will never work")
