"""The code on the inboxes' page works as it is printed there."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from oncebox.client.sync import Client
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


def test_the_page_runs_from_top_to_bottom(
    service: Running, capsys: pytest.CaptureFixture[str]
) -> None:
    names: dict[str, Any] = {}
    for code in blocks(DOCS / "inboxes.md", "python")[:2]:
        exec(compile(code, "inboxes.md", "exec"), names)  # noqa: S102 - it is our own page
    client: Client = names["client"]
    found = list(client.inboxes.list())
    client.close()

    assert capsys.readouterr().out.strip() == found[1].email
    assert [each.attempt_id for each in found] == ["login-7", "signup-4821"]
    assert found[0].policy.senders == ["github.com", "githubstatus.com"]
