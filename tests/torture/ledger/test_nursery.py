"""Agents are born quickly, live on their own, and their end is told."""

import signal
from pathlib import Path

from tests.torture.history import Kind, read_history
from tests.torture.ledger.books import is_locked, read_books
from tests.torture.ledger.nursery import Nursery
from tests.torture.processes import await_halt, is_paused

AGENT = "tests.torture.ledger.agent"


def test_an_agent_finishes_or_dies_where_it_should(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path / 'oncebox.db'}"
    history = tmp_path / "history"
    arguments = (url, str(history), str(tmp_path / "world"), "--count=4", "--kinds=once")
    with Nursery(tmp_path) as nursery:
        killed = nursery.start(AGENT, *arguments, faults="accept.committed:1:kill")
        assert killed.wait() == -signal.SIGKILL

        finisher = nursery.start(AGENT, *arguments, "--resend")
        finisher.wait_for("settled")
        assert finisher.wait() == 0

        hopeless = nursery.start(AGENT, "nonsense://", *arguments[1:])
        assert hopeless.wait() == 1
        assert "ConfigInvalid" in hopeless.text()

    assert any(event.kind is Kind.OK for event in read_history(history))
    assert read_books(url).faults == []


def test_whoever_is_left_is_ended(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path / 'oncebox.db'}"
    arguments = (url, str(tmp_path / "history"), str(tmp_path / "world"), "--count=4")
    with Nursery(tmp_path) as nursery:
        frozen = nursery.start(AGENT, *arguments, faults="worker.settled-not-committed:1:stop")
        await_halt([frozen.pid])
        assert is_paused(frozen.pid)
        assert is_locked(url)

    assert not frozen.running
    assert not is_paused(frozen.pid)
    assert not is_locked(url)
