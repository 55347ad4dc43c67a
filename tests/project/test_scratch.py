"""Where the files of the tests lie."""

import tempfile
from pathlib import Path

import pytest

from tests.support import scratch


def test_a_folder_can_be_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(scratch.VARIABLE, str(tmp_path))

    assert scratch.scratch() == tmp_path


def test_too_little_memory_is_left_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(scratch.VARIABLE, raising=False)
    monkeypatch.setattr(scratch, "_ENOUGH", 2**60)

    assert scratch.scratch() == Path(tempfile.gettempdir())


def test_where_there_is_no_memory_a_disk_does(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv(scratch.VARIABLE, raising=False)
    monkeypatch.setattr(scratch, "_MEMORY", tmp_path / "nothing")

    assert scratch.scratch() == Path(tempfile.gettempdir())
