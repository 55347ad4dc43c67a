"""The quickstart of polling, read and typed from its first block to its last."""

import asyncio
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from oncebox import Oncebox, Poller
from tests.docs.page import Terminal, blocks
from tests.docs.reference import DOCS
from tests.docs.test_quickstart import shown
from tests.docs.test_quickstart_inboxes import Reader
from tests.project.tree import ROOT
from tests.support.databases import Place
from tests.support.ports import free_port
from tests.support.program import settings
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


def test_the_loop_of_the_guide_handles_each_message_once(place: Place) -> None:
    (program,) = blocks(DOCS / "polling.md", "python")
    names: dict[str, Any] = {}
    exec(program, names)  # noqa: S102 - it is ours
    seen: list[str] = []

    async def run() -> None:
        async with Oncebox(settings=settings(place)) as box:
            with pytest.MonkeyPatch.context() as patch:
                patch.setitem(names, "AsyncClient", box.client)
                patch.setitem(names, "Poller", partial(Poller, interval=0.05, within=60))
                await names["main"](list_messages, handle)

    def list_messages(_cursor: Any) -> Any:
        return [{"id": "a"}, {"id": "b"}]

    async def handle(message: Any) -> None:
        seen.append(message["id"])
        if len(seen) == 2:
            raise _Enough

    with pytest.raises(_Enough):
        asyncio.run(run())
    assert seen == ["a", "b"]


class _Enough(Exception):
    """Ends the loop."""


def test_it_is_six_lines_of_code() -> None:
    program, *_ = blocks(PAGE, "python")

    assert len([line for line in program.splitlines() if line]) == 6
