"""Progress bars on standard error, only on a terminal."""

import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import TypeVar

from oncebox.cli.output.printer import Printer

T = TypeVar("T")

#: called with how much more is done
Advance = Callable[[int], None]

#: fewer items need no bar
_MIN_ITEMS = 20


@contextmanager
def byte_progress(out: Printer, label: str, total: int) -> Iterator[Advance]:
    """Show the progress of an operation in bytes."""
    if out.quiet or not sys.stderr.isatty():
        yield _no_progress
        return
    with _progress_bar(label, total, in_bytes=True) as advance:
        yield advance


@contextmanager
def count_progress(out: Printer, label: str, total: int) -> Iterator[Advance]:
    """Show the progress of an operation in items."""
    if out.quiet or total < _MIN_ITEMS or not sys.stderr.isatty():
        yield _no_progress
        return
    with _progress_bar(label, total, in_bytes=False) as advance:
        yield advance


def with_progress(out: Printer, label: str, items: Sequence[T]) -> Iterator[T]:
    """Yield items and show progress; not on a terminal, where each prints its own line."""
    if out.on_terminal:
        yield from items
        return
    with count_progress(out, label, len(items)) as advance:
        for each in items:
            yield each
            advance(1)


@contextmanager
def _progress_bar(label: str, total: int, *, in_bytes: bool) -> Iterator[Advance]:
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
        task = drawn.add_task(label, total=total)
        yield lambda more: drawn.advance(task, more)


def _no_progress(_more: int) -> None:
    """Show nothing."""
