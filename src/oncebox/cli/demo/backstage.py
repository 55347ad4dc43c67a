"""Backstage: a folder that is gone afterwards, and signals that end the demo in good order."""

import shutil
import signal
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import FrameType
from typing import NoReturn, Self

import click

from oncebox.cli.demo.actor import DemoFailed

#: seconds after which something must be wrong
_LIMIT = 180
_ENDING = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


@contextmanager
def temporary_folder(*, keep: bool) -> Iterator[Path]:
    """Make a folder; remove it unless it is to be kept."""
    folder = Path(tempfile.mkdtemp(prefix="oncebox-demo-"))
    try:
        yield folder
    except BaseException:
        if keep:
            click.echo(f"kept: {folder}", err=True)
        raise
    finally:
        if not keep:
            shutil.rmtree(folder, ignore_errors=True)


class Signals:
    """Turns the first signal, or too long a time, into an exception; further ones are not heard."""

    def __enter__(self) -> Self:
        self._before = {each: signal.signal(each, self._end) for each in (*_ENDING, signal.SIGALRM)}
        signal.alarm(_LIMIT)
        return self

    def __exit__(self, *_error: object) -> None:
        signal.alarm(0)
        for number, handler in self._before.items():
            signal.signal(number, handler)

    @contextmanager
    def heard(self) -> Iterator[None]:
        """Hear no signal any more when the block is left, so that nothing is left behind."""
        try:
            yield
        finally:
            self._be_deaf()

    def _be_deaf(self) -> None:
        signal.alarm(0)
        for number in self._before:
            signal.signal(number, signal.SIG_IGN)

    def _end(self, number: int, _frame: FrameType | None) -> NoReturn:
        self._be_deaf()
        if number == signal.SIGALRM:
            message = (
                f"it took longer than {_LIMIT} seconds; try again when the machine is less busy"
            )
            raise DemoFailed(message)
        raise KeyboardInterrupt
