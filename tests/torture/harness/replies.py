"""Lost COMMIT replies under a stand-in client: with a unique key each retry finds its own row."""

from tests.support.postgres import PostgresServer
from tests.torture.checks import lost, repeated, split
from tests.torture.harness.postgres_store import PostgresStore
from tests.torture.history import read_history
from tests.torture.processes import Children, until
from tests.torture.proxy import FaultProxy
from tests.torture.scenario import Outcome, Plan, caught


def keyed(plan: Plan) -> Outcome:
    """Retry under the same unique key; every row is there once."""
    return _lose_replies(plan, keyed=True)


def unkeyed(plan: Plan) -> Outcome:
    """Retry as a fresh insert: the mutant, which must be seen to double rows."""
    return caught(_lose_replies(plan, keyed=False), ["doubled"])


def _lose_replies(plan: Plan, *, keyed: bool) -> Outcome:
    outcome = Outcome()
    path = plan.folder / "history"
    with (
        PostgresServer.start(plan.folder) as server,
        FaultProxy(server.url()) as proxy,
        Children(plan.folder) as children,
    ):
        store = PostgresStore(server.url(), keyed=keyed)
        store.prepare()
        proxy.lose_commit_replies(times=plan.trials, probability=0.5, seed=plan.seed)
        writer = children.python(
            "tests.torture.harness.writer", proxy.url(), str(path), "--synchronous=on"
        )
        for _ in until(60.0 + plan.trials):
            if proxy.lost_commits == plan.trials:
                break
        writer.kill()
        events = read_history(path)
        keys = [key for _, key in store.rows()]
    outcome.trials = proxy.lost_commits
    outcome.violations += [*lost(events, keys), *split(events), *repeated(keys)]
    outcome.note = f"{len(set(keys))} keys"
    outcome.require(trials=plan.trials)
    return outcome
