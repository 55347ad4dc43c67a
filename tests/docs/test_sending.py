"""The code on the page of sending works as it is printed there."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from oncebox.errors.sends import SendBudgetSpent, SendCoolingDown, SendKeyConflict
from oncebox.model.sends.email import Email
from oncebox.model.sends.send import AnswerStatus, OnUnknown
from tests.docs.page import blocks
from tests.docs.reference import DOCS
from tests.support.databases import fresh_sqlite
from tests.support.running import Running, running

PAGE = DOCS / "sending.md"


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
    mail = Email(sender="a@example.com", to="b@example.com", text="x")
    service.call(service.box.send(mail, key="so that somebody sends"))
    for _ in range(2):  # a program that starts anew sends nothing twice
        names: dict[str, Any] = {}
        for code in blocks(PAGE, "python"):
            exec(compile(code, "sending.md", "exec"), names)  # noqa: S102 - it is our own page
        names["client"].close()
    lines = capsys.readouterr().out.splitlines()
    progress = [line for line in lines if " done, " in line]
    first, batch, again, repeated = [line for line in lines if line and line not in progress]

    assert first.startswith("logged <")
    assert again == first
    assert batch.count("in_flight") == 3
    assert len(repeated.split(",")) == 3
    assert len(names["batch"].data) == 3
    assert progress[99] == "10000 done, 0 of them before"
    assert progress[-1] == "10000 done, 10000 of them before"


def test_the_page_names_every_answer_and_choice() -> None:
    text = PAGE.read_text()
    raised = {AnswerStatus.CONFLICT, AnswerStatus.COOLING_DOWN, AnswerStatus.OVER_BUDGET}

    assert {each for each in (*AnswerStatus, *OnUnknown) if f"`{each}`" not in text} == raised
    for refusal in (SendKeyConflict, SendCoolingDown, SendBudgetSpent):
        assert f"`{refusal.code}`" in text
