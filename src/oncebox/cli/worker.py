"""``oncebox worker``: the parent that supervises, and the child that runs the handlers."""

import asyncio
import os
import shutil
import sys
from collections.abc import Sequence
from functools import partial
from pathlib import Path

import click

from oncebox.cli import failures, target
from oncebox.cli.call import Call, examples, with_call
from oncebox.cli.child import Child, work
from oncebox.telemetry import Telemetry, log_to_stderr
from oncebox.worker.supervise import Supervisor


@click.command(
    "worker",
    epilog=examples(
        "oncebox worker app:box",
        "oncebox worker app:box --processes 4 --metrics 127.0.0.1:9464",
    ),
)
@click.argument("wanted", metavar="MODULE:BOX")
@click.option("--processes", type=click.IntRange(1, 256), default=1, show_default=True)
@click.option(
    "--metrics",
    metavar="HOST:PORT",
    help="Serve metrics; the second process uses the next port, and so on.",
)
@click.option("--child", type=int, hidden=True)
@click.option("--program", hidden=True, default="oncebox")
@with_call
def worker(
    call: Call,
    *,
    wanted: str,
    processes: int,
    metrics: str | None,
    child: int | None,
    program: str,
) -> int:
    """Run the handlers of a program, until ^C or SIGTERM.

    MODULE:BOX names an Oncebox in a module of the current folder. A process that dies is
    started again. To stop, handlers are let finish or their work is given back; asked a
    second time, they are ended at once.
    """
    target.check(wanted)
    address = _address(metrics) if metrics else None
    if child is not None:
        return work(
            Child(target=wanted, number=child, metrics=address, program=program, out=call.out)
        )
    return _supervise(call, wanted, processes, metrics)


def _supervise(call: Call, wanted: str, processes: int, metrics: str | None) -> int:
    log_to_stderr(as_json=not sys.stderr.isatty())
    options = [*(["--metrics", metrics] if metrics else []), "--program", _program()]
    if call.out.as_json:
        options.append("--json")
    command = partial(_command, wanted, options, quiet=call.out.quiet)

    async def run() -> bool:
        supervisor = Supervisor(
            command, processes=processes, environ=_environ(call), log=Telemetry().log
        )
        return await supervisor.run()

    return failures.OK if asyncio.run(run()) else failures.ERROR


def _command(
    wanted: str, options: Sequence[str], number: int, starts: int, *, quiet: bool
) -> list[str]:
    """Return the command line of a child; only the first, when it first starts, greets."""
    quietly = ["--quiet"] if quiet or number or starts else []
    child = ["--child", str(number), *options, *quietly]
    return [sys.executable, "-m", "oncebox", "worker", wanted, *child]


def _environ(call: Call) -> dict[str, str]:
    """Return the environment of the children: a box made at import reads its settings there."""
    settings = call.settings()
    given = {}
    if call.database is not None or call.data_dir is not None:
        given["ONCEBOX_DATABASE_URL"] = settings.database_url
    if call.data_dir is not None:
        given["ONCEBOX_DATA_DIR"] = settings.data_dir
    return {**os.environ, **given}


def _program() -> str:
    """Return how this program was called, to be called so again."""
    typed = sys.argv[0]
    if Path(typed).name == "__main__.py":
        return "python -m oncebox"
    return "oncebox" if shutil.which("oncebox") == typed else typed


def _address(text: str) -> tuple[str, int]:
    host, _, port = text.rpartition(":")
    if not host or not port.isdecimal() or int(port) > 65_535:  # noqa: PLR2004 - the last port
        message = f"{text!r} is not HOST:PORT, such as 127.0.0.1:9464"
        raise click.BadParameter(message, param_hint="--metrics")
    return host.strip("[]"), int(port)
