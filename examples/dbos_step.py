"""A DBOS workflow that is killed inside a step and recovered: one reservation and one mail.

    pip install dbos                                 # `make setup` has it
    oncebox serve                                    # one terminal
    DIE=1 python examples/dbos_step.py order_7       # another
    python examples/dbos_step.py order_7

DBOS runs a step again if its end was not recorded, so its side effects can happen twice. Inside the
step, Oncebox makes each of them happen once: the second run gets the results of the first.
"""

import os
import signal
import sys
from pathlib import Path

from dbos import DBOS, SetWorkflowID

from oncebox.client.sync import Client
from oncebox.model.sends.email import Email


def reserve(order: str) -> str:
    """Stand for a call to a system that knows no idempotency keys."""
    with Path(os.environ.get("RESERVATIONS", "reservations.txt")).open("a") as book:
        book.write(f"{order}\n")
    return f"{order} is reserved"


@DBOS.step()
def fulfil(order: str) -> str:
    email = Email(
        sender="shop@example.com", to="ann@example.com", subject="Thanks", text=f"{order} is paid."
    )
    with Client() as client:
        reserved = client.attempt(order).do("reserve", reserve, order)
        sent = client.send(email, event_type="order.confirmation", entity_id=order, wait=60)
    print(f"{reserved}, the mail is {sent.status}", flush=True)
    if "DIE" in os.environ:  # after the side effects, before DBOS records the step
        os.kill(os.getpid(), signal.SIGKILL)
    return sent.status


@DBOS.workflow()
def process(order: str) -> str:
    return fulfil(order)


def main(order: str) -> None:
    url = os.environ.get("DBOS_SYSTEM_DATABASE_URL", "sqlite:///dbos.sqlite")
    DBOS(config={"name": "orders", "system_database_url": url})
    DBOS.launch()  # takes up what an earlier process left
    with SetWorkflowID(order):
        ended = DBOS.start_workflow(process, order).get_result()
    print(f"the workflow has ended: {ended}")
    DBOS.destroy()


if __name__ == "__main__":
    main(sys.argv[1])
