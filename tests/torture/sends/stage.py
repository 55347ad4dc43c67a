"""The stage of a trial: a fake that survives, a database, and senders who come and go."""

import contextlib
import os
import re
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from oncebox.testing.provider import ScriptedProvider
from oncebox.testing.smtp import ScriptedSmtp
from tests.torture.checks import Violation
from tests.torture.history import read_history
from tests.torture.ledger.nursery import Nursery, Nursling
from tests.torture.ledger.sites import Site, open_site
from tests.torture.processes import TooLate
from tests.torture.scenario import Outcome, Plan
from tests.torture.sends.books import read_send_books
from tests.torture.sends.mails import keys
from tests.torture.sends.promises import judge, taken_by

SENDER = "tests.torture.sends.sender"
#: Mails of one trial.
MAILS = 6
PATIENCE = 60.0

#: What no address and no file is called by.
_UNNAMED = re.compile("[^a-z0-9]+")

Fake = ScriptedSmtp | ScriptedProvider


@dataclass(frozen=True, slots=True)
class Course:
    """By which way is sent, and what was chosen for doubt."""

    resend: bool = False
    #: empty: the default
    policy: str = ""
    #: seconds for the answer to the dot
    answer_within: float = 600.0

    @property
    def promised(self) -> str:
        """What must happen in doubt: by default a replay where keys are honoured."""
        return self.policy or ("replay" if self.resend else "hold")

    def fake(self) -> Fake:
        """Return the other side, not yet started."""
        return ScriptedProvider() if self.resend else ScriptedSmtp()


@dataclass(frozen=True, slots=True)
class Trial:
    """What one fault showed."""

    reached: bool
    violations: Sequence[Violation]


class Stage:
    """What one trial has to itself."""

    def __init__(self, nursery: Nursery, folder: Path, url: str, course: Course, name: str) -> None:
        """Prepare a trial; its keys are its own."""
        self._nursery = nursery
        self._history = folder / f"history-{name}"
        self.url = url
        self.course = course
        self.name = name

    def sender(self, fake: Fake, *, faults: str = "", url: str | None = None) -> Nursling:
        """Start a sender, who asks for all mails of this trial, perhaps by another road."""
        course = self.course
        words = [url or self.url, str(fake.port), str(self._history), self.name, f"--count={MAILS}"]
        words += [f"--policy={course.policy}", f"--answer-within={course.answer_within}"]
        words += ["--resend"] if course.resend else []
        return self._nursery.start(SENDER, *words, faults=faults)

    def ended(self, sender: Nursling) -> list[Violation]:
        """Let a sender end by itself, and say if it did not."""
        try:
            code = sender.wait(timeout=PATIENCE)
        except TooLate as late:
            sender.kill()
            return [Violation("stuck", self.name, str(late))]
        return [] if code == 0 else [Violation("crashed", self.name, sender.text())]

    def judged(self, fake: Fake) -> list[Violation]:
        """Compare the ledger with what the fake really took."""
        found = judge(
            keys(self.name, MAILS),
            read_history(self._history),
            read_send_books(self.url),
            taken_by(fake),
            self.course.promised,
        )
        return [Violation(one.rule, f"{self.name}: {one.subject}", one.detail) for one in found]


#: makes one fault, once
Play = Callable[[Stage, Fake, int], Trial]


def play(
    plan: Plan, courses: Sequence[Course], cases: Sequence[str], one: Callable[[str], Play]
) -> Outcome:
    """Make every fault in turn on every course, several at the same time."""
    outcome = Outcome()
    # Twice as many as there are cores: most of a trial is waiting for a lease to run out.
    workers = 2 * (os.cpu_count() or 1)
    with (
        open_site(plan.database, plan.folder) as site,
        Nursery(plan.folder, programs=(SENDER,)) as nursery,
        ThreadPoolExecutor(workers) as pool,
    ):

        def trial(number: int) -> Trial:
            case = cases[number % len(cases)]
            # So that neighbours differ, and the next round takes each case on another course.
            course = courses[(number + number // len(cases)) % len(courses)]
            with _fresh(site) as url, course.fake() as fake:
                name = f"{_UNNAMED.sub('-', case)}-{number}"
                stage = Stage(nursery, plan.folder, url, course, name)
                return one(case)(stage, fake, number // len(cases))

        trials = list(pool.map(trial, range(plan.trials)))
    outcome.trials = sum(each.reached for each in trials)
    outcome.violations = [found for each in trials for found in each.violations]
    outcome.require(trials=plan.trials)
    return outcome


@contextmanager
def _fresh(site: Site) -> Iterator[str]:
    url = site.fresh()
    yield url
    with contextlib.suppress(FileNotFoundError):
        site.drop(url)
