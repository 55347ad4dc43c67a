"""Handlers that note in a file what they did, quickly or slowly."""

import asyncio
import os
from pathlib import Path

from oncebox.box import Oncebox
from oncebox.model.deliveries.delivery import Delivery
from oncebox.workers.deliveries.once import Once

box = Oncebox()
not_a_box = object()
empty = Oncebox()


def note(word: str) -> None:
    """Add a line to the file the test reads."""
    with Path(os.environ["NOTES"]).open("a") as notes:
        notes.write(f"{word}\n")


@box.on("shop", "quick")
async def quick(delivery: Delivery, once: Once) -> None:
    await once.do("note", note, delivery.key, timeout=0.5)


@box.on("shop", "slow")
async def slow(delivery: Delivery, once: Once) -> None:
    note(f"begin {delivery.key}")
    await asyncio.sleep(float(delivery.text))
    note(f"end {delivery.key}")


@box.on("shop", "crash")
async def crash(delivery: Delivery, once: Once) -> None:
    os._exit(9)
