"""Progress bars on standard error, only on a terminal."""

import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import TypeVar

from oncebox.cli.output.printer import Printer

T = TypeVar("T")

#: hears how much more is done
Advance = Callable[[int], None]

#: fewer are done before anybody has read a bar
_MIN_ITEMS = 20


@contextmanager
def byte_progress(out: Printer, doing: str, total: int) -> Iterator[Advance]:
    """Show how many bytes of a total are done, while they are."""
    if out.quiet or not sys.stderr.isatty():
        yield _no_progress
        return
    with _progress_bar(doing, total, in_bytes=True) as advance:
        yield advance


@contextmanager
def count_progress(out: Printer, doing: str, total: int) -> Iterator[Advance]:
    """Show how many of many things are done, while they are."""
    if out.quiet or total < _MIN_ITEMS or not sys.stderr.isatty():
        yield _no_progress
        return
    with _progress_bar(doing, total, in_bytes=False) as advance:
        yield advance


def with_progress(out: Printer, doing: str, items: Sequence[T]) -> Iterator[T]:
    """Yield items, and show how many are done; not where each prints a line of its own there."""
    if out.on_terminal:
        yield from items
        return
    with count_progress(out, doing, len(items)) as advance:
        for each in items:
            yield each
            advance(1)


@contextmanager
def _progress_bar(doing: str, total: int, *, in_bytes: bool) -> Iterator[Advance]:
    # Imported here, because rich is slow and pipes need none.
    from rich import progress  # noqa: PLC0415
    from rich.console import Console  # noqa: PLC0415

    count = progress.DownloadColumn() if in_bytes else progress.MofNCompleteColumn()
    columns = (
        progress.TextColumn("{task.description}"),
        progress.BarColumn(),
        count,
        progress.TimeRemainingColumn(),
    )
    console = Console(file=sys.stderr)
    with progress.Progress(
        *columns, console=console, transient=True, redirect_stdout=False, redirect_stderr=False
    ) as drawn:
        task = drawn.add_task(doing, total=total)
        yield lambda more: drawn.advance(task, more)


def _no_progress(_more: int) -> None:
    """Show nothing."""
