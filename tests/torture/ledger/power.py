"""Power cuts under the real ledger: what was acknowledged is on the disk, and so is the journal."""

import time
from collections.abc import Iterator
from contextlib import contextmanager

from tests.support.postgres import PostgresServer
from tests.torture.checks import Violation
from tests.torture.history import Event, Kind, read_downstream, read_history
from tests.torture.ledger.books import Books, read_books
from tests.torture.ledger.nursery import Nursery
from tests.torture.ledger.promises import judge, judge_storage, judge_world
from tests.torture.powercut import CutDisk
from tests.torture.processes import Child, TooLate
from tests.torture.scenario import Outcome, Plan, caught

AGENT = "tests.torture.ledger.agent"
LEASE = 1.0
#: The shortest and the longest time between the first acknowledgement and the cut, in seconds.
SHORTEST, LONGEST = 0.02, 0.4
_PATIENCE = 60.0
_SERVER = {"shared_buffers": "16MB", "min_wal_size": "32MB", "max_wal_size": "64MB"}
#: After so many cuts the ledger is laid aside and a new one begun, so that checking stays quick.
_CUTS_PER_LEDGER = 15


def sqlite(plan: Plan, *, careless: str = "") -> Outcome:
    """Cut the power under the file; the next process goes on with what is left."""
    outcome = Outcome()
    # The nursery comes second: only those born after the disk can see it.
    with CutDisk() as disk, Nursery(plan.folder) as nursery:
        for first in range(0, plan.trials, _CUTS_PER_LEDGER):
            url = f"sqlite:///{(disk.folder / f'{first}' / 'oncebox.db').relative_to('/')}"
            ledger = _Ledger(plan, nursery, url, f"{first}", careless)
            ledger.prepare()
            disk.flush()
            for trial in range(first, min(first + _CUTS_PER_LEDGER, plan.trials)):
                with ledger.at_work(trial) as agent:
                    disk.cut([agent.pid])
                disk.remount()
                ledger.compare(outcome)
            if not careless:
                ledger.settle(outcome)
    return _noted(plan, outcome)


def postgres(plan: Plan) -> Outcome:
    """Cut the power under the server's data folder, server and agent included."""
    outcome = Outcome()
    with (
        CutDisk(mebibytes=1024) as disk,
        PostgresServer.start(disk.folder, settings=_SERVER) as server,
        Nursery(plan.folder) as nursery,
    ):
        for first in range(0, plan.trials, _CUTS_PER_LEDGER):
            ledger = _Ledger(plan, nursery, server.create_database(f"ledger{first}"), f"{first}")
            ledger.prepare()
            disk.flush()
            for trial in range(first, min(first + _CUTS_PER_LEDGER, plan.trials)):
                with ledger.at_work(trial) as agent:
                    disk.cut([server.pid, agent.pid])
                disk.remount()
                server.restart("immediate")
                ledger.compare(outcome)
            ledger.settle(outcome)
        server.stop("immediate")
    return _noted(plan, outcome)


def sqlite_careless(plan: Plan) -> Outcome:
    """Commit without flushing: the mutant, which must be seen to lose what it acknowledged."""
    rules = ["lost", "foreign", "doubled", "missing", "corrupt"]
    outcome = sqlite(plan, careless="unflushed")
    found = [one for one in outcome.violations if one.rule == "lost"]
    turned = caught(outcome, rules)
    if not found:
        turned.violations.append(Violation("blind", "harness", "nothing acknowledged was lost"))
    return turned


class _Ledger:
    """One ledger on the disk, and beside it, out of the power's reach, what was heard of it."""

    def __init__(
        self, plan: Plan, nursery: Nursery, url: str, name: str, careless: str = ""
    ) -> None:
        self._plan = plan
        self._nursery = nursery
        self._url = url
        self._careless = careless
        self._history = plan.folder / f"history-{name}"
        self._world = plan.folder / f"world-{name}"
        self._never = plan.folder / "never"

    def prepare(self) -> None:
        """Make the database, which is no part of the torture."""
        with self._agent("--work=no") as agent:
            _succeed(agent)

    @contextmanager
    def at_work(self, trial: int) -> Iterator[Child]:
        """Yield an agent that has acknowledged something a moment ago."""
        before = len(self._acknowledged())
        with self._agent(f"--seed={self._plan.seed}-{trial}", f"--until={self._never}") as agent:
            agent.wait_for("ready", timeout=_PATIENCE)
            while len(self._acknowledged()) == before and agent.running:
                time.sleep(0.005)
            time.sleep(self._plan.chance(trial).uniform(SHORTEST, LONGEST))
            yield agent

    def compare(self, outcome: Outcome) -> None:
        """Check what may be checked while work is still open."""
        events, effects = read_history(self._history), read_downstream(self._world)
        books = self._books(outcome)
        outcome.trials += 1
        if books is not None:
            outcome.violations += [*judge_storage(events, books), *judge_world(effects, books)]

    def settle(self, outcome: Outcome) -> None:
        """Let a last agent finish everything, and check all promises."""
        with self._agent() as agent:
            try:
                _succeed(agent)
            except TooLate as late:
                outcome.violations.append(Violation("stuck", self._history.name, str(late)))
        events, effects = read_history(self._history), read_downstream(self._world)
        outcome.violations += judge(events, effects, read_books(self._url))

    def _books(self, outcome: Outcome) -> Books | None:
        try:
            return read_books(self._url)
        except Exception as error:  # noqa: BLE001 - whatever the driver says of a broken file
            outcome.violations.append(Violation("corrupt", self._history.name, repr(error)))
            return None

    def _acknowledged(self) -> list[Event]:
        return [event for event in read_history(self._history) if event.kind is Kind.OK]

    @contextmanager
    def _agent(self, *more: str) -> Iterator[Child]:
        agent = self._nursery.start(
            *(AGENT, self._url, str(self._history), str(self._world)),
            *(f"--lease={LEASE}", f"--careless={self._careless}", *more),
        )
        try:
            yield agent
        finally:
            agent.clean_away()


def _succeed(agent: Child) -> None:
    if agent.wait(timeout=_PATIENCE) != 0:
        raise TooLate(agent.text())


def _noted(plan: Plan, outcome: Outcome) -> Outcome:
    events = (event for path in plan.folder.glob("history-*") for event in read_history(path))
    outcome.note = f"{sum(event.kind is Kind.OK for event in events)} acknowledged"
    outcome.require(trials=plan.trials)
    return outcome
