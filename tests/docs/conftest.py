"""Readers of pages."""

from pathlib import Path

import pytest

from tests.docs.reader import Reader


@pytest.fixture
def reader(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> Reader:
    """Somebody with a page, an empty ledger and a folder."""
    return Reader(capsys, monkeypatch, tmp_path)
