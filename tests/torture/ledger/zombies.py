"""Workers frozen past their lease: when they wake, they change nothing and repeat nothing."""

import itertools
from collections.abc import Iterable, Sequence
from dataclasses import replace
from pathlib import Path

from tests.torture.checks import Violation, missing
from tests.torture.history import Effect, read_downstream
from tests.torture.ledger.books import Books, Row, read_books
from tests.torture.ledger.nursery import Nursery, Nursling
from tests.torture.ledger.sites import Site, open_site
from tests.torture.ledger.zombie import Place
from tests.torture.processes import TooLate, until
from tests.torture.scenario import Outcome, Plan

ZOMBIE = "tests.torture.ledger.zombie"
_PATIENCE = 30.0
#: How each place ends when a second worker takes over.
ENDS = dict.fromkeys(Place, frozenset({"done"})) | {
    # Done, where the first one's word that it was done came before the second one looked.
    Place.IN_CALL_ONCE: frozenset({"held", "done"}),
    Place.BURIED: frozenset({"dead"}),
}
#: Places where the world may hear the same key twice.
_REPEATABLE = {Place.IN_CALL_IDEMPOTENT}
#: Places that never touch the world outside.
_QUIET = {Place.BEFORE_OWN_TRANSACTION, Place.BEFORE_FAILING, Place.BEFORE_GIVING_UP}


def zombies(plan: Plan) -> Outcome:
    """Freeze one worker at every place at once, again and again, until enough were frozen."""
    outcome = Outcome()
    with open_site(plan.database, plan.folder) as site, Nursery(plan.folder) as nursery:
        for number in itertools.count():
            if outcome.trials >= plan.trials or number > plan.trials:
                break
            _Grave(plan, site, nursery, number).haunt(outcome)
    outcome.require(trials=plan.trials)
    return outcome


class _Grave:
    """One frozen worker and those who take over from it."""

    def __init__(self, plan: Plan, site: Site, nursery: Nursery, number: int) -> None:
        self._site = site
        self._nursery = nursery
        self._name = f"grave-{number}"
        #: In every other round the second workers are still at work when the first one wakes.
        self._midway = number % 2 == 0
        self._url = site.fresh()
        self._world = plan.folder / f"{self._name}-world"
        self._gates = [plan.folder / f"{self._name}-gate-{which}" for which in (1, 2)]
        self._seed = f"--seed={plan.seed}-{self._name}"

    def haunt(self, outcome: Outcome) -> None:
        """Freeze, take over, wake, compare."""
        first = self._worker(self._gates[0], f"--count={len(Place)}")
        first.wait_for("in place", timeout=_PATIENCE)
        first.stop()
        frozen = {row.id for row in self._rows() if row.state == "processing" and row.fence == 1}
        if not self._midway:
            self._gates[1].touch()
        seconds = [self._worker(self._gates[1]) for _ in range(len(Place) if self._midway else 1)]
        outcome.violations += self._await_takeover(frozen, seconds)
        before = self._rows()
        self._gates[0].touch()
        first.resume()
        outcome.violations += self._ended([first])
        after = self._rows()
        self._gates[1].touch()
        outcome.violations += self._ended(seconds)
        outcome.violations += _changed(before, after)
        outcome.violations += _judge(read_books(self._url), read_downstream(self._world))
        outcome.trials += len(frozen)
        self._site.drop(self._url)

    def _await_takeover(self, frozen: set[str], seconds: Sequence[Nursling]) -> list[Violation]:
        """Wait until the others own, or have ended, everything the frozen one had."""
        if not self._midway:
            return self._ended(seconds)
        for _ in until(_PATIENCE):
            if not [row for row in self._rows() if row.id in frozen and _is_open(row)]:
                return []
        return [Violation("stuck", self._name, "nobody took over")]

    def _rows(self) -> list[Row]:
        return read_books(self._url).rows

    def _worker(self, gate: Path, *more: str) -> Nursling:
        arguments = (self._url, str(self._world), str(gate), self._seed, *more)
        return self._nursery.start(ZOMBIE, *arguments)

    def _ended(self, workers: Iterable[Nursling]) -> list[Violation]:
        """Let workers end by themselves, and say who did not."""
        found = []
        for worker in workers:
            try:
                code = worker.wait(timeout=_PATIENCE)
            except TooLate as late:
                worker.kill()
                found.append(Violation("stuck", self._name, str(late)))
            else:
                if code != 0:
                    found.append(Violation("crashed", self._name, worker.text()))
        return found


def _is_open(row: Row) -> bool:
    """Say whether a second worker has still to do what it does before its gate."""
    # What is in doubt is held as soon as somebody looks; nothing else happens by itself.
    return row.state == "processing" and (row.fence == 1 or row.type == Place.IN_CALL_ONCE)


def _changed(before: Sequence[Row], after: Sequence[Row]) -> list[Violation]:
    """Find what the zombie changed; the lease of a worker that is alive may be renewed."""
    return [
        Violation("stale", old.id, f"{old.type}: {old} became {new}")
        for old, new in zip(before, after, strict=True)
        if old != (replace(new, due_at=old.due_at) if new.state == "processing" else new)
    ]


def _judge(books: Books, effects: Sequence[Effect]) -> list[Violation]:
    """Check how everything ended, and how often the world was touched."""
    places = {row.id: Place(row.type) for row in books.rows}
    found = [
        Violation("stuck", row.id, f"{row.type} is {row.state}")
        for row in books.rows
        if row.state not in ENDS[places[row.id]]
    ]
    for id_, place in places.items():
        calls = [effect.key for effect in effects if effect.delivery == id_]
        heard = len(set(calls)) if place in _REPEATABLE else len(calls) + books.marks[id_]
        if heard > 1:
            found.append(Violation("doubled", id_, f"{heard} effects of {place}"))
    loud = [id_ for id_, place in places.items() if place not in _QUIET]
    found += missing(effects, loud)
    return found + [Violation("corrupt", "database", fault) for fault in books.faults]
