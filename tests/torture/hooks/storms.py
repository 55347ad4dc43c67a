"""A storm: one event comes again and again over many connections, and has one effect."""

import json

from tests.torture.checks import Violation
from tests.torture.hooks.promises import judge_storm
from tests.torture.hooks.service import Service, send
from tests.torture.ledger.books import Books, read_books
from tests.torture.ledger.sites import open_site
from tests.torture.processes import Children
from tests.torture.scenario import Outcome, Plan

CONNECTIONS = 32
_PATIENCE = 600.0


def storm(plan: Plan) -> Outcome:
    """Send as many copies as there are trials."""
    with open_site(plan.database, plan.folder) as site, Children(plan.folder) as children:
        service = Service(plan.folder, site.fresh(), children)
        service.start()
        sender = send(service, children, f"--copies={plan.trials}", f"--connections={CONNECTIONS}")
        told = sender.wait_for("storm over", timeout=_PATIENCE)
        answers: dict[str, int] = json.loads(told.removeprefix("storm over "))
        unsettled = service.settle()
        service.stop()
        books, runs = read_books(service.url), service.runs()
    outcome = Outcome(trials=answers.get("200", 0), note=_classes(books))
    outcome.violations = unsettled + [
        Violation("refused", "storm", f"{count} times {answer}")
        for answer, count in answers.items()
        if answer != "200"
    ]
    outcome.violations += judge_storm(plan.trials, runs, books)
    outcome.require(trials=plan.trials)
    return outcome


def _classes(books: Books) -> str:
    """Say what the repeats were taken for."""
    found = [f"{n} {name}" for each in books.sightings.values() for name, n in each.most_common()]
    return f"1 new, {', '.join(found)}"
