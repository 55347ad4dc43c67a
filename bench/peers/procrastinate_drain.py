"""Draining a backlog with procrastinate: one process, many jobs at a time."""

from __future__ import annotations

import argparse
import logging
from typing import Any

import uvloop
from procrastinate import App, PsycopgConnector

from bench import load

CHUNK = 500


def watch(app: App, stopwatch: load.Stopwatch) -> None:
    """Note every settlement after it is committed."""
    settle = app.job_manager.finish_job

    async def finish_job(*args: Any, **kwargs: Any) -> None:
        await settle(*args, **kwargs)
        stopwatch.settle()

    app.job_manager.finish_job = finish_job


async def fill(noop: Any, jobs: int) -> None:
    """Enqueue the backlog."""
    for first in range(0, jobs, CHUNK):
        count = min(CHUNK, jobs - first)
        await noop.batch_defer_async(*({"_number": first + n} for n in range(count)))


async def measure(options: argparse.Namespace) -> float:
    """Install, fill and drain."""
    stopwatch = load.Stopwatch(options.jobs)
    pool = options.pool or options.concurrency
    app = App(connector=PsycopgConnector(conninfo=options.url, min_size=pool, max_size=pool))

    @app.task(name="noop")
    async def noop(_number: int) -> None:
        stopwatch.start()

    async with app.open_async():
        await app.schema_manager.apply_schema_async()
        await fill(noop, options.jobs)
        await app.connector.execute_query_async("ANALYZE procrastinate_jobs")
        watch(app, stopwatch)
        await app.run_worker_async(
            concurrency=options.concurrency,
            wait=False,
            listen_notify=False,
            delete_jobs=options.delete,
            install_signal_handlers=False,
        )
    return stopwatch.rate


def main() -> None:
    """Measure and report."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("url")
    parser.add_argument("--jobs", type=int, default=2_000)
    parser.add_argument("--concurrency", type=int, default=20)
    parser.add_argument("--pool", type=int, default=0)
    parser.add_argument("--delete", choices=("always", "never"), default="never")
    options = parser.parse_args()
    logging.disable(logging.INFO)
    per_second = uvloop.run(measure(options))
    load.report(per_second, f"concurrency {options.concurrency}")


if __name__ == "__main__":
    main()
