"""Numbers events until it is killed: ``python -m tests.torture.mail.numberer URL``."""

import asyncio
import os
import sys

from oncebox.core.metrics import Telemetry
from oncebox.db import startup
from oncebox.ledger.transactions import Ledger
from oncebox.settings import EventSettings
from oncebox.workers.maintenance.sequencer import Sequencer

#: seconds; short, so that whoever is killed is soon replaced
LEASE = 0.5


async def number(url: str) -> None:
    """Number events for ever."""
    database = startup.connect(url, connections=2)
    settings = EventSettings(lease=LEASE)
    sequencer = Sequencer(Ledger(database), Telemetry(), settings, name=os.environ.get("NUMBERER"))
    sys.stdout.write("numbering\n")
    sys.stdout.flush()
    await sequencer.run()


if __name__ == "__main__":
    asyncio.run(number(sys.argv[1]))
