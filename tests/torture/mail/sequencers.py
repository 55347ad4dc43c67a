"""Sequencers are killed at their points; another takes over, and no number is out of turn."""

import random
import threading
import time

from oncebox.core.faults import POINTS
from tests.support.databases import Place, migrated
from tests.torture.checks import Violation
from tests.torture.ledger.sites import open_site
from tests.torture.mail.books import numbered, numbered_after, session_of, waiting
from tests.torture.mail.numberer import LEASE
from tests.torture.mail.recorder import record
from tests.torture.processes import Child, Children, until
from tests.torture.scenario import Outcome, Plan

_POINTS = sorted(point for point in POINTS if point.startswith("sequencer."))
#: Seconds within which another sequencer has numbered everything.
_WITHIN = LEASE + 2.0
_PATIENCE = 60.0


class Watcher:
    """Reads past everything by number, all the time; a number that appears late is never seen."""

    def __init__(self, url: str) -> None:
        """Begin to read."""
        self.seen: list[str] = []
        self._url = url
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def close(self) -> None:
        """Look once more, then end."""
        self._over.set()
        self._thread.join(30)

    def _run(self) -> None:
        last = 0
        with session_of(self._url) as session:
            while True:
                is_last_look = self._over.is_set()
                rows = numbered_after(session, last)
                self.seen += [id_ for id_, _ in rows]
                last = rows[-1][1] if rows else last
                if is_last_look:
                    return
                time.sleep(0.002)


def kills(plan: Plan) -> Outcome:
    """Kill one at each point by turns, while another stands by."""
    outcome = Outcome()
    slowest = 0.0
    with open_site(plan.database, plan.folder) as site:
        for trial in range(plan.trials):
            url = _prepared(site.fresh())
            with Children(plan.folder) as children:
                found, took = _kill(plan, trial, url, children)
            outcome.violations += found
            outcome.trials += 1
            slowest = max(slowest, took)
            site.drop(url)
    outcome.note = f"slowest take-over {slowest:.1f} s"
    outcome.require(trials=plan.trials)
    return outcome


def _kill(plan: Plan, trial: int, url: str, children: Children) -> tuple[list[Violation], float]:
    chance = plan.chance(trial)
    point = _POINTS[trial % len(_POINTS)]
    other = _numberer(url, children)
    other.stop()  # it has not numbered anything, so the duty is the victim's
    victim = _numberer(url, children, f"{point}:{chance.randint(1, 4)}:kill")
    watcher = Watcher(url)
    died = _record_until_dead(url, victim, chance)
    other.resume()
    began = time.monotonic()
    found = _await_numbers(url)
    took = time.monotonic() - began
    watcher.close()
    wanted = numbered(url)
    if not died:
        found.append(Violation("idle", point, "nobody was killed"))
    if took > _WITHIN:
        found.append(Violation("late", point, f"{took:.1f} s"))
    if watcher.seen != wanted:
        found.append(Violation("skipped", point, f"{len(watcher.seen)} of {len(wanted)} seen"))
    return found, took


def _record_until_dead(url: str, victim: Child, chance: random.Random) -> bool:
    """Record on until the victim has come to its point often enough, and a little longer."""
    for _ in until(_PATIENCE):
        record(url, chance.randint(1, 8), chance)
        if not victim.running:
            record(url, 5, chance)
            return True
    return False


def _numberer(url: str, children: Children, faults: str = "") -> Child:
    child = children.python(
        "tests.torture.mail.numberer", url, environment={"ONCEBOX_FAULTS": faults}
    )
    child.wait_for("numbering", timeout=_PATIENCE)
    return child


def _await_numbers(url: str) -> list[Violation]:
    for _ in until(_PATIENCE):
        if not waiting(url):
            return []
    return [Violation("stuck", "sequencer", f"{waiting(url)} events have no number")]


def _prepared(url: str) -> str:
    """Make the tables of a file, which nobody has opened yet."""
    return migrated(Place("sqlite", url)).url if url.startswith("sqlite:") else url
