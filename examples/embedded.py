"""The box embedded in a program: a delivery that arrives twice has its effect once."""

import asyncio

from oncebox.box import Oncebox
from oncebox.model.deliveries.delivery import Delivery
from oncebox.workers.deliveries.once import Once

box = Oncebox()


def create_issue(title: str, idempotency_key: str) -> str:
    print(f"opening {title!r} under {idempotency_key}")  # stands in for a call to your tracker
    return "issue-1"


@box.on("stripe", "invoice.paid")
async def paid(delivery: Delivery, once: Once) -> None:
    invoice = delivery.json["data"]["object"]["id"]
    await once.do("open-issue", create_issue, title=f"Paid {invoice}")


async def main() -> None:
    body = '{"data": {"object": {"id": "in_1"}}}'
    async with box:
        for _ in range(2):
            accepted = await box.accept("stripe", key="evt_1", type="invoice.paid", body=body)
            print(accepted.id, accepted.arrival)
        await asyncio.sleep(1)  # here your program goes on


if __name__ == "__main__":
    asyncio.run(main())
