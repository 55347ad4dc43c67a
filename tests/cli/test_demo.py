"""`oncebox demo`: tells the same story every time, checks itself, and leaves nothing behind."""

import json
import os
import pty
import re
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from urllib.parse import urlsplit

import pytest

from oncebox.cli.demo.command import TextReporter, verdict
from oncebox.cli.demo.scenes import SCENES, Result
from tests.cli.ledger import Ledger
from tests.docs.page import blocks
from tests.docs.reference import DOCS
from tests.project.tree import ROOT
from tests.torture.processes import Child, Children, until

pytestmark = pytest.mark.timeout(200)
#: long enough for a machine that does ten other things
WITHIN = 150.0
COLOUR = re.compile(r"\x1b\[[0-9;]*3[0-9]")
#: a worker that forgets its journal
FORGETFUL = """
import asyncio, sys
if "worker" in sys.orig_argv:
    from oncebox.workers.deliveries.once import Once
    async def do(self, name, function, *args, **options):
        return await asyncio.to_thread(function, *args)
    Once.do = do
"""
#: a service that cannot start
ABSENT = """
import sys
if "serve" in sys.orig_argv:
    sys.exit("no service today")
"""


@dataclass
class House:
    """Where somebody plays the demo who has an Oncebox of their own."""

    folder: Path
    children: Children
    environment: dict[str, str] = field(init=False)

    def __post_init__(self) -> None:
        self.temporary = self.folder / "temporary"
        self.temporary.mkdir()
        (self.folder / "oncebox.toml").write_text("nothing that can be read")
        self.environment = {
            "TMPDIR": str(self.temporary),
            "ONCEBOX_DATA_DIR": str(self.folder / "own"),
            "ONCEBOX_DATABASE_URL": "postgresql://nobody@127.0.0.1:1/none",
            "ONCEBOX_MASTER_KEY": "short",
            "ONCEBOX_HTTP__PORT": "nonsense",
        }

    def broken(self, how: str) -> dict[str, str]:
        """Return an environment in which all processes of Python begin with a few lines more."""
        (self.folder / "sitecustomize.py").write_text(how)
        return {"PYTHONPATH": str(self.folder)}

    def start(self, *arguments: str, environment: Mapping[str, str] | None = None) -> Child:
        command = (
            f"cd '{self.folder}' && exec {sys.executable} -m oncebox demo {' '.join(arguments)}"
        )
        return self.children.start(
            "demo", ["bash", "-c", command], environment={**self.environment, **(environment or {})}
        )

    def left(self) -> list[str]:
        """Return what is still there: processes that live in the folder, and files."""
        return [
            *_lodgers(self.temporary),
            *(each.name for each in self.temporary.iterdir()),
            *(each.name for each in self.folder.glob("own")),
        ]


@pytest.fixture
def house(tmp_path: Path) -> Iterator[House]:
    with Children(tmp_path) as children:
        yield House(tmp_path, children)


def test_it_prints_what_the_pages_say_and_leaves_nothing_behind(house: House) -> None:
    """Beside somebody's own settings, none of which it reads."""
    demo = house.start()

    assert demo.wait(timeout=WITHIN) == 0
    assert _told_on_pages() == {demo.text()}
    assert house.left() == []


def test_interrupted_in_the_middle_it_leaves_nothing_behind(house: House) -> None:
    demo = house.start()
    demo.wait_for("2. ", timeout=WITHIN)
    (credentials,) = house.temporary.glob("*/credentials.json")
    service = urlsplit(json.loads(credentials.read_text())["url"])
    os.kill(demo.pid, signal.SIGINT)

    assert demo.wait(timeout=WITHIN) == 130
    assert "interrupted: all processes are ended, the folder is removed" in demo.text()
    assert "Traceback" not in demo.text()
    assert house.left() == []
    with pytest.raises(ConnectionRefusedError):
        socket.create_connection((str(service.hostname), int(service.port or 0)))


def test_killed_itself_it_takes_every_process_along(house: House) -> None:
    demo = house.start("code")
    demo.wait_for("1. ", timeout=WITHIN)
    demo.kill()

    assert _lodgers(house.temporary) == []


