"""`oncebox worker`: greets, works, restarts what died, and stops without losing anything."""

import os
import signal
import socket
import time
import urllib.request
from collections.abc import Collection, Iterator
from pathlib import Path

import pytest

from oncebox.box import Oncebox
from oncebox.cli.files import database_location
from oncebox.model.deliveries.inspection import DeliveryRecord
from tests.cli.workers import Workers, is_gone, kids, memory_limit
from tests.torture.processes import Children, TooLate, until

PLAIN = "tests.cli.apps.plain:box"


@pytest.fixture
def workers(tmp_path: Path) -> Iterator[Workers]:
    with Children(tmp_path) as children:
        yield Workers(tmp_path, children)


def are_done(found: list[DeliveryRecord]) -> bool:
    return all(each.state == "done" for each in found)


def wait_for_kids(parent: int, number: int, *, other_than: Collection[int] = ()) -> list[int]:
    for _ in until(20.0):
        found = [pid for pid in kids(parent) if pid not in other_than]
        if len(found) == number:
            return found
    message = f"there are {kids(parent)}"
    raise TooLate(message)


def test_it_says_where_its_data_lies_what_it_handles_and_what_to_try(
    workers: Workers, tmp_path: Path
) -> None:
    worker = workers.start(PLAIN)
    worker.wait_for("worker_started")
    lines = dict(line.split(":", 1) for line in worker.text().splitlines() if line[:1] in "dst")

    assert lines["data"].strip() == str(tmp_path / "data" / "oncebox.db")
    assert lines["sources"].strip() == "shop"
    assert "delivery accept shop --key first --type crash --body" in lines["try"]
    assert f"--data-dir {tmp_path / 'data'}" in lines["try"]


@pytest.mark.parametrize("url", ["ann:hidden@db/name", "db/name?user=ann&password=hidden"])
def test_it_says_where_its_data_lies_without_the_password(url: str) -> None:
    told = database_location(Oncebox(f"postgresql://{url}").settings)

    assert "db/name" in told
    assert "hidden" not in told


def test_several_processes_share_the_work_and_greet_once(workers: Workers) -> None:
    worker = workers.start(PLAIN, "--processes", "2")
    wait_for_kids(worker.pid, 2)
    workers.accept(["quick"] * 20)
    workers.wait_until(are_done, timeout=20)
    worker.wait_for('"process": 0')  # the one who greets may be the slower to start
    worker.wait_for('"process": 1')

    assert sorted(workers.noted()) == sorted(f"quick-{number}" for number in range(20))
    assert worker.text().count("sources:") == 1


def test_a_child_that_dies_is_started_again(workers: Workers) -> None:
    worker = workers.start(PLAIN)
    (first,) = wait_for_kids(worker.pid, 1)
    worker.wait_for("worker_started")
    os.kill(first, signal.SIGKILL)
    (second,) = wait_for_kids(worker.pid, 1, other_than={first})
    workers.accept(["quick"])
    workers.wait_until(are_done, timeout=20)

    assert second != first
    assert worker.wait_for("worker_died")


def test_asked_to_stop_it_lets_a_handler_finish(workers: Workers) -> None:
    workers.accept(["slow"], body="1.5")
    worker = workers.start(PLAIN)
    workers.wait_for_note("begin slow-0")
    worker.terminate()

    assert worker.wait() == 0
    assert workers.noted() == ["begin slow-0", "end slow-0"]
    assert [each.state for each in workers.facts()] == ["done"]


def test_asked_to_stop_it_gives_back_what_takes_too_long(workers: Workers) -> None:
    workers.set("ONCEBOX_WORKER__STOP_WITHIN", "0.3")
    workers.accept(["slow"], body="600")
    worker = workers.start(PLAIN)
    workers.wait_for_note("begin slow-0")
    worker.terminate()

    assert worker.wait() == 0
    (given_back,) = workers.facts()
    assert (given_back.state, given_back.tries) == ("received", 0)


