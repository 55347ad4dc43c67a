"""Draining a backlog with celery on Redis: one worker process, no results kept.

The prefork pool is left out: with one child it is slower than running in the worker itself.
"""

from __future__ import annotations

import argparse
import os
import sys
import threading
from importlib import import_module
from typing import Any

from bench import load


def application(options: argparse.Namespace) -> Any:
    """Return an app with everything that a no-op does not need switched off."""
    app = import_module("celery").Celery("bench", broker=options.url)
    app.conf.update(
        task_ignore_result=True,
        worker_prefetch_multiplier=options.prefetch,
        worker_send_task_events=False,
        worker_hijack_root_logger=False,
        worker_redirect_stdouts=False,
        worker_disable_rate_limits=True,
        broker_connection_retry_on_startup=True,
    )
    return app


def fill(app: Any, task: Any, jobs: int) -> None:
    """Enqueue the backlog."""
    payload = load.body("0", 200).decode()
    with app.producer_pool.acquire() as producer:
        for _ in range(jobs):
            task.apply_async((payload,), producer=producer)


def measure(options: argparse.Namespace) -> None:
    """Fill, then run a worker in this process until its last task ends it."""
    app, stopwatch, lock = application(options), load.Stopwatch(options.jobs), threading.Lock()

    @app.task(name="noop")
    def noop(_payload: str) -> None:
        with lock:
            stopwatch.start()
            if stopwatch.settle():
                load.report(stopwatch.rate, f"{options.pool} pool of {options.concurrency}")
                os._exit(0)

    fill(app, noop, options.jobs)
    app.Worker(
        pool=options.pool,
        concurrency=options.concurrency,
        without_gossip=True,
        without_mingle=True,
        without_heartbeat=True,
        loglevel="ERROR",
        quiet=True,
    ).start()
    sys.exit("the worker ended before its backlog did")


def main() -> None:
    """Measure and report."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("url")
    parser.add_argument("--jobs", type=int, default=4_000)
    parser.add_argument("--pool", choices=("solo", "threads"), default="solo")
    parser.add_argument("--concurrency", type=int, default=1)
    parser.add_argument("--prefetch", type=int, default=100)
    options = parser.parse_args()
    measure(options)


if __name__ == "__main__":
    main()
