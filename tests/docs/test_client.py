"""The code on the client's page works as it is printed there."""

import inspect
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.docs.page import blocks
from tests.docs.reference import DOCS
from tests.support.client_api import resources
from tests.support.databases import fresh_sqlite
from tests.support.running import Running, running

PAGE = DOCS / "client.md"


@pytest.fixture
def service(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Running]:
    """A service whose credentials the page's client finds."""
    for name in ("ONCEBOX_URL", "ONCEBOX_API_KEY", "ONCEBOX_API_KEY_FILE"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("ONCEBOX_DATA_DIR", str(tmp_path))
    with running(fresh_sqlite(tmp_path), tmp_path) as started:
        yield started


def test_the_page_runs_from_top_to_bottom(
    service: Running, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("IMAP_PASSWORD", "s3cret")
    start, source, worker, submitting, effects, looking, mailbox, errors = blocks(PAGE, "python")
    names: dict[str, Any] = {}
    try:
        _run(start, names)
        _run(source, names)
        first = service.accept("jobs", "in_1", body=b'{"invoice": "in_1"}').id
        _run(worker, names)
        second = service.accept("jobs", "in_2", body=b"{}").id
        _run(effects, names)
        _run(looking, names)
        _run(submitting, names)
        names["client"].sources.add("orders", "standard-webhooks")
        consumed = names["consume"]([("m-1", "{}"), ("", "{}"), ("m-1", "{}")])
        _run(mailbox.replace("imap.example.com", "127.0.0.1:1"), names)
        _run(errors, names)
    finally:
        names["client"].close()
    printed = capsys.readouterr().out.splitlines()

    assert printed[0] == "default"
    assert [line.split()[0] for line in printed if line.startswith("dlv_")] == [second, first]
    assert [line[-14:] for line in printed if line.startswith(first)] == ["['open-issue']"]
    assert len(names["charges"]) == 1
    assert consumed == ["m-1", "m-1"]
    assert printed[-2] in {"waiting False", "failing False"}
    assert printed[-1].startswith("not_found 404 ")


def test_the_reference_names_every_method() -> None:
    page = (DOCS / "reference" / "python.md").read_text()
    for resource, kind in resources().items():
        section = page.partition(f"\n### client.{resource}\n")[2].partition("\n#")[0]
        methods = {name for name, value in vars(kind).items() if inspect.isfunction(value)}
        public = {name for name in methods if not name.startswith("_")}
        assert set(re.findall(r"^\| `(\w+)` \|", section, re.MULTILINE)) == public


def _run(code: str, names: dict[str, Any]) -> None:
    """Run a block; a worker's loop ends when there is nothing left to do."""
    code = code.replace('work("jobs")', 'work("jobs", idle=0)')
    exec(compile(code, "client.md", "exec"), names)  # noqa: S102 - it is our own page
