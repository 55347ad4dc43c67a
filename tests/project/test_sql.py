"""How the SQL pages are written: every query has a name and a sentence, and none asks the time."""

import re
from itertools import takewhile
from pathlib import Path

import pytest

from tests.project.tree import name, pages

QUERY = re.compile(r"^-- name: ", re.MULTILINE)
# Lines that speak to the loader, not to the reader.
DIRECTIVE = re.compile(r"-- [a-z]+:")
CLOCK = re.compile(
    r"\bnow\s*\(|'now'|\bcurrent_(?:timestamp|time|date)\b|\blocaltime(?:stamp)?\b"
    r"|\b(?:clock|statement|transaction)_timestamp\b|\bunixepoch\s*\(",
    re.IGNORECASE,
)


def test_every_query_has_a_name_and_a_sentence() -> None:
    complaints = [
        f"{name(page)}: {complaint}"
        for page in pages()
        for complaint in (
            _migration_complaints(page.read_text())
            if _is_migration(page)
            else _page_complaints(page.read_text())
        )
    ]

    assert complaints == []


def test_no_query_asks_the_time() -> None:
    """Time comes in as a parameter, so that tests own it and all hosts agree."""
    askers = [name(page) for page in pages() if _asks_the_time(page.read_text())]

    assert askers == []


@pytest.mark.parametrize(
    ("page", "complaints"),
    [
        ("-- name: one\n-- Read one.\nSELECT 1;\n", []),
        ("-- A page.\n\n-- name: one\n-- bulk: id text\n-- Read one.\nSELECT 1;\n", []),
        ("-- name: one\nSELECT 1;\n", ["one has no sentence"]),
        ("-- name: one\n-- bulk: id text\nSELECT 1;\n", ["one has no sentence"]),
        ("SELECT 1;\n", ["a statement stands before the first name"]),
        ("-- name: One more\n-- Read.\nSELECT 1;\n", ["'One more' is not a name"]),
        ("-- name: a\n-- A.\nSELECT 1;\n-- name: a\n-- B.\nSELECT 2;\n", ["a is named twice"]),
    ],
)
def test_a_page_is_judged_query_by_query(page: str, complaints: list[str]) -> None:
    assert _page_complaints(page) == complaints


@pytest.mark.parametrize(
    ("statement", "asks"),
    [
        ("SELECT now()", True),
        ("SELECT CURRENT_TIMESTAMP", True),
        ("SELECT unixepoch('now')", True),
        ("SELECT 1 /* postgres: , clock_timestamp() */", True),
        ("SELECT :now", False),
        ("-- There is no now() here.\nSELECT known FROM t WHERE due_at <= :now", False),
    ],
)
def test_a_question_to_the_clock_is_seen(statement: str, asks: object) -> None:
    assert _asks_the_time(statement) is asks


def _is_migration(page: Path) -> bool:
    return "migrations" in page.parts or page.stem[:4].isdigit()


def _migration_complaints(text: str) -> list[str]:
    return [] if text.startswith("--") else ["does not open with a sentence"]


def _page_complaints(text: str) -> list[str]:
    preface, *blocks = QUERY.split(text)
    complaints = []
    if _without_comments(preface).strip():
        complaints.append("a statement stands before the first name")
    seen = set()
    for block in blocks:
        title, *lines = block.splitlines()
        if not title.isidentifier():
            complaints.append(f"{title!r} is not a name")
        if title in seen:
            complaints.append(f"{title} is named twice")
        seen.add(title)
        comments = takewhile(lambda line: line.startswith("--"), lines)
        if all(DIRECTIVE.match(line) for line in comments):
            complaints.append(f"{title} has no sentence")
    return complaints


def _asks_the_time(text: str) -> bool:
    return bool(CLOCK.search(_without_comments(text)))


def _without_comments(text: str) -> str:
    """Drop what follows two dashes; marks for PostgreSQL are statements and stay."""
    return re.sub(r"--[^\n]*", "", text)
