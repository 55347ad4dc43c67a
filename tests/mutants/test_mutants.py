"""The list of planted faults is in step with the source, and its judge is no fool."""

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.mutants.every import EVERY
from tests.mutants.mutants import Mutant
from tests.mutants.workshop import ROOT, Patch, Selection, Torture, Unfit


@pytest.mark.parametrize("mutant", EVERY, ids=lambda one: one.name)
def test_every_fault_can_still_be_planted(mutant: Mutant, tmp_path: Path) -> None:
    """If this fails, the source has moved on: give the mutant its new text."""
    for file in {patch.file for patch in mutant.patches}:
        (tmp_path / file).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(ROOT / file, tmp_path / file)

    for patch in mutant.patches:
        patch.apply(tmp_path)


@pytest.mark.parametrize("mutant", EVERY, ids=lambda one: one.name)
def test_every_fault_names_tests_that_exist(mutant: Mutant) -> None:
    for killer in mutant.killers:
        if isinstance(killer, Selection):
            for selected in killer.selection:
                file, _, name = selected.partition("::")
                assert f"def {name}" in (ROOT / file).read_text()


def test_no_fault_uses_an_undefined_name(tmp_path: Path) -> None:
    """It would be caught for that alone; attributes are checked by `make mutants`."""
    for number, mutant in enumerate(EVERY):
        for file in {patch.file for patch in mutant.patches if patch.file.endswith(".py")}:
            text = (ROOT / file).read_text()
            for patch in mutant.patches:
                text = text.replace(patch.old, patch.new) if patch.file == file else text
            (tmp_path / f"{number}-{Path(file).name}").write_text(text)
    options = ("--isolated", "--no-cache", "--select", "F821,E9", "--output-format", "concise")
    ruff = [sys.executable, "-m", "ruff", "check", *options, str(tmp_path)]
    done = subprocess.run(ruff, check=False, capture_output=True, text=True)

    assert done.returncode == 0, done.stdout


def test_a_text_that_is_gone_is_refused(tmp_path: Path) -> None:
    (tmp_path / "file.py").write_text("two two")

    for old in ("one", "two"):
        with pytest.raises(Unfit, match="not once"):
            Patch("file.py", old, "three").apply(tmp_path)


def test_only_failed_tests_are_red() -> None:
    tests = Selection(("tests/x.py::test_y",))

    assert tests.is_red(1, "1 failed in 0.1s")
    assert not tests.is_red(2, "1 error in 0.1s")
    assert not tests.is_red(1, "1 error in 0.1s")
    assert not tests.is_red(0, "1 passed in 0.1s")


def test_only_a_broken_promise_is_red() -> None:
    torture = Torture("ledger-zombies", "sqlite", ("stale", "doubled"))

    assert torture.is_red(1, "x\n    doubled: dlv_1 (2 effects)\n")
    assert not torture.is_red(1, "x\n    crashed: harness (Traceback)\n")
    assert not torture.is_red(0, "x\n    doubled: as planned\n")
