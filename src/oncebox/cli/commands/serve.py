"""`oncebox serve` and `oncebox worker`: options, then a supervising parent process."""

import gc

import click

from oncebox.cli.context import CommandContext, examples, with_context
from oncebox.cli.process import box_loader, parent
from oncebox.cli.process.parent import supervise

_ROLES = ("all", "edge", "worker")


@click.command(
    "serve",
    epilog=examples(
        "oncebox serve",
        "oncebox serve app:box --port 8080",
        "oncebox serve app:box --role worker",
        "oncebox serve --test --chaos rules.toml",
    ),
)
@click.argument("wanted", metavar="[MODULE:BOX]", required=False)
@click.option(
    "--role",
    type=click.Choice(_ROLES),
    default="all",
    show_default=True,
    help="all: HTTP, SMTP and handlers; edge: HTTP and SMTP; worker: handlers.",
)
@click.option(
    "--host", metavar="HOST", help="Address to listen on (ONCEBOX_HTTP__HOST).  [127.0.0.1]"
)
@click.option(
    "--port",
    type=click.IntRange(0, 65_535),
    help="Port to listen on (ONCEBOX_HTTP__PORT); 0 picks a free one.  [8808]",
)
@click.option(
    "--test",
    is_flag=True,
    help="For tests only: accept mail for any address, allow links to this machine.",
)
@click.option(
    "--chaos",
    type=click.Path(),
    metavar="RULES.TOML",
    help="For tests only: inject faults by these rules.",
)
@click.option("--child", type=int, hidden=True)
@click.option("--program", hidden=True, default="oncebox")
@with_context
def serve(  # noqa: PLR0913 - one parameter per option
    call: CommandContext,
    *,
    wanted: str | None,
    role: str,
    host: str | None,
    port: int | None,
    test: bool,
    chaos: str | None,
    child: int | None,
    program: str,
) -> int:
    """Serve HTTP and SMTP and run the handlers of a program until ^C or SIGTERM.

    Without MODULE:BOX there are no handlers: deliveries wait for workers elsewhere. A process
    that dies is restarted. On a signal, requests and handlers are drained; a second signal exits
    immediately.
    """
    if wanted is not None:
        box_loader.parse_target(wanted)
    if role == "worker" and (test or chaos is not None):
        raise click.UsageError(
            "a worker receives nothing; give --test and --chaos to the service that does"
        )

    def serve_here() -> int:
        gc.disable()  # until it serves: the many objects made while loading stay
        # Only in the child: the parent loads none of this.
        from oncebox.cli.process.server_process import ServerProcess, run_server  # noqa: PLC0415

        return run_server(
            ServerProcess(
                target=wanted,
                role=role,
                host=host,
                port=port,
                program=parent.program_name() if child is None else program,
                call=call,
                test=test,
                chaos=chaos,
            )
        )

    if child is not None:
        return serve_here()
    options = ["--role", role, *(["--test"] if test else [])]
    options += ["--host", host] if host is not None else []
    options += ["--port", str(port)] if port is not None else []
    options += ["--chaos", chaos] if chaos is not None else []
    command = ["serve", *([wanted] if wanted else []), *options]
    return parent.supervise(call, command, first=serve_here)


@click.command(
    "worker",
    epilog=examples(
        "oncebox worker app:box",
        "oncebox worker app:box --processes 4 --metrics 127.0.0.1:9464",
    ),
)
@click.argument("wanted", metavar="MODULE:BOX")
@click.option(
    "--processes",
    type=click.IntRange(1, 256),
    default=1,
    show_default=True,
    help="Number of processes.",
)
@click.option(
    "--metrics",
    metavar="HOST:PORT",
    help="Serve metrics; the second process uses the next port, and so on.",
)
@click.option("--child", type=int, hidden=True)
@click.option("--program", hidden=True, default="oncebox")
@with_context
def worker(
    call: CommandContext,
    *,
    wanted: str,
    processes: int,
    metrics: str | None,
    child: int | None,
    program: str,
) -> int:
    """Run the handlers of a program until ^C or SIGTERM.

    MODULE:BOX names an Oncebox in a module of the current folder. A process that dies is
    restarted. On a signal, handlers are drained or their work is released; a second signal
    exits immediately.
    """
    box_loader.parse_target(wanted)
    address = _parse_address(metrics) if metrics else None
    if child is not None:
        # Only in the child: the parent loads none of this.
        from oncebox.cli.process.worker_process import WorkerProcess, run_worker  # noqa: PLC0415

        return run_worker(
            WorkerProcess(
                target=wanted, number=child, metrics=address, program=program, out=call.out
            )
        )
    served = ["--metrics", metrics] if metrics else []
    return supervise(call, ["worker", wanted, *served], processes=processes)


def _parse_address(text: str) -> tuple[str, int]:
    host, _, port = text.rpartition(":")
    if not host or not port.isdecimal() or int(port) > 65_535:  # noqa: PLR2004 - the last port
        raise click.BadParameter(
            f"{text!r} is not HOST:PORT, such as 127.0.0.1:9464", param_hint="--metrics"
        )
    return host.strip("[]"), int(port)
