"""The pages as a site: each can be found, every link leads somewhere, nobody else is asked."""

import re
import shutil
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.docs.decisions_page import records
from tests.docs.reference import DOCS
from tests.project.tree import ROOT

CONFIG = ROOT / "zensical.toml"
#: what a browser fetches by itself, from somewhere else
FETCHED = re.compile(
    r"<(?:script|img|link|iframe|source|video|audio)\b[^>]*?\b(?:src|href)=[\"']?(?:https?:)?//"
    r"|@import\s+[\"']?(?:https?:)?//|url\([\"']?(?:https?:)?//",
    re.IGNORECASE,
)


def build(folder: Path) -> subprocess.CompletedProcess[str]:
    """Build the site of a folder, strictly."""
    command = [sys.executable, "-m", "zensical", "build", "--strict"]
    return subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)


@pytest.fixture
def copy(tmp_path: Path) -> Path:
    """A copy to build, so that the project's own folder stays as it is."""
    shutil.copytree(DOCS, tmp_path / "docs")
    shutil.copy(CONFIG, tmp_path)
    return tmp_path


def in_navigation(entries: list[Any]) -> Iterator[str]:
    """Yield every page that the navigation leads to."""
    for entry in entries:
        for value in entry.values():
            if isinstance(value, str):
                yield value
            else:
                yield from in_navigation(value)


def navigation() -> list[str]:
    return list(in_navigation(tomllib.loads(CONFIG.read_text())["project"]["nav"]))


def test_every_page_is_in_the_navigation_once_and_leads_to_a_page() -> None:
    """If this fails, add the page to zensical.toml; decisions are found by their own page."""
    shown = navigation()
    written = {path.relative_to(DOCS).as_posix() for path in DOCS.rglob("*.md")}
    decisions = {path.relative_to(DOCS).as_posix() for path in records()}

    assert sorted(shown) == sorted(set(shown))
    assert set(shown) == written - decisions


def test_the_site_is_built_strictly_and_asks_nobody_else_for_anything(copy: Path) -> None:
    built = build(copy)
    assert built.returncode == 0, built.stderr

    site = copy / "build" / "site"
    pages = list(site.rglob("*.html"))
    files = [*pages, *site.rglob("*.css")]
    assert len(pages) > len(navigation())
    assert [path.name for path in files if FETCHED.search(path.read_text())] == []
    assert [path.name for path in pages if 'class="mermaid"' in path.read_text()] == []
    # What is not found would be handed on as it was written.
    assert [
        path.name for path in pages if re.search(r'href="[^":]+\.md["#]', path.read_text())
    ] == []


def test_links_that_lead_nowhere_fail_the_build(tmp_path: Path) -> None:
    links = "[x](nowhere.md) [x](keys.md#nowhere) [x](../README.md)"
    (tmp_path / "docs").mkdir()
    (tmp_path / "docs" / "index.md").write_text(f"# Index\n\n{links}\n")
    (tmp_path / "docs" / "keys.md").write_text("# Keys\n")
    (tmp_path / "zensical.toml").write_text('[project]\nsite_name = "x"\n')
    built = build(tmp_path)

    assert built.returncode != 0
    assert "3 issues found" in built.stderr
