"""Limits on mail: rates by address and inbox, and free disk space; every refusal is temporary."""

from pathlib import Path
from typing import Any

import pytest

from oncebox.core.disk_space import Disk, DiskLevel, DiskSpace, level_of
from oncebox.core.metrics import Telemetry
from oncebox.server.smtp.mail_limits import MailLimits
from oncebox.server.smtp.smtp_replies import SessionRules
from oncebox.server.smtp.smtp_session import SmtpSession
from oncebox.settings import SmtpSettings
from tests.server.smtp.dialogue import World, codes
from tests.support.mail import Listed

MIB = 1024 * 1024
MAIL = ("MAIL FROM:<x@example.com>", "RCPT TO:<{}@oncebox.test>", "DATA", "{}", ".")


class Receiver:
    """A session with limits, whose clock is set by hand."""

    def __init__(
        self, client: str = "192.0.2.1", disk: DiskSpace | None = None, **given: Any
    ) -> None:
        self.now = 0.0
        settings = SmtpSettings(**given)
        self.limits = MailLimits(settings, disk, steady=lambda: self.now)
        self.world = World(settings, slow=frozenset())
        self.connect(client)

    def connect(self, client: str) -> None:
        rules = SessionRules.from_settings(self.world.settings, "mx.oncebox.test", starttls=False)
        lookup = Listed("a", "b", "c").find_cached
        self.world.session = SmtpSession(rules, lookup, client, self.limits)
        self.world.said = []
        self.say("EHLO c.example")

    def say(self, *lines: str) -> list[int]:
        self.world.transcript  # noqa: B018 - said before
        self.world.said = []
        return codes(self.world.hear([f"{line}\r\n".encode() for line in lines]))

    def bring(self, local: str = "a", text: str = "hello") -> list[int]:
        """Bring a mail as far as it is taken; return the codes of the replies."""
        said: list[int] = []
        for line in MAIL:
            if line == "DATA" and said[-1] != 250:
                return said + self.say("RSET")
            if line not in {"{}", "."}:
                said += self.say(line.format(local))
            elif line == ".":
                said += self.say(text, ".")
        return said


TAKEN, REFUSED = [250, 250, 354, 250], [250, 452, 250]


def test_more_mails_of_one_address_than_its_rate_wait_for_a_while() -> None:
    receiver = Receiver(rate_per_address=3)

    assert [receiver.bring("abc"[number % 3]) for number in range(4)] == [*[TAKEN] * 3, REFUSED]
    receiver.connect("192.0.2.2")
    assert receiver.bring() == TAKEN
    receiver.connect("192.0.2.1")
    assert receiver.bring() == REFUSED
    receiver.now += 21
    assert receiver.bring() == TAKEN


def test_more_mails_for_one_inbox_than_its_rate_wait_for_a_while() -> None:
    receiver = Receiver(rate_per_inbox=2)
    for number in range(2):
        receiver.connect(f"192.0.2.{number}")
        assert receiver.bring("a") == TAKEN
    receiver.connect("192.0.2.9")

    assert receiver.bring("a") == REFUSED
    assert receiver.bring("b") == TAKEN


@pytest.mark.parametrize("limit", ["bytes_per_address", "bytes_per_inbox"])
def test_a_mail_that_exceeds_the_bytes_of_a_minute_is_taken_and_the_next_waits(limit: str) -> None:
    given: dict[str, Any] = {limit: 1_000}
    receiver = Receiver(**given)

    assert receiver.bring(text="x" * 900) == TAKEN
    assert receiver.bring(text="x" * 900) == TAKEN
    assert receiver.bring() == REFUSED
    receiver.now += 60
    assert receiver.bring() == TAKEN


@pytest.mark.parametrize("client", ["127.0.0.1", "::1", "127.0.0.9"])
def test_this_machine_has_no_rate(client: str) -> None:
    receiver = Receiver(client, rate_per_address=1, rate_per_inbox=1, bytes_per_inbox=1)

    assert [receiver.bring() for _ in range(5)] == [TAKEN] * 5


def test_one_address_cannot_take_a_rate_for_each_of_its_ipv6_addresses() -> None:
    receiver = Receiver("2001:db8::1", rate_per_address=1)
    receiver.bring()
    receiver.connect("2001:db8::2")

    assert receiver.bring() == REFUSED


def disk(free: int, size: int = 100 * 1024 * MIB, watermark: int = 512 * MIB) -> DiskSpace:
    return DiskSpace([Path("/")], watermark, Telemetry(), measure=lambda _: Disk(free, size))


def test_large_mail_is_refused_before_other_mail_while_little_disk_space_is_free() -> None:
    large = "\r\n".join(["x" * 60_000] * 5)
    replies = [
        (
            receiver.say("MAIL FROM:<x@example.com> SIZE=300000", "RSET"),
            receiver.bring(text=large)[-1],
            receiver.bring()[-1],
        )
        for receiver in (Receiver(disk=disk(free * MIB)) for free in (600, 400, 200))
    ]

    assert replies == [([250, 250], 250, 250), ([452, 250], 452, 250), ([452, 250], 250, 250)]


def test_mail_is_refused_at_once_while_almost_no_disk_space_is_free() -> None:
    assert Receiver(disk=disk(200 * MIB)).say("MAIL FROM:<x@example.com>") == [452]


@pytest.mark.parametrize(
    ("free", "size", "watermark", "level"),
    [
        (512, 100_000, 512, DiskLevel.OK),
        (511, 100_000, 512, DiskLevel.NO_LARGE_MAIL),
        (255, 100_000, 512, DiskLevel.NO_MAIL),
        (127, 100_000, 512, DiskLevel.NO_WEBHOOKS),
        # a twentieth of a small disk
        (51, 1_000, 512, DiskLevel.OK),
        (49, 1_000, 512, DiskLevel.NO_LARGE_MAIL),
        (0, 1_000, 0, DiskLevel.OK),
    ],
)
def test_webhooks_are_refused_last(free: int, size: int, watermark: int, level: DiskLevel) -> None:
    assert level_of(Disk(free * MIB, size * MIB), watermark * MIB) is level


def test_a_change_of_the_level_is_logged_and_measured(caplog: pytest.LogCaptureFixture) -> None:
    now, free, telemetry = [0.0], [10 * 1024 * MIB], Telemetry()
    space = DiskSpace(
        [Path("/")],
        512 * MIB,
        telemetry,
        measure=lambda _: Disk(free[0], 10**12),
        steady=lambda: now[0],
    )
    levels = [space.level]
    free[0] = 300 * MIB
    levels.append(space.level)  # not measured again yet
    now[0] += 2
    levels.append(space.level)

    assert levels == [DiskLevel.OK, DiskLevel.OK, DiskLevel.NO_LARGE_MAIL]
    assert space.free == 300 * MIB
    assert "no_large_mail" in caplog.text


def test_the_log_line_of_little_disk_space_keeps_its_severity(
    caplog: pytest.LogCaptureFixture,
) -> None:
    assert disk(300 * MIB).level is DiskLevel.NO_LARGE_MAIL

    line: Any = caplog.records[-1].msg
    assert (line["level"], line["event"], line["state"]) == (
        "warning",
        "free_disk",
        "no_large_mail",
    )