def test_a_broken_promise_fails_the_command_and_can_be_looked_into(
    house: House, bare: Ledger, monkeypatch: pytest.MonkeyPatch
) -> None:
    demo = house.start("worker", "--json", "--keep", environment=house.broken(FORGETFUL))

    assert demo.wait(timeout=WITHIN) == 1
    told = json.loads(demo.text())
    (scene,) = told["scenes"]
    failed = [each for each in scene["oncebox"]["checks"] if not each["held"]]
    assert told["held"] is scene["held"] is False
    assert failed == [{"what": "charged", "counted": 2, "promised": 1, "held": False}]
    assert scene["naive"]["figures"] == {"charged": 2, "shipped": 1}
    assert _lodgers(house.temporary) == []

    monkeypatch.chdir(told["folder"])
    monkeypatch.delenv("ONCEBOX_MASTER_KEY")
    kept = bare.type("delivery", "inspect", "evt_order-1", "--data-dir", told["folder"])
    assert ["state", "done", "handled"] in kept.rows


def test_a_broken_promise_has_a_line_of_its_own(capsys: pytest.CaptureFixture[str]) -> None:
    naive = Result("charged 2 times", "runs it again", {"charged": 2})
    ours = Result("charged 2 times", "kill -9", checks={"charged": (2, 1), "shipped": (1, 1)})
    TextReporter(SCENES).show(ours)

    assert "\n   BROKEN   charged: 2, promised was 1\n" in capsys.readouterr().out
    assert verdict([(SCENES[3], naive, ours)]) == "1 of 2 checks did not hold: a promise is broken."


def test_a_story_that_breaks_off_says_why_and_leaves_nothing_behind(house: House) -> None:
    demo = house.start("code", environment=house.broken(ABSENT))

    assert demo.wait(timeout=WITHIN) == 1
    (line,) = [each for each in demo.text().splitlines() if each.startswith("error:")]
    assert line.startswith("error: demo_failed: ")
    assert line.endswith("no service today")
    assert house.left() == []


def test_a_terminal_is_shown_a_table_without_colours_if_wished(house: House) -> None:
    shown = _on_a_terminal("demo", "code", environment={**house.environment, "NO_COLOR": "1"})

    assert not COLOUR.search(shown)
    assert "What happens" in shown
    assert re.search(r"│ 1\. A code is .*│ 3 codes handed on +│ 1 message, 1 code", shown)
    assert shown.rstrip().endswith("the service and its folder are removed.")
    assert house.left() == []


@pytest.mark.parametrize("arguments", [["no-such"], ["--data-dir", "x"], ["--database", "x"]])
def test_misuse_is_told(bare: Ledger, arguments: list[str]) -> None:
    answer = bare.type("demo", *arguments)

    assert answer.code == 2
    assert answer.err.startswith("error: usage: ")


def _told_on_pages() -> set[str]:
    """Return the story as it stands on every page that has it."""
    pages = [
        text for page in (DOCS / "demo.md", ROOT / "README.md") for text in blocks(page, "text")
    ]
    return {text for text in pages if SCENES[0].title in text}


def _on_a_terminal(*arguments: str, environment: Mapping[str, str]) -> str:
    """Run a command on a terminal of 80 columns; return all that it wrote."""
    ours, theirs = pty.openpty()
    size = {"COLUMNS": "80", "LINES": "40", "TERM": "xterm-256color"}
    process = subprocess.Popen(
        [sys.executable, "-m", "oncebox", *arguments],
        stdin=subprocess.DEVNULL,
        stdout=theirs,
        env={**os.environ, **size, **environment},
    )
    os.close(theirs)
    output = b""
    try:
        while chunk := os.read(ours, 65536):
            output += chunk
    except OSError:  # Linux says EIO when the other side has closed
        pass
    finally:
        os.close(ours)
        process.wait()
    assert process.returncode == 0
    return output.decode()


def _lodgers(folder: Path) -> list[str]:
    """Return processes that live below a folder, removed or not, and do not end by themselves."""
    found: list[str] = []
    for _ in until(30.0):
        found = [f"process {each.name}" for each in Path("/proc").iterdir() if _lives(each, folder)]
        if not found:
            break
    return found


def _lives(process: Path, folder: Path) -> bool:
    try:
        return str((process / "cwd").readlink()).startswith(str(folder))
    except OSError:  # it has ended, or is none
        return False
