"""Type checks of planted faults: a fault that only raises a NameError proves nothing.

Faults that stand apart in their files are planted together, so that mypy runs a few times in all.
"""

import re
import shutil
import subprocess
import sys
from collections.abc import Iterator, Sequence
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory

from tests.mutants.mutants import Mutant
from tests.mutants.workshop import ROOT, Patch

_ERROR = re.compile(r"(\S+?):(\d+): error: (.*?)  \[(name-defined|attr-defined|call-arg)\]")
#: characters between two faults of one run
_APART = 400
_FILES = 'files = ["src", "tests", "tools", "bench", "examples"]'


def unsound(mutants: Sequence[Mutant]) -> Iterator[str]:
    """Yield a line for every fault that uses names, attributes or arguments that do not exist."""
    with TemporaryDirectory(prefix="planted-") as folder:
        root = Path(folder)
        shutil.copytree(ROOT / "src", root / "src", ignore=shutil.ignore_patterns("__pycache__"))
        configuration = (ROOT / "pyproject.toml").read_text()
        (root / "pyproject.toml").write_text(configuration.replace(_FILES, 'files = ["src"]'))
        for batch in _batches(mutants):
            texts = _plant(batch, root)
            yield from _errors(root, batch)
            for file, text in texts.items():
                (root / file).write_text(text)


def _patches(mutant: Mutant) -> list[Patch]:
    return [patch for patch in mutant.patches if patch.file.endswith(".py")]


def _batches(mutants: Sequence[Mutant]) -> list[list[Mutant]]:
    """Return the faults in groups that can be planted together."""
    batches: list[list[Mutant]] = []
    for mutant in mutants:
        fitting = (batch for batch in batches if not any(_overlap(mutant, one) for one in batch))
        batch = next(fitting, None)
        if batch is None:
            batches.append([mutant])
        else:
            batch.append(mutant)
    return batches


def _overlap(one: Mutant, other: Mutant) -> bool:
    return any(
        first.file == second.file and _are_near(_span(first), _span(second))
        for first in _patches(one)
        for second in _patches(other)
    )


def _are_near(one: tuple[int, int], other: tuple[int, int]) -> bool:
    return one[0] <= other[1] and other[0] <= one[1]


@cache
def _span(patch: Patch) -> tuple[int, int]:
    start = (ROOT / patch.file).read_text().find(patch.old)
    return start - _APART, start + len(patch.old) + _APART


def _plant(batch: Sequence[Mutant], root: Path) -> dict[str, str]:
    """Plant faults; return the files as they were."""
    texts: dict[str, str] = {}
    for mutant in batch:
        for patch in _patches(mutant):
            texts.setdefault(patch.file, (root / patch.file).read_text())
            patch.apply(root)
    return texts


def _errors(root: Path, batch: Sequence[Mutant]) -> Iterator[str]:
    command = [sys.executable, "-m", "mypy", "--cache-dir", str(root / ".cache")]
    done = subprocess.run(command, cwd=root, capture_output=True, text=True, check=False)
    for file, line, message, _ in _ERROR.findall(done.stdout):
        text = (root / file).read_text()
        names = [
            mutant.name
            for mutant in batch
            for patch in _patches(mutant)
            if patch.file == file and int(line) in _lines(text, patch.new)
        ]
        yield f"{' or '.join(dict.fromkeys(names)) or 'a fault'}: {file}:{line}: {message}"


def _lines(text: str, part: str) -> range:
    first = text.count("\n", 0, text.find(part)) + 1
    return range(first, first + part.count("\n") + 2)
