"""The child process of `oncebox worker`: opens the box, runs handlers until stopped."""

import asyncio
import os
import shlex
import sys
from collections.abc import Callable, Coroutine, Mapping
from dataclasses import dataclass
from importlib import import_module
from typing import Any

from prometheus_client import start_http_server

from oncebox.box import Oncebox
from oncebox.cli.files import database_location
from oncebox.cli.output import failures
from oncebox.cli.output.printer import Printer
from oncebox.cli.process import box_loader
from oncebox.core.logging import log_to_stderr
from oncebox.errors import ConfigInvalid, OnceboxError
from oncebox.settings import Settings
from oncebox.workers.lease_renewal import RELEASE_WITHIN
from oncebox.workers.process.child_control import ParentWatch, limit_memory
from oncebox.workers.process.supervisor import GIVE_UP

#: the exit status after an unexpected error; the parent restarts the process
CRASHED = 70
#: seconds a stopping process has beyond its own time limits
_STOP_GRACE = 5.0


@dataclass(frozen=True, slots=True)
class WorkerProcess:
    """The options of the child process."""

    target: str
    number: int
    metrics: tuple[str, int] | None
    program: str
    out: Printer


def run_worker(child: WorkerProcess) -> int:
    """Run the handlers of a box; return the exit status."""
    try:
        box = box_loader.load_box(child.target)
        log_to_stderr(box.settings.log.level, box.settings.log.format)
        limit_memory(box.settings.worker.memory_limit)
        _serve_metrics(child, box)
    except OnceboxError as error:
        failures.print_error(error, as_json=child.out.as_json)
        return GIVE_UP
    return run_loop(box, _run(child, box), "worker_crashed")


def run_loop(box: Oncebox, work: Coroutine[Any, Any, int], crash_event: str) -> int:
    """Run the event loop of a process until its work ends; return the exit status."""
    with asyncio.Runner(loop_factory=_loop_factory()) as runner:
        try:
            return runner.run(work)
        except BaseException as error:  # noqa: BLE001 - a handler may raise even SystemExit
            # Exit at once: unfinished work is claimed again when its lease expires, and clients
            # repeat their requests.
            box.telemetry.log.critical(crash_event, error=type(error).__name__)
            os._exit(CRASHED)


def closing_within(settings: Settings) -> float:
    """Return the seconds in which a stopping process ends, also if the database hangs.

    Handlers finish or are released; then the last calls of the database end, and it is closed.
    """
    worker = settings.worker.stop_within + RELEASE_WITHIN
    return worker + 2 * settings.database_within + _STOP_GRACE


async def _run(child: WorkerProcess, box: Oncebox) -> int:
    """Open, work and close; a retryable error ends in a restart, any other in giving up."""
    stopping = asyncio.Event()

    def stop() -> None:
        stopping.set()
        box.stop_working()

    ParentWatch(stop, within=closing_within(box.settings)).start()
    try:
        await box.open()
        if not child.out.quiet:
            _print_greeting(child, box)
        sources = box.handlers.sources
        box.telemetry.log.info("worker_started", process=child.number, sources=sources)
        if not stopping.is_set():
            await box.work()
    except OnceboxError as error:
        failures.print_error(error, as_json=child.out.as_json)
        return CRASHED if error.retry_safe else GIVE_UP
    finally:
        await box.close()
    box.telemetry.log.info("worker_stopped", process=child.number)
    return failures.OK


def _loop_factory() -> Callable[[], asyncio.AbstractEventLoop] | None:
    """Return uvloop's loop where it is installed, else the standard one."""
    try:
        factory: Callable[[], asyncio.AbstractEventLoop] = import_module("uvloop").new_event_loop
    except ImportError:
        return None
    return factory


def _serve_metrics(child: WorkerProcess, box: Oncebox) -> None:
    if child.metrics is None:
        return
    host, first = child.metrics
    try:
        start_http_server(first + child.number, addr=host, registry=box.telemetry.registry)
    except (OSError, OverflowError) as error:
        raise ConfigInvalid(
            f"metrics cannot be served on {host} port {first + child.number}: {error}"
        ) from error


def _print_greeting(child: WorkerProcess, box: Oncebox) -> None:
    """Print the location of the data, the handled sources, and a first command to try."""
    data, sources = database_location(box.settings), box.handlers.sources
    command = f"{child.program} {first_delivery_command(box)}"
    record = {"data": data, "sources": sources, "try": command}
    print_greeting(child.out, record, {**record, "sources": ", ".join(sources)})


def print_greeting(out: Printer, record: object, lines: Mapping[str, object]) -> None:
    """Print a record as JSON, or lines with aligned values."""
    if out.as_json:
        out.record(record)
    else:
        width = max(map(len, lines)) + 2
        for name, value in lines.items():
            sys.stdout.write(f"{name + ':':{width}}{value}\n")
    sys.stdout.flush()


def first_delivery_command(box: Oncebox) -> str:
    """Return a command that stores a first delivery for one of the handlers."""
    source = box.handlers.sources[0]
    parts = ["delivery", "accept", source, "--key", "first"]
    if box.handlers.find(source, "") is None:
        parts += ["--type", box.handlers.types(source)[0]]
    parts += ["--body", '{"name": "Ada"}', *_location_options(box)]
    return shlex.join(parts)


def _location_options(box: Oncebox) -> list[str]:
    """Return the options with which another terminal uses the same data; never a password."""
    settings = box.settings
    if settings.database_url:
        is_sqlite = settings.database.startswith("sqlite:")
        return ["--database", settings.database_url] if is_sqlite else []
    return ["--data-dir", settings.data_dir] if settings.data_dir else []
