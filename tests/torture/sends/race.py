"""Many processes ask for the same mails at the same time: one acceptance each, one Message-ID."""

from collections.abc import Iterator
from contextlib import contextmanager

from oncebox.testing.smtp import ScriptedSmtp
from tests.support.postgres import PostgresServer
from tests.torture.checks import Violation
from tests.torture.history import Kind, read_history
from tests.torture.ledger.nursery import Nursery
from tests.torture.ledger.sites import UNFLUSHED, open_site
from tests.torture.processes import TooLate
from tests.torture.scenario import Outcome, Plan
from tests.torture.sends.books import read_send_books
from tests.torture.sends.mails import keys
from tests.torture.sends.promises import judge, taken_by
from tests.torture.sends.stage import SENDER

#: Processes that race, where as many keys are raced for.
CROWD, MANY = 64, 500
_SMALL_CROWD = 6
_TRIAL = "race"
#: Nobody dies here, and whoever waits for the file of all others may wait for a while.
_LEASE = 20
_PATIENCE = 900.0


def race(plan: Plan) -> Outcome:
    """Let all ask for all; the trials are the keys."""
    outcome = Outcome()
    crowd = CROWD if plan.trials >= MANY else _SMALL_CROWD
    history = plan.folder / "history"
    with (
        _place(plan, crowd) as url,
        Nursery(plan.folder, programs=(SENDER,)) as nursery,
        ScriptedSmtp() as server,
    ):
        words = [url, str(server.port), str(history), _TRIAL, f"--count={plan.trials}"]
        words += ["--connections=1", f"--poll={crowd / 100}", f"--lease={_LEASE}"]
        racers = [nursery.start(SENDER, *words) for _ in range(crowd)]
        for each in racers:
            try:
                if each.wait(timeout=_PATIENCE) != 0:
                    outcome.violations.append(Violation("crashed", "racer", each.text()))
            except TooLate as late:
                outcome.violations.append(Violation("stuck", "racer", str(late)))
        events, taken = read_history(history), taken_by(server)
        wanted = keys(_TRIAL, plan.trials)
        # Nothing fails here, so every mail is sent, and once.
        outcome.violations += judge(wanted, events, read_send_books(url), taken, "replay")
    told = [event for event in events if event.kind is Kind.OK]
    if len(told) != crowd * plan.trials:
        outcome.violations.append(Violation("lost", "answers", f"{len(told)}"))
    outcome.trials = len({event.key for event in told})
    outcome.note = f"{crowd} processes, {len(told)} answers"
    outcome.require(trials=plan.trials)
    return outcome


@contextmanager
def _place(plan: Plan, crowd: int) -> Iterator[str]:
    """Make a database that takes so many guests."""
    if plan.database == "sqlite" or crowd == _SMALL_CROWD:
        with open_site(plan.database, plan.folder) as site:
            url = site.fresh()
            yield url
            site.drop(url)
        return
    folder = plan.folder / "postgres"
    folder.mkdir(mode=0o755)
    settings = {**UNFLUSHED, "max_connections": "500"}
    with PostgresServer.start(folder, settings=settings) as server:
        yield server.create_database("race")
