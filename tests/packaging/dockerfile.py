"""The Dockerfile, read: stages of instructions with their words."""

import json
import re
import shlex
from dataclasses import dataclass, field
from pathlib import Path


@dataclass
class Stage:
    """From one FROM to the next."""

    base: str
    name: str | None
    #: instruction and the rest of its line, continued lines joined
    steps: list[tuple[str, str]] = field(default_factory=list)

    def every(self, instruction: str) -> list[str]:
        return [rest for word, rest in self.steps if word == instruction]

    @property
    def settings(self) -> dict[str, str]:
        """What ENV sets."""
        pairs = (each.split("=", 1) for rest in self.every("ENV") for each in shlex.split(rest))
        return dict(pairs)


def read(path: Path) -> list[Stage]:
    """Return the stages of a Dockerfile."""
    lines = [line for line in path.read_text().splitlines() if not line.startswith("#")]
    text = re.sub(r"\\\n\s*", "", "\n".join(lines))
    stages: list[Stage] = []
    for line in filter(str.strip, text.splitlines()):
        word, _, rest = line.partition(" ")
        if word == "FROM":
            base, _, name = rest.partition(" AS ")
            stages.append(Stage(base, name or None))
        else:
            stages[-1].steps.append((word, rest.strip()))
    return stages


def listed(rest: str) -> list[str]:
    """Return the words of an instruction in its JSON form."""
    words: list[str] = json.loads(rest[rest.index("[") :])
    return words
