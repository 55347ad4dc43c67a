"""Every guarantee on its page names tests that exist."""

import re
from pathlib import Path

import pytest

from tests.docs.reference import DOCS
from tests.house.tree import ROOT
from tests.torture.sends.scenarios import SCENARIOS

PAGES = sorted((DOCS / "guarantees").glob("*.md"))
TEST = re.compile(r"^(?:async )?def (test_\w+)", re.MULTILINE)
NAMED = re.compile(r"`((?:test_|sends-)[\w-]+)`")


@pytest.mark.parametrize("page", PAGES, ids=lambda path: path.name)
def test_every_sentence_of_a_guarantee_names_a_test_that_exists(page: Path) -> None:
    text = page.read_text()
    known = {
        found
        for path in (ROOT / "tests").rglob("test_*.py")
        for found in TEST.findall(path.read_text())
    }
    known |= {each.name for each in SCENARIOS}
    promises = [line for line in text.splitlines() if line.startswith("- ")]

    assert len(promises) > 10
    assert [line for line in promises if not NAMED.search(line)] == []
    assert set(NAMED.findall(text)) - known == set()
