"""Test data that lies beside the project, not in it."""

import os
from pathlib import Path

import pytest

from tests.project.tree import ROOT

#: names another folder than ``../shared``
VARIABLE = "ONCEBOX_TEST_SHARED"


def lies(name: str) -> Path:
    """Return where a file of the shared data lies, or would lie."""
    return Path(os.environ.get(VARIABLE) or ROOT.parent / "shared") / name


def shared(name: str) -> Path:
    """Return a file of the shared data, or skip where it is missing; under CI that is a failure."""
    path = lies(name)
    if not path.exists():
        message = f"there is no {name} in ../shared; {VARIABLE} names another folder"
        if os.environ.get("CI") == "true":
            pytest.fail(message)
        pytest.skip(message)
    return path
