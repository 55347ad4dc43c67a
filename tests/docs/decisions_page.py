"""The page that lists all decisions."""

import re
from pathlib import Path

from tests.docs.markdown import page, table
from tests.house.tree import ROOT

FOLDER = ROOT / "docs" / "decisions"
_TITLE = re.compile(r"# (\d+)\. (.*)")
_INTRO = """\
Why things are as they are.
Each record says what was to be decided, what was chosen, and what it costs."""


def records() -> list[Path]:
    """Return the records, by their numbers."""
    return sorted(FOLDER.glob("[0-9]*.md"))


def decisions_page() -> str:
    """Return the page."""
    rows = []
    for path in records():
        found = _TITLE.match(path.read_text())
        assert found, path.name
        rows.append((found[1], f"[{found[2]}]({path.name})"))
    return page("Decisions", _INTRO, table(("", "decision"), rows))
