"""Killed at any moment, the receiver has acknowledged nothing that is lost; a retry counts once."""

import smtplib
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.server.smtp.receiver import READY
from tests.support.databases import Place
from tests.support.mail import Stored, stored
from tests.support.ports import free_port
from tests.support.postfix import Postfix
from tests.torture.processes import Child, Children, until

POINTS = (
    "smtp.after-354",
    "smtp.dot-seen",
    "smtp.spooled",
    "smtp.rows-written",
    "smtp.committed",
)
SMALL = b"Subject: small\r\n\r\nbody\r\n"
LARGE = b"Subject: large\r\n\r\n" + (b"x" * 98 + b"\r\n") * 6_000


class Receiver:
    """A receiver on one database and port, through several lives."""

    def __init__(self, place: Place, folder: Path, children: Children) -> None:
        self._place = place
        self._folder = folder
        self._children = children
        self.port = free_port()

    def start(self, faults: str = "") -> Child:
        child = self._children.python(
            "tests.server.smtp.receiver", self._place.url, str(self._folder), f"--port={self.port}",
            environment={"ONCEBOX_FAULTS": faults},
        )  # fmt: skip
        child.wait_for(READY, timeout=60)
        return child

    def stored(self) -> list[Stored]:
        session = self._place.session()
        try:
            return session.run(stored)
        finally:
            session.close()


@pytest.fixture
def receiver(place: Place, tmp_path: Path) -> Iterator[Receiver]:
    with Children(tmp_path) as children:
        yield Receiver(place, tmp_path / "data", children)


def send(port: int, mail: bytes, *names: str) -> bool:
    """Send a mail; say whether it was acknowledged."""
    recipients = [f"{name}@oncebox.test" for name in names or ("a", "b")]
    try:
        with smtplib.SMTP("127.0.0.1", port, timeout=20) as client:
            client.sendmail("ann@example.com", recipients, mail)
    except (smtplib.SMTPException, OSError):
        return False
    return True


@pytest.mark.parametrize(
    ("point", "mail"),
    [
        *(pytest.param(point, SMALL, id=f"{point}-small") for point in POINTS),
        *(pytest.param(point, LARGE, id=f"{point}-large") for point in POINTS[2::2]),
    ],
)
def test_a_mail_that_was_killed_counts_once_when_it_is_sent_again(
    receiver: Receiver, point: str, mail: bytes
) -> None:
    """T12."""
    doomed = receiver.start(f"{point}:1:kill")
    heard = send(receiver.port, mail)
    died = doomed.wait()
    before = receiver.stored()
    receiver.start()
    again = send(receiver.port, mail)
    after = receiver.stored()

    assert (heard, died, again) == (False, -9, True)
    assert len(before) == (2 if point == "smtp.committed" else 0)
    assert [(each.key[:5], each.body) for each in after] == [("inb_a", mail), ("inb_b", mail)]


def test_a_mail_for_one_inbox_that_was_killed_counts_once_when_it_is_sent_again(
    receiver: Receiver,
) -> None:
    """Its commit is one statement: what is written is committed, and not acknowledged yet."""
    doomed = receiver.start("smtp.rows-written:1:kill")
    heard = send(receiver.port, SMALL, "a")
    died = doomed.wait()
    before = receiver.stored()
    receiver.start()
    again = send(receiver.port, SMALL, "a")

    assert (heard, died, again) == (False, -9, True)
    assert len(before) == len(receiver.stored()) == 1


@pytest.mark.parametrize("kind", ["sqlite"])
def test_a_relay_sends_again_what_was_killed_and_it_counts_once(receiver: Receiver) -> None:
    """Postfix did not hear our 250; the mail was on disk already."""
    doomed = receiver.start("smtp.committed:1:kill")
    with Postfix.relaying(receiver.port) as relay:
        assert send(relay.port, SMALL)
        assert doomed.wait(timeout=60) == -9
        before = receiver.stored()
        receiver.start()
        for _ in until(60):
            if not relay.queued() and "status=sent" in relay.log():
                break
            relay.try_again()
            time.sleep(0.5)
        log = relay.log()
    after = receiver.stored()

    assert len(before) == 2
    assert log.count("status=deferred") >= 1, log
    assert log.count("status=sent") == 2, log
    assert [(each.key, each.sightings) for each in after] == [
        (before[0].key, 1),
        (before[1].key, 1),
    ]
    assert after[0].body.endswith(b"\r\n\r\nbody\r\n")
