"""Crash points: silent unless armed, exact when armed, and never misspelt."""

import re
import subprocess
import sys
from collections.abc import Iterator

import pytest

from oncebox.core import faults
from tests.project.tree import PACKAGE


@pytest.fixture(autouse=True)
def disarmed() -> Iterator[None]:
    yield
    faults.disarm()


def test_a_point_does_nothing_unless_armed() -> None:
    for name in faults.POINTS:
        faults.point(name)


def test_a_point_acts_at_the_nth_pass_and_only_then() -> None:
    faults.arm("worker.leased:3:raise")

    faults.point("worker.leased")
    faults.point("worker.leased")
    faults.point("worker.renewing")
    with pytest.raises(faults.InjectedFault):
        faults.point("worker.leased")
    faults.point("worker.leased")


def test_several_points_can_be_armed() -> None:
    faults.arm("worker.leased:1:raise;effect.started:1:sleep=0;")

    faults.point("effect.started")
    with pytest.raises(faults.InjectedFault):
        faults.point("worker.leased")


def test_a_misspelt_point_is_refused_with_the_known_ones() -> None:
    with pytest.raises(ValueError, match=r"worker\.leasd.*worker\.leased"):
        faults.arm("worker.leasd:1:kill")


@pytest.mark.parametrize("plan", ["worker.leased", "worker.leased:x:kill", "worker.leased:1:burn"])
def test_a_plan_that_cannot_be_read_is_refused(plan: str) -> None:
    with pytest.raises((ValueError, KeyError)):
        faults.arm(plan)


def test_the_environment_arms_a_process_and_it_dies_there() -> None:
    program = "from oncebox.core import faults; faults.point('accept.written'); print('alive')"
    ended = subprocess.run(
        [sys.executable, "-c", program],
        check=False,
        env={"ONCEBOX_FAULTS": "accept.written:1:kill"},
        capture_output=True,
    )

    assert (ended.returncode, ended.stdout) == (-9, b"")


def test_every_point_is_somewhere_in_the_code() -> None:
    source = "".join(path.read_text() for path in PACKAGE.rglob("*.py"))

    assert [name for name in sorted(faults.POINTS) if f'faults.point("{name}")' not in source] == []


def test_every_point_in_the_code_can_be_armed() -> None:
    source = "".join(path.read_text() for path in PACKAGE.rglob("*.py"))

    assert set(re.findall(r'faults\.point\("([^"]+)"\)', source)) - faults.POINTS == set()
