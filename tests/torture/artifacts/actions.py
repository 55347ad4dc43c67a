"""Many processes want the same actions, and some die with one in hand: each happens once."""

import signal
import time
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from oncebox.core import ids
from oncebox.ledger.admin.audit import AuditEntry
from oncebox.ledger.attempts import actions
from oncebox.model.attempts import ActionState
from tests.support.databases import Place, migrated
from tests.torture.artifacts.contender import TENANT, called, key_of, names
from tests.torture.checks import Violation
from tests.torture.history import Effect, Event, Kind, read_downstream, read_history
from tests.torture.ledger.nursery import Nursery, Nursling
from tests.torture.ledger.sites import Site, open_site
from tests.torture.mail.books import session_of
from tests.torture.processes import TooLate, until
from tests.torture.scenario import Outcome, Plan

CONTENDER = "tests.torture.artifacts.contender"
CONTENDERS = 32
#: How some of them die: by their own hand with an action begun, or at a point of the code, at
#: one of so many passes.
WAYS = ("before-call", "before-call", "after-call", "after-call")
POINTS: Mapping[str, int] = {
    "actions.begun-not-committed": 12,
    "actions.begun": 12,
    "actions.done-not-committed": 1,
    "actions.done": 1,
}
_PATIENCE = 60.0
_LOOK_EVERY = 0.1


@dataclass(frozen=True, slots=True)
class _Round:
    """What one round showed."""

    #: How many died with an action begun and not ended, and how many in all.
    holding: int
    killed: int
    violations: Sequence[Violation]
    seconds: float


def race(plan: Plan) -> Outcome:
    """Let contenders race for actions, round after round."""
    outcome = Outcome()
    with (
        open_site(plan.database, plan.folder) as site,
        Nursery(plan.folder, programs=(CONTENDER,)) as nursery,
    ):
        rounds = [_race(plan, site, nursery, number) for number in range(plan.trials)]
    outcome.trials = sum(one.holding > 0 for one in rounds)
    outcome.violations = [each for one in rounds for each in one.violations]
    outcome.note = (
        f"{sum(one.killed for one in rounds)} killed, {sum(one.holding for one in rounds)} with an "
        f"action in hand; a round took at worst {max(one.seconds for one in rounds):.1f} s"
    )
    outcome.require(trials=plan.trials)
    return outcome


def _race(plan: Plan, site: Site, nursery: Nursery, number: int) -> _Round:
    url = site.fresh()
    if plan.database == "sqlite":
        migrated(Place("sqlite", url))
    history, world = plan.folder / f"history-{number}", plan.folder / f"world-{number}"
    began = time.monotonic()
    go = plan.folder / f"go-{number}"
    crowd = _start(plan, nursery, number, (url, str(history), str(world), str(go)))
    for each in crowd:
        each.wait_for("ready", timeout=_PATIENCE)
    go.touch()
    violations = _await(crowd, url, world)
    codes = {each: each.wait() for each in crowd if not each.running}
    for each in crowd:
        each.clean_away()
    violations += [
        Violation("crashed", f"round {number}", each.text())
        for each, code in codes.items()
        if code not in {0, -signal.SIGKILL}
    ]
    events = read_history(history)
    found = judge(events, read_downstream(world), _states(url))
    violations += [Violation(one.rule, f"{number}: {one.subject}", one.detail) for one in found]
    site.drop(url)
    return _Round(
        holding=sum(event.verb == "died" for event in events),
        killed=[*codes.values()].count(-signal.SIGKILL),
        violations=violations,
        seconds=time.monotonic() - began,
    )


def judge(
    events: Sequence[Event], effects: Sequence[Effect], states: Mapping[str, str]
) -> list[Violation]:
    """Return what was doubled, missing, told in two ways or left open."""
    calls: defaultdict[str, list[Effect]] = defaultdict(list)
    for effect in effects:
        calls[effect.delivery].append(effect)
    results: defaultdict[str, set[str | None]] = defaultdict(set)
    for event in events:
        if event.kind is Kind.OK:
            results[event.key].add(event.id)
    return [
        each
        for name in names()
        for each in _judge(name, calls[name], results[name], states.get(name, "missing"))
    ]


def _judge(
    name: str, calls: Sequence[Effect], results: set[str | None], state: str
) -> list[Violation]:
    found = []
    fences = [each.fence for each in calls]
    if state != "done":
        found.append(Violation("stuck", name, state))
    if not calls:
        found.append(Violation("missing", name))
    if len(fences) != len(set(fences)):
        found.append(Violation("doubled", name, f"fences {fences}"))
    if len(calls) > 1 and not name.startswith("idempotent"):
        found.append(Violation("doubled", name, f"{len(calls)} calls"))
    if {each.key for each in calls} - {key_of(name)}:
        found.append(Violation("foreign", name, "another key"))
    if len(results) != 1:
        found.append(Violation("split", name, f"{len(results)} results"))
    return found


def _start(plan: Plan, nursery: Nursery, number: int, arguments: tuple[str, ...]) -> list[Nursling]:
    """Start all of them at once, those that will die among the first."""
    dice = plan.chance(number)
    fates = [("", way) for way in WAYS]
    fates += [(f"{point}:{dice.randint(1, most)}:kill", "") for point, most in POINTS.items()]
    fates += [("", "")] * (CONTENDERS - len(fates))
    return [
        nursery.start(
            CONTENDER,
            *arguments,
            f"--seed={plan.seed}/{number}/{place}",
            f"--die={way}",
            faults=faults,
        )
        for place, (faults, way) in enumerate(fates)
    ]


def _await(crowd: Sequence[Nursling], url: str, world: Path) -> list[Violation]:
    """Wait until all have ended, and be the person who looks at what is held."""
    for _ in until(_PATIENCE):
        if not any(each.running for each in crowd):
            return []
        _resolve(url, world)
        time.sleep(_LOOK_EVERY)
    late = next(each for each in crowd if each.running)
    return [Violation("stuck", "contender", str(TooLate(late.text())))]


def _resolve(url: str, world: Path) -> None:
    """Say of every action that is held what the world says."""
    with session_of(url, writable=True) as session:
        held = session.run(
            lambda tx: actions.newest(tx, TENANT, state=ActionState.UNKNOWN, most=100)
        )
        for each in held:
            happened = called(world, each.name)
            state = ActionState.DONE if happened else ActionState.NOT_DONE
            now = time.time_ns() // 1_000_000
            entry = AuditEntry(id=ids.new("aud"), tenant=TENANT, at=now, who="person", why="looked")
            place = (each.attempt_id, each.name)
            session.run(partial(actions.resolve, place=place, state=state, entry=entry))


def _states(url: str) -> dict[str, str]:
    with session_of(url) as session:
        found = session.run(lambda tx: actions.newest(tx, TENANT, most=100))
    return {each.name: each.state.value for each in found}
