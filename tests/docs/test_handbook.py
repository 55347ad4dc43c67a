"""What agents read leads somewhere: titles, sentences and links of every page."""

import posixpath
import re
from pathlib import Path

import pytest

from oncebox import packaged_docs
from oncebox.packaged_docs import DocPage
from tests.docs.handbook import write
from tests.docs.reference import DOCS

LISTED = re.compile(r"^- \[([^\]]+)\]\(([^)]+)\): (.+)$", re.MULTILINE)
LINK = re.compile(r"\]\(([^)#:\s]+\.(?:md|txt|json))(?:#[^)]*)?\)")
PAGES = packaged_docs.read_pages(DOCS)
#: bytes of llms-full.txt, about 65,000 tokens: it fits beside an agent's own work
LARGEST = 260_000


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of a site, after what agents read was written beside what people read."""
    folder = tmp_path_factory.mktemp("site")
    write(folder)
    (folder / "openapi.json").write_bytes((DOCS / "openapi.json").read_bytes())
    return folder


def test_the_list_has_the_shape_of_llmstxt(site: Path) -> None:
    title, _, quote, _, *rest = (site / "llms.txt").read_text().splitlines()

    assert title == "# Oncebox"
    assert quote.startswith("> ")
    assert [line for line in rest if line.startswith("#") and not line.startswith("## ")] == []


def test_every_page_is_listed_once_with_a_sentence_of_its_own(site: Path) -> None:
    found = LISTED.findall((site / "llms.txt").read_text())
    listed = sorted(path for _, path, _ in found)

    assert listed == sorted(path for path in PAGES if not path.startswith("decisions/"))
    assert [path for _, path, text in found if text[-1] not in ".?" or len(text) > 250] == []
    assert len({text for _, _, text in found}) == len(found)


def test_every_link_leads_to_something_an_agent_can_fetch(site: Path) -> None:
    broken = [
        f"{path.name}: {target}"
        for path in site.rglob("*")
        if path.suffix in {".md", ".txt"}
        for target in LINK.findall(path.read_text())
        if not (path.parent / target).is_file()
    ]

    assert broken == []


def test_the_whole_text_holds_every_guide_and_names_where_it_is(site: Path) -> None:
    text = (site / "llms-full.txt").read_text()

    assert all(f"\n{page.text.splitlines()[0]}\n" in text for page in PAGES.values() if _told(page))
    assert re.findall(r"^<!-- (\S+\.md) -->$", text, re.MULTILINE) == [
        path
        for _, path, _ in LISTED.findall((site / "llms.txt").read_text())
        if not path.startswith("reference/")
    ]


def test_the_whole_text_fits_into_a_context(site: Path) -> None:
    assert (site / "llms-full.txt").stat().st_size < LARGEST


@pytest.mark.parametrize(
    ("text", "summary"),
    [
        ("# A\n\nOne [link](b.md).\nTwo.\n\nThree.", "One link. Two."),
        ("# A\n\n```sh\nno prose\n```\n\n<!-- nor this -->\n\nBut this:\n", "But this."),
        ("# A\n\nOne.\nTwo is wrapped\nin the middle.", "One."),
        (f"# A\n\nOne.\n{'long ' * 50}end.", "One."),
        ("# A\n\n## B\n\n| a |\n\n- b\n", ""),
        ("", ""),
    ],
)
def test_a_summary_is_the_first_sentences(text: str, summary: str) -> None:
    assert DocPage("a.md", text).summary == summary


def test_links_of_a_page_lead_on_from_the_whole_text() -> None:
    text = "# A\n\n[b](b.md#c), [up](../d.md), [same](#e), [web](https://example.com/f.md)\n"
    whole = packaged_docs.llms_full_txt({"x/a.md": DocPage("x/a.md", text)}, "docs/")

    assert whole.endswith(
        "[b](docs/x/b.md#c), [up](docs/d.md), [same](#e), [web](https://example.com/f.md)\n"
    )


def _told(page: DocPage) -> bool:
    return posixpath.dirname(page.path) not in {"decisions", "reference"}
