"""Mail is filed once, wherever the process that files it is killed."""

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from oncebox.ledger.inboxes import messages
from tests.support.clerk import TENANT, Clerk
from tests.support.letters import Mailroom, mail

ROOT = Path(__file__).resolve().parents[2]
POINTS = ("mail.claimed", "mail.parsed", "mail.filed", "mail.committed")
MAILS = 12


def _work(clerk: Clerk, faults: str = "") -> int:
    """Let a process file all mail; return how it ended."""
    return subprocess.run(
        [sys.executable, "-m", "tests.support.filer", clerk.place.url],
        check=False,
        cwd=ROOT,
        timeout=60,
        env={**os.environ, "ONCEBOX_FAULTS": faults},
    ).returncode


@pytest.mark.timeout(180)
@pytest.mark.parametrize("point", POINTS)
def test_mail_is_filed_once_wherever_its_worker_is_killed(clerk: Clerk, point: str) -> None:
    """Nothing is lost, nothing is doubled, and numbers have no gaps."""
    room = Mailroom(clerk)
    for number in range(MAILS):
        # One in three has nothing but its delivery to be known by.
        message_id = None if number % 3 == 0 else f"<{number}@x>"
        room.post(mail(message_id=message_id, text=str(number)))
    # What is filed at once is one commit; a point in it may be passed only once.
    passes = 1 if point == "mail.filed" else 3
    killed = _work(clerk, f"{point}:{passes}:kill")
    ended = _work(clerk)
    found = clerk.run(messages.page, TENANT, "inb_1", most=1000).messages
    events = clerk.session.run(lambda tx: tx.execute("SELECT subject_id FROM oncebox_events"))

    assert (killed, ended) == (-signal.SIGKILL, 0)
    assert [each.sequence for each in found] == list(range(1, MAILS + 1))
    assert len({each.delivery_id for each in found}) == MAILS
    assert [each.duplicates for each in found] == [0] * MAILS
    assert sorted(id_ for (id_,) in events) == sorted(each.id for each in found)
