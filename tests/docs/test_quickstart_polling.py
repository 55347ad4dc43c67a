"""The quickstart of polling, read and typed from its first block to its last."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.docs.page import Terminal, blocks
from tests.docs.reference import DOCS
from tests.docs.test_quickstart import shown
from tests.docs.test_quickstart_inboxes import Reader
from tests.project.tree import ROOT
from tests.support.ports import free_port
from tests.torture.processes import Children

PAGE = DOCS / "quickstart-polling.md"


@pytest.fixture
def children(tmp_path: Path) -> Iterator[Children]:
    if not (ROOT / ".venv/bin/oncebox").exists():
        pytest.skip("the commands use the .venv that make creates")
    with Children(tmp_path) as children:
        yield children


@pytest.mark.timeout(180)
def test_every_command_of_the_quickstart_does_what_the_page_says(
    tmp_path: Path, children: Children
) -> None:
    serve, api, *typed = blocks(PAGE, "sh")
    printed = [text.splitlines() for text in blocks(PAGE, "text")]
    reader, port = Reader(tmp_path, children), str(free_port())
    for name, program in zip(("poll.py", "crash.py"), blocks(PAGE, "python"), strict=True):
        (tmp_path / name).write_text(program.replace("8090", port))

    service = reader.serve(serve)
    with Terminal(reader.environment, reader.folder) as terminal:
        *made, listens = api.splitlines()
        terminal.type("\n".join(made))
        listens = f"cd {tmp_path} && exec {listens.replace('8090', port)}"
        listing = children.start("api", ["bash", "-c", listens], environment=reader.environment)
        listing.wait_for("Serving HTTP")
        polled, crashed, looked = [terminal.type(each) for each in typed]
    listing.terminate()
    service.terminate()
    service.wait()

    assert polled.strip().splitlines() == printed[0]
    assert crashed.strip().splitlines() == printed[1]
    assert shown(printed[2], looked)


def test_it_is_six_lines_of_code() -> None:
    program, *_ = blocks(PAGE, "python")

    assert len([line for line in program.splitlines() if line]) == 6
