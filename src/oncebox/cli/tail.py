"""``oncebox delivery tail``: new deliveries and changes of state, as they happen."""

import asyncio
from collections import deque
from collections.abc import AsyncIterator, Iterable
from contextlib import suppress

import click

from oncebox import clock
from oncebox.assembly import Rooms
from oncebox.cli.call import Call, with_call
from oncebox.cli.listing import note
from oncebox.cli.words import moment
from oncebox.ledger.deliveries import inspections
from oncebox.model.delivery import State
from oncebox.model.inspection import Facts
from oncebox.store.database import Transaction

#: seconds between two looks at most, and at least
_LONGEST_REST, _SHORTEST_REST = 0.5, 0.1
#: seconds for which a commit may come late and still be seen
_OVERLAP = 2.0
#: deliveries read at once, and unfinished ones that are kept in view
_PAGE, _MOST_OPEN = 1_000, 10_000
_ENDED = {State.DONE, State.DEAD}


@click.command("tail")
@click.option("--source", metavar="NAME", help="Only of this source.")
@click.option("--last", type=click.IntRange(0, 1000), default=10, show_default=True, metavar="N",
              help="Begin with so many that are there already.")  # fmt: skip
@click.option("--once", is_flag=True, help="Show what is there, then end.")
@click.option("--for", "seconds", type=click.FloatRange(min=0), metavar="SECONDS",
              help="End after that time.")  # fmt: skip
@with_call
def tail(call: Call, *, source: str | None, last: int, once: bool, seconds: float | None) -> None:
    """Follow new deliveries and changes of state, until ^C.

    A change is shown as it is found; of changes that follow each other within a moment only
    the last may be.
    """

    async def work(rooms: Rooms) -> None:
        async for facts in _changes(rooms, last, 0 if once else seconds):
            if source in {None, facts.source}:
                _print(call, facts, rooms.database.clock())

    with suppress(KeyboardInterrupt):
        call.run(work)


async def _changes(rooms: Rooms, last: int, seconds: float | None) -> AsyncIterator[Facts]:
    """Yield what is there, then every change found, until the time has passed."""
    end = None if seconds is None else clock.steady() + seconds
    view = View(rooms.settings.tenant)
    for facts in await rooms.database.read(view.begin, last):
        yield facts
    while end is None or clock.steady() < end:
        rest = _LONGEST_REST if end is None else min(_LONGEST_REST, end - clock.steady())
        await asyncio.sleep(_SHORTEST_REST)
        await rooms.desk.rest(max(0.0, rest - _SHORTEST_REST))
        for facts in await rooms.database.read(view.look, clock.steady()):
            yield facts


class View:
    """What has been shown: the newest deliveries, and older ones as long as they are open."""

    def __init__(self, tenant: str) -> None:
        """Begin with nothing shown."""
        self._tenant = tenant
        self._shown: dict[str, tuple[object, ...]] = {}
        self._deed = ""
        #: the newest id at each of the last looks; new ones are sought from the oldest of them
        self._newest: deque[tuple[float, str]] = deque([(0.0, "")])

    def begin(self, tx: Transaction, last: int) -> list[Facts]:
        """Return the last deliveries, oldest first, and take the rest as known."""
        found = inspections.newest(tx, self._tenant, most=max(1, last))[::-1]
        self._deed = inspections.last_deed(tx, self._tenant)
        self._newest[0] = (0.0, found[-1].id if found else "")
        self._news(found)
        return found if last else []

    def look(self, tx: Transaction, now: float) -> list[Facts]:
        """Return what is new or has changed since the last look."""
        fresh = self._arrived(tx)
        open_ = set(self._shown) - {facts.id for facts in fresh}
        open_.update(inspections.in_work(tx, self._tenant, _PAGE))
        self._deed, touched = inspections.touched(tx, self._tenant, self._deed, _PAGE)
        open_.update(touched)
        news = self._news([*fresh, *inspections.several(tx, self._tenant, open_)])
        self._move_on(now, fresh)
        return news

    def _arrived(self, tx: Transaction) -> list[Facts]:
        """Return what came since the oldest remembered look; a late commit is among it."""
        found: list[Facts] = []
        after = self._newest[0][1]
        while page := inspections.since(tx, self._tenant, after, _PAGE):
            found += page
            after = page[-1].id
        return found

    def _news(self, found: Iterable[Facts]) -> list[Facts]:
        news = []
        for facts in sorted(found, key=lambda facts: facts.id):
            mark = (facts.state, facts.fence, facts.outcome, facts.hold_reason, facts.rearms)
            if self._shown.get(facts.id) != mark:
                news.append(facts)
            self._shown[facts.id] = mark
        return news

    def _move_on(self, now: float, fresh: list[Facts]) -> None:
        """Remember this look, and forget what has ended and is older than all that are kept."""
        if fresh:
            self._newest.append((now, max(fresh[-1].id, self._newest[-1][1])))
        while len(self._newest) > 1 and self._newest[1][0] < now - _OVERLAP:
            self._newest.popleft()
        floor = self._newest[0][1]
        for id_ in [id_ for id_ in self._shown if id_ <= floor]:
            if self._shown[id_][0] in _ENDED or len(self._shown) > _MOST_OPEN:
                del self._shown[id_]


def _print(call: Call, facts: Facts, now: int) -> None:
    if call.out.as_json:
        call.out.record(facts)
    elif call.out.quiet:
        call.out.line(facts.id)
    else:
        call.out.line(
            moment(now), facts.id, facts.state, facts.source, facts.type, facts.key, note(facts)
        )