def test_asked_twice_it_ends_at_once(workers: Workers) -> None:
    workers.accept(["slow"], body="600")
    worker = workers.start(PLAIN)
    workers.wait_for_note("begin slow-0")
    began = time.monotonic()
    worker.terminate()
    time.sleep(0.2)
    worker.terminate()

    assert worker.wait() == 0
    assert time.monotonic() - began < 5


def test_a_terminals_interrupt_stops_it_too(workers: Workers) -> None:
    worker = workers.start(PLAIN)
    worker.wait_for("worker_started")
    os.kill(worker.pid, signal.SIGINT)

    assert worker.wait() == 0
    assert "worker_stopped" in worker.text()


def test_a_killed_parent_takes_its_children_along(workers: Workers) -> None:
    worker = workers.start(PLAIN, "--processes", "2")
    children = wait_for_kids(worker.pid, 2)
    worker.wait_for("worker_started")
    worker.kill()
    for _ in until(20.0):
        if all(map(is_gone, children)):
            return
    pytest.fail(f"some of {children} live on")


def test_children_have_a_bounded_memory(workers: Workers) -> None:
    workers.set("ONCEBOX_WORKER__MEMORY_LIMIT", "1500")
    worker = workers.start(PLAIN)
    worker.wait_for("worker_started")
    (child,) = kids(worker.pid)

    assert memory_limit(child) == 1500 * 1024 * 1024


def test_each_process_serves_its_own_metrics(workers: Workers) -> None:
    port = _two_free_ports()
    worker = workers.start(PLAIN, "--processes", "2", "--metrics", f"127.0.0.1:{port}")
    wait_for_kids(worker.pid, 2)
    for _ in until(20.0):
        if worker.text().count("worker_started") == 2:
            break
    pages = [
        urllib.request.urlopen(f"http://127.0.0.1:{each}/metrics").read()
        for each in (port, port + 1)
    ]

    assert all(b"oncebox_in_flight 0.0" in page for page in pages)


def _two_free_ports() -> int:
    while True:
        with socket.socket() as first, socket.socket() as second:
            first.bind(("127.0.0.1", 0))
            port = int(first.getsockname()[1])
            try:
                second.bind(("127.0.0.1", port + 1))
            except OSError:
                continue
            return port


@pytest.mark.parametrize(
    ("target", "words"),
    [
        ("nothing.here:box", "there is no module 'nothing'"),
        ("tests.cli.apps.nothing:box", "there is no module 'tests.cli.apps.nothing'"),
        ("tests.cli.apps.plain:nothing", "has no attribute 'nothing'"),
        ("tests.cli.apps.plain:not_a_box", "is a object, not an Oncebox"),
        ("tests.cli.apps.plain:empty", "has no handlers"),
        ("tests.cli.apps.broken:box", "broken.py:3: ValueError: broken on purpose"),
    ],
)
def test_a_box_that_cannot_be_found_is_told_once_and_not_tried_again(
    workers: Workers, target: str, words: str
) -> None:
    worker = workers.start(target)

    assert worker.wait() == 1
    assert words in worker.text()
    assert worker.text().startswith("error: config_invalid: ")
    assert worker.text().count("\n") == 1


@pytest.mark.parametrize("arguments", [["app"], ["app:"], [":box"], [PLAIN, "--metrics", "9464"]])
def test_misuse_is_exit_code_2(workers: Workers, arguments: list[str]) -> None:
    worker = workers.start(*arguments)

    assert worker.wait() == 2
    assert worker.text().startswith("error: usage: ")


def test_a_port_that_is_taken_is_told(workers: Workers) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        worker = workers.start(PLAIN, "--metrics", f"127.0.0.1:{taken.getsockname()[1]}")

        assert worker.wait() == 1
    assert "metrics cannot be served" in worker.text()


def test_options_reach_a_box_that_reads_its_settings_at_import(
    workers: Workers, tmp_path: Path
) -> None:
    worker = workers.start(PLAIN, "--data-dir", str(tmp_path / "elsewhere"), "--json")
    line = worker.wait_for('"try"')

    assert str(tmp_path / "elsewhere" / "oncebox.db") in line
