"""The story: five scenes, one after the other, before an audience."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from http.client import HTTPException
from threading import BrokenBarrierError
from typing import Protocol

from oncebox.cli.demo import (
    agent_crash,
    code_mailed,
    killed_worker,
    lost_reply,
    webhook_storm,
)
from oncebox.cli.demo.actor import DemoFailed
from oncebox.cli.demo.scene import Naive, Ours, Played, Scene
from oncebox.cli.demo.stage import Stage

SCENES = (
    code_mailed.SCENE,
    agent_crash.SCENE,
    webhook_storm.SCENE,
    killed_worker.SCENE,
    lost_reply.SCENE,
)


class Audience(Protocol):
    """Whoever is shown the story."""

    def note(self, text: str) -> None:
        """Hear what happens at the moment."""

    def begin(self, scene: Scene) -> None:
        """Hear which scene is next."""

    def compare(self, scene: Scene, naive: Naive) -> None:
        """Hear what the naive way came to."""

    def see(self, scene: Scene, ours: Ours) -> None:
        """Hear what Oncebox came to."""


def play(scenes: Sequence[Scene], stage: Stage, audience: Audience) -> list[Played]:
    """Play scenes; return what came of each.

    Raises: DemoFailed, OnceboxError.
    """
    for scene in scenes:
        scene.prepare(stage)
    return [_play(scene, stage, audience) for scene in scenes]


def _play(scene: Scene, stage: Stage, audience: Audience) -> Played:
    audience.begin(scene)
    with _unbroken(scene):
        naive = scene.naive(stage)
    audience.compare(scene, naive)
    with _unbroken(scene):
        ours = scene.play(stage)
    audience.see(scene, ours)
    return Played(scene=scene, naive=naive, ours=ours)


@contextmanager
def _unbroken(scene: Scene) -> Iterator[None]:
    """Say in our words that a connection or a process was not what it should be."""
    try:
        yield
    except (OSError, HTTPException, BrokenBarrierError) as error:
        message = f"the scene {scene.name!r} broke off: {type(error).__name__}: {error}"
        raise DemoFailed(message) from error
