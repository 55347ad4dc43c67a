"""Health, readiness, metrics, version, problem kinds, and the packaged docs."""

import asyncio
from functools import cache
from importlib.metadata import version as installed

from oncebox import errors, packaged_docs
from oncebox.errors import NotFound, OnceboxError
from oncebox.errors import http as http_errors
from oncebox.errors import mail as mail_errors
from oncebox.errors import sends as send_errors
from oncebox.errors.http import ServerBusy
from oncebox.schemas import problems as wire
from oncebox.server.http import problems
from oncebox.server.http.routing import OPEN, ApiCall, HandlerResponse, Route

METRICS_MEDIA = "text/plain; version=0.0.4; charset=utf-8"


async def health(_call: ApiCall) -> wire.Health:
    """Say that the process is alive."""
    return wire.Health()


async def ready(call: ApiCall) -> wire.Readiness:
    """Say whether the ledger can be written."""
    if call.stopping.is_set():
        raise ServerBusy("the service is stopping")
    await call.components.ledger.check_ready()
    return wire.Readiness()


async def metrics(call: ApiCall) -> bytes:
    """Return all metrics as Prometheus text."""
    return call.components.telemetry.scrape().encode()


async def version(_call: ApiCall) -> wire.Version:
    """Say which Oncebox this is."""
    return wire.Version(version=release())


async def explain(call: ApiCall) -> wire.ProblemKind:
    """Say what a kind of problem means."""
    kind = _error_classes().get(call.path["code"])
    if kind is None:
        raise NotFound
    return wire.ProblemKind(
        code=kind.code,
        title=problems.error_title(kind),
        status=problems.status(kind),
        retry_safe=kind.retry_safe,
    )


@cache
def release() -> str:
    """Return the version of this Oncebox."""
    return installed("oncebox")


@cache
def _error_classes() -> dict[str, type[OnceboxError]]:
    return {
        each.code: each
        for module in (errors, mail_errors, mail_errors, send_errors, http_errors)
        for each in vars(module).values()
        if isinstance(each, type) and issubclass(each, OnceboxError)
    }


ABOUT_ROUTES = (
    Route(
        method="GET",
        path="/healthz",
        name="getHealth",
        summary="Say that the process is alive; touches nothing.",
        scopes=OPEN,
        answer=wire.Health,
        handler=health,
    ),
    Route(
        method="GET",
        path="/readyz",
        name="getReadiness",
        summary="Say whether the ledger is of this version and can be written.",
        scopes=OPEN,
        answer=wire.Readiness,
        handler=ready,
    ),
    Route(
        method="GET",
        path="/metrics",
        name="getMetrics",
        summary="All metrics of this process, as Prometheus text.",
        scopes=OPEN,
        media=METRICS_MEDIA,
        handler=metrics,
    ),
    Route(
        method="GET",
        path="/version",
        name="getVersion",
        summary="Say which Oncebox this is.",
        scopes=OPEN,
        answer=wire.Version,
        handler=version,
    ),
    Route(
        method="GET",
        path="/problems/{code}",
        name="explainProblem",
        summary="Say what a kind of problem means; the `type` of every problem leads here.",
        scopes=OPEN,
        answer=wire.ProblemKind,
        handler=explain,
    ),
)


PLAIN = "text/plain; charset=utf-8"
MARKDOWN = "text/markdown; charset=utf-8"
#: where pages are, seen from ``/llms.txt``
DOCS_PREFIX = "docs/"
#: nobody's secret, and the same until the next version
_CACHE_HEADERS = (("cache-control", "public, max-age=3600"),)


async def show_list(_call: ApiCall) -> HandlerResponse:
    """Return the list of pages."""
    return await _docs_file("llms.txt")


async def show_all(_call: ApiCall) -> HandlerResponse:
    """Return all pages in one text."""
    return await _docs_file("llms-full.txt")


async def show_page(call: ApiCall) -> HandlerResponse:
    """Return one page."""
    return await _docs_file(DOCS_PREFIX + "/".join(call.path.values()))


async def _docs_file(path: str) -> HandlerResponse:
    # The pages are read from disk, the first time.
    files = await asyncio.to_thread(_docs_files)
    if path not in files:
        raise NotFound
    return HandlerResponse(files[path], 200, _CACHE_HEADERS)


@cache
def _docs_files() -> dict[str, bytes]:
    """Return everything there is, by path; what is not in it is not served."""
    pages = packaged_docs.installed_pages()
    texts = {DOCS_PREFIX + path: page.text for path, page in pages.items()}
    texts["llms.txt"] = packaged_docs.llms_txt(pages, DOCS_PREFIX)
    texts["llms-full.txt"] = packaged_docs.llms_full_txt(pages, DOCS_PREFIX)
    return {path: text.encode() for path, text in texts.items()}


DOCS_ROUTES = (
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
        summary="All guides of the docs in one text, without the reference.",
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
