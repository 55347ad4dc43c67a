"""``oncebox serve``: HTTP, SMTP, handlers, sweeper in one process, kept running by its parent."""

import gc

import click

from oncebox.cli import parent, target
from oncebox.cli.call import Call, examples, with_call

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
    help="HTTP, SMTP and handlers; only HTTP and SMTP; or only handlers.",
)
@click.option("--host", metavar="HOST", help="Listen there (ONCEBOX_HTTP__HOST).  [127.0.0.1]")
@click.option(
    "--port",
    type=click.IntRange(0, 65_535),
    help="Listen on this port (ONCEBOX_HTTP__PORT); 0 takes a free one.  [8808]",
)
@click.option(
    "--test",
    is_flag=True,
    help="For tests only: take mail for any address, let links to this machine out.",
)
@click.option(
    "--chaos",
    type=click.Path(),
    metavar="RULES.TOML",
    help="For tests only: repeat, hold, refuse and cut off by these rules.",
)
@click.option("--child", type=int, hidden=True)
@click.option("--program", hidden=True, default="oncebox")
@with_call
def serve(  # noqa: PLR0913 - each option is one
    call: Call,
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
    """Serve HTTP, receive mail and run the handlers of a program, until ^C or SIGTERM.

    Without MODULE:BOX there are no handlers: what comes in waits for workers elsewhere. If the
    process dies it is started again. To stop, requests and handlers are let finish; asked a
    second time, everything is ended at once.
    """
    if wanted is not None:
        target.check(wanted)
    if role == "worker" and (test or chaos is not None):
        message = "a worker takes nothing in; give --test and --chaos to the service that does"
        raise click.UsageError(message)

    def serve_here() -> int:
        gc.disable()  # until it serves: what is made while loading stays, and is much
        # Only in the child: the parent should load nothing of what it starts.
        from oncebox.cli.serving import Serving, serve_in_this_process  # noqa: PLC0415

        return serve_in_this_process(
            Serving(
                target=wanted,
                role=role,
                host=host,
                port=port,
                program=parent.program() if child is None else program,
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
