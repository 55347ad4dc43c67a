"""Draining a backlog with pgqueuer: one process, dequeued and settled in batches."""

from __future__ import annotations

import argparse
from datetime import timedelta
from typing import Any

import asyncpg
import uvloop
from pgqueuer.adapters.persistence.queries import Queries
from pgqueuer.core.qm import QueueManager
from pgqueuer.db import AsyncpgDriver, AsyncpgPoolDriver
from pgqueuer.models import Job
from pgqueuer.types import QueueExecutionMode

from bench import load

CHUNK = 1_000


async def fill(queries: Queries, jobs: int) -> None:
    """Enqueue the backlog."""
    for first in range(0, jobs, CHUNK):
        count = min(CHUNK, jobs - first)
        payloads: list[bytes | None] = [load.body(str(first + n), 200) for n in range(count)]
        await queries.enqueue(["noop"] * count, payloads, [0] * count)


def watch(queries: Queries, watch: load.Stopwatch) -> None:
    """Note every settlement after it is committed."""
    settle = queries.log_jobs

    async def log_jobs(items: Any) -> None:
        await settle(items)
        watch.settle(len(items))

    queries.log_jobs = log_jobs


async def drain(queries: Queries, options: argparse.Namespace) -> float:
    """Run one worker until the backlog is gone."""
    stopwatch = load.Stopwatch(options.jobs)
    watch(queries, stopwatch)
    worker = QueueManager(queries)

    @worker.entrypoint("noop")
    async def noop(_job: Job) -> None:
        stopwatch.start()

    await worker.run(
        dequeue_timeout=timedelta(seconds=1),
        batch_size=options.batch,
        mode=QueueExecutionMode.drain,
    )
    return stopwatch.rate


async def measure(options: argparse.Namespace) -> float:
    """Install, fill and drain."""
    connection = await asyncpg.connect(options.url)
    try:
        queries = Queries(AsyncpgDriver(connection))
        await queries.install()
        await fill(queries, options.jobs)
        await connection.execute("VACUUM ANALYZE pgqueuer")
        if options.driver == "connection":
            return await drain(queries, options)
        async with asyncpg.create_pool(options.url, min_size=4, max_size=4) as pool:
            return await drain(Queries(AsyncpgPoolDriver(pool)), options)
    finally:
        await connection.close()


def main() -> None:
    """Measure and report."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("url")
    parser.add_argument("--jobs", type=int, default=20_000)
    parser.add_argument("--batch", type=int, default=200)
    parser.add_argument("--driver", choices=("connection", "pool"), default="connection")
    options = parser.parse_args()
    per_second = uvloop.run(measure(options))
    load.report(per_second, f"batches of {options.batch}, asyncpg {options.driver}")


if __name__ == "__main__":
    main()
