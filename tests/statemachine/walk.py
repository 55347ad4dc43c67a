"""Random walks: the same acts without Hypothesis, many more of them in the same time."""

import random

from tests.statemachine.driver import Driver
from tests.statemachine.machine import ACTS
from tests.support.clerk import Clerk


def walk(clerk: Clerk, *, seed: int, steps: int) -> None:
    """Do so many acts in an order that the seed decides; a failure tells how to repeat it."""
    dice = random.Random(seed)
    driver = Driver(clerk)
    taken = []
    acts, shares = list(ACTS), list(ACTS.values())
    try:
        for _ in range(steps):
            (act,) = dice.choices(acts, shares)
            who, more = dice.randrange(1_000), dice.randrange(1_000)
            taken.append(f"{act.__name__}({who}, {more})")
            act(driver, who, more)
            driver.check()
        driver.finish_everything()
    except AssertionError as failure:
        failure.add_note(f"seed {seed} after {len(taken)} acts: {'; '.join(taken)}")
        raise
