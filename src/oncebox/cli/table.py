"""Tables on a terminal: one line a row, and the widest columns give way where room is short."""

import shutil
from collections.abc import Sequence

import click
from rich.cells import cell_len, set_cell_size

_GAP = "  "


def draw(columns: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
    """Print rows under their column names; the first two columns are never cut."""
    widths = fitted(columns, rows, shutil.get_terminal_size().columns)
    click.secho(_line(columns, widths), bold=True)
    for row in rows:
        click.echo(_line(row, widths))


def fitted(columns: Sequence[str], rows: Sequence[Sequence[str]], room: int) -> list[int]:
    """Return the width of each column, so that a line fits if that can be."""
    widths = [max(map(cell_len, column)) for column in zip(columns, *rows, strict=True)]
    least = [*widths[:2], *map(len, columns[2:])]
    while sum(widths) + len(_GAP) * (len(widths) - 1) > room:
        widest = max(range(len(widths)), key=lambda number: widths[number] - least[number])
        if widths[widest] <= least[widest]:
            break
        widths[widest] -= 1
    return widths


def _line(cells: Sequence[str], widths: Sequence[int]) -> str:
    fit = (_cropped(cell, width) for cell, width in zip(cells, widths, strict=True))
    return _GAP.join(fit).rstrip()


def _cropped(cell: str, width: int) -> str:
    if cell_len(cell) <= width:
        return set_cell_size(cell, width)
    return set_cell_size(cell, width - 1) + "…"
