"""Children do as they are told, and none is left behind."""

import os
import signal
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.torture.processes import Child, Children, TooLate, await_death, freeze

TALK = "import time\nfor n in range(10**6): print(n, flush=True); time.sleep(0.005)"
PARENT = (
    "import subprocess, sys, time\n"
    "kid = subprocess.Popen([sys.executable, '-c', 'import time; time.sleep(60)'])\n"
    "print('kid', kid.pid, flush=True)\n"
    "time.sleep(60)"
)


@pytest.fixture
def children(tmp_path: Path) -> Iterator[Children]:
    with Children(tmp_path) as children:
        yield children


def run(children: Children, code: str) -> Child:
    return children.start("code", [sys.executable, "-u", "-c", code])


def alive(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] not in "ZX"
    except FileNotFoundError:
        return False


def test_a_marker_is_waited_for_and_its_line_returned(children: Children) -> None:
    child = run(children, "print('one'); print('ready on port 7'); import time; time.sleep(60)")

    assert child.wait_for("ready") == "ready on port 7"


def test_a_child_that_ends_without_its_marker_is_reported_with_its_last_words(
    children: Children,
) -> None:
    child = run(children, "raise SystemExit('no luck')")

    with pytest.raises(TooLate, match="no luck"):
        child.wait_for("ready")


def test_an_earlier_childs_marker_is_not_taken_for_a_later_ones(tmp_path: Path) -> None:
    for text in ("ready", "something else"):
        with Children(tmp_path) as children:
            child = run(children, f"print({text!r})")
            child.wait()

    assert "ready" not in child.text()


def test_a_kill_is_seen_as_one(children: Children) -> None:
    child = run(children, "print('up'); import time; time.sleep(60)")
    child.wait_for("up")

    child.kill()

    assert not child.running
    assert child.wait() == -signal.SIGKILL


def test_a_paused_child_stands_still_and_then_goes_on(children: Children) -> None:
    child = run(children, TALK)
    child.wait_for("1")

    child.stop()
    before = child.text()
    time.sleep(0.05)
    paused = child.text()
    child.resume()
    child.wait_for(str(len(before.splitlines()) + 1))

    assert paused == before
    assert child.running


def test_leaving_the_block_ends_paused_children_and_grandchildren(tmp_path: Path) -> None:
    with Children(tmp_path) as children:
        parent = run(children, PARENT)
        kid = int(parent.wait_for("kid").split()[1])
        parent.stop()

    await_death([parent.pid, kid])
    assert not alive(parent.pid)
    assert not alive(kid)


def test_killing_a_parent_leaves_its_child_alive_as_in_real_life(children: Children) -> None:
    parent = run(children, PARENT)
    kid = int(parent.wait_for("kid").split()[1])

    parent.kill()

    assert alive(kid)


def test_killing_all_leaves_nobody_who_could_say_farewell(children: Children) -> None:
    parent = run(children, PARENT)
    kid = int(parent.wait_for("kid").split()[1])

    parent.kill_all()

    assert parent.wait() == -signal.SIGKILL
    assert not alive(kid)


def test_freezing_reaches_descendants(children: Children) -> None:
    parent = run(children, PARENT)
    kid = int(parent.wait_for("kid").split()[1])

    frozen = freeze([parent.pid])

    assert frozen == [parent.pid, kid]
    os.kill(parent.pid, signal.SIGCONT)


def test_children_die_with_a_parent_that_was_killed(children: Children, tmp_path: Path) -> None:
    code = (
        "import sys, time, pathlib\n"
        "from tests.torture.processes import Children\n"
        f"children = Children(pathlib.Path({str(tmp_path)!r}))\n"
        "child = children.start('kid', [sys.executable, '-c', 'import time; time.sleep(60)'])\n"
        "time.sleep(0.3)\n"
        "print('kid', child.pid, flush=True)\n"
        "time.sleep(60)"
    )
    parent = run(children, code)
    kid = int(parent.wait_for("kid").split()[1])

    parent.kill()

    await_death([kid])
    assert not alive(kid)
