"""The server is killed under load, again and again: a 2xx is kept, a retry counts once."""

import os
import time
from collections.abc import Sequence
from pathlib import Path

from tests.torture.checks import Violation
from tests.torture.history import Event, Kind, read_history
from tests.torture.hooks.promises import judge
from tests.torture.hooks.service import Service, send
from tests.torture.ledger.books import read_books
from tests.torture.ledger.sites import open_site
from tests.torture.processes import Child, Children, until
from tests.torture.scenario import Outcome, Plan

CONNECTIONS = 24
#: Something is acknowledged again so soon after a kill, the start of a process included.
BACK_WITHIN = 30.0
_PATIENCE = 120.0


def kills(plan: Plan) -> Outcome:
    """Kill the process that serves, or its parent with it, by turns."""
    outcome = Outcome()
    history, enough = plan.folder / "history", plan.folder / "enough"
    history.touch()
    with open_site(plan.database, plan.folder) as site, Children(plan.folder) as children:
        service = Service(plan.folder, site.fresh(), children)
        service.start()
        sender = send(
            *(service, children, f"--history={history}", f"--until={enough}"),
            *(f"--connections={CONNECTIONS}", f"--fresh={CONNECTIONS // 4}"),
            f"--seed={plan.seed}",
        )
        for trial in range(plan.trials):
            outcome.violations += _await_acknowledgement(sender, history)
            time.sleep(plan.chance(trial).uniform(0.05, 0.5))
            _kill(service, trial)
            outcome.trials += 1
        outcome.violations += _await_acknowledgement(sender, history)
        enough.touch()
        sender.wait(timeout=_PATIENCE)
        outcome.violations += service.settle()
        service.stop()
        events = read_history(history)
        outcome.violations += judge(events, read_books(service.url))
    outcome.note = _figures(events)
    outcome.require(trials=plan.trials)
    return outcome


def _figures(events: Sequence[Event]) -> str:
    """Count; where nobody listened, no answer was lost."""
    heard = sum(event.kind is Kind.OK for event in events)
    unheard = [event.note for event in events if event.kind is Kind.INFO]
    lost = sum(note != ConnectionRefusedError.__name__ for note in unheard)
    return f"{heard} acknowledged, {lost} answers lost"


def _kill(service: Service, trial: int) -> None:
    if trial % 2:
        service.kill_all()
        service.start()
    else:
        service.kill_child()


def _await_acknowledgement(sender: Child, history: Path) -> list[Violation]:
    """Wait until something is acknowledged by the server that is back."""
    with history.open("rb") as lines:
        lines.seek(0, os.SEEK_END)
        for _ in until(BACK_WITHIN):
            if b'"kind":"ok"' in lines.read():
                return []
            if not sender.running:
                return [Violation("crashed", "sender", sender.text())]
    return [Violation("stuck", "server", f"nothing acknowledged within {BACK_WITHIN} s")]
