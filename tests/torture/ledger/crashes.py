"""A kill at every labelled point: the next process finishes, and nothing is lost or doubled."""

import os
import signal
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

from oncebox.core import faults
from tests.torture.checks import Violation
from tests.torture.history import read_downstream, read_history
from tests.torture.ledger.books import read_books
from tests.torture.ledger.errands import Kind
from tests.torture.ledger.nursery import Nursery, Nursling
from tests.torture.ledger.promises import judge
from tests.torture.ledger.sites import Site, open_site
from tests.torture.processes import TooLate
from tests.torture.scenario import Outcome, Plan

AGENT = "tests.torture.ledger.agent"
#: How long a claim lasts here, in seconds.
LEASE = 1.0
#: Everything is settled two leases after the kill, start of the next process included.
SETTLED_WITHIN = 2 * LEASE + 10.0
_PATIENCE = 60.0


@dataclass(frozen=True, slots=True)
class Case:
    """How a point is reached."""

    #: The point strikes at one of the first so many passes.
    passes: int
    #: What the victim is told besides.
    arguments: tuple[str, ...] = ("--count=24",)
    #: Kinds of which all errands are, in turn; nothing is the usual mix.
    kinds: tuple[str, ...] = ("",)
    #: A process that is killed first, at this point, so that the victim finds its remains.
    before: str = ""
    #: Whether the database is new; every other time two victims open it at once.
    fresh: bool = False


CASES = {
    "accept.verified": Case(24),
    "accept.written": Case(5),
    "accept.committed": Case(24),
    "worker.leased": Case(3),
    "worker.settled-not-committed": Case(4),
    "worker.committed-not-reported": Case(10),
    "worker.renewing": Case(2, ("--count=6", "--slow=1.0")),
    "worker.dying": Case(2, ("--count=4", "--frail=4", "--work=after"), before="worker.leased"),
    "effect.started": Case(6, kinds=("", Kind.VERIFIED, Kind.IDEMPOTENT)),
    "effect.done-not-recorded": Case(6, kinds=(Kind.ONCE, "", Kind.VERIFIED, Kind.OWN)),
    "upkeep.migrating": Case(1, fresh=True),
    "upkeep.checkpointing": Case(5, ("--count=24", "--pages=40")),
}
#: First words of points that are reached by tortures of their own.
_ELSEWHERE = (
    "actions.", "artifacts.", "backup.", "inbound.", "mail.", "mailboxes.", "migrate.", "parse.",
    "endpoints.", "poller.",
    "restore.", "rotation.", "sends.", "sequencer.", "smtp.",
)  # fmt: skip
#: Points that one of the databases does not have.
_ABSENT = {"postgres": {"upkeep.checkpointing"}, "sqlite": set[str]()}


@dataclass(frozen=True, slots=True)
class _Trial:
    """What one kill showed."""

    reached: bool
    violations: Sequence[Violation]
    #: Seconds from the kill until everything was settled.
    seconds: float


def points(database: str) -> list[str]:
    """Return the labelled points that a database has."""
    ours = {point for point in faults.POINTS if not point.startswith(_ELSEWHERE)}
    if unknown := ours ^ CASES.keys():
        raise LookupError(f"no case, or no point: {', '.join(sorted(unknown))}")
    return sorted(ours - _ABSENT[database])


def crash_points(plan: Plan) -> Outcome:
    """Kill at every point in turn, each time at another pass of it."""
    outcome = Outcome()
    names = points(plan.database)
    # Twice as many as there are cores: most of a trial is waiting for a lease to run out.
    workers = 2 * (os.cpu_count() or 1)
    with (
        open_site(plan.database, plan.folder) as site,
        Nursery(plan.folder) as nursery,
        ThreadPoolExecutor(workers) as pool,
    ):
        stage = _Stage(plan, site, nursery)
        rounds = [
            pool.submit(_kill, stage, names[trial % len(names)], trial // len(names))
            for trial in range(plan.trials)
        ]
        trials = [one.result() for one in rounds]
    outcome.trials = sum(trial.reached for trial in trials)
    outcome.violations = [one for trial in trials for one in trial.violations]
    outcome.note = f"settled at worst {max(trial.seconds for trial in trials):.1f} s after a kill"
    outcome.require(trials=plan.trials)
    return outcome


@dataclass(frozen=True, slots=True)
class _Stage:
    """What all trials share."""

    plan: Plan
    site: Site
    nursery: Nursery


def _kill(stage: _Stage, point: str, number: int) -> _Trial:
    """Kill one victim at one pass of a point, let another process finish, and check."""
    case = CASES[point]
    name = f"{point}-{number}"
    url = stage.site.fresh(migrated=not case.fresh)
    passes = stage.plan.chance(name).randint(1, case.passes)
    run = _Run(stage, name, url, case, case.kinds[number % len(case.kinds)])
    died = run.victims(point, passes, number)
    killed_at = time.monotonic()
    violations = [] if died else [Violation("idle", name, f"pass {passes} never came")]
    violations += run.successor()
    seconds = time.monotonic() - killed_at
    found = judge(read_history(run.history), read_downstream(run.world), read_books(url))
    stage.site.drop(url)
    labelled = [Violation(one.rule, f"{name}: {one.subject}", one.detail) for one in found]
    return _Trial(reached=died, violations=[*violations, *labelled], seconds=seconds)


class _Run:
    """The processes of one trial."""

    def __init__(self, stage: _Stage, name: str, url: str, case: Case, kinds: str) -> None:
        self.history = stage.plan.folder / f"history-{name}"
        self.world = stage.plan.folder / f"world-{name}"
        self._nursery = stage.nursery
        self._case = case
        self._fixed = (url, str(self.history), str(self.world), f"--lease={LEASE}")
        self._seed = f"--seed={stage.plan.seed}-{name}"
        self._kinds = f"--kinds={kinds}"

    def victims(self, point: str, passes: int, number: int) -> bool:
        """Start whoever must die; say whether one died where it should."""
        if self._case.before:
            self._agent(self._case.before, 1).wait(timeout=_PATIENCE)
        again = ["--resend"] if self._case.before else []
        count = 2 if self._case.fresh and number % 2 else 1
        victims = [self._agent(point, passes, *again) for _ in range(count)]
        return -signal.SIGKILL in [victim.wait(timeout=_PATIENCE) for victim in victims]

    def successor(self) -> list[Violation]:
        """Let a fresh process finish, sending once more whatever was sent before."""
        again = ["--resend"] if self.history.exists() and self.history.stat().st_size else []
        agent = self._agent("", 0, *again, "--slow=0", "--work=beside")
        try:
            agent.wait_for("settled", timeout=SETTLED_WITHIN)
            code = agent.wait(timeout=_PATIENCE)
        except TooLate as late:
            agent.kill()
            return [Violation("stuck", self._seed, str(late))]
        return [] if code == 0 else [Violation("crashed", self._seed, agent.text())]

    def _agent(self, point: str, passes: int, *more: str) -> Nursling:
        armed = f"{point}:{passes}:kill" if point else ""
        arguments = (*self._fixed, self._seed, self._kinds, *self._case.arguments, *more)
        return self._nursery.start(AGENT, *arguments, faults=armed)
