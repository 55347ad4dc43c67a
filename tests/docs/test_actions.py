"""The code on the actions' page works as it is printed there."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.docs.page import blocks
from tests.docs.reference import DOCS
from tests.support.databases import fresh_sqlite
from tests.support.running import Running, running


@pytest.fixture
def service(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Running]:
    """A service whose credentials the page's client finds."""
    for name in ("ONCEBOX_URL", "ONCEBOX_API_KEY", "ONCEBOX_API_KEY_FILE"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("ONCEBOX_DATA_DIR", str(tmp_path))
    with running(fresh_sqlite(tmp_path), tmp_path) as started:
        yield started


def test_the_page_runs_from_top_to_bottom_and_again(
    service: Running, capsys: pytest.CaptureFixture[str]
) -> None:
    for _ in range(2):  # a program that starts anew does nothing twice
        names: dict[str, Any] = {}
        for code in blocks(DOCS / "actions.md", "python"):
            exec(compile(code, "actions.md", "exec"), names)  # noqa: S102 - it is our own page
        names["client"].close()
    first, second = capsys.readouterr().out.split("ask the site again; 0 left\n")

    assert first.splitlines() == ["{'account': 7}", "{'account': 7}", "7"]
    assert second.startswith(first)
    assert "wait for the mail that was sent" in second
