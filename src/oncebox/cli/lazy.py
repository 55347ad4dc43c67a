"""Groups of commands whose modules are imported only when one of them is called."""

from collections.abc import Mapping
from importlib import import_module
from typing import TYPE_CHECKING, Any

import click

if TYPE_CHECKING:  # only a shell that completes needs it
    from click.shell_completion import CompletionItem

#: name to ``module:attribute`` and one line of help
Table = Mapping[str, tuple[str, str]]


class LazyGroup(click.Group):
    """Shows its commands from a table, so that help needs no import."""

    def __init__(self, *args: Any, commands_in: Table, **kwargs: Any) -> None:
        """Take the table besides what every group takes."""
        super().__init__(*args, **kwargs)
        self._table = commands_in

    def list_commands(self, _ctx: click.Context) -> list[str]:
        """Return the names in the order of the table."""
        return list(self._table)

    def get_command(self, _ctx: click.Context, cmd_name: str) -> click.Command | None:
        """Import a command."""
        if cmd_name not in self._table:
            return None
        module, _, attribute = self._table[cmd_name][0].partition(":")
        command = getattr(import_module(module), attribute)
        return command if isinstance(command, click.Command) else None

    def shell_complete(self, ctx: click.Context, incomplete: str) -> "list[CompletionItem[str]]":
        """Complete from the table too: a key pressed in a shell should not import everything."""
        from click.shell_completion import CompletionItem  # noqa: PLC0415 - as above

        commands = [
            CompletionItem(name, help=line)
            for name, (_, line) in self._table.items()
            if name.startswith(incomplete)
        ]
        return [*commands, *click.Command.shell_complete(self, ctx, incomplete)]

    def format_commands(self, _ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the table's own lines."""
        with formatter.section("Commands"):
            formatter.write_dl([(name, line) for name, (_, line) in self._table.items()])
