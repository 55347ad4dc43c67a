"""What goes to standard output: JSON when asked for, tables on a terminal, else tabbed lines."""

import sys
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import click

from oncebox.cli.escape import escape, to_json

Cells = Sequence[object]

#: how wide the names of an outline are on a terminal
_NAMES = 18


@dataclass(frozen=True, slots=True)
class Printout:
    """Prints rows and records the way they were asked for."""

    as_json: bool
    quiet: bool

    @property
    def on_terminal(self) -> bool:
        """Whether a person is reading."""
        return sys.stdout.isatty()

    def record(self, value: object) -> None:
        """Print one JSON object."""
        from msgspec import to_builtins  # noqa: PLC0415 - help needs none

        click.echo(to_json(to_builtins(value)))

    def line(self, *cells: object) -> None:
        """Print one line."""
        between = "  " if self.on_terminal else "\t"
        click.echo(between.join(map(_text, cells)))

    def table(self, columns: Sequence[str], rows: Iterable[Cells]) -> None:
        """Print rows under their column names; to a pipe, without the names."""
        if self.on_terminal:
            from oncebox.cli.table import draw  # noqa: PLC0415 - rich is slow; pipes need none

            draw(columns, [[_text(cell) for cell in row] for row in rows])
            return
        for row in rows:
            self.line(*row)

    def outline(self, rows: Iterable[Cells]) -> None:
        """Print rows that each begin with the name of what they tell."""
        for name, *cells in rows:
            if self.on_terminal:
                click.echo(f"{_text(name):<{_NAMES}}{'  '.join(map(_text, cells))}".rstrip())
            else:
                self.line(name, *cells)


def _text(cell: object) -> str:
    return escape("" if cell is None else str(cell))
