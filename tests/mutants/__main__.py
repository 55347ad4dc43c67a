"""Plant every fault and see it caught: ``python -m tests.mutants [word of a name ...]``."""

import os
import sys
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

from tests.mutants.every import EVERY
from tests.mutants.mutants import Mutant
from tests.mutants.planted_types import unsound
from tests.mutants.workshop import Killer, Unfit, Verdict, Workshop

_ROW = "{:<45} {:<8} {:>7}  {}\n"
#: Lines of a run's output that are shown when it did not turn out as it should.
_SHOWN = 25


@dataclass(frozen=True, slots=True)
class Trial:
    """One fault against one of its killers."""

    mutant: Mutant
    killer: Killer
    verdict: Verdict


def main(words: Sequence[str]) -> int:
    """Return 0 only if the sound copy is green and every fault is caught by all its killers."""
    chosen = [one for one in EVERY if not words or any(word in one.name for word in words)]
    if not chosen:
        _print("no mutant has such a name\n")
        return 1
    try:
        return _typed(chosen) or _sound(chosen) or _mutated(chosen)
    except Unfit as reason:
        _print(f"unfit: {reason}\n")
        return 1


def _typed(chosen: Sequence[Mutant]) -> int:
    """Refuse faults that would be caught only because they use names that do not exist."""
    lines = list(unsound(chosen))
    for line in lines:
        _print(f"not a fault but a mistake: {line}\n")
    return 1 if lines else 0


def _sound(chosen: Sequence[Mutant]) -> int:
    """Prove first that whatever shall turn red is green without a fault."""
    killers = list(dict.fromkeys(killer for mutant in chosen for killer in mutant.killers))
    with Workshop() as workshop, _pool() as pool:
        verdicts = list(pool.map(workshop.run, killers))
    for killer, verdict in zip(killers, verdicts, strict=True):
        if not verdict.green:
            _print(f"not green without a fault: {killer}\n{_tail(verdict)}\n")
    seconds = sum(verdict.seconds for verdict in verdicts)
    green = sum(verdict.green for verdict in verdicts)
    _print(f"without a fault: {green} of {len(killers)} green, {seconds:.0f} s\n\n")
    return 0 if green == len(killers) else 1


def _mutated(chosen: Sequence[Mutant]) -> int:
    _print(_ROW.format("mutant", "verdict", "seconds", "killed by"))
    survived = 0
    with _pool() as pool:
        for trials in pool.map(_try, chosen):
            for trial in trials:
                _print_trial(trial)
                survived += not trial.verdict.red
    _print(f"\n{len(chosen)} mutants, {survived} runs that did not turn red\n")
    return 1 if survived else 0


def _try(mutant: Mutant) -> list[Trial]:
    with Workshop(mutant.patches) as workshop:
        return [Trial(mutant, killer, workshop.run(killer)) for killer in mutant.killers]


def _print_trial(trial: Trial) -> None:
    verdict = "killed" if trial.verdict.red else "SURVIVED"
    seconds = f"{trial.verdict.seconds:.1f}"
    _print(_ROW.format(trial.mutant.name, verdict, seconds, trial.killer))
    if not trial.verdict.red:
        _print(f"{_tail(trial.verdict)}\n")


def _tail(verdict: Verdict) -> str:
    return "\n".join(f"    {line}" for line in verdict.output.splitlines()[-_SHOWN:])


def _pool() -> ThreadPoolExecutor:
    return ThreadPoolExecutor(max(2, (os.cpu_count() or 2) // 2))


def _print(text: str) -> None:
    sys.stdout.write(text)
    sys.stdout.flush()


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
