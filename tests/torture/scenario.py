"""What a scenario is given, what it gives back, and how one is run."""

import random
import tempfile
import time
import traceback
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from tests.support.postgres import PostgresMissing
from tests.support.scratch import scratch
from tests.torture.checks import Violation
from tests.torture.powercut import CannotCutPower


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """What a scenario is given."""

    #: ``sqlite`` or ``postgres``.
    database: str
    #: How many times the fault is to be made.
    trials: int
    #: The whole run is repeated by giving the same seed again.
    seed: int
    #: An empty folder outside the faults, removed afterwards.
    folder: Path

    def chance(self, trial: object = "") -> random.Random:
        """Return the dice of one trial; each trial has its own, whatever the others threw."""
        return random.Random(f"{self.seed}/{self.database}/{trial}")


@dataclass(slots=True, kw_only=True)
class Outcome:
    """What a scenario gives back."""

    #: How many times the fault was really made.
    trials: int = 0
    violations: list[Violation] = field(default_factory=list)
    #: A figure worth printing, such as how many deliveries were acknowledged.
    note: str = ""

    def require(self, *, trials: int) -> None:
        """Count it as a violation when the fault struck less often than planned."""
        if self.trials < trials:
            detail = f"{self.trials} of {trials} faults were made"
            self.violations.append(Violation("idle", "harness", detail))


@dataclass(frozen=True, slots=True, kw_only=True)
class Scenario:
    """One fault, made many times on one database."""

    name: str
    database: str
    run: Callable[[Plan], Outcome]
    trials: int
    #: The trials of the small form, for every change rather than every night.
    short: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Report:
    """One row of the table."""

    scenario: Scenario
    outcome: Outcome
    seconds: float
    #: Why it could not be run here; then nothing was proved.
    skipped: str = ""

    @property
    def verdict(self) -> str:
        """Say in one word how it went."""
        if self.skipped:
            return "skipped"
        return "broken" if self.outcome.violations else "held"


def run(scenario: Scenario, *, seed: int, short: bool) -> Report:
    """Run one scenario in a folder of its own; whatever it raises becomes part of the report."""
    trials = scenario.short if short else scenario.trials
    skipped = ""
    outcome = Outcome()
    begun = time.monotonic()
    # What a killed process has written is kept in memory as on a disk; the long form sees a disk.
    parent = scratch() if short else None
    with tempfile.TemporaryDirectory(
        prefix="torture-", dir=parent, ignore_cleanup_errors=True
    ) as folder:
        # Servers that refuse to run as root must be able to walk in.
        Path(folder).chmod(0o755)
        plan = Plan(database=scenario.database, trials=trials, seed=seed, folder=Path(folder))
        try:
            outcome = scenario.run(plan)
        except (CannotCutPower, PostgresMissing) as reason:
            skipped = str(reason)
        except Exception:  # noqa: BLE001 - one broken scenario must not hide the others
            outcome.violations.append(Violation("crashed", "harness", traceback.format_exc()))
    return Report(
        scenario=scenario,
        outcome=outcome,
        seconds=time.monotonic() - begun,
        skipped=skipped,
    )


def caught(outcome: Outcome, rules: Sequence[str]) -> Outcome:
    """Turn the outcome of a mutant round: it must break one of these rules, and no others."""
    found = [one for one in outcome.violations if one.rule in rules]
    turned = Outcome(
        trials=outcome.trials,
        violations=[one for one in outcome.violations if one.rule not in rules],
        note=f"{len(found)} {'/'.join(rules)} as planned  {outcome.note}".rstrip(),
    )
    if not found:
        turned.violations.append(Violation("blind", "harness", "the mutant was not caught"))
    return turned
