"""The wheel and the sdist, built once, and environments that have the wheel."""

import sys
from pathlib import Path

import pytest

from tests.packaging.environments import PINS, UV, Installed, made_once, run, tree


@pytest.fixture(scope="session")
def dist(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder that `make dist` makes, from the tree as git has it."""

    def make(folder: Path) -> None:
        run(sys.executable, "-m", "hatchling", "build", folder=tree(folder))

    return made_once(tmp_path_factory, "tree", make) / "dist"


@pytest.fixture(scope="session")
def wheel(dist: Path) -> Path:
    (found,) = dist.glob("*.whl")
    return found


@pytest.fixture(scope="session")
def base(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Installed:
    """An environment with the wheel alone: no extra."""

    def make(folder: Path) -> None:
        python = folder / "bin" / "python"
        run(UV, "venv", "--quiet", "--python", sys.executable, "--clear", folder, folder=folder)
        options = ("--quiet", "--python", python, "--constraints", PINS)
        run(UV, "pip", "install", *options, wheel, folder=folder)

    folder = made_once(tmp_path_factory, "base", make)
    return Installed(folder, tmp_path_factory.mktemp("home"))
