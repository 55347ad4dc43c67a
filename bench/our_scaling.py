"""Pages of deliveries from anywhere in the list, of all states and of one that has none."""

from __future__ import annotations

import argparse
import random
import time

import uvloop

from bench import load
from bench.ours import new_box
from oncebox.ledger.deliveries import inspections
from oncebox.model.deliveries.delivery import DeliveryState

PAGE = 50
#: every one of so many pages is of a state
_STATES = (None, None, DeliveryState.FAILED, DeliveryState.HELD)


async def list_(options: argparse.Namespace) -> None:
    """Report how many pages are read a second, by one reader."""
    box = new_box(options)
    await box.open()
    database, dice, tenant = box.components.database, random.Random(1), box.settings.tenant
    first, last = await database.read(
        lambda tx: tx.execute("SELECT min(id), max(id) FROM oncebox_deliveries")[0]
    )
    same = next(place for place, (a, b) in enumerate(zip(first, last, strict=True)) if a != b)
    pages, began = 0, time.perf_counter()
    while (spent := time.perf_counter() - began) < options.seconds:
        # An id between the two, as a cursor: the characters are in order of time.
        place = dice.randrange(32**4)
        digits = "0123456789abcdefghjkmnpqrstvwxyz"
        tail = "".join(digits[place >> shift & 31] for shift in (15, 10, 5, 0))
        await database.read(
            inspections.newest,
            tenant,
            before=first[:same] + tail,
            state=_STATES[pages % len(_STATES)],
            most=PAGE,
        )
        pages += 1
    load.report(pages / spent, "one reader")
    await box.close()


def main() -> None:
    """Measure and report."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("url")
    parser.add_argument("--seconds", type=float, default=4.0)
    uvloop.run(list_(parser.parse_args()))


if __name__ == "__main__":
    main()
