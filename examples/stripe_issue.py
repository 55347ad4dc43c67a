"""One issue per paid Stripe invoice, however often Stripe sends the event.

    export STRIPE_SECRET=whsec_…                     # from Stripe's page of the endpoint
    oncebox source add stripe --scheme stripe --secret env:STRIPE_SECRET
    oncebox serve examples.stripe_issue:box

`source add` prints the path to give to Stripe. Requests are verified, stored and answered before
the handler runs. If the process dies after the issue was opened, the handler runs again, and
`once.do` returns the issue that is there.
"""

import os
from pathlib import Path

from oncebox.box import Oncebox
from oncebox.model.deliveries.delivery import Delivery
from oncebox.workers.deliveries.once import Once

box = Oncebox()


def open_issue(title: str) -> int:
    """Stand for a call to a tracker that knows no idempotency keys; return the issue's number."""
    tracker = Path(os.environ.get("TRACKER", "issues.txt"))
    with tracker.open("a+") as issues:
        issues.write(f"{title}\n")
    return len(tracker.read_text().splitlines())


@box.on("stripe", "invoice.paid")
async def paid(delivery: Delivery, once: Once) -> None:
    invoice = delivery.json["data"]["object"]
    number = await once.do("open-issue", open_issue, f"Ship what invoice {invoice['id']} paid for")
    print(f"issue {number} is open for {invoice['id']}", flush=True)
