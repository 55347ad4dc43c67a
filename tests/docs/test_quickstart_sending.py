"""The quickstart of sending, read and typed from its first block to its last."""

import re
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

PAGE = DOCS / "quickstart-sending.md"


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
    serve, hello, relay, *typed = blocks(PAGE, "sh")
    logged, *printed = [text.splitlines() for text in blocks(PAGE, "text")]
    reader, port = Reader(tmp_path, children), str(free_port())
    for name, program in zip(("hello.py", "order.py"), blocks(PAGE, "python"), strict=True):
        (tmp_path / name).write_text(program)

    service = reader.serve(serve)
    with Terminal(reader.environment, reader.folder) as terminal:
        first = terminal.type(hello)
        command = ["bash", "-c", f"exec {relay.strip()} --port {port}"]
        server = children.start("relay", command, environment=reader.environment)
        server.wait_for("listening at")
        answers = [terminal.type(each.replace("2526", port)) for each in typed]
    service.terminate()
    service.wait()
    taken = server.text().count("accepted: ")
    server.terminate()

    assert shown(logged, first)
    assert first.splitlines()[:2] == ["logged", "logged"]
    way, sent, lost, explained, resolved = answers
    assert shown(printed[0], way)
    # Two of the processes print at the same time, so their lines may be mixed.
    assert re.findall("sent|duplicate", sent) == ["sent", "duplicate", "duplicate"]
    assert len(set(re.findall("<[^>]+>", sent))) == 1
    assert [line.split()[0] for line in lost.split("\n") if line] == ["unknown", "unknown"]
    assert shown(printed[3], explained)
    assert shown(printed[4], resolved)
    assert taken == 2


def test_it_is_six_lines_from_install_to_a_mail_that_is_sent_once() -> None:
    serve, program = blocks(PAGE, "sh")[0], blocks(PAGE, "python")[0]

    lines = [line for line in (*serve.splitlines(), *program.splitlines()) if line]
    assert len(lines) == 6
