"""Health, readiness, metrics, version, problem kinds, and the packaged docs."""

import asyncio
from functools import cache
from importlib.metadata import version as installed
from typing import Literal

from oncebox import errors, packaged_docs
from oncebox.core.disk_space import DiskLevel
from oncebox.errors import DiskFull, NotFound, OnceboxError
from oncebox.errors import http as http_errors
from oncebox.errors import mail as mail_errors
from oncebox.errors import sends as send_errors
from oncebox.errors.http import ServerBusy
from oncebox.schemas import problems as wire
from oncebox.server.http import problems
from oncebox.server.http.routing import (
    ANY_KEY,
    METRICS,
    OPEN,
    OPERATOR,
    ApiCall,
    HandlerResponse,
    Routes,
)

routes = Routes()

_FREE_DISK: dict[DiskLevel, Literal["ok", "no_large_mail", "no_mail"]] = {
    DiskLevel.OK: "ok",
    DiskLevel.NO_LARGE_MAIL: "no_large_mail",
    DiskLevel.NO_MAIL: "no_mail",
}
METRICS_MEDIA = "text/plain; version=0.0.4; charset=utf-8"


@routes("GET", "/healthz", "getHealth", scopes=OPEN)
async def health(_call: ApiCall) -> wire.Health:
    """Check that the process is alive; touches nothing else."""
    return wire.Health()


@routes("GET", "/readyz", "getReadiness", scopes=OPEN)
async def ready(call: ApiCall) -> wire.Readiness:
    """Check that the ledger has this version's schema and can be written, and the disk has room."""
    if call.components.is_draining or call.stopping.is_set():
        raise ServerBusy("the service is stopping")
    disk = call.components.disk_space
    await call.ledger.check_ready()
    if disk.level is DiskLevel.NO_WEBHOOKS:
        raise DiskFull("the disk is almost full")
    return wire.Readiness(free_disk=_FREE_DISK[disk.level], free_disk_bytes=disk.free)


@routes(
    "GET",
    "/metrics",
    "getMetrics",
    scopes=frozenset({OPERATOR, METRICS}),
    media=METRICS_MEDIA,
    home=True,
    opened_by="public_metrics",
)
async def metrics(call: ApiCall) -> bytes:
    """Get all metrics of this process as Prometheus text."""
    return call.components.telemetry.scrape().encode()


@routes("GET", "/version", "getVersion", scopes=OPEN)
async def version(_call: ApiCall) -> wire.Version:
    """Get the version of Oncebox."""
    return wire.Version(version=release())


@routes("GET", "/problems/{code}", "explainProblem", scopes=OPEN)
async def explain(call: ApiCall) -> wire.ProblemKind:
    """Explain a kind of problem; the `type` of every problem leads here."""
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


PLAIN = "text/plain; charset=utf-8"
MARKDOWN = "text/markdown; charset=utf-8"
#: where pages are, seen from ``/llms.txt``
DOCS_PREFIX = "docs/"
#: nobody's secret, and the same until the next version
_CACHE_HEADERS = (("cache-control", "public, max-age=3600"),)


@routes("GET", "/llms.txt", "listPages", scopes=ANY_KEY, media=PLAIN, opened_by="public_docs")
async def show_list(_call: ApiCall) -> HandlerResponse:
    """List the documentation pages in the format of llmstxt.org."""
    return await _docs_file("llms.txt")


@routes(
    "GET", "/llms-full.txt", "getAllPages", scopes=ANY_KEY, media=PLAIN, opened_by="public_docs"
)
async def show_all(_call: ApiCall) -> HandlerResponse:
    """Get all guides in one text, without the reference."""
    return await _docs_file("llms-full.txt")


@routes("GET", "/docs/{page}", "getPage", scopes=ANY_KEY, media=MARKDOWN, opened_by="public_docs")
async def show_page(call: ApiCall) -> HandlerResponse:
    """Get a documentation page as Markdown, such as `waiting.md`."""
    return await _docs_file(DOCS_PREFIX + call.path["page"])


@routes(
    "GET",
    "/docs/{folder}/{page}",
    "getPageOfFolder",
    scopes=ANY_KEY,
    media=MARKDOWN,
    opened_by="public_docs",
)
async def show_page_of_folder(call: ApiCall) -> HandlerResponse:
    """Get a documentation page in a folder, such as `reference/api.md`."""
    return await _docs_file(f"{DOCS_PREFIX}{call.path['folder']}/{call.path['page']}")


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
