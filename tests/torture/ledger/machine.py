"""The ledger against its model: long random histories, each step checked."""

import importlib
from collections.abc import Callable

from tests.torture.checks import Violation
from tests.torture.scenario import Outcome, Plan

MODULE = "tests.statemachine.run"
STEPS = 50


def state_machine(plan: Plan) -> Outcome:
    """Play as many histories as there are trials; a failing one is shrunk and shown."""
    outcome = Outcome()
    try:
        module = importlib.import_module(MODULE)
    except ModuleNotFoundError as absent:
        raise RuntimeError(f"{MODULE} is missing: the model tests are not there") from absent
    play: Callable[..., object] = module.main
    try:
        play(examples=plan.trials, steps=STEPS, database=plan.database)
    except AssertionError as broken:
        outcome.violations.append(Violation("model", plan.database, str(broken)))
    outcome.trials = plan.trials
    return outcome
