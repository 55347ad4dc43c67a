"""Every guarantee on its page names tests that exist."""

import re
from pathlib import Path

import pytest

from tests.docs.reference import DOCS
from tests.project.tree import ROOT
from tests.torture.artifacts import scenarios as artifacts
from tests.torture.hooks import scenarios as hooks
from tests.torture.ledger import scenarios as ledger
from tests.torture.mail import scenarios as mail
from tests.torture.mailboxes import scenarios as mailboxes
from tests.torture.sends import scenarios as sends

PAGES = sorted((DOCS / "guarantees").glob("*.md"))
TEST = re.compile(r"^(?:async )?def (test_\w+)", re.MULTILINE)
NAMED = re.compile(r"`((?:test_|(?:artifacts|hooks|ledger|mail|mailboxes|sends)-)[\w-]+)`")
ROOMS = (artifacts, hooks, ledger, mail, mailboxes, sends)


@pytest.mark.parametrize("page", PAGES, ids=lambda path: path.name)
def test_every_sentence_of_a_guarantee_names_a_test_that_exists(page: Path) -> None:
    text = page.read_text()
    known = {
        found
        for path in (ROOT / "tests").rglob("test_*.py")
        for found in TEST.findall(path.read_text())
    }
    known |= {each.name for room in ROOMS for each in room.SCENARIOS}
    promises = [line for line in text.splitlines() if line.startswith("- ")]

    assert len(promises) > 10
    assert [line for line in promises if not NAMED.search(line)] == []
    assert set(NAMED.findall(text)) - known == set()
