"""`oncebox demo`: the command, its temporary folder, signals, and results as text or JSON."""

import os
import shutil
import signal
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from functools import partial
from pathlib import Path
from types import FrameType
from typing import Any, NoReturn

import click
import httpx2

from oncebox.cli.context import CommandContext, examples, with_context
from oncebox.cli.demo.environment import DemoEnvironment, DemoFailed
from oncebox.cli.demo.scenes import SCENES, Reporter, Result, Scene
from oncebox.cli.output import failures

#: seconds after which something must be wrong
_TIME_LIMIT = 180
#: seconds to read the result of a scene
_PAUSE = 1.5
_SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGALRM)

#: a scene, the result of the naive program, and that of Oncebox
SceneResult = tuple[Scene, Result, Result]


class TextReporter(Reporter):
    """Prints plain lines, the same in every run."""

    def __init__(self, scenes: Sequence[Scene]) -> None:
        self._scenes = scenes
        click.echo("Each failure really happens, first to a naive program and then to Oncebox.\n")

    def begin(self, scene: Scene) -> None:
        """Print the number and title of a scene."""
        click.echo(f"{self._scenes.index(scene) + 1}. {scene.title}")

    def show(self, result: Result) -> None:
        """Print a result, and the promises that were broken."""
        program = "oncebox" if result.checks else "naive"
        click.echo(f"   {program:7}  {result.came_to} ({result.detail})")
        for text in result.broken:
            click.echo(f"   BROKEN   {text}")
        if result.checks:
            click.echo()


@click.command(
    "demo",
    epilog=examples("oncebox demo", "oncebox demo storm", "oncebox demo --json"),
)
@click.argument(
    "wanted",
    metavar="[SCENE]...",
    nargs=-1,
    type=click.Choice([scene.name for scene in SCENES]),
)
@click.option("--fast", is_flag=True, help="Do not pause between the scenes.")
@click.option("--keep", is_flag=True, help="Keep the temporary folder.")
@with_context
def demo(call: CommandContext, *, wanted: tuple[str, ...], fast: bool, keep: bool) -> int:
    """Run failure scenarios against a real service and count the effects.

    The service runs on this machine, on free ports and in a temporary folder, and is removed
    afterwards. A naive program goes through the same failures. If a promise does not hold, the
    exit code is 1.

    SCENE is code, crash, storm, worker or reply; all of them by default.
    """
    if call.database is not None or call.data_dir is not None:
        raise click.UsageError("the demo uses its own folder; omit --database and --data-dir")
    scenes = [scene for scene in SCENES if not wanted or scene.name in wanted]
    try:
        results, folder = _run_demo(call, scenes, pause=0.0 if fast else _PAUSE, keep=keep)
    except KeyboardInterrupt:
        removed = "" if keep else ", the folder is removed"
        click.echo(f"interrupted: all processes are ended{removed}", err=True)
        return failures.INTERRUPTED
    held = not any(ours.broken for _, _, ours in results)
    if call.out.as_json:
        kept = {"folder": str(folder)} if keep else {}
        call.out.record(
            {"held": held, "scenes": [_scene_record(*each) for each in results], **kept}
        )
    elif not call.out.quiet:
        click.echo(verdict(results))
        if keep:
            click.echo(f"The folder is kept: {folder}")
            click.echo(f"try: oncebox delivery list --data-dir {folder}")
        else:
            click.echo("Every figure was counted; the service and its folder are removed.")
    return failures.OK if held else failures.ERROR


def verdict(results: Sequence[SceneResult]) -> str:
    """Return the final sentence."""
    checks = sum(len(ours.checks) for _, _, ours in results)
    broken = sum(len(ours.broken) for _, _, ours in results)
    if broken:
        return f"{broken} of {checks} checks did not hold: a promise is broken."
    return f"All {checks} checks held."


def _scene_record(scene: Scene, naive: Result, ours: Result) -> dict[str, Any]:
    checks = [
        {"what": what, "counted": counted, "promised": promised, "held": counted == promised}
        for what, (counted, promised) in ours.checks.items()
    ]
    return {
        "name": scene.name,
        "title": scene.title,
        "held": not ours.broken,
        "naive": {"ran": naive.detail, "came_to": naive.came_to, "figures": naive.figures},
        "oncebox": {"after": ours.detail, "came_to": ours.came_to, "checks": checks},
    }


def _run_demo(
    call: CommandContext, scenes: list[Scene], *, pause: float, keep: bool
) -> tuple[list[SceneResult], Path]:
    with ExitStack() as stack:
        stack.enter_context(_signals_as_exceptions())
        folder = Path(tempfile.mkdtemp(prefix="oncebox-demo-"))
        if keep:
            stack.push(partial(_print_kept_after_error, folder))
        else:
            stack.callback(shutil.rmtree, folder, ignore_errors=True)
        reporter = _reporter(call, scenes, pause, stack)
        env = DemoEnvironment(folder, stack, reporter.note)
        stack.callback(_ignore_signals)  # so that nothing is left behind
        return [_run_scene(scene, env, reporter) for scene in scenes], folder


def _print_kept_after_error(folder: Path, error: type | None, *_details: object) -> None:
    if error is not None:
        click.echo(f"kept: {folder}", err=True)


def _run_scene(scene: Scene, env: DemoEnvironment, reporter: Reporter) -> SceneResult:
    reporter.begin(scene)
    try:
        naive = scene.naive(env)
        reporter.show(naive)
        ours = scene.oncebox(env)
    except (OSError, httpx2.HTTPError) as error:
        raise DemoFailed(
            f"the scene {scene.name!r} failed: {type(error).__name__}: {error}"
        ) from error
    reporter.show(ours)
    return scene, naive, ours


def _reporter(
    call: CommandContext, scenes: list[Scene], pause: float, stack: ExitStack
) -> Reporter:
    if call.out.as_json or call.out.quiet:
        return Reporter()
    if not call.out.on_terminal or os.environ.get("TERM", "dumb") == "dumb":
        return TextReporter(scenes)
    from oncebox.cli.demo.live_report import LiveReporter  # noqa: PLC0415 - rich is slow; pipes need none

    return stack.enter_context(LiveReporter(scenes, pause=pause))


@contextmanager
def _signals_as_exceptions() -> Iterator[None]:
    """Turn the first signal, or the time limit, into an exception; later signals are ignored."""
    before = {number: signal.signal(number, _on_signal) for number in _SIGNALS}
    signal.alarm(_TIME_LIMIT)
    try:
        yield
    finally:
        signal.alarm(0)
        for number, handler in before.items():
            signal.signal(number, handler)


def _on_signal(number: int, _frame: FrameType | None) -> NoReturn:
    _ignore_signals()
    if number == signal.SIGALRM:
        raise DemoFailed(
            f"the demo took longer than {_TIME_LIMIT} s; try again on a less busy machine"
        )
    raise KeyboardInterrupt


def _ignore_signals() -> None:
    signal.alarm(0)
    for number in _SIGNALS:
        signal.signal(number, signal.SIG_IGN)
