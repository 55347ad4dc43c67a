"""What the README says can be typed, works as it is printed there."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.docs.page import Terminal, blocks
from tests.house.tree import ROOT
from tests.torture.hooks import scenarios as hooks
from tests.torture.ledger import scenarios as ledger
from tests.torture.mail import scenarios as mail
from tests.torture.processes import Children
from tests.torture.sends import scenarios as sends

README = ROOT / "README.md"
TEST = re.compile(r"^(?:async )?def (test_\w+)", re.MULTILINE)


@pytest.fixture
def environment(tmp_path: Path) -> dict[str, str]:
    if not (ROOT / ".venv/bin/oncebox").exists():
        pytest.skip("the README's commands use the .venv that make creates")
    free_port = {"ONCEBOX_HTTP__PORT": "0", "ONCEBOX_SMTP__PORT": "0"}
    return {**os.environ, "ONCEBOX_DATA_DIR": str(tmp_path / "data"), **free_port}


def test_the_commands_work_exactly_as_printed(environment: dict[str, str], tmp_path: Path) -> None:
    start, commands = blocks(README, "sh")
    assert start == "make run\n"
    with Children(tmp_path) as children:
        worker = children.start("make", start.split(), environment=environment)
        worker.wait_for("try:", timeout=60)
        first, second, *_ = _typed(commands, environment).splitlines()
        worker.wait_for("Hello, Ada!")
        inspection = _typed(commands.splitlines()[-1], environment).splitlines()
        worker.terminate()

        assert worker.text().count("Hello, Ada!") == 1
    assert first.split("\t")[1] == "new"
    assert second.split("\t")[1] == "duplicate"
    assert "state\tdone\thandled" in inspection


def test_the_service_prints_the_command_that_the_readme_has(
    environment: dict[str, str], tmp_path: Path
) -> None:
    """With the default folder, that is; here another one is named at its end."""
    with Children(tmp_path) as children:
        worker = children.start("make", ["make", "run"], environment=environment)
        line = worker.wait_for("try:", timeout=60)
        worker.terminate()
    printed = line.removeprefix("try:").strip().split(" --data-dir ")[0]

    assert blocks(README, "sh")[1].splitlines()[0] == printed


def test_the_program_is_the_example_and_does_it_once(environment: dict[str, str]) -> None:
    (program,) = blocks(README, "python")
    assert program == (ROOT / "examples/embedded.py").read_text()

    ended = subprocess.run(
        [sys.executable, "examples/embedded.py"],
        capture_output=True,
        check=True,
        cwd=ROOT,
        env=environment,
    )
    lines = ended.stdout.decode().splitlines()
    assert sorted(line.split()[-1] for line in lines if line.startswith("dlv_")) == [
        "duplicate",
        "new",
    ]
    assert sum(line.startswith("opening 'Paid in_1' under once_") for line in lines) == 1
    assert ended.stderr == b""


def test_every_promise_names_a_test_or_scenario_that_exists() -> None:
    rows = [line.split("|") for line in README.read_text().splitlines() if line.startswith("| ")][
        2:
    ]
    tests = {
        found
        for path in (ROOT / "tests").rglob("test_*.py")
        for found in TEST.findall(path.read_text())
    }
    rooms = (ledger, hooks, mail, sends)
    known = tests | {each.name for room in rooms for each in room.SCENARIOS}

    named = [
        re.findall(r"`((?:test_|ledger-|hooks-|mail-|sends-)[\w-]+)`", row[-2]) for row in rows
    ]
    assert len(named) >= 7
    assert all(named)
    assert {each for names in named for each in names} - known == set()


def _typed(commands: str, environment: dict[str, str]) -> str:
    """Type commands into a shell and return what they print."""
    with Terminal(environment) as terminal:
        return terminal.type(commands)
