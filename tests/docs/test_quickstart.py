"""The quickstart of webhooks, read and typed from its first block to its last."""

import os
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.docs.page import Terminal, blocks
from tests.docs.reference import DOCS
from tests.project.tree import ROOT
from tests.support.ports import free_port
from tests.torture.processes import Child, Children

PAGE = DOCS / "quickstart-webhooks.md"
KEY = "72d3162e-cc78-11e3-81ab-4c9367dc0958"
ACCEPTED = '{"status":"accepted"}'


class Reader:
    """Who follows the page: a folder, and a port that nobody else of this machine uses."""

    def __init__(self, folder: Path, children: Children) -> None:
        self._folder = folder
        self._children = children
        self._port = str(free_port())
        self._environment = {
            **os.environ,
            "ONCEBOX_DATA_DIR": str(folder / "data"),
            "ONCEBOX_HTTP__PORT": self._port,
            "ONCEBOX_SMTP__PORT": "0",
        }

    def install(self, commands: str) -> None:
        """Type what is to be typed in the project's own folder, and keep the path it sets."""
        with Terminal(self._environment) as terminal:
            terminal.type(commands)
            self._environment["PATH"] = terminal.type('printf %s "$PATH"').strip()

    def write(self, program: str) -> None:
        """Save the handler."""
        (self._folder / "app.py").write_text(program)

    def serve(self, commands: str) -> Child:
        """Type everything, and leave the last command running."""
        *before, last = commands.splitlines()
        with self.terminal() as terminal:
            terminal.type("\n".join(before))
        command = ["bash", "-c", f"cd '{self._folder}' && exec {last}"]
        service = self._children.start("serve", command, environment=self._environment)
        service.wait_for("service_started", timeout=60)
        return service

    def terminal(self) -> Terminal:
        """Open a terminal in the folder."""
        return Terminal(self._environment, self._folder)

    def adapted(self, commands: str) -> str:
        """Return commands as they stand on the page, but for the port."""
        return commands.replace(":8808/", f":{self._port}/")


@pytest.fixture
def reader(tmp_path: Path) -> Iterator[Reader]:
    if not (ROOT / ".venv/bin/oncebox").exists():
        pytest.skip("the commands use the .venv that make creates")
    for program in ("curl", "openssl"):
        if shutil.which(program) is None:
            pytest.skip(f"the page needs {program}")
    with Children(tmp_path) as children:
        yield Reader(tmp_path, children)


def test_every_command_of_the_quickstart_does_what_the_page_says(reader: Reader) -> None:
    install, serve, send, inspect, replay, forge = blocks(PAGE, "sh")
    (program,) = blocks(PAGE, "python")
    done, held = (text.splitlines() for text in blocks(PAGE, "text"))

    reader.install(install)
    reader.write(program)
    service = reader.serve(serve)
    with reader.terminal() as terminal:
        answers = terminal.type(reader.adapted(send))
        service.wait_for("new issue: It works")
        inspected = terminal.type(inspect)
        replayed = terminal.type(replay)
        forged = terminal.type(forge)
    service.terminate()
    service.wait()

    assert answers.count(ACCEPTED) == 2
    assert shown(done, inspected)
    assert ACCEPTED in replayed
    assert shown(held, replayed)
    assert '"code":"signature_refused"' in forged
    assert "signature_mismatch" in forged
    assert service.text().count("new issue:") == 1


def test_the_handler_is_as_short_as_it_looks() -> None:
    (program,) = blocks(PAGE, "python")

    assert len([line for line in program.splitlines() if line]) <= 10


def shown(expected: list[str], printed: str) -> bool:
    """Say whether every line of a block was printed; an ellipsis stands for anything."""
    lines = printed.splitlines()
    return all(
        any(all(part in line for part in wanted.split("…")) for line in lines)
        for wanted in expected
    )
