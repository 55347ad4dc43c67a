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

from oncebox.cli.demo.scenes import NaiveResult, OnceboxResult, Scene
from oncebox.cli.demo.text_report import failure_texts

#: lines of a terminal on which there is room for lines between the rows
_TALL = 30


class LiveReporter:
    """An audience that looks at a table."""

    def __init__(self, scenes: Sequence[Scene], *, pause: float) -> None:
        """Leave people so many seconds to read after each scene."""
        self._scenes = scenes
        self._pause = pause
        self._naive: dict[str, Text] = {}
        self._oncebox: dict[str, Text] = {}
        self._current: Scene | None = None
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
        """Show what happens at the moment."""
        self._spinner.text = Text(text, style="dim")

    def begin(self, scene: Scene) -> None:
        """Mark the scene that is played."""
        self._current = scene

    def show_naive(self, scene: Scene, naive: NaiveResult) -> None:
        """Fill in what the naive way came to."""
        self._naive[scene.name] = _cell(naive.came_to, naive.ran, style="yellow")

    def show_oncebox(self, scene: Scene, ours: OnceboxResult) -> None:
        """Fill in what Oncebox came to, and let it be read."""
        cell = _cell(ours.came_to, ours.after, style="red" if ours.broken else "green")
        for words in failure_texts(ours.broken):
            cell.append(f"\nBROKEN {words}", style="bold red")
        self._oncebox[scene.name] = cell
        self._current = None
        self.note("")
        time.sleep(self._pause)

    def _render(self) -> Group:
        is_high = self._console.height >= _TALL
        table = Table(box=ROUNDED, expand=True, show_lines=is_high, header_style="bold")
        for heading, share in (("What happens", 5), ("The naive way", 6), ("Oncebox", 6)):
            table.add_column(heading, ratio=share)
        for number, scene in enumerate(self._scenes, 1):
            is_now = self._current is not None and self._current.name == scene.name
            known = is_now or scene.name in self._oncebox
            table.add_row(
                Text(
                    f"{number}. {scene.title}", style="bold" if is_now else "" if known else "dim"
                ),
                self._naive.get(scene.name, Text()),
                self._oncebox.get(scene.name, Text()),
            )
        return Group(table, self._spinner) if self._spinner.text else Group(table)


def _cell(came_to: str, detail: str, *, style: str) -> Text:
    return Text.assemble((came_to, style), "\n", (f"({detail})", "dim"))
