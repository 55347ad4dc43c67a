"""Draining a backlog with huey on SQLite: one process, fsync on.

huey deletes a task when it takes it, in one commit, and writes nothing afterwards when
the task returns nothing; that commit is all the durability there is to time.
"""

from __future__ import annotations

import argparse
import logging
import os
import threading
from typing import Any

from huey import SqliteHuey
from huey.signals import SIGNAL_COMPLETE, SIGNAL_EXECUTING

from bench import load


def watch(huey: Any, stopwatch: load.Stopwatch, finished: threading.Event) -> None:
    """Note the first start and every completion."""
    lock = threading.Lock()

    @huey.signal(SIGNAL_EXECUTING)
    def starting(_signal: str, _task: object) -> None:
        stopwatch.start()

    @huey.signal(SIGNAL_COMPLETE)
    def completed(_signal: str, _task: object) -> None:
        with lock:
            if stopwatch.settle():
                finished.set()


def fill(huey: Any, noop: Any, jobs: int) -> None:
    """Enqueue the backlog, in one transaction."""
    with huey.storage.db(commit=True) as cursor:
        cursor.executemany(
            "insert into task (queue, data, priority) values (?, ?, ?)",
            (
                (huey.storage.name, huey.serialize_task(noop.s(load.body(str(n), 200))), 0)
                for n in range(jobs)
            ),
        )


def measure(options: argparse.Namespace) -> float:
    """Fill, then start one consumer with threads."""
    huey: Any = SqliteHuey("bench", filename=options.url.removeprefix("sqlite:///"), fsync=True)
    stopwatch, finished = load.Stopwatch(options.jobs), threading.Event()

    @huey.task()
    def noop(_payload: bytes) -> None:
        """Do nothing."""

    fill(huey, noop, options.jobs)
    watch(huey, stopwatch, finished)
    consumer = huey.create_consumer(
        workers=options.threads, periodic=False, check_worker_health=False, initial_delay=0.01
    )
    consumer.start()
    finished.wait(120)
    return stopwatch.rate


def main() -> None:
    """Measure and report."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("url")
    parser.add_argument("--jobs", type=int, default=10_000)
    parser.add_argument("--threads", type=int, default=1)
    options = parser.parse_args()
    logging.disable(logging.WARNING)
    load.report(measure(options), f"fsync, threads: {options.threads}")
    os._exit(0)


if __name__ == "__main__":
    main()
