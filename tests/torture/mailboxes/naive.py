"""The usual loop under the same kills: it stores mails twice, and passes others over."""

import signal
import sqlite3
import time
from contextlib import closing

from oncebox.testing.inbox_apis import FakeMailSlurp
from oncebox.testing.mailbox_server import MailboxServer
from tests.torture.checks import Violation
from tests.torture.ledger.nursery import Nursery
from tests.torture.mailboxes.crashes import mails_of, points
from tests.torture.mailboxes.mails import Channel
from tests.torture.mailboxes.promises import judge_messages
from tests.torture.mailboxes.servers import LATE
from tests.torture.processes import until
from tests.torture.scenario import Outcome, Plan, caught

NAIVE = "tests.torture.mailboxes.naive_reader"
_INBOXES = ("a@oncebox.test", "b@oncebox.test", "c@oncebox.test")
_PATIENCE = 60.0
_IDLE_POLLS = 5
#: a point is passed once for each page with new mail; it strikes at one of the first passes
_PASSES = 3
#: seconds in which the mails of one kill arrive: several polls
_ARRIVE_IN = 0.5


def kills(plan: Plan) -> Outcome:
    """Kill it at every point; all mails come by the API that it polls, and by nothing else."""
    found = _kills(plan)
    for rule in ("lost", "doubled"):
        if rule not in {each.rule for each in found.violations}:
            found.violations.append(Violation("blind", "harness", f"nothing was {rule}"))
    return caught(found, ["lost", "doubled"])


def _is_idle(server: MailboxServer[FakeMailSlurp], since: int) -> bool:
    """Tell whether the last requests found nothing new."""
    last = server.requests[since:][-_IDLE_POLLS:]
    return len(last) == _IDLE_POLLS and all(not each.path.endswith("/raw") for each in last)


def _kills(plan: Plan) -> Outcome:
    outcome = Outcome()
    store = plan.folder / "naive.db"
    mails, batch = mails_of(plan, _INBOXES)
    names = points()
    with (
        MailboxServer(FakeMailSlurp()) as server,
        Nursery(plan.folder, programs=(NAIVE,)) as nursery,
    ):
        for number in range(plan.trials):
            point = names[number % len(names)]
            dice = plan.chance(f"{point}-{number}")
            armed = f"{point}:{1 + number // len(names) % _PASSES}:kill"
            asked = len(server.requests)
            victim = nursery.start(NAIVE, server.url, str(store), faults=armed)
            for mail in mails[number * batch :][:batch]:
                now = time.time_ns() // 1_000_000
                at = now - dice.randint(0, int(LATE * 1000))
                server.api.deliver(mail.by(Channel.MAILBOX), at=at)
                time.sleep(_ARRIVE_IN / batch)
            for _ in until(_PATIENCE):
                # Mail that it passes over brings it to no point.
                if not victim.running or _is_idle(server, asked):
                    break
            victim.kill()
            outcome.trials += victim.wait() == -signal.SIGKILL
        last = nursery.start(NAIVE, server.url, str(store))
        asked = len(server.requests)
        for _ in until(_PATIENCE):
            if _is_idle(server, asked):
                break
        last.kill()
    with closing(sqlite3.connect(store)) as rows:
        senders = [f"{key}@sender.example" for (key,) in rows.execute("SELECT key FROM messages")]
    by_sender = {each.sender: each.recipients for each in mails}
    stored = [(each, inbox) for each in senders for inbox in by_sender[each]]
    outcome.violations += judge_messages(mails, stored)
    outcome.note = f"{len(mails)} mails, {len(senders)} rows"
    outcome.require(trials=plan.trials)
    return outcome
