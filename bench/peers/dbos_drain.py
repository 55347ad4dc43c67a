"""Draining a backlog with a dbos queue: one process, workflows of no steps."""

from __future__ import annotations

import argparse
import os
import threading
from typing import Any

from dbos import DBOS, DBOSConfig
from dbos._dbos import _get_dbos_instance as dbos_instance

from bench import load

QUEUE = "bench"


def watch(stopwatch: load.Stopwatch, finished: threading.Event) -> None:
    """Note every settlement after it is committed."""
    store: Any = dbos_instance()._sys_db  # noqa: SLF001 - nothing public tells
    settle, lock = store.update_workflow_outcome, threading.Lock()

    def update_workflow_outcome(*args: Any, **kwargs: Any) -> Any:
        outcome = settle(*args, **kwargs)
        with lock:
            if stopwatch.settle():
                finished.set()
        return outcome

    store.update_workflow_outcome = update_workflow_outcome


def measure(options: argparse.Namespace) -> float:
    """Launch, fill, then open the queue."""
    stopwatch, finished = load.Stopwatch(options.jobs), threading.Event()
    config: DBOSConfig = {
        "name": "bench",
        "system_database_url": options.url,
        "sys_db_pool_size": options.pool,
        "max_executor_threads": options.threads,
        "log_level": "ERROR",
    }
    DBOS(config=config)

    @DBOS.workflow()
    def noop(_number: int) -> None:
        stopwatch.start()

    @DBOS.workflow()
    async def noop_async(_number: int) -> None:
        stopwatch.start()

    DBOS.launch()
    job: Any = noop_async if options.kind == "async" else noop
    for number in range(options.jobs):
        DBOS.enqueue_workflow(QUEUE, job, number)
    watch(stopwatch, finished)
    DBOS.register_queue(
        QUEUE, worker_concurrency=options.concurrency or None, polling_interval_sec=options.poll
    )
    finished.wait(120)
    return stopwatch.rate


def main() -> None:
    """Measure and report; the daemon threads of dbos are left to the exit."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("url")
    parser.add_argument("--jobs", type=int, default=2_000)
    parser.add_argument("--pool", type=int, default=10)
    parser.add_argument("--threads", type=int, default=8)
    parser.add_argument("--concurrency", type=int, default=0)
    parser.add_argument("--poll", type=float, default=0.05)
    parser.add_argument("--kind", choices=("sync", "async"), default="sync")
    options = parser.parse_args()
    load.report(measure(options), f"{options.kind} workflows, {options.threads} threads")
    os._exit(0)


if __name__ == "__main__":
    main()
