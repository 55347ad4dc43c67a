"""Four processes of one attempt claim one artifact, and its holder is killed: one has it at a time.

While the lease of the dead runs nobody gets it; afterwards one does; after its use nobody.
"""

import asyncio
import random
import time
from collections import Counter
from collections.abc import Iterator, Sequence

from oncebox.ledger.admin.api_keys import Requester
from oncebox.ledger.artifacts import claims
from tests.torture.artifacts.claimer import KEY, TENANT
from tests.torture.artifacts.crowd import CLAIMER, Answer, Crowd
from tests.torture.artifacts.shelf import Thing, places, stock
from tests.torture.checks import Violation
from tests.torture.ledger.nursery import Nursery
from tests.torture.mail.books import session_of
from tests.torture.processes import TooLate
from tests.torture.scenario import Outcome, Plan

WORKERS = 4
#: Seconds after which one of them may be killed while all claim, at most.
_LONGEST_WAIT = 0.01
_EXPIRE = "UPDATE oncebox_artifacts SET lease_until = 1 WHERE id = '{}'"


def workers(plan: Plan) -> Outcome:
    """Let all workers of an attempt claim the same artifact, and kill the one that got it."""
    outcome = Outcome()
    killed = 0
    with (
        places(plan.database, plan.folder) as urls,
        Nursery(plan.folder, programs=(CLAIMER,)) as nursery,
    ):
        url = next(urls)
        things = asyncio.run(stock(url, plan.trials))
        crowd = Crowd(nursery, url, plan.folder, ("one",) * WORKERS, "--worker")
        try:
            for number, thing in enumerate(things):
                crowd.fill()
                killed += _round(crowd, url, thing, plan.chance(number), outcome)
                outcome.trials += 1
        except TooLate as late:
            outcome.violations.append(Violation("stuck", thing.id, str(late)))
        finally:
            crowd.close()
    outcome.note = f"{killed} killed"
    outcome.require(trials=plan.trials)
    return outcome


def _round(crowd: Crowd, url: str, thing: Thing, dice: random.Random, outcome: Outcome) -> int:
    """Claim, kill the holder, claim under its lease, after it, and after the use."""
    crowd.order(f"{thing.id}/1")
    if dice.random() < 0.5:  # in half of the rounds
        time.sleep(dice.random() * _LONGEST_WAIT)
        dice.choice(crowd.all).kill()
    first = crowd.answers(f"{thing.id}/1")
    for each in crowd.all:
        answer = each.answer(f"{thing.id}/1")
        if answer is not None and answer.word == "granted" and each.running:
            each.kill()
            each.code()
    killed = sum(not each.running for each in crowd.all)
    leased = _asked(crowd, thing, "2")
    with session_of(url, writable=True) as session:
        session.run(lambda tx: tx.execute(_EXPIRE.format(thing.id)))
    expired = _asked(crowd, thing, "3")
    who, now = Requester(tenant=TENANT, key=KEY), time.time_ns() // 1_000_000
    with session_of(url, writable=True) as session:
        session.run(lambda tx: claims.confirm_used(tx, who, thing.id, now))
    outcome.violations += judge(thing, first, leased, expired, _asked(crowd, thing, "4"))
    return killed


def _asked(crowd: Crowd, thing: Thing, time_: str) -> list[Answer]:
    """Let all claim once more, the dead replaced."""
    crowd.fill()
    crowd.order(f"{thing.id}/{time_}")
    return crowd.answers(f"{thing.id}/{time_}")


def judge(
    thing: Thing,
    first: Sequence[Answer],
    leased: Sequence[Answer],
    expired: Sequence[Answer],
    used: Sequence[Answer],
) -> Iterator[Violation]:
    """Find workers that had it at the same time, one that could not read it, and wrong words."""
    if sum(each.word == "granted" for each in first) > 1:
        yield Violation("doubled", thing.id, "two workers got it")
    if any(each.word == "granted" for each in leased):
        yield Violation("doubled", thing.id, "granted under the lease of another worker")
    after = Counter(each.word for each in expired)
    if after["granted"] > 1:
        yield Violation("doubled", thing.id, "two workers got it after the lease")
    if not after["granted"]:
        yield Violation("lost", thing.id, "nobody got it after the lease")
    if any(each.word != "used" for each in used):
        yield Violation("doubled", thing.id, "granted after its use")
    yield from _odd(thing, (*first, *leased, *expired))


def _odd(thing: Thing, answers: Sequence[Answer]) -> Iterator[Violation]:
    for each in answers:
        if each.word not in {"granted", "in_flight"}:
            yield Violation("refused", thing.id, each.word)
        if each.word == "granted" and each.value != thing.value:
            yield Violation("corrupt", thing.id, "read something else")
