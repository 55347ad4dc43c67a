"""`oncebox demo`: the command, its temporary folder and signal handling."""

import os
import shutil
import signal
import tempfile
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from types import FrameType
from typing import NoReturn, Self

import click

from oncebox.cli.context import CommandContext, examples, with_context
from oncebox.cli.demo.environment import DemoEnvironment, DemoFailed
from oncebox.cli.demo.scenes import SCENES, Reporter, Scene, SceneResult, run_scenes
from oncebox.cli.demo.text_report import SilentReporter, TextReporter, demo_record, verdict
from oncebox.cli.output import failures

#: seconds after which something must be wrong
_TIME_LIMIT = 180
_STOP_SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


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


class SignalGuard:
    """Turns the first signal, or too long a time, into an exception; further ones are not heard."""

    def __enter__(self) -> Self:
        self._before = {
            each: signal.signal(each, self._on_signal) for each in (*_STOP_SIGNALS, signal.SIGALRM)
        }
        signal.alarm(_TIME_LIMIT)
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
            self._ignore_signals()

    def _ignore_signals(self) -> None:
        signal.alarm(0)
        for number in self._before:
            signal.signal(number, signal.SIG_IGN)

    def _on_signal(self, number: int, _frame: FrameType | None) -> NoReturn:
        self._ignore_signals()
        if number == signal.SIGALRM:
            raise DemoFailed(
                f"the demo took longer than {_TIME_LIMIT} s; try again on a less busy machine"
            )
        raise KeyboardInterrupt


#: seconds in which a scene can be read
_PAUSE = 1.5


@click.command(
    "demo",
    epilog=examples("oncebox demo", "oncebox demo storm", "oncebox demo --json"),
)
@click.argument("wanted", metavar="[SCENE]...", nargs=-1)
@click.option("--fast", is_flag=True, help="Do not pause between the scenes.")
@click.option("--keep", is_flag=True, help="Keep the temporary folder.")
@with_context
def demo(call: CommandContext, *, wanted: tuple[str, ...], fast: bool, keep: bool) -> int:
    """Run failure scenarios against a real service and count the effects.

    The service runs on this machine, on free ports and a temporary folder, and is gone
    afterwards. Beside it, a naive program goes through the same. If a promise does not
    hold, the exit code is 1.

    SCENE is code, crash, storm, worker or reply; all of them unless named.
    """
    if call.database is not None or call.data_dir is not None:
        raise click.UsageError(
            "the demo makes a folder of its own; leave --database and --data-dir away"
        )
    scenes = _selected_scenes(wanted)
    try:
        played, folder = _run_demo(call, scenes, pause=0.0 if fast else _PAUSE, keep=keep)
    except KeyboardInterrupt:
        gone = "" if keep else ", the folder is removed"
        click.echo(f"interrupted: all processes are ended{gone}", err=True)
        return failures.INTERRUPTED
    _print_summary(call, played, folder if keep else None)
    return failures.ERROR if any(each.ours.broken for each in played) else failures.OK


def _selected_scenes(wanted: tuple[str, ...]) -> list[Scene]:
    unknown = sorted(set(wanted) - {scene.name for scene in SCENES})
    if unknown:
        names = ", ".join(scene.name for scene in SCENES)
        raise click.UsageError(f"there is no scene {unknown[0]!r}; choose from {names}")
    return [scene for scene in SCENES if not wanted or scene.name in wanted]


def _run_demo(
    call: CommandContext, scenes: list[Scene], *, pause: float, keep: bool
) -> tuple[list[SceneResult], Path]:
    """Set the stage, play, and clear everything away."""
    with ExitStack() as leaving:
        signals = leaving.enter_context(SignalGuard())
        folder = leaving.enter_context(temporary_folder(keep=keep))
        audience = _reporter(call, scenes, pause, leaving)
        stage = leaving.enter_context(DemoEnvironment(folder, audience.note))
        leaving.enter_context(signals.heard())
        return run_scenes(scenes, stage, audience), folder


def _reporter(
    call: CommandContext, scenes: list[Scene], pause: float, leaving: ExitStack
) -> Reporter:
    if call.out.as_json or call.out.quiet:
        return SilentReporter()
    if not call.out.on_terminal or os.environ.get("TERM", "dumb") == "dumb":
        return TextReporter(scenes)
    from oncebox.cli.demo.live_report import LiveReporter  # noqa: PLC0415 - rich is slow; pipes need none

    return leaving.enter_context(LiveReporter(scenes, pause=pause))


def _print_summary(call: CommandContext, played: list[SceneResult], kept: Path | None) -> None:
    """Say how it ended."""
    if call.out.as_json:
        call.out.record({**demo_record(played), **({"folder": str(kept)} if kept else {})})
        return
    if call.out.quiet:
        return
    click.echo(verdict(played))
    if kept is None:
        click.echo("Every figure was counted; the service and its folder are gone.")
    else:
        click.echo(f"The folder is kept: {kept}")
        click.echo(f"try: oncebox delivery list --data-dir {kept}")
