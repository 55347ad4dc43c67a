"""The code on the page about testing works as it is printed there; Resend's page says it all."""

from typing import Any

import pytest

from oncebox.model.evidence import Told
from tests.docs.page import blocks
from tests.docs.reference import DOCS


def test_the_page_runs_from_top_to_bottom(capsys: pytest.CaptureFixture[str]) -> None:
    names: dict[str, Any] = {}
    for code in blocks(DOCS / "testing.md", "python"):
        exec(compile(code, "testing.md", "exec"), names)  # noqa: S102 - it is our own page

    assert capsys.readouterr().out.splitlines() == [
        "lost, and taken 1 time",
        "lost",
        "200",
        "200",
        "taken 1 time",
    ]


def test_resends_page_names_every_word_in_the_order_of_their_strength() -> None:
    text = (DOCS / "resend.md").read_text()
    places = [text.index(f"| `{each}` |") for each in Told if each is not Told.ACCEPTED]

    assert places == sorted(places)
