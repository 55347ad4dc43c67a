"""An old transaction holds what PostgreSQL may clean up, and claims and numbering stay as cheap.

Everything that was claimed, settled or numbered since it began stays in the indexes. What scans of
the queues read, for each delivery, must not grow with that.
"""

import asyncio
import time
from collections.abc import Sequence
from statistics import mean
from typing import NamedTuple

import psycopg

from oncebox.errors import Permanent
from oncebox.model.deliveries.delivery import Delivery
from oncebox.workers.deliveries.once import Once
from tests.support import databases
from tests.support.postgres import PostgresServer
from tests.support.program import SOURCE, Program
from tests.torture.checks import Violation
from tests.torture.scenario import Outcome, Plan

#: indexes that are scanned for work: what is due, what is leased, what has no number
_QUEUES = ("oncebox_deliveries_due", "oncebox_deliveries_leased", "oncebox_events_fresh")
#: arrivals per second; of every so many, one is given up and so makes an event
_RATE, _EVENT_EVERY = 150, 3
#: a trial lasts a minute, in the short form a few seconds
_MINUTE, _SHORT = 60.0, 4.0
#: how often as much may be read for a delivery at the end as before, and how much anyway; what
#: grows with the time that the transaction is open grows by two thirds from one third to the next
_GROWTH, _ANYWAY = 1.5, 200
_COUNTED = """
SELECT sum(idx_tup_read) FILTER (WHERE indexrelname = %(due)s),
    sum(idx_tup_read) FILTER (WHERE indexrelname = %(leased)s),
    sum(idx_tup_read) FILTER (WHERE indexrelname = %(fresh)s),
    (SELECT sum(heap_blks_hit + heap_blks_read + idx_blks_hit + idx_blks_read)
        FROM pg_statio_user_tables WHERE relname IN ('oncebox_deliveries', 'oncebox_events'))
FROM pg_stat_user_indexes
"""


class Read(NamedTuple):
    """What was read since the beginning: entries of the queues, and buffers of both tables."""

    due: int
    leased: int
    fresh: int
    buffers: int


def held(plan: Plan) -> Outcome:
    """Accept and handle for so many minutes while a transaction is open."""
    return asyncio.run(_held(plan))


async def _held(plan: Plan) -> Outcome:
    seconds = _MINUTE if plan.trials >= 5 else _SHORT
    outcome, lines = Outcome(), []
    with PostgresServer.start(plan.folder, settings=databases.FAST) as server:
        place = databases.migrated(databases.empty_postgres(server, "ledger"))
        with (
            psycopg.connect(place.url) as old,
            psycopg.connect(place.url, autocommit=True) as watch,
        ):
            old.execute("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ")
            old.execute("SELECT count(*) FROM oncebox_deliveries")
            program = Program(place, worker={"poll": 0.5})
            program.box.on(SOURCE)(_handle)
            async with program.running():
                before, done = _count(watch), 0
                for trial in range(plan.trials):
                    handled = await _load(program, trial, seconds)
                    after = _count(watch)
                    pairs = zip(after, before, strict=True)
                    each = Read(*(round((now - then) / handled) for now, then in pairs))
                    lines.append(each)
                    before, done = after, done + handled
                    outcome.trials += 1
            old.rollback()
    for name in Read._fields:
        settled, end = _settled([getattr(each, name) for each in lines])
        if end > settled * _GROWTH + _ANYWAY:
            outcome.violations.append(
                Violation("grown", name, f"{settled:g} to {end:g} per delivery")
            )
    shown = "; ".join(
        f"{name} {', '.join(f'{getattr(each, name):g}' for each in lines)}" for name in Read._fields
    )
    outcome.note = f"{done} deliveries, read for each, trial by trial: {shown}"
    return outcome


def _settled(trials: Sequence[int]) -> tuple[float, float]:
    """Return the means of the second and the last third of the trials.

    In the first minutes what is read grows to what complete scans cost, whose pace is limited by
    the time they take; it must not grow after that. A short form compares its two halves.
    """
    third = max(1, len(trials) // 3)
    return mean(trials[-2 * third : -third]), mean(trials[-third:])


async def _handle(delivery: Delivery, once: Once) -> None:
    if int(delivery.key) % _EVENT_EVERY == 0:
        raise Permanent("given up, which is an event")


async def _load(program: Program, trial: int, seconds: float) -> int:
    """Accept at a steady rate; return how many were accepted."""
    begun, count = time.monotonic(), 0
    while (passed := time.monotonic() - begun) < seconds:
        wanted = int(passed * _RATE)
        await asyncio.gather(
            *(program.accept(str(trial * 1_000_000 + each)) for each in range(count, wanted))
        )
        count = max(count, wanted)
        await asyncio.sleep(0.02)
    return count


def _count(watch: psycopg.Connection) -> Read:
    names = dict(zip(("due", "leased", "fresh"), _QUEUES, strict=True))
    row = watch.execute(_COUNTED, names).fetchone()
    assert row is not None
    return Read(*(int(each or 0) for each in row))
