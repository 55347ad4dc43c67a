"""The quickstart of agents, read and typed from its first block to its last."""

import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.docs.page import Terminal, blocks
from tests.docs.reference import DOCS
from tests.docs.test_quickstart import shown
from tests.docs.test_quickstart_inboxes import Reader
from tests.project.tree import ROOT
from tests.support.debian import program
from tests.torture.processes import Children

PAGE = DOCS / "quickstart-agents.md"
README = ROOT / "README.md"


@pytest.fixture
def reader(tmp_path: Path) -> Iterator[Reader]:
    if not (ROOT / ".venv/bin/oncebox").exists():
        pytest.skip("the commands use the .venv that make creates")
    program("swaks", "swaks")
    with Children(tmp_path) as children:
        yield Reader(tmp_path, children)


@pytest.mark.timeout(180)
def test_every_command_of_the_quickstart_does_what_the_page_says(reader: Reader) -> None:
    serve, *typed = blocks(PAGE, "sh")
    gone, raced, held, resent = blocks(PAGE, "text")
    (agent,) = blocks(PAGE, "python")

    service = reader.serve(serve)
    (reader.folder / "signup.py").write_text(agent)
    with Terminal(reader.environment, reader.folder) as terminal:
        # Who comes from the README has made its inbox, with the first key.
        for attempt in re.findall(r'attempt_id="(.+?)"', README.read_text()):
            terminal.type(reader.adapted(f"oncebox inbox new --attempt {attempt}"))
        key, send, crash, race, middle, resolve, again = (
            terminal.type(reader.adapted(commands)) for commands in typed
        )
    service.terminate()
    service.wait()

    assert key.strip() == send.strip() == ""
    assert shown(gone.splitlines(), crash)
    assert race.split() == raced.split()
    assert shown(held.splitlines(), middle)
    assert "pay\tdone" in resolve
    assert shown(resent.splitlines(), again)
