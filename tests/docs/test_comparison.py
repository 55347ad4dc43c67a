"""The comparison is sourced: whoever is spoken of is quoted."""

import re

from tests.docs.reference import DOCS

PAGE = (DOCS / "comparison.md").read_text()


def test_whatever_is_said_of_a_neighbour_names_its_source() -> None:
    tables = PAGE.partition("## Webhooks")[2]
    rows = [line for line in tables.splitlines() if line.startswith("| ") and "---" not in line]
    spoken = [line for line in rows if line.split("|")[1].strip()]

    assert len(spoken) >= 14
    assert [line for line in spoken if "](https://" not in line.split("|")[2]] == []


def test_it_says_when_it_was_looked_at_and_what_is_missing_here() -> None:
    assert re.search(r"checked on \d+ \w+ 20\d\d", PAGE)
    assert "## What Oncebox does not have" in PAGE
