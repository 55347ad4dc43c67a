"""Kills, pauses and cut connections at every point of a send's way, judged by the fake's count."""

import signal
import time
from collections.abc import Callable

from oncebox.core import faults
from tests.torture.checks import Violation
from tests.torture.ledger.books import is_locked
from tests.torture.ledger.nursery import Nursling
from tests.torture.processes import is_paused, until
from tests.torture.scenario import Outcome, Plan
from tests.torture.sends.books import read_send_books
from tests.torture.sends.stage import PATIENCE, Course, Fake, Play, Stage, Trial, play

#: Each point, and at one of how many passes it strikes.
CASES = {
    "sends.intent_committed": 6,
    # Of six mails at once, four are leased as they are stored, and the others are claimed.
    "sends.leased": 4,
    "sends.claimed": 1,
    "sends.connected": 6,
    "sends.body_drained": 6,
    "sends.marker_committed": 6,
    "sends.handed_over": 6,
    "sends.reply_read": 6,
    "sends.result_committed": 6,
}
#: A request is pulled as it is sent: there is no moment at which only its body is there.
HTTP_CASES = {point: most for point, most in CASES.items() if point != "sends.body_drained"}
#: Where a process may stand still for longer than its lease.
PAUSES = (
    *("marker_committed", "leased", "handed_over", "claimed", "reply_read", "connected"),
    "body_drained",
)
#: Seconds that somebody is let go who stands in everybody's way.
_STEP = 0.002
#: At which steps the server cuts the line, or says no, or nothing.
DROPS = (
    *("accept_then_drop", "drop@dot", "hang_up@body", "accept_then_silence", "451@dot"),
    *("accept_then_hang_up", "accept_then_sleep=1", "hang_up@dot", "silence@dot", "451@rcpt"),
    *(f"drop@{step}" for step in ("connect", "hello", "mail", "rcpt", "data", "body")),
    *(f"hang_up@{step}" for step in ("connect", "hello", "mail", "rcpt", "data")),
)
HTTP_DROPS = (
    *("accept_then_drop", "accept_then_500", "drop", "409_concurrent", "200_garbage"),
    *("accept_then_hang_up", "accept_then_garbage", "drop_before_body", "hang_up", "429(0)", "500"),
)


def points() -> list[str]:
    """Return the points on a send's way."""
    known = {point for point in faults.POINTS if point.startswith("sends.")}
    if unknown := known ^ CASES.keys():
        raise LookupError(f"no case, or no point: {', '.join(sorted(unknown))}")
    return list(CASES)


def kills(*courses: Course) -> Callable[[Plan], Outcome]:
    """Kill a sender at every point; the next one goes on."""

    def run(plan: Plan) -> Outcome:
        cases = HTTP_CASES if courses[0].resend else {point: CASES[point] for point in points()}

        def kill(point: str) -> Play:
            def one(stage: Stage, fake: Fake, number: int) -> Trial:
                passes = plan.chance(f"{point}-{number}").randint(1, cases[point])
                victim = stage.sender(fake, faults=f"{point}:{passes}:kill")
                died = _dies(victim)
                found = [] if died else [Violation("idle", stage.name, f"no pass {passes}")]
                found += stage.ended(stage.sender(fake))
                return Trial(reached=died, violations=[*found, *stage.judged(fake)])

            return one

        return play(plan, courses, list(cases), kill)

    return run


def drops(course: Course) -> Callable[[Plan], Outcome]:
    """Let the other side fail at every step, for some of the mails."""

    def run(plan: Plan) -> Outcome:
        def drop(fault: str) -> Play:
            def one(stage: Stage, fake: Fake, number: int) -> Trial:
                dice = plan.chance(f"{fault}-{number}")
                fake.script(*[fault] * dice.randint(1, 3))
                found = stage.ended(stage.sender(fake))
                found += stage.ended(stage.sender(fake))
                reached = fake.script_is_over
                if not reached:
                    found.append(Violation("idle", stage.name, "the script was not played"))
                return Trial(reached=reached, violations=[*found, *stage.judged(fake)])

            return one

        return play(plan, [course], HTTP_DROPS if course.resend else DROPS, drop)

    return run


def pauses(plan: Plan) -> Outcome:
    """Let a sender stand still past its lease, others go on, and then wake it."""

    def pause(point: str) -> Play:
        def one(stage: Stage, fake: Fake, number: int) -> Trial:
            point_ = f"sends.{point}"
            passes = plan.chance(f"{point}-{number}").randint(1, CASES[point_])
            first = stage.sender(fake, faults=f"{point_}:{passes}:stop")
            stopped = _stands_still(stage, first)
            found = [] if stopped else [Violation("idle", stage.name, f"no pass {passes}")]
            found += stage.ended(stage.sender(fake))
            if stopped:
                first.resume()
            found += stage.ended(first)
            found += _unproven(stage)
            return Trial(reached=stopped, violations=[*found, *stage.judged(fake)])

        return one

    return play(plan, [Course()], PAUSES, pause)


def _unproven(stage: Stage) -> list[Violation]:
    """Find mails that are in doubt although who handed them over has heard yes since."""
    return [
        Violation("unproven", f"{stage.name}: {row.key}", row.state)
        for row in read_send_books(stage.url).rows
        if row.state != "sent"
    ]


def _stands_still(stage: Stage, sender: Nursling) -> bool:
    """Wait until a sender stands still, or has ended without.

    One that stands still in the middle of a write keeps a whole SQLite file for itself; then it
    is let go a few steps further.
    """
    for _ in until(PATIENCE):
        if not sender.running:
            return False
        if not is_paused(sender.pid):
            continue
        if not (stage.url.startswith("sqlite:") and is_locked(stage.url)):
            return True
        sender.resume()
        time.sleep(_STEP)
        sender.stop()
    return False


def _dies(victim: Nursling) -> bool:
    """Wait until the victim dies where it should, or has done everything without."""
    for _ in until(PATIENCE):
        if not victim.running:
            return victim.wait() == -signal.SIGKILL
    victim.kill()
    return False
