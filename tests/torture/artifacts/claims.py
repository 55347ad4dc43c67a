"""Thirty-two processes claim one artifact, and some are killed in the middle: one grant."""

import asyncio
import random
import time
from collections.abc import Iterator, Sequence

from tests.torture.artifacts.crowd import CLAIMER, Answer, Crowd
from tests.torture.artifacts.shelf import Thing, holder, places, stock
from tests.torture.checks import Violation
from tests.torture.ledger.nursery import Nursery
from tests.torture.processes import TooLate
from tests.torture.scenario import Outcome, Plan, caught

CROWD = 32
#: Fewer claim keys than processes: some are the same agent, started again too soon.
CLAIM_KEYS = tuple(f"claim-{number % 24}" for number in range(CROWD))
_POINTS = ("artifacts.claimed", "artifacts.granted")
#: Seconds after which the first victim may die, at most.
_LONGEST_WAIT = 0.02
_MOST_KILLED = 6
#: The share of newcomers who carry a fault in them.
_ARMED = 0.25


def claims(plan: Plan) -> Outcome:
    """Let all claim the same artifact, kill some, and ask again, round after round."""
    return _rounds(plan)


def naive(plan: Plan) -> Outcome:
    """See that a program which looks first and takes then is caught."""
    return caught(_rounds(plan, "--naive"), ["doubled", "stolen"])


def _rounds(plan: Plan, *options: str) -> Outcome:
    outcome = Outcome()
    killed = 0
    with (
        places(plan.database, plan.folder) as urls,
        Nursery(plan.folder, programs=(CLAIMER,)) as nursery,
    ):
        url = next(urls)
        things = asyncio.run(stock(url, plan.trials))
        crowd = Crowd(nursery, url, plan.folder, CLAIM_KEYS, *options)
        try:
            for number, thing in enumerate(things):
                dice = plan.chance(number)
                crowd.fill(_armed(dice))
                killed += _round(crowd, url, thing, dice, outcome)
                outcome.trials += 1
        except TooLate as late:
            outcome.violations.append(Violation("stuck", thing.id, str(late)))
        finally:
            crowd.close()
    outcome.note = f"{killed} killed"
    outcome.require(trials=plan.trials)
    if not killed:
        outcome.violations.append(Violation("idle", "harness", "nobody was killed"))
    return outcome


def _armed(dice: random.Random) -> Iterator[str]:
    """Let some newcomers die by themselves, at a point and pass that are drawn."""
    while True:
        point, passes = dice.choice(_POINTS), dice.randint(1, 8)
        yield f"{point}:{passes}:kill" if dice.random() < _ARMED else ""


def _round(crowd: Crowd, url: str, thing: Thing, dice: random.Random, outcome: Outcome) -> int:
    """Claim, kill, look, and claim again; return how many died."""
    crowd.order(f"{thing.id}/1")
    for victim in dice.sample(crowd.all, dice.randint(1, _MOST_KILLED)):
        time.sleep(dice.random() * _LONGEST_WAIT / _MOST_KILLED)
        victim.kill()
    first = crowd.answers(f"{thing.id}/1")
    killed = sum(not each.running for each in crowd.all)
    crowd.fill()
    has = holder(url, thing, CLAIM_KEYS)
    crowd.order(f"{thing.id}/2")
    outcome.violations += judge(thing, has, first, crowd.answers(f"{thing.id}/2"))
    return killed


def judge(
    thing: Thing, has: str | None, first: Sequence[Answer], second: Sequence[Answer]
) -> Iterator[Violation]:
    """Find grants that are not one, and a holder who cannot read it again."""
    granted = [each for each in first if each.word == "granted"]
    if len({each.claim_key for each in granted}) > 1:
        yield Violation("doubled", thing.id, f"{len(granted)} grants")
    if sum(not each.repeated for each in (*first, *second) if each.word == "granted") > 1:
        yield Violation("doubled", thing.id, "granted for the first time, twice")
    if has is None or (granted and granted[0].claim_key != has):
        yield Violation("stolen", thing.id, f"{has} has it, {len(granted)} were granted it")
    for each in second:
        if (each.word == "granted") is not (each.claim_key == has):
            yield Violation("stolen", thing.id, f"{each.claim_key}: {each.word}, {has} has it")
    for each in (*first, *second):
        yield from _odd(thing, each)


def _odd(thing: Thing, answer: Answer) -> Iterator[Violation]:
    if answer.word not in {"granted", "already_claimed"}:
        yield Violation("refused", thing.id, answer.word)
    if answer.word == "granted" and answer.value != thing.value:
        yield Violation("corrupt", thing.id, f"{answer.claim_key} read something else")
