"""Slow clients by the thousand: all of them are ended, and nobody else is kept out."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from tests.torture.checks import Violation
from tests.torture.history import Event, Kind, read_history
from tests.torture.hooks import sloths
from tests.torture.hooks.promises import disturbed, judge
from tests.torture.hooks.service import Service, send
from tests.torture.ledger.books import read_books
from tests.torture.ledger.sites import open_site
from tests.torture.processes import Children
from tests.torture.scenario import Outcome, Plan

#: How often each slow client is ended and comes back.
ROUNDS = 2
#: Connections over which the normal requests go, and how many of them are made anew each time.
CONNECTIONS, FRESH = 8, 4
#: From so many slow clients on, the limits are those that the service has by default.
MANY = 1_000
#: With those limits nobody keeps the server waiting for longer, some slack included.
ENDED_WITHIN = 20.0
#: Limits that a test can wait for.
SHORT = {
    "ONCEBOX_HTTP__HEADERS_WITHIN": "1.5",
    "ONCEBOX_HTTP__IDLE": "1.5",
    "ONCEBOX_HTTP__REQUEST_WITHIN": "4.5",
}
_PATIENCE = 300.0


def by_time(plan: Plan) -> Outcome:
    """Have room for all of them, so that each is ended when its time is over."""
    return _slow(plan, {"ONCEBOX_HTTP__CONNECTIONS": str(2 * plan.trials)})


def by_number(plan: Plan) -> Outcome:
    """Have room for half of them, so that whoever waits longest must give way to others."""
    return _slow(plan, {"ONCEBOX_HTTP__CONNECTIONS": str(plan.trials // 2)})


def _slow(plan: Plan, settings: Mapping[str, str]) -> Outcome:
    history, enough = plan.folder / "history", plan.folder / "enough"
    limits, patience = ({}, 60) if plan.trials >= MANY else (SHORT, 15)
    with open_site(plan.database, plan.folder) as site, Children(plan.folder) as children:
        service = Service(plan.folder, site.fresh(), children, {**limits, **settings})
        service.start()
        sender = send(
            *(service, children, f"--history={history}", f"--until={enough}"),
            *(f"--connections={CONNECTIONS}", f"--fresh={FRESH}", f"--seed={plan.seed}"),
            "--pause=0.05",
        )
        crowd = children.python(
            *(sloths.__name__, str(service.port)),
            *(f"--count={plan.trials}", f"--rounds={ROUNDS}", f"--patience={patience}"),
        )
        told = crowd.wait_for("all ended", timeout=_PATIENCE)
        enough.touch()
        sender.wait(timeout=_PATIENCE)
        unsettled = service.settle()
        service.stop()
        events, books = read_history(history), read_books(service.url)
    found: dict[str, Any] = json.loads(told.removeprefix("all ended "))
    outcome = Outcome(trials=min(sum(found["ended"].values()) // ROUNDS, plan.trials))
    outcome.note = _figures(events, found)
    outcome.violations = [*unsettled, *_unended(plan, found), *disturbed(events)]
    # What the idle ones sent before they fell silent is not in the history.
    rows = [row for row in books.rows if not row.key.startswith(sloths.KEY)]
    outcome.violations += judge(events, replace(books, rows=rows))
    outcome.require(trials=plan.trials)
    return outcome


def _unended(plan: Plan, found: Mapping[str, Any]) -> list[Violation]:
    """Find slow clients that were let stay, and those who could not even come."""
    stayed = [Violation("open", way, f"{count} of them") for way, count in found["kept"].items()]
    refused = [Violation("refused", "sloth", f"{n} {why}") for why, n in found["refused"].items()]
    if plan.trials >= MANY:
        stayed += [
            Violation("open", way, f"for {seconds:.1f} s")
            for way, seconds in found["longest"].items()
            if seconds > ENDED_WITHIN
        ]
    return [*stayed, *refused]


def _figures(events: Sequence[Event], found: Mapping[str, Any]) -> str:
    normal = sum(event.kind is Kind.OK for event in events)
    ended, longest = sum(found["ended"].values()), max(found["longest"].values())
    return f"{normal} normal requests, {ended} ended, the last after {longest:.1f} s"
