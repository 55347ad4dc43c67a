"""What the README says can be typed, works as it is printed there."""

import os
import re
import smtplib
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.cli.services import Running, Services
from tests.docs.page import Terminal, blocks
from tests.docs.reference import DOCS
from tests.docs.test_quickstart import shown
from tests.project.tree import ROOT
from tests.support.debian import program
from tests.torture.artifacts import scenarios as artifacts
from tests.torture.hooks import scenarios as hooks
from tests.torture.ledger import scenarios as ledger
from tests.torture.mail import scenarios as mail
from tests.torture.processes import Children, until
from tests.torture.sends import scenarios as sends

README = ROOT / "README.md"
AGENT, BROWSER, HANDLER, SEND = blocks(README, "python")
LONGEST = 6
MOST_LINKS = 12
LINK = re.compile(r"\]\(([^)]+)\)")
#: what the handler's example imports: a function of its reader
TRACKER = "def create_issue(title):\n    print('opened', title, flush=True)\n"
MAIL = "From: Acme <no-reply@acme.com>\nSubject: Welcome\n\nYour verification code is 482913.\n"
PAID = '{"data": {"object": {"id": "in_1"}}}'
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
        printed = _typed(commands, environment)
        first, second, *_ = printed.splitlines()
        worker.wait_for("Hello, Ada!")
        printed += _typed(commands.splitlines()[-1], environment)
        worker.terminate()

        assert worker.text().count("Hello, Ada!") == 1
    assert first.split("\t")[1] == "new"
    assert second.split("\t")[1] == "duplicate"
    assert "state\tdone\thandled" in printed.splitlines()
    assert shown(blocks(README, "text")[0].splitlines(), printed)


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


def test_the_box_inside_a_program_does_it_once(environment: dict[str, str]) -> None:
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


@dataclass
class Reader:
    """Somebody who has saved the examples, and has the service running with the handler."""

    folder: Path
    service: Running

    @property
    def environment(self) -> dict[str, str]:
        return {**os.environ, "ONCEBOX_DATA_DIR": str(self.folder / "data")}

    def command(self, *words: str) -> list[str]:
        return [sys.executable, "-u", "-m", "oncebox", *words]

    def run(self, *words: str) -> str:
        """Run a program to its end; return what it printed."""
        return subprocess.run(
            words, capture_output=True, check=True, env=self.environment, text=True, timeout=60
        ).stdout


@pytest.fixture(scope="module")
def reader(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Reader]:
    folder = tmp_path_factory.mktemp("readme")
    for name, text in {"app.py": HANDLER, "tracker.py": TRACKER}.items():
        (folder / name).write_text(text)
    with Children(folder) as children:
        services = Services(folder, children)
        services.set("PYTHONPATH", str(folder))
        yield Reader(folder, services.serve("app:box"))


def test_the_landing_page_shows_the_readmes_example_and_the_demos_output() -> None:
    (story,) = blocks(DOCS / "index.md", "text")

    assert blocks(DOCS / "index.md", "python") == [AGENT]
    assert story == blocks(README, "text")[1]  # tests/cli/test_demo.py compares it with the demo


def test_the_readme_has_few_links() -> None:
    assert len(set(LINK.findall(README.read_text()))) <= MOST_LINKS


@pytest.mark.parametrize("example", [AGENT, BROWSER, HANDLER, SEND])
def test_an_example_has_six_lines(example: str) -> None:
    assert len([line for line in example.splitlines() if line.strip()]) <= LONGEST


def test_the_agent_gets_the_code_that_was_mailed(reader: Reader) -> None:
    with subprocess.Popen(
        [sys.executable, "-u", "-c", AGENT],
        env=reader.environment,
        stdout=subprocess.PIPE,
        text=True,
    ) as agent:
        assert agent.stdout is not None
        address = agent.stdout.readline().removeprefix("sign up as ").strip()
        host, _, port = reader.service.greeting["smtp"].rpartition(":")
        with smtplib.SMTP(host, int(port)) as acme:
            acme.sendmail("no-reply@acme.com", address, MAIL)

        assert agent.stdout.read() == "the code is 482913\n"
    # After a crash it is run again, and finds the same.
    assert reader.run(sys.executable, "-c", AGENT).splitlines()[-1] == "the code is 482913"


def test_the_handler_opens_one_issue_for_two_webhooks(reader: Reader) -> None:
    given = ("stripe", "--key", "evt_1", "--type", "invoice.paid", "--body", PAID)
    arrivals = [reader.run(*reader.command("delivery", "accept", *given)) for _ in range(2)]
    reader.service.child.wait_for("opened in_1")
    for _ in until(20):
        if "state\tdone" in reader.run(*reader.command("delivery", "inspect", "evt_1")):
            break

    assert [line.split("\t")[1].strip() for line in arrivals] == ["new", "duplicate"]
    assert reader.service.child.text().count("opened in_1") == 1


def test_the_mail_is_one_send_however_often_it_is_asked_for(reader: Reader) -> None:
    assert [reader.run(sys.executable, "-c", SEND).strip() for _ in range(2)] == ["logged"] * 2
    sends = reader.run(*reader.command("send", "list")).splitlines()
    assert len(sends) == 1


def test_the_browser_signs_up_as_printed(tmp_path: Path) -> None:
    pytest.importorskip("oncebox.testing.plugin")
    site = ROOT / "examples" / "playwright_signup" / "conftest.py"
    program("chromium", "chromium")
    (tmp_path / "conftest.py").write_text(site.read_text())
    (tmp_path / "test_signup.py").write_text(BROWSER)
    (tmp_path / "pytest.ini").write_text(f"[pytest]\npythonpath = {ROOT}\n")
    plugins = ("-p", "pytest_playwright.pytest_playwright", "-p", "oncebox.testing.plugin")
    ended = subprocess.run(
        [sys.executable, "-m", "pytest", *plugins, "-q", str(tmp_path)],
        capture_output=True,
        check=False,
        env={**os.environ, "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1", "PYTEST_ADDOPTS": ""},
        text=True,
        timeout=110,
    )

    assert "1 passed" in ended.stdout, ended.stdout


def test_every_promise_names_a_test_or_scenario_that_exists() -> None:
    rows = [line.split("|") for line in README.read_text().splitlines() if line.startswith("| ")][
        2:
    ]
    tests = {
        found
        for path in (ROOT / "tests").rglob("test_*.py")
        for found in TEST.findall(path.read_text())
    }
    rooms = (artifacts, ledger, hooks, mail, sends)
    known = tests | {each.name for room in rooms for each in room.SCENARIOS}

    named = [
        re.findall(r"`((?:test_|artifacts-|ledger-|hooks-|mail-|sends-)[\w-]+)`", row[-2])
        for row in rows
    ]
    assert len(named) >= 7
    assert all(named)
    assert {each for names in named for each in names} - known == set()


def _typed(commands: str, environment: dict[str, str]) -> str:
    """Type commands into a shell and return what they print."""
    with Terminal(environment) as terminal:
        return terminal.type(commands)
