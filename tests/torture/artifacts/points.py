"""A kill at every point of a claim: the same claim gets what it was promised, nobody else does."""

import asyncio
import signal
from collections.abc import Sequence

from tests.torture.artifacts.crowd import CLAIMER, Answer, Crowd
from tests.torture.artifacts.shelf import Thing, holder, places, stock
from tests.torture.checks import Violation
from tests.torture.ledger.nursery import Nursery
from tests.torture.processes import TooLate
from tests.torture.scenario import Outcome, Plan

#: Each point, and at one of how many passes it strikes.
CASES = {"artifacts.claimed": 8, "artifacts.granted": 8}
#: Artifacts of one trial.
THINGS = 8
_MINE, _OTHERS = "mine", "others"


def claim_points(plan: Plan) -> Outcome:
    """Kill a claimer at every point in turn, each time at another pass of it."""
    outcome = Outcome()
    names = sorted(CASES)
    with (
        places(plan.database, plan.folder) as urls,
        Nursery(plan.folder, programs=(CLAIMER,)) as nursery,
    ):
        url = next(urls)
        shelf = asyncio.run(stock(url, plan.trials * THINGS))
        for trial in range(plan.trials):
            things = shelf[trial * THINGS : (trial + 1) * THINGS]
            point = names[trial % len(names)]
            passes = plan.chance(trial).randint(1, CASES[point])
            crowd = Crowd(nursery, url, plan.folder, (_MINE,))
            try:
                died = _trial(crowd, f"{point}:{passes}:kill", things, url, outcome)
                outcome.trials += died
            except TooLate as late:
                outcome.violations.append(Violation("stuck", point, str(late)))
            finally:
                crowd.close()
    outcome.require(trials=plan.trials)
    return outcome


def _trial(crowd: Crowd, armed: str, things: Sequence[Thing], url: str, outcome: Outcome) -> bool:
    """Claim past a process that dies, then let its successor and a rival claim the same."""
    crowd.fill([armed])
    told = _asked(crowd, things, "victim")
    died = not crowd.all[0].running and crowd.all[0].code() == -signal.SIGKILL
    crowd.fill()
    again = _asked(crowd, things, "successor")
    rival = crowd.beside(_OTHERS)
    try:
        others = _asked(rival, things, "rival")
    finally:
        rival.close()
    for thing in things:
        outcome.violations += _judged(
            thing, told.get(thing.id), again.get(thing.id), others.get(thing.id)
        )
        if holder(url, thing, (_MINE,)) != _MINE:
            outcome.violations.append(Violation("stolen", thing.id, "not the claim that asked"))
    return died


def _asked(crowd: Crowd, things: Sequence[Thing], who: str) -> dict[str, Answer]:
    """Let a process claim one after the other; return what it was told before it died."""
    told: dict[str, Answer] = {}
    for thing in things:
        crowd.order(f"{thing.id}/{who}")
        for answer in crowd.answers(f"{thing.id}/{who}"):
            told[thing.id] = answer
    return told


def _judged(
    thing: Thing, told: Answer | None, again: Answer | None, other: Answer | None
) -> list[Violation]:
    found = []
    if again is None or (again.word, again.value) != ("granted", thing.value):
        found.append(Violation("lost", thing.id, "the same claim cannot read it"))
    elif told is not None and not again.repeated:
        found.append(Violation("doubled", thing.id, "granted twice for the first time"))
    if other is None or other.word != "already_claimed":
        found.append(Violation("stolen", thing.id, "another claim got it"))
    return found
