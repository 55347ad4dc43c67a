"""One serving process: opens the box, listens, greets, and serves until told to stop."""

import asyncio
import gc
import os
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec

from oncebox.box import Oncebox
from oncebox.cli import failures, target
from oncebox.cli.call import Call
from oncebox.cli.child import CRASHED, GRACE, first_delivery, loop_factory, where
from oncebox.errors import OnceboxError
from oncebox.log import log_to_stderr
from oncebox.service import Role, Service, Started
from oncebox.worker.leash import Leash, limit_memory
from oncebox.worker.supervise import GIVE_UP

if TYPE_CHECKING:
    from oncebox.testing.drill import Drill

#: objects made before the collector looks at the youngest, and looks before it looks further
_COLLECT = (20_000, 10, 10)
#: characters of a line that must not be overlooked
_BANNER = 84


@dataclass(frozen=True, slots=True)
class Serving:
    """What a child was told by its parent."""

    target: str | None
    role: str
    host: str | None
    port: int | None
    program: str
    call: Call
    test: bool = False
    chaos: str | None = None


def serve_in_this_process(serving: Serving) -> int:
    """Serve; return the exit status."""
    log_to_stderr(as_json=not sys.stderr.isatty())
    try:
        box = _box(serving)
        drill = _drill(serving)
        limit_memory(box.settings.worker.memory_limit)
    except OnceboxError as error:
        failures.tell(error, as_json=serving.call.out.as_json)
        return GIVE_UP
    with asyncio.Runner(loop_factory=loop_factory()) as runner:
        try:
            return runner.run(_serve(serving, box, drill))
        except BaseException as error:  # noqa: BLE001 - a handler may raise even SystemExit
            # At once: what is under way is claimed again, and clients send again.
            box.telemetry.log.critical("service_crashed", error=type(error).__name__)
            os._exit(CRASHED)


async def _serve(serving: Serving, box: Oncebox, drill: "Drill | None") -> int:
    """Open, serve and close; an error that may pass ends in a restart, any other in giving up."""
    settings = box.settings
    try:
        service = Service(box, Role(serving.role), drill)
        serving_within = max(settings.http.stop_within, settings.smtp.stop_within)
        within = serving_within + settings.worker.stop_within + settings.worker.lease
        Leash(service.stop, within=within + GRACE).attach()
        _warn(box, drill)
        settling: list[asyncio.Task[None]] = []

        def tell(started: Started) -> None:
            _tell(serving, box, started)
            settling.append(asyncio.create_task(_spare_the_collector(box, works=service.works)))

        await service.run(tell)
    except OnceboxError as error:
        failures.tell(error, as_json=serving.call.out.as_json)
        return CRASHED if error.retry_safe else GIVE_UP
    box.telemetry.log.info("service_stopped")
    return failures.OK


def _box(serving: Serving) -> Oncebox:
    """Return the box that was named, or one without handlers, listening where it was told."""
    if serving.target is None:
        box = Oncebox(settings=serving.call.settings())
    else:
        box = target.find(serving.target)
    given = {"host": serving.host, "port": serving.port}
    wanted = {name: value for name, value in given.items() if value is not None}
    http = msgspec.structs.replace(box.settings.http, **wanted)
    box.settings = msgspec.structs.replace(box.settings, http=http)
    return box


def _drill(serving: Serving) -> "Drill | None":
    """Return what stands between the doors and the ledger, if that was asked for.

    Raises: ConfigInvalid.
    """
    if not serving.test and serving.chaos is None:
        return None
    from oncebox.testing import chaos_rules  # noqa: PLC0415 - only tests need it
    from oncebox.testing.drill import Drill  # noqa: PLC0415 - as above

    rules = None if serving.chaos is None else chaos_rules.read(Path(serving.chaos))
    return Drill(test=serving.test, rules=rules)


def _warn(box: Oncebox, drill: "Drill | None") -> None:
    """Say loudly what is not as usual, at every start and however quiet it shall be."""
    if drill is None:
        return
    frame = "!" * _BANNER
    lines = [frame, *(f"!! {line:<{_BANNER - 6}} !!" for line in drill.banner), frame]
    sys.stderr.write("\n".join([*lines, ""]))
    sys.stderr.flush()
    box.telemetry.log.warning("drill", told=" ".join(drill.banner))


def _tell(serving: Serving, box: Oncebox, started: Started) -> None:
    if not serving.call.out.quiet:
        _greet(serving, box, started)
    box.telemetry.log.info(
        "service_started",
        role=serving.role,
        url=started.url,
        smtp=started.smtp,
        sources=box.handlers.sources,
    )


async def _spare_the_collector(box: Oncebox, *, works: bool) -> None:
    """Let the garbage collector in again, but not into what stays as long as the process.

    A request leaves hardly a circle behind, so it is enough to look now and then.
    """
    if works:
        await box.hire()
    gc.freeze()
    gc.set_threshold(*_COLLECT)
    gc.enable()


def _greet(serving: Serving, box: Oncebox, started: Started) -> None:
    """Say where it listens, where the data and the key lie, and what to try first."""
    sources = box.handlers.sources
    lines = {
        "url": started.url,
        "smtp": started.smtp,
        "data": where(box),
        "credentials": started.credentials and str(started.credentials),
        "key": started.key,
        "sources": ", ".join(sources) or None,
        "try": f"{serving.program} {first_delivery(box)}" if sources else None,
    }
    told = {name: value for name, value in lines.items() if value is not None}
    if serving.call.out.as_json:
        serving.call.out.record(told)
    else:
        for name, value in told.items():
            sys.stdout.write(f"{name + ':':13}{value}\n")
    sys.stdout.flush()
