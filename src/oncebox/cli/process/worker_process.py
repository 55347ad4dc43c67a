"""The child process of `oncebox worker`: opens the box, runs handlers until stopped."""

import asyncio
import os
import shlex
import sys
from collections.abc import Callable
from dataclasses import dataclass
from importlib import import_module

from prometheus_client import start_http_server

from oncebox.box import Oncebox
from oncebox.cli.files import database_location
from oncebox.cli.output import failures
from oncebox.cli.output.printer import Printer
from oncebox.cli.process import box_loader
from oncebox.core.logging import log_to_stderr
from oncebox.errors import ConfigInvalid, OnceboxError
from oncebox.workers.process.child_control import ParentWatch, limit_memory
from oncebox.workers.process.supervisor import GIVE_UP

#: the exit status after an error that is nobody's plan; the parent starts the process again
CRASHED = 70
#: seconds a stopping process has beyond what it gives to others
STOP_GRACE = 5.0


@dataclass(frozen=True, slots=True)
class WorkerProcess:
    """What a child was told by its parent."""

    target: str
    number: int
    metrics: tuple[str, int] | None
    program: str
    out: Printer


def run_worker(child: WorkerProcess) -> int:
    """Run the handlers of a box; return the exit status."""
    log_to_stderr(as_json=not sys.stderr.isatty())
    try:
        box = box_loader.load_box(child.target)
        limit_memory(box.settings.worker.memory_limit)
        _serve_metrics(child, box)
    except OnceboxError as error:
        failures.print_error(error, as_json=child.out.as_json)
        return GIVE_UP
    with asyncio.Runner(loop_factory=loop_factory()) as runner:
        try:
            return runner.run(_run(child, box))
        except BaseException as error:  # noqa: BLE001 - a handler may raise even SystemExit
            # At once: what else is under way is claimed again when its lease runs out.
            box.telemetry.log.critical("worker_crashed", error=type(error).__name__)
            os._exit(CRASHED)


async def _run(child: WorkerProcess, box: Oncebox) -> int:
    """Open, work and close; an error that may pass ends in a restart, any other in giving up."""
    stopping = asyncio.Event()

    def stop() -> None:
        stopping.set()
        box.stop_working()

    within = box.settings.worker.stop_within + box.settings.worker.lease + STOP_GRACE
    ParentWatch(stop, within=within).start()
    try:
        await box.open()
        _announce_start(child, box)
        if not stopping.is_set():
            await box.work()
    except OnceboxError as error:
        failures.print_error(error, as_json=child.out.as_json)
        return CRASHED if error.retry_safe else GIVE_UP
    finally:
        await box.close()
    box.telemetry.log.info("worker_stopped", process=child.number)
    return failures.OK


def _announce_start(child: WorkerProcess, box: Oncebox) -> None:
    if not child.out.quiet:
        _print_greeting(child, box)
    box.telemetry.log.info("worker_started", process=child.number, sources=box.handlers.sources)


def loop_factory() -> Callable[[], asyncio.AbstractEventLoop] | None:
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


# greeting


def _print_greeting(child: WorkerProcess, box: Oncebox) -> None:
    """Say where the data lies, what is handled, and how to hand over a first delivery."""
    place = database_location(box.settings)
    sources = box.handlers.sources
    command = f"{child.program} {first_delivery_command(box)}"
    if child.out.as_json:
        child.out.record({"data": place, "sources": sources, "try": command})
    else:
        lines = [("data", place), ("sources", ", ".join(sources)), ("try", command)]
        for name, value in lines:
            sys.stdout.write(f"{name + ':':9}{value}\n")
    sys.stdout.flush()


def first_delivery_command(box: Oncebox) -> str:
    """Return a command that hands a first delivery to one of the handlers."""
    source = box.handlers.sources[0]
    parts = ["delivery", "accept", source, "--key", "first"]
    if box.handlers.find(source, "") is None:
        parts += ["--type", "TYPE"]
    parts += ["--body", '{"name": "Ada"}', *_location_options(box)]
    return shlex.join(parts)


def _location_options(box: Oncebox) -> list[str]:
    """Return the options that lead another terminal to the same data; never a password."""
    settings = box.settings
    if settings.database_url:
        is_sqlite = settings.database.startswith("sqlite:")
        return ["--database", settings.database_url] if is_sqlite else []
    return ["--data-dir", settings.data_dir] if settings.data_dir else []
