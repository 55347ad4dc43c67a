"""Kills and pauses of stand-ins on SQLite: promises before commits and missing fences show."""

import time

from tests.torture.checks import doubled, lost, missing, repeated, split, stale
from tests.torture.harness.sqlite_store import SqliteStore
from tests.torture.history import read_downstream, read_history
from tests.torture.processes import Children
from tests.torture.scenario import Outcome, Plan, caught


def kill(plan: Plan, *, ack: str = "late") -> Outcome:
    """Kill a writer at a random moment; whatever it promised must be there."""
    outcome = Outcome()
    path = plan.folder / "rows.db"
    for trial in range(plan.trials):
        history = plan.folder / f"history-{trial}"
        with Children(plan.folder) as children:
            writer = children.python(
                "tests.torture.harness.writer",
                *(str(path), str(history)),
                *(f"--prefix={trial}", "--synchronous=FULL", f"--ack={ack}"),
            )
            writer.wait_for("ready")
            time.sleep(plan.chance(trial).uniform(0, 0.1))
            writer.kill()
        store = SqliteStore(path)
        events = read_history(history)
        keys = [key for _, key in store.rows() if key.startswith(f"{trial}-")]
        store.close()
        outcome.trials += 1
        outcome.violations += [*lost(events, keys), *split(events), *repeated(keys)]
    return outcome


def kill_early_ack(plan: Plan) -> Outcome:
    """Promise before the commit: the mutant, which must be seen to lose rows."""
    return caught(kill(plan, ack="early"), ["lost"])


def zombie(plan: Plan, *, fenced: str = "yes") -> Outcome:
    """Pause a worker past its lease, let another finish, and let the first one go on."""
    outcome = Outcome()
    jobs, world = plan.folder / "jobs.db", plan.folder / "world"
    for trial in range(plan.trials):
        with Children(plan.folder) as children:
            command = ("tests.torture.harness.zombie", str(jobs), str(world), str(trial), fenced)
            first = children.python(*command)
            first.wait_for("claimed")
            first.stop()
            second = children.python(*command)
            second.wait_for("settled")
            first.resume()
            first.wait()
            second.wait()
        outcome.trials += 1
    effects = read_downstream(world)
    outcome.violations += [*doubled(effects), *stale(effects)]
    outcome.violations += missing(effects, [str(trial) for trial in range(plan.trials)])
    return outcome


def zombie_unfenced(plan: Plan) -> Outcome:
    """Settle without looking at the fence: the mutant, which must be seen to act twice."""
    return caught(zombie(plan, fenced="no"), ["doubled", "stale"])
