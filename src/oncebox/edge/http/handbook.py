"""The pages of the docs, for agents that read before they ask: open, as Markdown, and small."""

import asyncio
from functools import cache

from oncebox import handbook
from oncebox.edge.http.answered import Answered
from oncebox.edge.http.call import Call
from oncebox.edge.http.route import OPEN, Route
from oncebox.errors import NotFound

PLAIN = "text/plain; charset=utf-8"
MARKDOWN = "text/markdown; charset=utf-8"
#: where pages are, seen from ``/llms.txt``
PREFIX = "docs/"
#: nobody's secret, and the same until the next version
_CACHED = (("cache-control", "public, max-age=3600"),)


async def show_list(_call: Call) -> Answered:
    """Return the list of pages."""
    return await _file("llms.txt")


async def show_all(_call: Call) -> Answered:
    """Return all pages in one text."""
    return await _file("llms-full.txt")


async def show_page(call: Call) -> Answered:
    """Return one page."""
    return await _file(PREFIX + "/".join(call.path.values()))


async def _file(path: str) -> Answered:
    # The pages are read from disk, the first time.
    files = await asyncio.to_thread(_files)
    if path not in files:
        raise NotFound
    return Answered(files[path], 200, _CACHED)


@cache
def _files() -> dict[str, bytes]:
    """Return everything there is, by path; what is not in it is not served."""
    pages = handbook.shipped()
    texts = {PREFIX + path: page.text for path, page in pages.items()}
    texts["llms.txt"] = handbook.llms(pages, PREFIX)
    texts["llms-full.txt"] = handbook.llms_full(pages, PREFIX)
    return {path: text.encode() for path, text in texts.items()}


ROUTES = (
    Route(
        method="GET",
        path="/llms.txt",
        name="listPages",
        summary="The pages of the docs, each with a sentence, as llmstxt.org has it.",
        scopes=OPEN,
        media=PLAIN,
        handler=show_list,
    ),
    Route(
        method="GET",
        path="/llms-full.txt",
        name="getAllPages",
        summary="All pages of the docs in one text.",
        scopes=OPEN,
        media=PLAIN,
        handler=show_all,
    ),
    Route(
        method="GET",
        path="/docs/{page}",
        name="getPage",
        summary="A page of the docs as Markdown, such as `waiting.md`.",
        scopes=OPEN,
        media=MARKDOWN,
        handler=show_page,
    ),
    Route(
        method="GET",
        path="/docs/{folder}/{page}",
        name="getPageOfFolder",
        summary="A page of a folder of the docs, such as `reference/api.md`.",
        scopes=OPEN,
        media=MARKDOWN,
        handler=show_page,
    ),
)
