"""The service hands out its pages: to everybody, as Markdown, and nothing else from the disk."""

import pytest

from oncebox import packaged_docs
from tests.support.api import Api

TRAVERSALS = [
    "../pyproject.toml",
    "..%2fpyproject.toml",
    "%2e%2e/pyproject.toml",
    "%2e%2e%2fpyproject.toml",
    "reference/../../pyproject.toml",
    "reference/..%2f..%2f..%2fpyproject.toml",
    "..%5cpyproject.toml",
    "%2fetc%2fpasswd",
    "openapi.json",
    "waiting",
    "waiting.md%00",
    "reference",
    "reference/",
    "",
]


@pytest.fixture
def kind() -> str:
    """One database: the pages are in none."""
    return "sqlite"


async def test_every_page_is_told_as_it_is_written(api: Api) -> None:
    pages = packaged_docs.installed_pages()
    assert len(pages) > 80
    for path, page in pages.items():
        answer = await api.call("GET", f"/docs/{path}", key="")

        assert (answer.status_code, answer.text) == (200, page.text)
        assert answer.headers["content-type"] == "text/markdown; charset=utf-8"


async def test_the_texts_for_agents_are_open_plain_and_may_be_kept(api: Api) -> None:
    for path in ("/llms.txt", "/llms-full.txt"):
        answer = await api.call("GET", path, key="")

        assert answer.status_code == 200
        assert answer.text.startswith("# Oncebox\n\n> ")
        assert answer.headers["content-type"] == "text/plain; charset=utf-8"
        assert answer.headers.get_list("cache-control") == ["public, max-age=3600"]
        assert answer.headers["x-content-type-options"] == "nosniff"


async def test_nothing_but_pages_is_handed_out(api: Api) -> None:
    answers = {path: await api.call("GET", f"/docs/{path}", key="") for path in TRAVERSALS}

    assert {path: each.status_code for path, each in answers.items() if each.is_success} == {}
    assert {each.status_code for each in answers.values()} == {404}
    assert {each.headers["cache-control"] for each in answers.values()} == {"no-store"}
