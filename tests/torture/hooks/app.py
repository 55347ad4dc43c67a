"""The user's program under torture: one handler, whose every run and effect can be counted."""

import os
from pathlib import Path

from oncebox.box import Oncebox
from oncebox.model.deliveries.delivery import Delivery
from oncebox.workers.deliveries.once import Once
from tests.torture.history import Downstream
from tests.torture.hooks.events import SOURCE
from tests.torture.ledger.handlers import insert_mark

#: Names the file in which every run of the handler leaves a line.
RUNS = "TORTURE_RUNS"

box = Oncebox()


@box.on(SOURCE)
async def handle(delivery: Delivery, once: Once) -> None:
    """Note the run, then have the effect: a row in our own table, which nothing keeps unique."""
    with Downstream(Path(os.environ[RUNS])) as runs:
        runs.call(f"run/{delivery.id}", delivery=delivery.id, fence=delivery.fence)
    await once.transaction("mark", insert_mark, box.components.database.kind, delivery.id)
