"""Answers lost between PostgreSQL and a sender: of intents, claims, markers and results alike."""

from oncebox.testing.smtp import ScriptedSmtp
from tests.torture.ledger.nursery import Nursery
from tests.torture.ledger.sites import open_site
from tests.torture.proxy import FaultProxy, Moment
from tests.torture.scenario import Outcome, Plan
from tests.torture.sends.stage import SENDER, Course, Stage

#: Rounds after which it is said that the fault does not come.
_MOST_ROUNDS = 200
#: The share of commits that is hit.
_SHARE = 0.1


def replies(plan: Plan) -> Outcome:
    """Lose the answers to commits, and cut the line before others, again and again."""
    outcome = Outcome()
    with (
        open_site(plan.database, plan.folder) as site,
        Nursery(plan.folder, programs=(SENDER,)) as nursery,
    ):
        for number in range(_MOST_ROUNDS):
            if outcome.trials >= plan.trials:
                break
            url = site.fresh()
            with FaultProxy(url) as proxy, ScriptedSmtp() as server:
                stage = Stage(nursery, plan.folder, url, Course(), f"replies-{number}")
                seed = plan.seed + number
                proxy.lose_commit_replies(times=6, probability=_SHARE, seed=seed)
                proxy.cut_before_commits(times=3, probability=_SHARE / 2, seed=seed + 1)
                sender = stage.sender(server, url=proxy.url(url))
                outcome.violations += stage.ended(sender)
                outcome.trials += proxy.struck(Moment.COMMIT_REPLY)
                outcome.trials += proxy.struck(Moment.COMMIT_REQUEST)
                proxy.heal()
                outcome.violations += stage.ended(stage.sender(server))
                outcome.violations += stage.judged(server)
            site.drop(url)
    outcome.require(trials=plan.trials)
    return outcome
