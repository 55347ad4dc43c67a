"""The index of the decision records, by topic."""

import re
from pathlib import Path

from tests.docs.markdown import page, table
from tests.project.tree import ROOT

FOLDER = ROOT / "docs" / "decisions"
#: the topics in the order of the index; every record names one of them
TOPICS = (
    "Architecture",
    "Database",
    "Deliveries and webhooks",
    "HTTP server and API",
    "Clients and agents",
    "Mail and inboxes",
    "Sends",
    "Testing and documentation",
)
_HEAD = re.compile(
    r"# (?P<number>\d+)\. (?P<title>Use [^\n]+)\n\n"
    r"- Date: (?P<date>\d{4}-\d{2}-\d{2})\n"
    r"- Status: (?P<status>accepted|superseded by \[\d+\]\(\d{4}-[a-z0-9-]+\.md\))\n"
    r"- Topic: (?P<topic>[^\n]+)\n\n"
)
_INTRO = """\
Why Oncebox is built the way it is.
Each record gives the context, the decision, the alternatives and the consequences of one choice.

A new record takes the next number, a title of the form "Use X for Y" and one of the topics below.
A changed decision gets a new record, and the old one the status `superseded by`."""


def records() -> list[Path]:
    """Return the records, sorted by number."""
    return sorted(FOLDER.glob("[0-9]*.md"))


def head(path: Path) -> dict[str, str]:
    """Return number, title, date, status and topic of a record."""
    found = _HEAD.match(path.read_text())
    assert found, path.name
    return found.groupdict()


def decisions_page() -> str:
    """Return the index."""
    rows: dict[str, list[tuple[str, ...]]] = {topic: [] for topic in TOPICS}
    for path in records():
        record = head(path)
        link = f"[{record['title']}]({path.name})"
        rows[record["topic"]].append((record["number"], link, record["date"], record["status"]))
    sections = [
        f"## {topic}\n\n{table(('', 'decision', 'date', 'status'), listed)}"
        for topic, listed in rows.items()
    ]
    return page("Decisions", _INTRO, "\n\n".join(sections))
