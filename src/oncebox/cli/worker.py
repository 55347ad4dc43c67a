"""``oncebox worker``: the parent that supervises, and the child that runs the handlers."""

import click

from oncebox.cli import target
from oncebox.cli.call import Call, examples, with_call
from oncebox.cli.parent import supervise


@click.command(
    "worker",
    epilog=examples(
        "oncebox worker app:box",
        "oncebox worker app:box --processes 4 --metrics 127.0.0.1:9464",
    ),
)
@click.argument("wanted", metavar="MODULE:BOX")
@click.option(
    "--processes", type=click.IntRange(1, 256), default=1, show_default=True, help="How many."
)
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
        # Only in the child: the parent should load nothing of what it starts.
        from oncebox.cli.child import Child, work  # noqa: PLC0415

        return work(
            Child(target=wanted, number=child, metrics=address, program=program, out=call.out)
        )
    served = ["--metrics", metrics] if metrics else []
    return supervise(call, ["worker", wanted, *served], processes=processes)


def _address(text: str) -> tuple[str, int]:
    host, _, port = text.rpartition(":")
    if not host or not port.isdecimal() or int(port) > 65_535:  # noqa: PLR2004 - the last port
        message = f"{text!r} is not HOST:PORT, such as 127.0.0.1:9464"
        raise click.BadParameter(message, param_hint="--metrics")
    return host.strip("[]"), int(port)
