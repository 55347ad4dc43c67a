"""Power cuts under a stand-in writer: flushed rows survive, careless ones are seen to vanish."""

import time
from collections.abc import Callable
from pathlib import Path

from tests.support.postgres import PostgresServer
from tests.torture.checks import Violation, lost, repeated, split
from tests.torture.harness.postgres_store import PostgresStore
from tests.torture.harness.sqlite_store import SqliteStore
from tests.torture.harness.store import Store
from tests.torture.history import Kind, read_history
from tests.torture.powercut import CutDisk
from tests.torture.processes import Children
from tests.torture.scenario import Outcome, Plan, caught

#: The longest a writer works before its power is cut, in seconds.
LONGEST = 0.25


def sqlite(plan: Plan, *, synchronous: str = "FULL") -> Outcome:
    """Cut the power under SQLite; everything acknowledged must be there after each cut."""
    outcome = Outcome()
    with CutDisk() as disk:
        path = disk.folder / "rows.db"
        SqliteStore(path).close()
        disk.flush()
        for trial in range(plan.trials):
            with Children(plan.folder) as children:
                _write_a_while(plan, trial, children, str(path), synchronous)
                disk.cut(child.pid for child in children)
            disk.remount()
            store = SqliteStore(path)
            _compare(plan, trial, store, outcome)
            store.close()
    return _noted(plan, outcome)


def postgres(plan: Plan, *, synchronous: str = "on") -> Outcome:
    """Cut the power under PostgreSQL's data folder, server processes included."""
    outcome = Outcome()
    settings = {"shared_buffers": "16MB", "min_wal_size": "32MB", "max_wal_size": "64MB"}
    with (
        CutDisk(mebibytes=512) as disk,
        PostgresServer.start(disk.folder, settings=settings) as server,
    ):
        store = PostgresStore(server.url())
        store.prepare()
        disk.flush()
        for trial in range(plan.trials):
            with Children(plan.folder) as children:
                _write_a_while(plan, trial, children, server.url(), synchronous)
                disk.cut([server.pid, *(child.pid for child in children)])
            disk.remount()
            server.restart("immediate")
            _compare(plan, trial, store, outcome)
        server.stop("immediate")
    return _noted(plan, outcome)


def mutant(
    run: Callable[..., Outcome], *, synchronous: str, rule: str = "lost"
) -> Callable[[Plan], Outcome]:
    """Make a scenario that passes only if the careless setting is seen to lose rows."""

    def scenario(plan: Plan) -> Outcome:
        return caught(run(plan, synchronous=synchronous), [rule])

    return scenario


def _write_a_while(plan: Plan, trial: int, children: Children, url: str, synchronous: str) -> None:
    writer = children.python(
        "tests.torture.harness.writer",
        url,
        str(_history(plan, trial)),
        f"--prefix={trial}",
        f"--synchronous={synchronous}",
    )
    writer.wait_for("ready")
    time.sleep(plan.chance(trial).uniform(0.02, LONGEST))


def _compare(plan: Plan, trial: int, store: Store, outcome: Outcome) -> None:
    """Look only at this cut's rows: what an earlier cut lost was counted then."""
    events = read_history(_history(plan, trial))
    keys = [key for _, key in store.rows() if key.startswith(f"{trial}-")]
    # A cut under an idle writer proves nothing, so it is not counted.
    outcome.trials += any(event.kind is Kind.OK for event in events)
    outcome.violations += [*lost(events, keys), *split(events), *repeated(keys)]
    outcome.violations += [Violation("corrupt", f"cut {trial}", one) for one in store.faults()]


def _history(plan: Plan, trial: int) -> Path:
    return plan.folder / f"history-{trial}"


def _noted(plan: Plan, outcome: Outcome) -> Outcome:
    events = (
        event for trial in range(plan.trials) for event in read_history(_history(plan, trial))
    )
    outcome.note = f"{sum(event.kind is Kind.OK for event in events)} acknowledged"
    outcome.require(trials=plan.trials)
    return outcome


sqlite_careless = mutant(sqlite, synchronous="NORMAL")
postgres_careless = mutant(postgres, synchronous="off")
