"""The code on the page about waiting works as it is printed there."""

import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from oncebox.client.sync import Client
from oncebox.model.inboxes.wait_filter import MISMATCH_REASONS
from tests.docs.page import blocks
from tests.docs.reference import DOCS
from tests.support.databases import fresh_sqlite
from tests.support.finds import code
from tests.support.running import Running, running
from tests.support.waits import Arrivals

PAGE = DOCS / "waiting.md"
EXPORT = (
    "From: a@b.example\r\nSubject: Your export is ready\r\n"
    "Content-Type: text/html\r\n\r\n<p>Done.\r\n"
)


@pytest.fixture
def service(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Running]:
    """A service whose credentials the page's client finds."""
    for name in ("ONCEBOX_URL", "ONCEBOX_API_KEY", "ONCEBOX_API_KEY_FILE"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("ONCEBOX_DATA_DIR", str(tmp_path))
    with running(fresh_sqlite(tmp_path), tmp_path) as started:
        yield started


def bring(service: Running, attempt: str, value: str) -> None:
    """Let a code or the message come, as soon as the attempt has an inbox."""
    desk = Arrivals(service.box)
    with Client(service.url, service.key) as client:
        inbox = client.inboxes.create(attempt_id=attempt)
        if value == EXPORT:
            service.call(desk.file(inbox.id, EXPORT.encode()))
        else:
            service.call(desk.bring(inbox.id, code(value, sender="no-reply@shop.example")))


def test_the_page_runs_from_top_to_bottom(
    service: Running, capsys: pytest.CaptureFixture[str]
) -> None:
    names: dict[str, Any] = {}
    arrivals = [
        ("signup-42", "123456"), ("signup-42", "654321"), ("signup-42", EXPORT), None,
        ("signup-43", "111111"),
    ]  # fmt: skip
    for text, arrival in zip(blocks(PAGE, "python"), arrivals, strict=True):
        timer = threading.Timer(0.3, bring, args=(service, *arrival)) if arrival else None
        if timer:
            timer.start()
            if arrival == arrivals[-1]:
                timer.join()
        exec(compile(text, PAGE.name, "exec"), names)  # noqa: S102 - it is our own page
        if timer:
            timer.join()
    names["client"].close()
    out = capsys.readouterr().out.splitlines()

    assert out.pop(2) == "Your export is ready 9 []"
    assert out[:4] == [
        "6 shop.example", "2", "True", "no matching code arrived within 1 s (sender bank.example)",
    ]  # fmt: skip
    assert out[4].endswith(
        "(active, attempt signup-43): 1 message inspected, last number 1; mail arrived for it"
    )
    assert out[5].endswith("(number 1): sender_not_allowed (shop.example; allowed: bank.example)")


def test_every_reason_is_explained() -> None:
    page = PAGE.read_text("utf-8")

    assert [code for code in MISMATCH_REASONS if f"`{code}`" not in page] == []
