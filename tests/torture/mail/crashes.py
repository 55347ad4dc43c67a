"""A kill at every point on a mail's way: the next process goes on, nothing is lost or doubled."""

import os
import signal
import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

from oncebox.core import faults
from tests.support.ports import free_port
from tests.torture.checks import Violation
from tests.torture.history import Event, read_history
from tests.torture.ledger.books import read_books
from tests.torture.ledger.nursery import Nursery, Nursling
from tests.torture.mail.letters import Letter, letters, parcels
from tests.torture.mail.offices import Office, open_office
from tests.torture.mail.post_books import count_open, read_post_books
from tests.torture.mail.postman import Postman
from tests.torture.mail.promises import judge
from tests.torture.processes import TooLate, until
from tests.torture.scenario import Outcome, Plan

RECEIVER = "tests.torture.mail.receiver"
#: Mails of one trial; with their copies about twice as many.
LETTERS = 10
#: Each point, and at one of how many passes it strikes; what is done for many at once is passed
#: once or twice only.
CASES = {
    "smtp.after-354": 8,
    "smtp.dot-seen": 8,
    "smtp.spooled": 8,
    "smtp.rows-written": 3,
    "smtp.committed": 8,
    "parse.answered": 6,
    "mail.claimed": 6,
    "mail.parsed": 6,
    "mail.filed": 2,
    "mail.committed": 6,
    "sequencer.numbered": 2,
    "sequencer.committed": 2,
}
#: First words of the points on a mail's way.
WORDS = ("smtp.", "parse.", "mail.", "sequencer.")
_PATIENCE = 60.0
#: How long after a mail was sent the last of it may take, a lease and a start included.
_SETTLED_WITHIN = 30.0
#: Each look is a connection of its own.
_LOOK_EVERY = 0.1


@dataclass(frozen=True, slots=True)
class _Trial:
    """What one kill showed."""

    reached: bool
    violations: Sequence[Violation]
    #: Seconds from the kill until everything was settled.
    seconds: float


@dataclass(frozen=True, slots=True)
class Course:
    """Where kills strike, what is sent, and what must have come of it."""

    #: Each point, and at one of how many passes it strikes.
    cases: Mapping[str, int]
    draw: Callable[[str, int, Sequence[str]], Sequence[Letter]]
    judge: Callable[[Sequence[Letter], Sequence[Event], str], list[Violation]]


@dataclass(frozen=True, slots=True)
class _Stage:
    """What all trials share."""

    plan: Plan
    office: Office
    nursery: Nursery
    course: Course


def points() -> list[str]:
    """Return the points on a mail's way."""
    known = {point for point in faults.POINTS if point.startswith(WORDS)}
    if unknown := known ^ CASES.keys():
        raise LookupError(f"no case, or no point: {', '.join(sorted(unknown))}")
    return sorted(known)


def crash_points(plan: Plan) -> Outcome:
    """Kill at every point on a mail's way.

    On SQLite the events of a mail have their numbers from its own commit: no sequencer takes part.
    """
    names = points()
    if plan.database == "sqlite":
        names = [each for each in names if not each.startswith("sequencer.")]
    return play(plan, names, Course(CASES, letters, _judge))


def play(plan: Plan, names: Sequence[str], course: Course) -> Outcome:
    """Kill at every point in turn, each time at another pass of it."""
    outcome = Outcome()
    # Twice as many as there are cores: most of a trial is waiting for a lease to run out.
    workers = 2 * (os.cpu_count() or 1)
    with (
        open_office(plan.database, plan.folder) as office,
        Nursery(plan.folder, programs=(RECEIVER,)) as nursery,
        ThreadPoolExecutor(workers) as pool,
    ):
        stage = _Stage(plan, office, nursery, course)
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


def _kill(stage: _Stage, point: str, number: int) -> _Trial:
    """Kill one receiver at one pass of a point, let another go on, and check."""
    name = f"{point}-{number}"
    passes = stage.plan.chance(name).randint(1, stage.course.cases[point])
    trial = _kill_at_pass(stage, name, point, passes, number)
    if trial.reached or trial.violations:
        return trial
    # All was done in fewer batches than that; the first of them is never missed.
    again = _kill_at_pass(stage, f"{name}-first", point, 1, number)
    missed = [] if again.reached else [Violation("idle", name, "no pass ever came")]
    return _Trial(again.reached, [*again.violations, *missed], again.seconds)


def _kill_at_pass(stage: _Stage, name: str, point: str, passes: int, number: int) -> _Trial:
    url = stage.office.fresh()
    run = _Run(stage, name, url)
    drawn = stage.course.draw(f"{stage.plan.seed}-{number}", LETTERS, stage.office.inboxes)
    died, violations, seconds = run.through(point, passes, drawn)
    found = stage.course.judge(drawn, read_history(run.history), url)
    found += [Violation("corrupt", "database", fault) for fault in read_books(url).faults]
    stage.office.drop(url)
    labelled = [Violation(one.rule, f"{name}: {one.subject}", one.detail) for one in found]
    return _Trial(reached=died, violations=[*violations, *labelled], seconds=seconds)


def _judge(drawn: Sequence[Letter], events: Sequence[Event], url: str) -> list[Violation]:
    return judge(drawn, events, read_post_books(url))


class _Run:
    """The processes of one trial."""

    def __init__(self, stage: _Stage, name: str, url: str) -> None:
        self.history = stage.plan.folder / f"history-{name}"
        self._nursery = stage.nursery
        self._url = url
        self._port = free_port()
        self._folder = stage.plan.folder / f"data-{name}"

    def through(
        self, point: str, passes: int, drawn: Sequence[Letter]
    ) -> tuple[bool, list[Violation], float]:
        """Send all letters, past a receiver that dies; say whether it did, and what went wrong."""
        victim = self._receiver(f"{point}:{passes}:kill")
        victim.wait_for("ready", timeout=_PATIENCE)
        with Postman(self._port, parcels(drawn), self.history) as postman:
            died = self._await_death(victim, postman)
            killed_at = time.monotonic()
            successor = self._receiver("")
            try:
                successor.wait_for("ready", timeout=_PATIENCE)
                violations = self._finish(postman, successor)
            except TooLate as late:
                violations = [Violation("stuck", point, str(late))]
            successor.clean_away()
        return died, violations, time.monotonic() - killed_at

    def _await_death(self, victim: Nursling, postman: Postman) -> bool:
        """Wait until the victim dies where it should, or has done everything without."""
        for _ in until(_PATIENCE):
            if not victim.running:
                return victim.wait() == -signal.SIGKILL
            if not postman.waiting and not count_open(self._url):
                break
            time.sleep(_LOOK_EVERY)
        # What comes after the last commit, such as counting it, may be where it should die.
        victim.terminate()
        return victim.wait(timeout=_PATIENCE) == -signal.SIGKILL

    def _finish(self, postman: Postman, successor: Nursling) -> list[Violation]:
        if not postman.finish(_PATIENCE):
            return [Violation("stuck", "sender", f"not all was taken\n{successor.text()}")]
        for _ in until(_SETTLED_WITHIN):
            if not count_open(self._url):
                break
            time.sleep(_LOOK_EVERY)
        else:
            return [Violation("stuck", "receiver", successor.text())]
        successor.terminate()
        code = successor.wait(timeout=_PATIENCE)
        return [] if code == 0 else [Violation("crashed", "receiver", successor.text())]

    def _receiver(self, armed: str) -> Nursling:
        return self._nursery.start(
            RECEIVER, self._url, str(self._port), str(self._folder), faults=armed
        )
