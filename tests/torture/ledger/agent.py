"""The program under torture: a real box that accepts errands, works on them and may die anywhere.

It prints ``ready`` when the box is open, ``settled after SECONDS`` when nothing is left to do.
"""

import argparse
import asyncio
import itertools
import random
import sys
import time
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

from oncebox.box import Oncebox
from oncebox.db import sqlite
from oncebox.db.database import Transaction
from oncebox.errors import StoreUnavailable
from tests.torture.checks import unanswered
from tests.torture.history import Downstream, History, Kind, read_history
from tests.torture.ledger import careless
from tests.torture.ledger.boxes import new_box
from tests.torture.ledger.errands import MIX, Errand, errands
from tests.torture.ledger.errands import Kind as ErrandKind
from tests.torture.ledger.handlers import MARKS, Work, register
from tests.torture.ledger.waiting import until_told

#: Errands of one round of an endless stream.
ROUND = 20
#: What still has to happen: not what waits in a lane behind a delivery that a person must see.
_OPEN = """
SELECT COUNT(*) FROM oncebox_deliveries AS one
WHERE one.state IN ('received', 'processing', 'failed') AND NOT EXISTS (
    SELECT 1 FROM oncebox_deliveries AS before
    WHERE before.tenant = one.tenant AND before.source = one.source AND before.lane = one.lane
        AND before.state = 'held' AND before.lane_position < one.lane_position
)
"""


async def main(given: argparse.Namespace) -> None:
    """Open the box, send, work, and wait until all is settled or somebody kills us."""
    careless.apply(given.careless)
    if given.pages:
        sqlite._CHECKPOINT_PAGES = given.pages
    box = new_box(given.url, lease=given.lease, concurrency=given.concurrency)
    with Downstream(given.world) as world, History(given.history) as history:
        register(box, Work(world, given.slow))
        await box.open()
        await box.components.database.write(prepare, box.components.database.kind)
        say("ready")
        async with asyncio.TaskGroup() as tasks:
            if given.work == "beside":
                tasks.create_task(box.work())
            await _send(box, history, _parcels(given), given.callers)
            say("sent")
            if given.work == "after":
                tasks.create_task(box.work())
            if given.work != "no":
                await await_settled(box)
                box.stop_working()
        await box.close()


def prepare(tx: Transaction, kind: str) -> None:
    """Make the table of our own beside the ledger's."""
    if kind == "postgres":  # its IF NOT EXISTS does not bear company
        tx.execute("SELECT pg_advisory_xact_lock(1)")
    tx.execute(MARKS)


def _parcels(given: argparse.Namespace) -> Iterator[Errand]:
    """Yield every copy of every errand, shuffled; or those of an earlier run once more."""
    if given.until:
        for number in itertools.count():
            for parcel in _shuffled(errands(f"{given.seed}-{number}", ROUND)):
                if given.until.exists():
                    return
                yield parcel
    kinds = tuple(map(ErrandKind, given.kinds.split(","))) if given.kinds else MIX
    drawn = errands(given.seed, given.count, size=given.size, kinds=kinds, frail=given.frail)
    if given.resend:
        due = _due_again(given.history)
        yield from (one for one in drawn if one.key in due)
    else:
        yield from _shuffled(drawn)


def _due_again(history: Path) -> set[str]:
    """Name what was never acknowledged, and some of the rest, as a nervous sender would.

    Not all of it: what was acknowledged and lost must not come back by our own hand.
    """
    events = read_history(history)
    heard = {event.key for event in events if event.kind is Kind.OK}
    return {*unanswered(events), *(key for key in heard if sum(key.encode()) % 3 == 0)}


def _shuffled(drawn: Iterable[Errand]) -> list[Errand]:
    copies = [one for one in drawn for _ in range(one.copies)]
    random.Random(len(copies)).shuffle(copies)
    return copies


async def _send(box: Oncebox, history: History, parcels: Iterator[Errand], callers: int) -> None:
    """Let several clients send at the same time, so that commits are shared."""

    async def client() -> None:
        for parcel in parcels:
            await _send_until_told(box, history, parcel)

    await asyncio.gather(*(client() for _ in range(callers)))


async def _send_until_told(box: Oncebox, history: History, parcel: Errand) -> None:
    """Send the same thing again until the ledger says that it is on disk."""
    while True:
        call = history.invoke("accept", parcel.key)
        try:
            accepted = await box.accept(
                parcel.source,
                key=parcel.key,
                body=parcel.body,
                type=parcel.kind,
                order_key=parcel.order_key,
            )
        except StoreUnavailable as error:
            call.info(error.code)
            await asyncio.sleep(0.01)
        except Exception as error:
            call.fail(f"{type(error).__name__}: {error}")
            raise
        else:
            call.ok(accepted.id, str(time.monotonic()))
            return


async def await_settled(box: Oncebox) -> None:
    """Return when nothing is left to do; the parent's patience is the limit."""
    began = time.monotonic()
    await until_told(lambda: _all_settled(box))
    say(f"settled after {time.monotonic() - began:.2f}")


async def _all_settled(box: Oncebox) -> bool:
    try:
        rows = await box.components.database.read(lambda tx: tx.execute(_OPEN))
    except StoreUnavailable:
        return False
    return rows == [(0,)]


def say(text: str) -> None:
    """Print one line for the parent."""
    sys.stdout.write(f"{text}\n")
    sys.stdout.flush()


def options(arguments: Sequence[str]) -> argparse.Namespace:
    """Read the command line."""
    parser = argparse.ArgumentParser()
    parser.add_argument("url")
    parser.add_argument("history", type=Path)
    parser.add_argument("world", type=Path)
    parser.add_argument("--seed", default="0")
    parser.add_argument("--count", type=int, default=0)
    parser.add_argument("--kinds", default="", help="only these kinds, with commas")
    parser.add_argument("--frail", type=int, default=0)
    parser.add_argument("--size", type=int, default=100)
    parser.add_argument("--callers", type=int, default=4)
    parser.add_argument("--until", type=Path, help="send without end until this file is there")
    parser.add_argument("--resend", action="store_true")
    parser.add_argument("--work", choices=("no", "beside", "after"), default="beside")
    parser.add_argument("--lease", type=float, default=1.0)
    parser.add_argument("--concurrency", type=int, default=8)
    parser.add_argument("--slow", type=float, default=0.0)
    parser.add_argument("--pages", type=int, default=0, help="checkpoint after so many")
    parser.add_argument("--careless", choices=careless.WAYS, default="")
    return parser.parse_args(arguments)


if __name__ == "__main__":
    asyncio.run(main(options(sys.argv[1:])))
