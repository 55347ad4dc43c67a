"""Processes frozen at labelled points past their lease: awake, they undo and repeat nothing."""

import os
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace

from tests.torture.checks import Violation
from tests.torture.history import read_downstream, read_history
from tests.torture.ledger.books import Row, is_locked, read_books
from tests.torture.ledger.errands import Kind
from tests.torture.ledger.nursery import Nursery, Nursling
from tests.torture.ledger.promises import judge_ends, judge_storage, judge_world
from tests.torture.ledger.sites import Site, open_site
from tests.torture.processes import TooLate, await_halt, is_paused
from tests.torture.scenario import Outcome, Plan

AGENT = "tests.torture.ledger.agent"
#: Points outside of any transaction: whoever sleeps there holds no lock.
POINTS = {
    "worker.leased": 1,
    "worker.committed-not-reported": 2,
    "effect.started": 4,
    "effect.done-not-recorded": 4,
}
#: How often a process is put to sleep anew because it holds a lock in another thread.
_ATTEMPTS = 25
_KINDS = (Kind.VERIFIED, Kind.ONCE, Kind.IDEMPOTENT, Kind.FLAKY)
_PATIENCE = 60.0


def sleepers(plan: Plan) -> Outcome:
    """Freeze a process at each point in turn, let another finish, and wake the first.

    A process that sleeps inside a transaction keeps everybody waiting until it wakes, and then
    nobody has taken anything from it. Only sleepers without a lock are of interest here.
    """
    outcome = Outcome()
    # Twice as many as there are cores: most of a trial is waiting for a lease to run out.
    workers = 2 * (os.cpu_count() or 1)
    with (
        open_site(plan.database, plan.folder) as site,
        Nursery(plan.folder) as nursery,
        ThreadPoolExecutor(workers) as pool,
    ):
        rounds = [
            pool.submit(_put_to_sleep, plan, site, nursery, number) for number in range(plan.trials)
        ]
        for one in rounds:
            violations = one.result()
            outcome.trials += violations is not None
            outcome.violations += violations or []
    outcome.require(trials=plan.trials)
    return outcome


def _put_to_sleep(plan: Plan, site: Site, nursery: Nursery, number: int) -> list[Violation] | None:
    """Try until a process sleeps without a lock; return nothing if none ever did."""
    for attempt in range(_ATTEMPTS):
        found = _Bed(plan, site, nursery, number, attempt).sleep()
        if found is not None:
            return found
    return None


class _Bed:
    """One process that sleeps and one that does not."""

    def __init__(self, plan: Plan, site: Site, nursery: Nursery, number: int, attempt: int) -> None:
        self._point = list(POINTS)[number % len(POINTS)]
        self._name = f"{self._point}-{number // len(POINTS)}-{attempt}"
        self._pass = plan.chance(self._name).randint(1, POINTS[self._point])
        self._site = site
        self._nursery = nursery
        self._url = site.fresh()
        self._history = plan.folder / f"sleeper-history-{self._name}"
        self._world = plan.folder / f"sleeper-world-{self._name}"
        kind = _KINDS[number // len(POINTS) % len(_KINDS)]
        self._arguments = (f"--seed={plan.seed}-{self._name}", "--count=8", f"--kinds={kind}")

    def sleep(self) -> list[Violation] | None:
        """Freeze, finish, wake, compare; return nothing if it did not sleep as it should."""
        first = self._agent("--work=after", faults=f"{self._point}:{self._pass}:stop")
        await_halt([first.pid], timeout=_PATIENCE)
        if not is_paused(first.pid) or is_locked(self._url):
            first.kill()
            self._site.drop(self._url)
            return None
        found = self._ended(self._agent("--resend"))
        before = read_books(self._url).rows
        first.resume()
        found += self._ended(first)
        books, effects = read_books(self._url), read_downstream(self._world)
        found += _changed(before, books.rows)
        found += judge_storage(read_history(self._history), books)
        found += [*judge_world(effects, books), *judge_ends(effects, books)]
        self._site.drop(self._url)
        return [Violation(one.rule, f"{self._name}: {one.subject}", one.detail) for one in found]

    def _agent(self, *more: str, faults: str = "") -> Nursling:
        arguments = (self._url, str(self._history), str(self._world), *self._arguments, *more)
        return self._nursery.start(AGENT, *arguments, faults=faults)

    def _ended(self, agent: Nursling) -> list[Violation]:
        try:
            code = agent.wait(timeout=_PATIENCE)
        except TooLate as late:
            agent.kill()
            return [Violation("stuck", self._name, str(late))]
        return [] if code == 0 else [Violation("crashed", self._name, agent.text())]


def _changed(before: list[Row], after: list[Row]) -> list[Violation]:
    """Find what the sleeper changed when it woke; nothing was left for it to do."""
    now = {row.id: row for row in after}
    return [
        Violation("stale", old.id, f"{old} became {now[old.id]}")
        for old in before
        if old != replace(now[old.id], last_error=old.last_error)
    ]
