"""PostgreSQL crashes and recovers under load: callers hear "not now", and all heals by itself."""

import math
import os
import time
from collections.abc import Sequence
from pathlib import Path

from tests.support.postgres import PostgresServer
from tests.torture.checks import Violation
from tests.torture.history import Event, Kind, read_downstream, read_history
from tests.torture.ledger.books import read_books
from tests.torture.ledger.promises import judge
from tests.torture.ledger.sites import SMALL
from tests.torture.processes import Child, Children, TooLate, until
from tests.torture.scenario import Outcome, Plan

AGENT = "tests.torture.ledger.agent"
#: Long enough that no outage outlasts a claim.
LEASE = 5.0
#: The first acknowledgement comes so soon after the server is back.
BACK_WITHIN = 5.0
_PATIENCE = 60.0


def restarts(plan: Plan) -> Outcome:
    """Crash the server again and again under an agent that accepts and works."""
    outcome = Outcome()
    history, world, enough = (plan.folder / name for name in ("history", "world", "enough"))
    backs = []
    with (
        PostgresServer.start(plan.folder, settings=SMALL) as server,
        Children(plan.folder) as children,
    ):
        agent = children.python(
            *(AGENT, server.url(), str(history), str(world)),
            *(f"--seed={plan.seed}", f"--until={enough}", f"--lease={LEASE}"),
        )
        agent.wait_for("ready", timeout=_PATIENCE)
        for trial in range(plan.trials):
            time.sleep(plan.chance(trial).uniform(0.1, 0.6))
            server.restart("immediate")
            backs.append(time.monotonic())
            outcome.trials += agent.running
            outcome.violations += _await_acknowledgement(agent, history)
        enough.touch()
        outcome.violations += _finished(agent)
        events, effects = read_history(history), read_downstream(world)
        outcome.violations += judge(events, effects, read_books(server.url()))
    waits = [_first_after(events, back) - back for back in backs]
    outcome.note = (
        f"{_acknowledged(events)} acknowledged, the first at worst {max(waits):.2f} s after"
    )
    outcome.require(trials=plan.trials)
    return outcome


def _await_acknowledgement(agent: Child, history: Path) -> list[Violation]:
    """Wait until something is acknowledged by the server that is back."""
    with history.open("rb") as lines:
        lines.seek(0, os.SEEK_END)
        for _ in until(BACK_WITHIN):
            if b'"kind":"ok"' in lines.read():
                return []
            if not agent.running:
                return [Violation("crashed", "agent", agent.text())]
    return [Violation("stuck", "agent", f"nothing acknowledged within {BACK_WITHIN} s")]


def _finished(agent: Child) -> list[Violation]:
    try:
        code = agent.wait(timeout=_PATIENCE)
    except TooLate as late:
        return [Violation("stuck", "agent", str(late))]
    return [] if code == 0 else [Violation("crashed", "agent", agent.text())]


def _first_after(events: Sequence[Event], back: float) -> float:
    """Return when the first acknowledgement since then was heard."""
    heard = (float(event.note or 0) for event in events if event.kind is Kind.OK)
    return min((at for at in heard if at > back), default=math.inf)


def _acknowledged(events: Sequence[Event]) -> int:
    return sum(event.kind is Kind.OK for event in events)
