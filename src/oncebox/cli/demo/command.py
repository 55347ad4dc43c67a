"""``oncebox demo``: what is typed, and how it ends."""

import os
from contextlib import ExitStack
from pathlib import Path

import click

from oncebox.cli import failures
from oncebox.cli.call import Call, examples, with_call
from oncebox.cli.demo.backstage import Signals, temporary_folder
from oncebox.cli.demo.plain import Plain, Silent, record, verdict
from oncebox.cli.demo.scene import Played, Scene
from oncebox.cli.demo.stage import Stage
from oncebox.cli.demo.story import SCENES, Audience, play

#: seconds in which a scene can be read
_PAUSE = 1.5


@click.command(
    "demo",
    epilog=examples("oncebox demo", "oncebox demo storm", "oncebox demo --json"),
)
@click.argument("wanted", metavar="[SCENE]...", nargs=-1)
@click.option("--fast", is_flag=True, help="Leave no time to read between the scenes.")
@click.option("--keep", is_flag=True, help="Leave the folder, to look into it afterwards.")
@with_call
def demo(call: Call, *, wanted: tuple[str, ...], fast: bool, keep: bool) -> int:
    """Play accidents against a real service, and count what comes of them.

    The service runs on this machine, on free ports and a temporary folder, and is gone
    afterwards. Beside it, a naive program goes through the same. If a promise does not
    hold, the exit code is 1.

    SCENE is code, crash, storm, worker or reply; all of them unless named.
    """
    if call.database is not None or call.data_dir is not None:
        message = "the demo makes a folder of its own; leave --database and --data-dir away"
        raise click.UsageError(message)
    scenes = _scenes(wanted)
    try:
        played, folder = _perform(call, scenes, pause=0.0 if fast else _PAUSE, keep=keep)
    except KeyboardInterrupt:
        gone = "" if keep else ", the folder is removed"
        click.echo(f"interrupted: all processes are ended{gone}", err=True)
        return failures.INTERRUPTED
    _close(call, played, folder if keep else None)
    return failures.ERROR if any(each.ours.broken for each in played) else failures.OK


def _scenes(wanted: tuple[str, ...]) -> list[Scene]:
    unknown = sorted(set(wanted) - {scene.name for scene in SCENES})
    if unknown:
        names = ", ".join(scene.name for scene in SCENES)
        message = f"there is no scene {unknown[0]!r}; choose from {names}"
        raise click.UsageError(message)
    return [scene for scene in SCENES if not wanted or scene.name in wanted]


def _perform(
    call: Call, scenes: list[Scene], *, pause: float, keep: bool
) -> tuple[list[Played], Path]:
    """Set the stage, play, and clear everything away."""
    with ExitStack() as leaving:
        signals = leaving.enter_context(Signals())
        folder = leaving.enter_context(temporary_folder(keep=keep))
        audience = _audience(call, scenes, pause, leaving)
        stage = leaving.enter_context(Stage(folder, audience.note))
        leaving.enter_context(signals.heard())
        return play(scenes, stage, audience), folder


def _audience(call: Call, scenes: list[Scene], pause: float, leaving: ExitStack) -> Audience:
    if call.out.as_json or call.out.quiet:
        return Silent()
    if not call.out.on_terminal or os.environ.get("TERM", "dumb") == "dumb":
        return Plain(scenes)
    from oncebox.cli.demo.screen import Screen  # noqa: PLC0415 - rich is slow; pipes need none

    return leaving.enter_context(Screen(scenes, pause=pause))


def _close(call: Call, played: list[Played], kept: Path | None) -> None:
    """Say how it ended."""
    if call.out.as_json:
        call.out.record({**record(played), **({"folder": str(kept)} if kept else {})})
        return
    if call.out.quiet:
        return
    click.echo(verdict(played))
    if kept is None:
        click.echo("Every figure was counted; the service and its folder are gone.")
    else:
        click.echo(f"The folder is kept: {kept}")
        click.echo(f"try: oncebox delivery list --data-dir {kept}")
