"""PostgreSQL hangs under load: everyone is answered in time, and what was said holds afterwards."""

import os
import signal
import time
import urllib.error
import urllib.request
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path

from tests.support.databases import Place, migrated
from tests.support.postgres import PostgresServer, Standby
from tests.torture.checks import Violation
from tests.torture.history import Event, Kind, read_history
from tests.torture.hooks.promises import judge
from tests.torture.hooks.service import Service, send
from tests.torture.ledger.books import read_books
from tests.torture.ledger.sites import UNFLUSHED
from tests.torture.processes import Children, freeze, until
from tests.torture.scenario import Outcome, Plan

CONNECTIONS = 24
#: seconds after which a provider gives up, as GitHub does
CLIENT_LIMIT = 10.0
#: seconds that a hang lasts beyond the deadline of the service
_LONGER = 3.0
_PATIENCE = 60.0


def hung_commit(plan: Plan) -> Outcome:
    """Stop the synchronous standby, or freeze the server itself, by turns."""
    outcome = Outcome()
    within = 1.0 if plan.trials <= FEW else 8.0
    history, enough = plan.folder / "history", plan.folder / "enough"
    history.touch()
    with ExitStack() as stack:
        server = stack.enter_context(PostgresServer.start(plan.folder, settings=UNFLUSHED))
        standby = stack.enter_context(Standby.of(server))
        children = stack.enter_context(Children(plan.folder))
        url = migrated(Place("postgres", server.create_database("hung"))).url
        service = Service(plan.folder, url, children, {"ONCEBOX_DATABASE_WITHIN": str(within)})
        service.start()
        sender = send(
            *(service, children, f"--history={history}", f"--until={enough}"),
            *(f"--connections={CONNECTIONS}", f"--limit={CLIENT_LIMIT}", f"--seed={plan.seed}"),
        )
        for trial in range(plan.trials):
            outcome.violations += _await_acknowledgement(history)
            frozen = server if trial % 2 else standby
            with _standing_still(frozen.pid):
                reads = frozen is standby
                outcome.violations += _look(service, within + _LONGER, reads=reads)
            outcome.trials += 1
        outcome.violations += _await_acknowledgement(history)
        enough.touch()
        sender.wait(timeout=_PATIENCE)
        outcome.violations += service.settle()
        with _standing_still(server.pid):
            service.stop()  # raises, if it does not end
        events = read_history(history)
        outcome.violations += [*judge(events, read_books(service.url)), *_late(events)]
        outcome.violations += _silent(service.said())
    outcome.note = _figures(events)
    outcome.require(trials=plan.trials)
    return outcome


#: trials of the short form
FEW = 2


@contextmanager
def _standing_still(pid: int) -> Iterator[None]:
    """Freeze a process and all it has started."""
    frozen = freeze([pid])
    try:
        yield
    finally:
        for each in frozen:
            with suppress(ProcessLookupError):  # it ends when its clients are gone
                os.kill(each, signal.SIGCONT)


def _look(service: Service, seconds: float, *, reads: bool) -> list[Violation]:
    """Ask the service how it is while the database hangs: each answer comes, and is no."""
    found = []
    end = time.monotonic() + seconds
    answers = []
    while time.monotonic() < end:
        answers.append(_status(service, "/readyz"))
        if _status(service, "/healthz") != 200:
            found.append(Violation("stuck", "/healthz"))
        time.sleep(0.5)
    if None in answers:
        found.append(Violation("late", "/readyz"))
    if answers[-1] != 503:
        found.append(Violation("stuck", "/readyz", f"it says {answers[-1]}"))
    if reads and _status(service, "/v1/deliveries", service.key()) != 200:
        found.append(Violation("stuck", "reads", "not answered while only commits hang"))
    if 'code="commit_overdue",path="webhook"' not in _text(service, "/metrics"):
        found.append(Violation("missing", "metric", "overdue commits are not counted"))
    return found


def _status(service: Service, path: str, key: str = "") -> int | None:
    """Return the status of an answer; None if there is none in time."""
    headers = {"Authorization": f"Bearer {key}"} if key else {}
    url = f"http://127.0.0.1:{service.port}{path}"
    request = urllib.request.Request(url, headers=headers)
    try:
        with urllib.request.urlopen(request, timeout=CLIENT_LIMIT) as answer:  # noqa: S310 - our own
            return int(answer.status)
    except urllib.error.HTTPError as error:
        return error.code
    except OSError:
        return None


def _text(service: Service, path: str) -> str:
    url = f"http://127.0.0.1:{service.port}{path}"
    with urllib.request.urlopen(url, timeout=CLIENT_LIMIT) as answer:
        return str(answer.read().decode())


def _late(events: Sequence[Event]) -> list[Violation]:
    """Find callers that gave up before they were answered."""
    return [
        Violation("late", event.key) for event in events if (event.note or "") == "TimeoutError"
    ]


def _silent(said: str) -> list[Violation]:
    return [] if "commit_overdue" in said else [Violation("missing", "log", "nothing was said")]


def _await_acknowledgement(history: Path) -> list[Violation]:
    """Wait until something new is acknowledged."""
    with history.open("rb") as lines:
        lines.seek(0, os.SEEK_END)
        for _ in until(_PATIENCE):
            if b'"kind":"ok"' in lines.read():
                return []
    return [Violation("stuck", "server", f"nothing acknowledged within {_PATIENCE} s")]


def _figures(events: Sequence[Event]) -> str:
    heard = sum(event.kind is Kind.OK for event in events)
    refused = sum(event.note == "503" for event in events)
    return f"{heard} acknowledged, {refused} asked to try again"
