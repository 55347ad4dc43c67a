"""The quickstart of inboxes, read and typed from its first block to its last."""

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.docs.page import Terminal, blocks
from tests.docs.reference import DOCS
from tests.docs.test_quickstart import shown
from tests.project.tree import ROOT
from tests.support.debian import program
from tests.support.ports import free_port
from tests.torture.processes import Child, Children

PAGE = DOCS / "quickstart-inboxes.md"


class Reader:
    """Who follows the page: a folder, and ports that nobody else of this machine uses."""

    def __init__(self, folder: Path, children: Children) -> None:
        self.folder = folder
        self._children = children
        self._smtp, self._http = str(free_port()), str(free_port())
        self.environment = {
            **os.environ,
            "ONCEBOX_DATA_DIR": str(folder / "data"),
            "ONCEBOX_HTTP__PORT": self._http,
            "ONCEBOX_SMTP__PORT": self._smtp,
        }

    def serve(self, commands: str) -> Child:
        """Type everything, keep the path it sets, and leave the last command running."""
        *before, last = commands.splitlines()
        with Terminal(self.environment) as terminal:
            terminal.type("\n".join(before))
            self.environment["PATH"] = terminal.type('printf %s "$PATH"').strip()
        command = ["bash", "-c", f"exec {last}"]
        service = self._children.start("serve", command, environment=self.environment)
        service.wait_for("service_started", timeout=60)
        return service

    def adapted(self, commands: str) -> str:
        """Return commands as they stand on the page, but for the ports."""
        return commands.replace(":2525", f":{self._smtp}").replace(":8808", f":{self._http}")


@pytest.fixture
def reader(tmp_path: Path) -> Iterator[Reader]:
    if not (ROOT / ".venv/bin/oncebox").exists():
        pytest.skip("the commands use the .venv that make creates")
    program("swaks", "swaks")
    with Children(tmp_path) as children:
        yield Reader(tmp_path, children)


def test_every_command_of_the_quickstart_does_what_the_page_says(reader: Reader) -> None:
    serve, make, send, read, follow = blocks(PAGE, "sh")
    (printed,) = blocks(PAGE, "text")
    (example,) = blocks(PAGE, "python")

    service = reader.serve(serve)
    with Terminal(reader.environment, reader.folder) as terminal:
        made = terminal.type(make)
        terminal.type(reader.adapted(send))
        listed = terminal.type(read)
        followed = terminal.type(follow)
        (reader.folder / "example.py").write_text(example)
        by_program = terminal.type("python example.py")
    service.terminate()
    service.wait()

    assert "@oncebox.test" in made
    assert shown(printed.splitlines(), listed)
    assert followed.count("message.received") == 4
    assert by_program.split() == ["1", "shop.example", "1", "2", "shop.example", "0"]
