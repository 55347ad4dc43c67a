"""Numbers events until it is killed: ``python -m tests.torture.mail.numberer URL``."""

import asyncio
import os
import sys

from oncebox.config import EventSettings
from oncebox.ledger.events.numbering import Numbering
from oncebox.store import opening
from oncebox.telemetry import Telemetry
from oncebox.worker.sequencer import Sequencer

#: seconds; short, so that whoever is killed is soon replaced
LEASE = 0.5


async def number(url: str) -> None:
    """Number events for ever."""
    database = opening.connect(url, connections=2)
    settings = EventSettings(lease=LEASE)
    sequencer = Sequencer(
        Numbering(database), Telemetry(), settings, name=os.environ.get("NUMBERER")
    )
    sys.stdout.write("numbering\n")
    sys.stdout.flush()
    await sequencer.run()


if __name__ == "__main__":
    asyncio.run(number(sys.argv[1]))
