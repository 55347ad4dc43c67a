"""The keeper of a run's service: whatever ends it, the service ends too."""

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from oncebox.errors import ConfigInvalid
from oncebox.testing import server_lifetime, shared_server
from oncebox.testing.shared_server import OnceboxServer
from tests.torture.processes import until


@pytest.fixture
def folder(tmp_path: Path) -> Iterator[Path]:
    """The folder of a run that goes on."""
    folder = tmp_path / "run"
    with server_lifetime.hold_alive_lock(folder):
        yield folder


def _start(folder: Path) -> None:
    with (folder / server_lifetime.LOG_FILE).open("wb") as log:
        subprocess.run(
            [sys.executable, "-m", "oncebox.testing.server_lifetime", str(folder)],
            check=True,
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
        )


def _running(folder: Path) -> dict[int, list[str]]:
    """Return the processes that were told of a folder, and their words."""
    found = {}
    for each in Path("/proc").glob("[0-9]*"):
        try:
            words = (each / "cmdline").read_text().split("\0")
        except OSError:
            continue  # it has ended meanwhile
        if any(word.startswith(str(folder)) for word in words):
            found[int(each.name)] = words
    return found


def _await_nobody(folder: Path) -> None:
    for _ in until(60.0):
        if not _running(folder):
            return
    pytest.fail(f"these live on: {_running(folder)}")


def test_a_keeper_that_is_asked_to_end_ends_its_service(folder: Path) -> None:
    _start(folder)
    for _ in until(60.0):
        if (folder / server_lifetime.PID_FILE).exists():
            break
    (pid,) = [
        pid for pid, words in _running(folder).items() if "oncebox.testing.server_lifetime" in words
    ]
    os.kill(pid, signal.SIGTERM)

    _await_nobody(folder)


def test_a_keeper_that_fails_ends_its_service(folder: Path) -> None:
    (folder / server_lifetime.PID_FILE).mkdir()  # as on a disk that is full, it cannot be written
    _start(folder)

    _await_nobody(folder)


def test_a_service_that_greets_before_its_number_is_known_is_waited_for(
    folder: Path, oncebox_server: OnceboxServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    (folder / server_lifetime.LOG_FILE).touch()
    written = {"url": oncebox_server.url, "key": oncebox_server.api_key}
    (folder / "credentials.json").write_text(json.dumps(written))
    greeting = json.dumps({"credentials": str(folder / "credentials.json")})
    (folder / server_lifetime.GREETING).write_text(f"{greeting}\n")
    monkeypatch.setattr(shared_server, "_START_TIMEOUT", 0.2)

    with (
        pytest.raises(ConfigInvalid, match="no service could be started"),
        shared_server.shared_server(folder),
    ):
        pass
