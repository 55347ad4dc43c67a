"""A scene: an accident, what the naive way made of it, what Oncebox did, and what was promised."""

from collections.abc import Callable
from dataclasses import dataclass

import msgspec

from oncebox.cli.demo.stage import Stage

Figure = int | str


class Fact(msgspec.Struct, frozen=True, kw_only=True):
    """Something that was counted, and what was promised of it."""

    what: str
    counted: Figure
    promised: Figure

    @property
    def held(self) -> bool:
        """Whether the promise held."""
        return self.counted == self.promised


class Naive(msgspec.Struct, frozen=True, kw_only=True):
    """What a naive program came to; it was really run."""

    came_to: str
    #: the program, in a few words
    ran: str
    figures: dict[str, Figure]


class Ours(msgspec.Struct, frozen=True, kw_only=True):
    """What Oncebox came to."""

    came_to: str
    #: what was done to it
    after: str
    facts: list[Fact]

    @property
    def broken(self) -> list[Fact]:
        """The promises that did not hold."""
        return [fact for fact in self.facts if not fact.held]


@dataclass(frozen=True, slots=True, kw_only=True)
class Scene:
    """An accident that can be played."""

    #: what is typed to see only this one
    name: str
    title: str
    naive: Callable[[Stage], Naive]
    play: Callable[[Stage], Ours]
    #: starts what takes a while and is needed later
    prepare: Callable[[Stage], object] = bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Played:
    """A scene that was played."""

    scene: Scene
    naive: Naive
    ours: Ours


def several(number: int, noun: str, nouns: str = "") -> str:
    """Return such as ``1 mail`` or ``3 mails``."""
    return f"{number} {noun if number == 1 else nouns or f'{noun}s'}"
