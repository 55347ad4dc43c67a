"""Demo results as a live table on a terminal; needs rich."""

import time
from collections.abc import Sequence
from typing import Self

from rich.box import ROUNDED
from rich.console import Console, Group
from rich.live import Live
from rich.spinner import Spinner
from rich.table import Table
from rich.text import Text

from oncebox.cli.demo.scenes import Reporter, Result, Scene

#: lines of a terminal that has space for rules between the rows
_TALL = 30


class LiveReporter(Reporter):
    """Fills a table, and pauses after each scene so that it can be read."""

    def __init__(self, scenes: Sequence[Scene], *, pause: float) -> None:
        self._pause = pause
        self._cells: dict[Scene, list[Text]] = {scene: [] for scene in scenes}
        self._current: Scene | None = None
        self._row: list[Text] = []
        self._spinner = Spinner("dots")
        self._console = Console(highlight=False)
        self._live = Live(get_renderable=self._render, console=self._console, refresh_per_second=10)

    def __enter__(self) -> Self:
        self._live.start()
        return self

    def __exit__(self, *_error: object) -> None:
        self._current = None
        self.note("")
        self._live.stop()

    def note(self, text: str) -> None:
        """Show what is happening now."""
        self._spinner.text = Text(text, style="dim")

    def begin(self, scene: Scene) -> None:
        """Highlight the running scene."""
        self._current, self._row = scene, self._cells[scene]

    def show(self, result: Result) -> None:
        """Fill in a result; pause after that of Oncebox."""
        style = "red" if result.broken else "green" if result.checks else "yellow"
        cell = Text.assemble((result.came_to, style), "\n", (f"({result.detail})", "dim"))
        for text in result.broken:
            cell.append(f"\nBROKEN {text}", style="bold red")
        self._row.append(cell)
        if result.checks:
            self._current = None
            self.note("")
            time.sleep(self._pause)

    def _render(self) -> Group:
        is_tall = self._console.height >= _TALL
        table = Table(box=ROUNDED, expand=True, show_lines=is_tall, header_style="bold")
        for heading, share in (("What happens", 5), ("The naive way", 6), ("Oncebox", 6)):
            table.add_column(heading, ratio=share)
        for number, (scene, cells) in enumerate(self._cells.items(), 1):
            style = "bold" if scene is self._current else "" if cells else "dim"
            table.add_row(Text(f"{number}. {scene.title}", style=style), *cells)
        return Group(table, self._spinner) if self._spinner.text else Group(table)
