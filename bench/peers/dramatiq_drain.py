"""Draining a backlog with dramatiq on Redis: one worker process, no results kept.

The prefetch is raised as its guide says, since many jobs are short; the default middleware
stays. Workers are threads, or greenlets as `dramatiq-gevent` makes them.
"""

from __future__ import annotations

import argparse
import logging
import os
import threading
from importlib import import_module
from typing import Any

from bench import load


def watch(broker: Any, stopwatch: load.Stopwatch, finished: threading.Event) -> None:
    """Note every acknowledgement."""
    lock = threading.Lock()

    class Watch(import_module("dramatiq").Middleware):  # type: ignore[misc]
        def after_ack(self, _broker: object, _message: object) -> None:
            with lock:
                if stopwatch.settle():
                    finished.set()

    broker.add_middleware(Watch())


def measure(options: argparse.Namespace) -> float:
    """Fill, then run a worker in this process."""
    os.environ["dramatiq_queue_prefetch"] = str(options.prefetch)  # noqa: SIM112 - its name
    dramatiq = import_module("dramatiq")
    broker = import_module("dramatiq.brokers.redis").RedisBroker(url=options.url)
    stopwatch, finished = load.Stopwatch(options.jobs), threading.Event()
    watch(broker, stopwatch, finished)
    dramatiq.set_broker(broker)

    def noop(_payload: str) -> None:
        stopwatch.start()

    job = dramatiq.actor(noop)
    payload = load.body("0", 200).decode()
    for _ in range(options.jobs):
        job.send(payload)
    dramatiq.Worker(broker, worker_threads=options.workers).start()
    finished.wait(120)
    return stopwatch.rate


def main() -> None:
    """Measure and report."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("url")
    parser.add_argument("--jobs", type=int, default=6_000)
    parser.add_argument("--kind", choices=("threads", "greenlets"), default="threads")
    parser.add_argument("--workers", type=int, default=8)
    parser.add_argument("--prefetch", type=int, default=1_000)
    options = parser.parse_args()
    if options.kind == "greenlets":
        import_module("gevent.monkey").patch_all()
    logging.disable(logging.WARNING)
    setting = f"{options.workers} {options.kind}, prefetch {options.prefetch}"
    load.report(measure(options), setting)
    os._exit(0)


if __name__ == "__main__":
    main()
