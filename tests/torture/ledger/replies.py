"""Answers lost between PostgreSQL and us: whoever repeats finds one delivery and one effect."""

import contextlib
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from tests.torture.checks import Violation
from tests.torture.history import Event, Kind, read_downstream, read_history
from tests.torture.ledger.books import read_books
from tests.torture.ledger.promises import judge, judge_calm, judge_storage
from tests.torture.ledger.sites import Site, open_site
from tests.torture.processes import Child, Children, TooLate, until
from tests.torture.proxy import FaultProxy, Moment
from tests.torture.scenario import Outcome, Plan

AGENT = "tests.torture.ledger.agent"
_PATIENCE = 60.0


@dataclass(frozen=True, slots=True)
class _Stage:
    """One database behind a proxy, and one agent that knows only the proxy."""

    url: str
    proxy: FaultProxy
    agent: Child
    history: Path
    world: Path
    #: Making this file ends the agent's stream.
    enough: Path


def accepting(plan: Plan) -> Outcome:
    """Lose the answers to the commits of ``accept``; the client sends the same key again."""
    return _accept_through(plan, Moment.COMMIT_REPLY, lambda proxy: _lose(plan, proxy))


def asking(plan: Plan) -> Outcome:
    """Cut connections before the server hears of the commit, so that nothing was stored."""

    def cut(proxy: FaultProxy) -> None:
        proxy.cut_before_commits(times=plan.trials, probability=0.5, seed=plan.seed)

    return _accept_through(plan, Moment.COMMIT_REQUEST, cut)


def _accept_through(plan: Plan, moment: Moment, arm: Callable[[FaultProxy], None]) -> Outcome:
    with _stage(plan, "--work=no") as stage:
        _strike(plan, stage, moment, arm)
        outcome = _finished(stage)
        events = read_history(stage.history)
        books = read_books(stage.url)
    outcome.trials = stage.proxy.struck(moment)
    outcome.violations += judge_storage(events, books)
    told = _told(events)
    outcome.note = f"{len(books.rows)} deliveries, told: {_counted(told)}"
    if told["commit_unknown"] < plan.trials:
        outcome.violations.append(Violation("untold", "harness", _counted(told)))
    outcome.require(trials=plan.trials)
    return outcome


def working(plan: Plan) -> Outcome:
    """Lose the answers to all commits: of claims, of the journal and of settlements."""
    return _work_through(plan, Moment.COMMIT_REPLY, lambda proxy: _lose(plan, proxy, 0.3))


def cutting(plan: Plan) -> Outcome:
    """Cut connections before any answer whatever, while accepting and working."""

    def cut(proxy: FaultProxy) -> None:
        proxy.cut_any_reply(times=plan.trials, probability=0.03, seed=plan.seed)

    return _work_through(plan, Moment.ANY_REPLY, cut)


def _work_through(plan: Plan, moment: Moment, arm: Callable[[FaultProxy], None]) -> Outcome:
    with _stage(plan, "--work=beside", "--lease=2") as stage:
        _strike(plan, stage, moment, arm)
        outcome = _finished(stage)
        events, effects = read_history(stage.history), read_downstream(stage.world)
        books = read_books(stage.url)
    outcome.trials = stage.proxy.struck(moment)
    outcome.violations += [*judge(events, effects, books), *judge_calm(books)]
    outcome.note = f"{len(books.rows)} deliveries, told: {_counted(_told(events))}"
    outcome.require(trials=plan.trials)
    return outcome


@contextlib.contextmanager
def _stage(plan: Plan, *arguments: str) -> Iterator[_Stage]:
    history, world, enough = (plan.folder / name for name in ("history", "world", "enough"))
    with (
        open_site(plan.database, plan.folder) as site,
        _lent(site) as url,
        FaultProxy(url) as proxy,
        Children(plan.folder) as children,
    ):
        agent = children.python(
            *(AGENT, proxy.url(), str(history), str(world)),
            *(f"--seed={plan.seed}", f"--until={enough}", *arguments),
        )
        agent.wait_for("ready", timeout=_PATIENCE)
        yield _Stage(url, proxy, agent, history, world, enough)


@contextlib.contextmanager
def _lent(site: Site) -> Iterator[str]:
    url = site.fresh()
    yield url
    site.drop(url)


def _lose(plan: Plan, proxy: FaultProxy, probability: float = 0.5) -> None:
    proxy.lose_commit_replies(times=plan.trials, probability=probability, seed=plan.seed)


def _strike(plan: Plan, stage: _Stage, moment: Moment, arm: Callable[[FaultProxy], None]) -> None:
    """Make the faults and wait until there were enough."""
    arm(stage.proxy)
    for _ in until(_PATIENCE + plan.trials):
        if stage.proxy.struck(moment) >= plan.trials or not stage.agent.running:
            break
    stage.proxy.heal()
    stage.enough.touch()


def _finished(stage: _Stage) -> Outcome:
    """Let the agent finish what it began, without further faults."""
    outcome = Outcome()
    try:
        code = stage.agent.wait(timeout=_PATIENCE)
    except TooLate as late:
        outcome.violations.append(Violation("stuck", "agent", str(late)))
    else:
        if code != 0:
            outcome.violations.append(Violation("crashed", "agent", stage.agent.text()))
    return outcome


def _told(events: Sequence[Event]) -> Counter[str]:
    return Counter(event.note or "" for event in events if event.kind is Kind.INFO)


def _counted(told: Counter[str]) -> str:
    return ", ".join(f"{count} {code}" for code, count in sorted(told.items())) or "nothing"
