"""``oncebox``: finds the command, runs it, and turns failures into exit codes."""

import sys
from collections.abc import Sequence

import click

from oncebox.cli import failures
from oncebox.cli.lazy import LazyGroup
from oncebox.errors import OnceboxError

_DELIVERY = {
    "accept": ("oncebox.cli.accept:accept", "Store a delivery, once."),
    "list": ("oncebox.cli.listing:list_", "Show deliveries, newest first."),
    "inspect": ("oncebox.cli.inspect:inspect", "Show all that is known of a delivery."),
    "replay": ("oncebox.cli.deeds:replay", "Run a done or dead delivery again."),
    "hold": ("oncebox.cli.deeds:hold", "Keep a waiting delivery from running."),
    "release": ("oncebox.cli.deeds:release", "Let a held delivery run."),
    "tail": ("oncebox.cli.tail:tail", "Follow new deliveries and changes of state."),
}
_DEAD = {
    "list": ("oncebox.cli.dead:list_", "Show deliveries that were given up."),
    "replay": ("oncebox.cli.dead:replay", "Run some or all of them again."),
}
_ALL = {
    "delivery": ("oncebox.cli.main:delivery", "What came in, and what became of it."),
    "dead": ("oncebox.cli.main:dead", "What was given up."),
    "worker": ("oncebox.cli.worker:worker", "Run the handlers of a program."),
    "migrate": ("oncebox.cli.migrate:migrate", "Bring the database to this version."),
    "doctor": ("oncebox.cli.doctor:doctor", "Look for what is wrong, and say what helps."),
}


@click.group(cls=LazyGroup, commands_in=_ALL, context_settings={"max_content_width": 100})
@click.version_option(package_name="oncebox", prog_name="oncebox", message="%(prog)s %(version)s")
@click.option("--database", metavar="URL", help="The database (ONCEBOX_DATABASE_URL).")
@click.option("--data-dir", metavar="DIR", help="The data folder (ONCEBOX_DATA_DIR).")
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
def root(**_options: object) -> None:
    """Oncebox: deliveries arrive at least once, their effects happen once.

    The options below may stand here or after the command.
    """


@click.group(cls=LazyGroup, commands_in=_DELIVERY)
def delivery() -> None:
    """What came in, and what became of it."""


@click.group(cls=LazyGroup, commands_in=_DEAD)
def dead() -> None:
    """What was given up."""


def run(arguments: Sequence[str]) -> int:
    """Run one command; return its exit code."""
    as_json = "--json" in arguments
    try:
        code = root.main(list(arguments), prog_name="oncebox", standalone_mode=False)
    except OnceboxError as error:
        return failures.tell(error, as_json=as_json)
    except click.ClickException as error:
        return failures.tell_misuse(error, as_json=as_json)
    except click.Abort:
        return failures.INTERRUPTED
    return code if isinstance(code, int) else failures.OK


def main() -> None:
    """Run the command that was typed."""
    for stream in (sys.stdout, sys.stderr):
        # A character the terminal cannot show is spelled out, never a crash.
        stream.reconfigure(errors="backslashreplace")  # type: ignore[union-attr]
    sys.exit(run(sys.argv[1:]))
