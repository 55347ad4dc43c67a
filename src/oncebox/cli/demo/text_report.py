"""Demo results as plain lines or one JSON object."""

from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import click

from oncebox.cli.demo.scenes import Assertion, NaiveResult, OnceboxResult, Scene, SceneResult


class TextReporter:
    """An audience that reads lines."""

    def __init__(self, scenes: Sequence[Scene]) -> None:
        """Number the scenes, and say what they are."""
        self._numbers = {scene.name: number for number, scene in enumerate(scenes, 1)}
        click.echo("Each accident really happens: first to a naive program, then to Oncebox.\n")

    def note(self, text: str) -> None:
        """Keep what differs from run to run to oneself."""

    def begin(self, scene: Scene) -> None:
        """Print the number and title of a scene."""
        click.echo(f"{self._numbers[scene.name]}. {scene.title}")

    def show_naive(self, _scene: Scene, naive: NaiveResult) -> None:
        """Print what the naive way came to."""
        click.echo(f"   naive    {naive.came_to} ({naive.ran})")

    def show_oncebox(self, _scene: Scene, ours: OnceboxResult) -> None:
        """Print what Oncebox came to, and what was broken."""
        click.echo(f"   oncebox  {ours.came_to} ({ours.after})")
        for words in failure_texts(ours.broken):
            click.echo(f"   BROKEN   {words}")
        click.echo()


class SilentReporter:
    """An audience that waits for the end."""

    def note(self, text: str) -> None:
        """Hear nothing."""

    def begin(self, scene: Scene) -> None:
        """Hear nothing."""

    def show_naive(self, scene: Scene, naive: NaiveResult) -> None:
        """Hear nothing."""

    def show_oncebox(self, scene: Scene, ours: OnceboxResult) -> None:
        """Hear nothing."""


def failure_texts(facts: Iterable[Assertion]) -> Iterator[str]:
    """Say which promises did not hold."""
    for fact in facts:
        yield f"{fact.what}: {fact.counted}, promised was {fact.promised}"


def verdict(played: Sequence[SceneResult]) -> str:
    """Return the last line of the story."""
    facts = [fact for each in played for fact in each.ours.facts]
    failed = sum(not fact.held for fact in facts)
    if failed:
        return f"{failed} of {len(facts)} checks did not hold: a promise is broken."
    return f"All {len(facts)} checks held."


def demo_record(played: Sequence[SceneResult]) -> dict[str, Any]:
    """Return the story as one object."""
    return {
        "held": not any(each.ours.broken for each in played),
        "scenes": [_scene_record(each) for each in played],
    }


def _scene_record(played: SceneResult) -> dict[str, Any]:
    naive, ours = played.naive, played.ours
    checks = [
        {"what": each.what, "counted": each.counted, "promised": each.promised, "held": each.held}
        for each in ours.facts
    ]
    return {
        "name": played.scene.name,
        "title": played.scene.title,
        "held": not ours.broken,
        "naive": {"ran": naive.ran, "came_to": naive.came_to, "figures": naive.figures},
        "oncebox": {"after": ours.after, "came_to": ours.came_to, "checks": checks},
    }
