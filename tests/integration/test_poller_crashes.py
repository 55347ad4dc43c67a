"""A program that is killed at every point of its polling loop: no message is lost or done twice."""

import sys
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest

from oncebox import Client
from tests.support.databases import Place
from tests.support.running import Running, running
from tests.torture.processes import Children

IDS = ["m0", "m1", "m2", "m3"]
#: polls until all messages are done; each body is a line in a file
PROGRAM = """
import os, signal, sys

from oncebox import Client, Poller

url, key, path, victim = sys.argv[1:]
ids = "m0 m1 m2 m3".split()
quiet = 0


def list_fn(cursor):
    global quiet
    quiet += 1
    if quiet == 3:
        poller.stop()
    begin = cursor or 0
    return [{"id": each} for each in ids[begin : begin + 2]], min(begin + 2, len(ids))


with Client(url, key) as client:
    poller = Poller(list_fn, mailbox="support", store=client, lease=1.0, interval=0.05, within=60)
    for message in poller:
        quiet = 0
        with open(path, "a") as file:
            print(message.key, message.delivery.tries, file=file, flush=True)
        if message.key == victim:
            os.kill(os.getpid(), signal.SIGKILL)
print("ended")
"""


@pytest.fixture
def service(place: Place, tmp_path: Path) -> Iterator[Running]:
    with running(place, tmp_path / "data") as started:
        yield started


def run(service: Running, children: Children, *, victim: str = "", faults: str = "") -> int:
    """Run the program once; return its exit code."""
    folder = service.folder.parent
    (folder / "program.py").write_text(PROGRAM)
    command = [sys.executable, str(folder / "program.py"), service.url, service.key]
    child = children.start(
        "program",
        [*command, str(folder / "bodies"), victim],
        environment={"ONCEBOX_FAULTS": faults},
    )
    return child.wait(timeout=90)


def bodies(service: Running) -> list[tuple[str, int]]:
    """Return the messages whose bodies were run, and the tries."""
    lines = (service.folder.parent / "bodies").read_text().splitlines()
    return [(key, int(tries)) for key, tries in (line.split() for line in lines)]


@pytest.mark.timeout(180)
@pytest.mark.parametrize(
    ("victim", "faults", "repeated"),
    [
        pytest.param("m1", "", ["m1"], id="inside-the-body"),
        pytest.param("", "poller.listed:2:kill", [], id="listed-not-stored"),
        pytest.param("", "poller.body-done:3:kill", ["m2"], id="body-done-not-confirmed"),
        pytest.param("", "poller.confirmed:3:kill", [], id="confirmed"),
    ],
)
def test_a_message_is_handed_out_again_only_if_it_was_not_confirmed(
    service: Running, tmp_path: Path, victim: str, faults: str, repeated: list[str]
) -> None:
    with Children(tmp_path) as children:
        assert run(service, children, victim=victim, faults=faults) == -9
        assert run(service, children) == 0

    counted = Counter(key for key, _ in bodies(service))
    assert set(counted) == set(IDS)
    assert [key for key, count in counted.items() if count > 1] == repeated
    assert max(counted.values()) <= 2
    with Client(service.url, service.key) as client:
        found = list(client.deliveries.list(source="support"))
    assert {(each.key, str(each.state)) for each in found} == {(each, "done") for each in IDS}
    assert {each.key for each in found if each.tries == 2} == set(repeated)
