"""Tables on a terminal, fitted to its width; needs rich.

Identifying columns are never cut: the others shrink, and if that is not enough, a row continues
on indented lines.
"""

import shutil
from collections.abc import Iterator, Sequence

import click
from rich.cells import cell_len, set_cell_size

_GAP = "  "
_INDENT = "    "
#: columns that identify a row besides the first two
_IDENTIFYING = frozenset({
    "address", "attempt", "entity", "from", "inbox", "key", "label", "name", "setting", "source",
    "subject", "value",
})  # fmt: skip
#: minimum width of a cut column
_LEAST = 6


def draw(columns: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
    """Print rows under their column names."""
    layout = Layout(columns, rows, shutil.get_terminal_size().columns)
    for line in layout.lines(columns):
        click.secho(line, bold=True)
    for row in rows:
        for line in layout.lines(row):
            click.echo(line)


class Layout:
    """The width of each column, and its line within a row."""

    def __init__(
        self, columns: Sequence[str], rows: Sequence[Sequence[str]], line_width: int
    ) -> None:
        """Fit rows into lines of ``line_width`` characters."""
        natural = [max(map(cell_len, column)) for column in zip(columns, *rows, strict=True)]
        least = [
            width
            if number < 2 or name in _IDENTIFYING  # noqa: PLR2004 - the first two
            else min(width, max(len(name), _LEAST))
            for number, (name, width) in enumerate(zip(columns, natural, strict=True))
        ]
        self._widths = _shrink(natural, least, line_width)
        self._lines = list(_pack(self._widths, line_width))

    def lines(self, cells: Sequence[str]) -> Iterator[str]:
        """Return a row as the lines to print."""
        for number, columns in enumerate(self._lines):
            fitted = (_crop(cells[at], self._widths[at]) for at in columns)
            yield (_INDENT * bool(number) + _GAP.join(fitted)).rstrip()


def _shrink(natural: Sequence[int], least: Sequence[int], line_width: int) -> list[int]:
    """Return widths that fit on one line; if none do, widths of at most a line each."""
    widths = list(natural)
    gaps = len(_GAP) * (len(widths) - 1)
    if sum(least) + gaps > line_width:
        most = line_width - len(_INDENT)
        return [max(low, min(width, most)) for low, width in zip(least, natural, strict=True)]
    while sum(widths) + gaps > line_width:
        widest = max(range(len(widths)), key=lambda at: widths[at] - least[at])
        widths[widest] -= 1
    return widths


def _pack(widths: Sequence[int], line_width: int) -> Iterator[list[int]]:
    """Yield the columns of each line, in order."""
    line: list[int] = []
    used = 0
    for at, width in enumerate(widths):
        if line and used + len(_GAP) + width > line_width:
            yield line
            line, used = [], len(_INDENT)
        used += width + (len(_GAP) if line else 0)
        line.append(at)
    yield line


def _crop(cell: str, width: int) -> str:
    if cell_len(cell) <= width:
        return set_cell_size(cell, width)
    return set_cell_size(cell, width - 1) + "…"
