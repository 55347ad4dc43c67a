"""The child process of `oncebox serve`: opens the box, listens, serves until stopped."""

import asyncio
import gc
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec

from oncebox.box import Oncebox
from oncebox.cli.context import CommandContext
from oncebox.cli.files import database_location
from oncebox.cli.output import failures
from oncebox.cli.process import box_loader
from oncebox.cli.process.worker_process import (
    CRASHED,
    closing_within,
    first_delivery_command,
    print_greeting,
    run_loop,
)
from oncebox.core.logging import log_to_stderr
from oncebox.errors import OnceboxError
from oncebox.service import Role, Service, ServiceStarted
from oncebox.workers.process.child_control import ParentWatch, limit_memory
from oncebox.workers.process.supervisor import GIVE_UP

if TYPE_CHECKING:
    from oncebox.testing.fault_injection import ServiceTestMode

#: allocations before a collection of the youngest generation; collections before the next older
_GC_THRESHOLDS = (20_000, 10, 10)
#: seconds after which a thread that waits for the interpreter's lock gets it; shorter than the
#: handling of a request, since each request in between makes the wait begin anew
_SWITCH_INTERVAL = 0.000_01
_BANNER_WIDTH = 84


@dataclass(frozen=True, slots=True)
class ServerProcess:
    """The options of the child process."""

    target: str | None
    role: str
    host: str | None
    port: int | None
    program: str
    call: CommandContext
    test: bool = False
    chaos: str | None = None


def run_server(serving: ServerProcess) -> int:
    """Serve; return the exit status."""
    try:
        box = _open_box(serving)
        log_to_stderr(box.settings.log.level, box.settings.log.format)
        test_mode = _test_mode(serving)
        limit_memory(box.settings.worker.memory_limit)
    except OnceboxError as error:
        failures.print_error(error, as_json=serving.call.out.as_json)
        return GIVE_UP
    return run_loop(box, _serve(serving, box, test_mode), "service_crashed")


async def _serve(serving: ServerProcess, box: Oncebox, test_mode: "ServiceTestMode | None") -> int:
    """Open, serve and close; a retryable error ends in a restart, any other in giving up."""
    settings = box.settings
    try:
        service = Service(box, Role(serving.role), test_mode)
        stopping = settings.http.drain + max(settings.http.stop_within, settings.smtp.stop_within)
        ParentWatch(service.drain, within=stopping + closing_within(settings)).start()
        _print_test_banner(box, test_mode)
        tasks: list[asyncio.Task[None]] = []

        def announce(started: ServiceStarted) -> None:
            _announce_start(serving, box, started)
            tasks.append(asyncio.create_task(_tune_interpreter(box, works=service.runs_workers)))

        await service.run(announce)
    except OnceboxError as error:
        failures.print_error(error, as_json=serving.call.out.as_json)
        return CRASHED if error.retry_safe else GIVE_UP
    box.telemetry.log.info("service_stopped")
    return failures.OK


def _open_box(serving: ServerProcess) -> Oncebox:
    """Return the named box, or one without handlers, with the host and port of the options."""
    if serving.target is None:
        box = Oncebox(settings=serving.call.settings())
    else:
        box = box_loader.load_box(serving.target, policies_suffice=True)
    given = {"host": serving.host, "port": serving.port}
    wanted = {name: value for name, value in given.items() if value is not None}
    http = msgspec.structs.replace(box.settings.http, **wanted)
    box.settings = msgspec.structs.replace(box.settings, http=http)
    return box


def _test_mode(serving: ServerProcess) -> "ServiceTestMode | None":
    """Return the fault injection of --test and --chaos."""
    if not serving.test and serving.chaos is None:
        return None
    from oncebox.testing import chaos  # noqa: PLC0415 - only tests need it
    from oncebox.testing.fault_injection import ServiceTestMode  # noqa: PLC0415 - as above

    rules = None if serving.chaos is None else chaos.read_rules(Path(serving.chaos))
    return ServiceTestMode(test=serving.test, rules=rules)


def _print_test_banner(box: Oncebox, test_mode: "ServiceTestMode | None") -> None:
    """Warn that this is a test service, at every start and even with --quiet."""
    if test_mode is None:
        return
    frame = "!" * _BANNER_WIDTH
    lines = [frame, *(f"!! {line:<{_BANNER_WIDTH - 6}} !!" for line in test_mode.banner), frame]
    sys.stderr.write("\n".join([*lines, ""]))
    sys.stderr.flush()
    box.telemetry.log.warning("test_mode_enabled", banner=" ".join(test_mode.banner))


def _announce_start(serving: ServerProcess, box: Oncebox, started: ServiceStarted) -> None:
    if not serving.call.out.quiet:
        _print_greeting(serving, box, started)
    box.telemetry.log.info(
        "service_started",
        role=serving.role,
        url=started.url,
        smtp=started.smtp,
        sources=box.handlers.sources,
    )


async def _tune_interpreter(box: Oncebox, *, works: bool) -> None:
    """Let the SQLite writer have the interpreter's lock in time; enable the garbage collector.

    A request leaves hardly any reference cycles, so rare collections are enough, and none of
    objects that live as long as the process. Handlers may have threads of their own, to which
    the switch interval is left.
    See docs/decisions/0005-use-group-commit-for-writes.md.
    """
    if works:
        await box.load_workers()
    elif box.settings.database.startswith("sqlite:"):
        sys.setswitchinterval(_SWITCH_INTERVAL)
    gc.freeze()
    gc.set_threshold(*_GC_THRESHOLDS)
    gc.enable()


def _print_greeting(serving: ServerProcess, box: Oncebox, started: ServiceStarted) -> None:
    """Print the addresses, the location of data and key, and a first command to try.

    The key itself is shown to a person only: what is not a terminal is often a log.
    """
    sources = box.handlers.sources
    lines = {
        "url": started.url,
        "smtp": started.smtp,
        "data": database_location(box.settings),
        "credentials": started.credentials and str(started.credentials),
        "key": started.key if serving.call.out.on_terminal else None,
        "sources": ", ".join(sources) or None,
        "try": f"{serving.program} {first_delivery_command(box)}" if sources else None,
    }
    shown = {name: value for name, value in lines.items() if value is not None}
    print_greeting(serving.call.out, shown, shown)
