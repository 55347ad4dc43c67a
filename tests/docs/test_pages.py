"""The pages agree with the code and with each other."""

import re
from pathlib import Path

import pytest

from oncebox.cli.main import GROUPS
from oncebox.model.deliveries.duplicates import DuplicateClass
from oncebox.model.deliveries.effects import EffectState
from tests.docs.decisions_page import TOPICS, head, records
from tests.docs.reference import DOCS, pages
from tests.project.tree import PACKAGE, ROOT
from tests.support.client_api import resources

WRITTEN = [*ROOT.glob("*.md"), *DOCS.rglob("*.md")]
LINK = re.compile(r"\]\(([^)#]+)(?:#[^)]*)?\)")
READING_PATH = re.compile(r"^\d\. `([\w/.]+)`:", re.MULTILINE)
LONGEST_PATH = 1_100
#: a word of the glossary, with where to read on
WORD = re.compile(r"^\| \[([^]]+)\]\([^)]+\) \|", re.MULTILINE)


@pytest.mark.parametrize("path", pages(), ids=lambda path: path.name)
def test_what_comes_from_the_code_is_up_to_date(path: Path) -> None:
    """If this fails, run `python -m tests.docs.reference`."""
    assert path.read_text() == pages()[path]


def test_every_link_leads_somewhere() -> None:
    broken = [
        f"{path.name}: {target}"
        for path in WRITTEN
        for target in LINK.findall(path.read_text())
        if not target.startswith("https://") and not (path.parent / target).exists()
    ]

    assert broken == []


def test_every_page_has_a_title_of_its_own() -> None:
    titles = [path.read_text().splitlines()[0] for path in DOCS.rglob("*.md")]

    assert sorted(titles) == sorted(set(titles))


def test_the_reading_path_is_short_and_exists() -> None:
    files = READING_PATH.findall((ROOT / "ARCHITECTURE.md").read_text())

    assert len(files) >= 4
    assert sum(len((ROOT / file).read_text().splitlines()) for file in files) <= LONGEST_PATH


def test_the_architecture_names_every_room() -> None:
    text = (ROOT / "ARCHITECTURE.md").read_text()
    rooms = {
        f"`{path.name}/`" if path.is_dir() else f"`{path.name}`"
        for path in PACKAGE.iterdir()
        if not path.name.startswith("__") and path.name != "py.typed"
    }

    assert {room for room in rooms if room not in text} == set()


def test_the_list_of_commands_names_every_command() -> None:
    text = (DOCS / "reference" / "cli.md").read_text().partition("## Exit codes")[0]
    commands = [
        f"oncebox {command}"
        for group, names in GROUPS.items()
        for name in names
        if (command := f"{group} {name}".strip()) not in GROUPS
    ]

    assert [command for command in commands if f"`{command}" not in text] == []


def test_the_pages_name_every_class_of_sighting_and_state_of_an_effect() -> None:
    text = (DOCS / "concepts.md").read_text() + (DOCS / "duplicates.md").read_text()

    assert [each for each in (*DuplicateClass, *EffectState) if f"| `{each}` |" not in text] == []


def test_the_glossary_has_every_noun_once_in_order_and_linked() -> None:
    words = WORD.findall((DOCS / "glossary.md").read_text())
    nouns = {name for name in resources() if "." not in name}

    assert words == sorted(set(words), key=str.lower)
    assert {"attempt", "delivery", "effect", "event", "hold", "send", "try"} <= set(words)
    # Deliveries, inboxes and the like, and the one that has no plural.
    ends = (("ies", "y"), ("xes", "x"), ("s", ""), ("", ""))
    assert {
        noun
        for noun in nouns
        if not any(noun.removesuffix(many) + one in words for many, one in ends)
    } == set()


def test_decisions_are_numbered_without_gaps_and_share_one_structure() -> None:
    numbered = records()

    assert [int(path.name[:4]) for path in numbered] == list(range(1, len(numbered) + 1))
    for path in numbered:
        record = head(path)
        slug = re.sub(r"[^a-z0-9]+", "-", record["title"].lower().replace("'", "")).strip("-")
        assert path.name == f"{int(record['number']):04d}-{slug}.md"
        assert record["topic"] in TOPICS
        assert re.findall(r"^##.*$", path.read_text(), re.MULTILINE) == [
            "## Context",
            "## Decision",
            "## Alternatives considered",
            "## Consequences",
        ]
