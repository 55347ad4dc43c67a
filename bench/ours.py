"""Our side of the measurements: accept, work, and the filling of a database beforehand."""

from __future__ import annotations

import argparse
import asyncio
import base64
import time
from collections.abc import Iterable

import uvloop

from bench import load, preload
from oncebox.box import Oncebox
from oncebox.model.deliveries.delivery import Delivery, DeliveryOutcome
from oncebox.settings_loading import load_settings
from oncebox.workers.deliveries.once import Once

# Every open of the same database must bring the same key.
MASTER_KEY = base64.b64encode(bytes(32)).decode()
SETTLED_WITHIN = 60.0


def new_box(options: argparse.Namespace) -> Oncebox:
    """Return a box on the given database, with the default settings unless others are given."""
    concurrency = getattr(options, "concurrency", None)
    worker = {"concurrency": concurrency} if concurrency else None
    settings = load_settings(database_url=options.url, master_key=MASTER_KEY, worker=worker)
    return Oncebox(settings=settings, migrate=True)


async def accept(options: argparse.Namespace) -> None:
    """Report how many arrivals are accepted a second."""
    async with new_box(options) as box:

        async def call(key: str, body: bytes) -> object:
            return await box.accept(
                load.SOURCE, key=key, body=body, headers=load.HEADERS, type=load.TYPE
            )

        per_second = await load.rate(call, seconds=options.seconds)
    load.report(per_second, f"{load.CALLERS} callers")


async def work(options: argparse.Namespace) -> None:
    """Report how many jobs of a backlog are claimed, handled and settled a second."""
    await backlog(options)
    stopwatch, all_started = load.Stopwatch(options.jobs), asyncio.Event()
    box = new_box(options)
    started = 0

    @box.on(load.SOURCE, load.TYPE)
    async def noop(_delivery: Delivery, _once: Once) -> None:
        nonlocal started
        stopwatch.start()
        started += 1
        if started == options.jobs:
            all_started.set()

    async with box:
        await all_started.wait()
        await settled(box, options.jobs)
        stopwatch.settle(options.jobs)
    concurrency = box.settings.worker.concurrency
    load.report(stopwatch.rate, f"concurrency {concurrency}")


async def settled(box: Oncebox, jobs: int) -> None:
    """Wait until the last jobs are settled; they have all been started."""
    give_up = time.monotonic() + SETTLED_WITHIN
    while settlements(box) < jobs:
        if time.monotonic() > give_up:
            raise TimeoutError(f"{settlements(box)} of {jobs} jobs were settled")
        await asyncio.sleep(0.001)


def settlements(box: Oncebox) -> int:
    """Return how many tries ended well, by the box's own count."""
    samples = (sample for metric in box.telemetry.settled.collect() for sample in metric.samples)
    return int(
        sum(
            sample.value
            for sample in samples
            if sample.name.endswith("_total")
            and sample.labels["outcome"] == DeliveryOutcome.HANDLED
        )
    )


async def backlog(options: argparse.Namespace) -> None:
    """Accept as many jobs as will be worked on."""
    keys = load.keys()
    async with new_box(options) as box:

        async def put(some: Iterable[int]) -> None:
            for _ in some:
                key = next(keys)
                body = load.body(key, load.STORED_BODY_BYTES)
                await box.accept(load.SOURCE, key=key, body=body, type=load.TYPE)

        every = range(options.jobs)
        await asyncio.gather(*(put(every[first::500]) for first in range(500)))


async def fill(options: argparse.Namespace) -> None:
    """Store rows by bulk, in the state their deliveries end in."""
    async with new_box(options):
        pass
    preload.fill(options.url, options.rows)


def main() -> None:
    """Measure and report, or fill."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("url")
    verbs = parser.add_subparsers(required=True)
    verb = verbs.add_parser("accept")
    verb.set_defaults(run=accept)
    verb.add_argument("--seconds", type=float, default=load.SECONDS)
    verb = verbs.add_parser("work")
    verb.set_defaults(run=work)
    verb.add_argument("--jobs", type=int, default=30_000)
    verb.add_argument("--concurrency", type=int)
    verb = verbs.add_parser("fill")
    verb.set_defaults(run=fill)
    verb.add_argument("--rows", type=int, required=True)
    options = parser.parse_args()
    uvloop.run(options.run(options))


if __name__ == "__main__":
    main()
