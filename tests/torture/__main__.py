"""Run the scenarios: ``python -m tests.torture [group or scenario ...] [--short]``."""

import argparse
import importlib
import os
import random
import signal
import sys
from collections import Counter
from collections.abc import Iterable, Sequence

from tests.torture.scenario import Report, Scenario, run

#: Each group is a package here whose module ``scenarios`` has its ``SCENARIOS``.
GROUPS = (
    "harness", "ledger", "hooks", "mail", "artifacts", "sends", "rotation", "plugin", "fairness",
    "capacity", "mailboxes",
)  # fmt: skip
#: How many violations of one scenario are printed before the rest is only counted.
SHOWN = 20
_ROW = "{:<28} {:<9} {:>7} {:>11} {:>9}  {}\n"


def main(arguments: Sequence[str]) -> int:
    """Run what was asked for and return 0 only if every promise held."""
    options = _parser().parse_args(arguments)
    # Whoever ends us politely gets every child, mount and folder cleaned away first.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(128 + signal.SIGTERM))
    chosen = [
        one
        for one in _chosen(options.names, options.only)
        if options.database in {None, one.database}
    ]
    if options.list:
        _list(chosen)
        return 0
    _print(f"seed {options.seed}\n")
    _print(_ROW.format("scenario", "database", "trials", "violations", "seconds", "verdict"))
    reports = []
    for scenario in chosen:
        report = run(scenario, seed=options.seed, short=options.short)
        _print_report(report)
        reports.append(report)
    return _exit_code(reports)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m tests.torture", description=__doc__)
    parser.add_argument("names", nargs="*", help="groups or scenarios; all when left out")
    parser.add_argument("--only", action="append", default=[], help="a scenario of the groups")
    parser.add_argument("--database", choices=("sqlite", "postgres"), help="only on this one")
    parser.add_argument("--short", action="store_true", help="run the small form")
    parser.add_argument("--list", action="store_true", help="name the scenarios and end")
    parser.add_argument(
        "--seed", type=int, default=random.SystemRandom().randrange(1 << 32), help="repeat a run"
    )
    return parser


def _chosen(names: Sequence[str], only: Sequence[str]) -> Iterable[Scenario]:
    known = {group: _scenarios(group) for group in GROUPS}
    unknown = {*names, *only} - {*known, *(one.name for all_ in known.values() for one in all_)}
    if unknown:
        raise SystemExit(f"no such group or scenario: {', '.join(sorted(unknown))}")
    for group, scenarios in known.items():
        for scenario in scenarios:
            wanted = not names or group in names or scenario.name in names
            if wanted and (not only or scenario.name in only):
                yield scenario


def _scenarios(group: str) -> Sequence[Scenario]:
    module = importlib.import_module(f"tests.torture.{group}.scenarios")
    scenarios: Sequence[Scenario] = module.SCENARIOS
    return scenarios


def _list(scenarios: Iterable[Scenario]) -> None:
    for one in scenarios:
        _print(f"{one.name:<28} {one.database:<9} {one.trials:>5} (short {one.short})\n")


def _print_report(report: Report) -> None:
    outcome = report.outcome
    _print(
        _ROW.format(
            report.scenario.name,
            report.scenario.database,
            outcome.trials,
            len(outcome.violations),
            f"{report.seconds:.1f}",
            f"{report.verdict}  {report.skipped or outcome.note}".rstrip(),
        )
    )
    for violation in outcome.violations[:SHOWN]:
        _print(f"    {violation}\n")
    if len(outcome.violations) > SHOWN:
        rules = Counter(violation.rule for violation in outcome.violations)
        counted = ", ".join(f"{count} {rule}" for rule, count in rules.most_common())
        _print(f"    in all {len(outcome.violations)}: {counted}\n")


def _exit_code(reports: Sequence[Report]) -> int:
    """Call a run good only if something was proved; under CI=true skipping proves nothing."""
    verdicts = {report.verdict for report in reports}
    if "broken" in verdicts or not verdicts:
        return 1
    return 1 if "skipped" in verdicts and os.environ.get("CI") == "true" else 0


def _print(text: str) -> None:
    sys.stdout.write(text)
    sys.stdout.flush()


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
