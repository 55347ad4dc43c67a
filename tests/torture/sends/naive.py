"""The published pattern under the same matrix: it loses mails, and sends others twice."""

import signal
from collections import Counter
from collections.abc import Callable, Sequence
from pathlib import Path

from oncebox.testing.smtp import ScriptedSmtp
from tests.torture.checks import Violation
from tests.torture.ledger.nursery import Nursery, Nursling
from tests.torture.processes import TooLate
from tests.torture.scenario import Outcome, Plan, caught
from tests.torture.sends.crashes import CASES
from tests.torture.sends.mails import keys
from tests.torture.sends.naive_sender import message_id_of
from tests.torture.sends.promises import taken_by
from tests.torture.sends.redis import redis_server

NAIVE = "tests.torture.sends.naive_sender"
MAILS = 6
_PATIENCE = 60.0
#: It commits no intent and no marker, so it cannot die after them.
KILLS = tuple(
    sorted(CASES.keys() - {"sends.intent_committed", "sends.leased", "sends.marker_committed"})
)
#: Errors after which the mail is there all the same.
CUTS = ("accept_then_drop", "accept_then_hang_up", "accept_then_451")

_Fault = Callable[[ScriptedSmtp, Callable[[str], Nursling]], bool]


def kills(plan: Plan) -> Outcome:
    """Kill it at every point: what was locked by the dead is never sent, and nobody is told."""

    def kill(point: str, number: int) -> _Fault:
        passes = plan.chance(f"{point}-{number}").randint(1, MAILS)

        def make(_server: ScriptedSmtp, start: Callable[[str], Nursling]) -> bool:
            return start(f"{point}:{passes}:kill").wait(timeout=_PATIENCE) == -signal.SIGKILL

        return make

    return caught(_play(plan, KILLS, kill), ["lost"])


def drops(plan: Plan) -> Outcome:
    """Cut the line after the mail was taken: every exception means not sent, so it sends again."""

    def drop(fault: str, _number: int) -> _Fault:
        def make(server: ScriptedSmtp, start: Callable[[str], Nursling]) -> bool:
            server.script(fault, fault)
            start("").wait(timeout=_PATIENCE)
            return server.script_is_over

        return make

    return caught(_play(plan, CUTS, drop), ["doubled"])


def _play(plan: Plan, cases: Sequence[str], fault: Callable[[str, int], _Fault]) -> Outcome:
    outcome = Outcome()
    with (
        redis_server(plan.folder) as redis,
        Nursery(plan.folder, programs=(NAIVE,)) as nursery,
    ):
        for number in range(plan.trials):
            case = cases[number % len(cases)]
            name = f"{case}-{number}"
            with ScriptedSmtp() as server:

                def start(armed: str, port: int = server.port, name: str = name) -> Nursling:
                    words = (str(redis), str(port), str(_history(plan, name)), name)
                    return nursery.start(NAIVE, *words, f"--count={MAILS}", faults=armed)

                try:
                    outcome.trials += fault(case, number // len(cases))(server, start)
                    start("").wait(timeout=_PATIENCE)
                except TooLate as late:
                    outcome.violations.append(Violation("stuck", name, str(late)))
                outcome.violations += _judged(name, taken_by(server))
    outcome.require(trials=plan.trials)
    return outcome


def _history(plan: Plan, name: str) -> Path:
    return plan.folder / f"history-{name}"


def _judged(name: str, taken: Counter[str]) -> list[Violation]:
    """Compare what was asked for with what was really taken."""
    found = []
    for key in keys(name, MAILS):
        count = taken[message_id_of(key)]
        if count > 1:
            found.append(Violation("doubled", key, f"{count} mails"))
        if not count:
            found.append(Violation("lost", key, "in_flight for seven days, and never sent"))
    return found
