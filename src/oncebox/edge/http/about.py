"""What the service says about itself: health, readiness, metrics, version, its own description."""

from functools import cache
from importlib.metadata import version as installed

from oncebox import artifact_errors, errors, mail_errors, refusals, send_errors
from oncebox.edge import problem
from oncebox.edge.http.call import Call
from oncebox.edge.http.route import OPEN, Route
from oncebox.errors import NotFound, OnceboxError
from oncebox.refusals import ServerBusy
from oncebox.wire import about as wire

METRICS = "text/plain; version=0.0.4; charset=utf-8"


async def health(_call: Call) -> wire.Health:
    """Say that the process is alive."""
    return wire.Health()


async def ready(call: Call) -> wire.Readiness:
    """Say whether the ledger can be written."""
    if call.stopping.is_set():
        message = "the service is stopping"
        raise ServerBusy(message)
    await call.rooms.counter.check_ready()
    return wire.Readiness()


async def metrics(call: Call) -> bytes:
    """Return all metrics as Prometheus text."""
    return call.rooms.telemetry.scrape().encode()


async def version(_call: Call) -> wire.Version:
    """Say which Oncebox this is."""
    return wire.Version(version=release())


async def explain(call: Call) -> wire.ProblemKind:
    """Say what a kind of problem means."""
    kind = _kinds().get(call.path["code"])
    if kind is None:
        raise NotFound
    return wire.ProblemKind(
        code=kind.code,
        title=problem.meaning(kind),
        status=problem.status(kind),
        retry_safe=kind.retry_safe,
    )


@cache
def release() -> str:
    """Return the version of this Oncebox."""
    return installed("oncebox")


@cache
def _kinds() -> dict[str, type[OnceboxError]]:
    return {
        each.code: each
        for module in (errors, mail_errors, artifact_errors, send_errors, refusals)
        for each in vars(module).values()
        if isinstance(each, type) and issubclass(each, OnceboxError)
    }


ROUTES = (
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
        media=METRICS,
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
