"""Checkpoints: nothing about them may fail a commit that has happened."""

from pathlib import Path
from threading import Thread

import apsw
import pytest

from oncebox.db import sqlite


def test_a_copy_that_cannot_be_started_fails_no_commit(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "oncebox.db"
    connection = apsw.Connection(str(path))
    checkpointer = sqlite.Checkpointer(path)

    def no_thread(_self: Thread) -> None:
        message = "can't start new thread"
        raise RuntimeError(message)

    with monkeypatch.context() as patch:
        patch.setattr(Thread, "start", no_thread)
        checkpointer.after_commit(connection, 1_000_000)

    checkpointer.after_commit(connection, 1_000_000)
    checkpointer.close()
    checkpointer.after_commit(connection, 0)
    connection.close()
    assert path.exists()


def test_one_process_copies_at_a_time(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "oncebox.db"
    connection = apsw.Connection(str(path))
    mine, theirs = sqlite.Checkpointer(path), sqlite.Checkpointer(path)
    started: list[Thread] = []

    def start(thread: Thread) -> None:
        started.append(thread)

    monkeypatch.setattr(Thread, "start", start)

    mine.after_commit(connection, 1_000_000)
    theirs.after_commit(connection, 1_000_000)

    connection.close()
    assert len(started) == 1
