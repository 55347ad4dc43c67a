"""The table tells the truth: what broke, what was skipped, what proved nothing."""

from pathlib import Path

import pytest

from tests.torture.__main__ import main
from tests.torture.checks import Violation
from tests.torture.powercut import CannotCutPower
from tests.torture.scenario import Outcome, Plan, Report, Scenario, caught, run


def reported(result: Outcome | Exception) -> Report:
    def play(plan: Plan) -> Outcome:
        if isinstance(result, Exception):
            raise result
        return result

    scenario = Scenario(name="x", database="sqlite", run=play, trials=9, short=3)
    return run(scenario, seed=1, short=True)


def test_a_scenario_without_violations_held() -> None:
    assert reported(Outcome(trials=3)).verdict == "held"


def test_a_violation_breaks_it() -> None:
    assert reported(Outcome(violations=[Violation("lost", "a")])).verdict == "broken"


def test_a_machine_without_mounts_skips_and_never_passes() -> None:
    report = reported(CannotCutPower("no root"))

    assert (report.verdict, report.skipped) == ("skipped", "no root")


def test_a_scenario_that_crashes_is_broken() -> None:
    report = reported(ZeroDivisionError("oops"))

    assert report.verdict == "broken"
    assert "oops" in str(report.outcome.violations[0])


def test_fewer_faults_than_planned_is_a_violation() -> None:
    outcome = Outcome(trials=2)
    outcome.require(trials=3)

    assert [one.rule for one in outcome.violations] == ["idle"]


def test_a_mutant_that_is_not_caught_is_a_violation() -> None:
    assert [one.rule for one in caught(Outcome(), ["lost"]).violations] == ["blind"]


def test_a_mutant_that_breaks_only_what_it_should_passes() -> None:
    lost, corrupt = Violation("lost", "a"), Violation("corrupt", "b")

    assert caught(Outcome(violations=[lost]), ["lost"]).violations == []
    assert caught(Outcome(violations=[lost, corrupt]), ["lost"]).violations == [corrupt]


def test_dice_depend_on_seed_and_trial_only(tmp_path: Path) -> None:
    def throw(seed: int, trial: int) -> float:
        plan = Plan(database="sqlite", trials=1, seed=seed, folder=tmp_path)
        return plan.chance(trial).random()

    assert throw(1, 1) == throw(1, 1)
    assert len({throw(1, 1), throw(1, 2), throw(2, 1)}) == 3


def test_an_unknown_name_is_refused() -> None:
    with pytest.raises(SystemExit, match="no such group or scenario: nonsense"):
        main(["nonsense"])


def test_names_choose_groups_and_scenarios(capsys: pytest.CaptureFixture[str]) -> None:
    main(["--list", "harness", "--only", "stand-in-zombie"])

    assert capsys.readouterr().out.split()[0] == "stand-in-zombie"
