"""Killed at any moment, the endpoint has acknowledged no mail that is lost; a retry counts once."""

from collections.abc import Iterator
from pathlib import Path

import httpx2
import pytest

from tests.server.webhooks.inbound_receiver import READY
from tests.server.webhooks.test_inbound_mail import RAW, Desk
from tests.support.databases import Place
from tests.support.hookserver import serving
from tests.support.inbound import PROVIDERS, Letter, MailKeeper
from tests.support.mail import Stored, stored
from tests.support.ports import free_port
from tests.torture.processes import Child, Children

CASES = [
    ("inbound.fetched", "resend"),
    ("inbound.rows-written", "resend"),
    ("inbound.rows-written", "postmark"),
    ("inbound.committed", "ses"),
    ("inbound.committed", "sendgrid"),
]


class Endpoint:
    """An endpoint on one database and port, through several lives."""

    def __init__(self, place: Place, children: Children, keeper: MailKeeper) -> None:
        self._place = place
        self._children = children
        self._keeper = keeper
        self.port = free_port()

    def start(self, faults: str = "") -> Child:
        child = self._children.python(
            "tests.server.webhooks.inbound_receiver", self._place.url, f"--port={self.port}",
            f"--keeper={self._keeper.address}", environment={"ONCEBOX_FAULTS": faults},
        )  # fmt: skip
        child.wait_for(READY, timeout=60)
        return child

    def send(self, name: str, letter: Letter) -> int:
        """Let a provider post a mail; 0 if it was not answered."""
        posted = PROVIDERS[name].post(letter)
        try:
            return httpx2.post(
                f"http://127.0.0.1:{self.port}/in/{name}",
                content=posted.body,
                headers=posted.headers,
                timeout=20,
                trust_env=False,
            ).status_code
        except httpx2.TransportError:
            return 0

    def stored(self) -> list[Stored]:
        session = self._place.session()
        try:
            return session.run(stored)
        finally:
            session.close()


@pytest.fixture
def keeper() -> Iterator[MailKeeper]:
    with MailKeeper() as keeper:
        yield keeper


@pytest.mark.parametrize(("point", "name"), CASES)
async def test_a_mail_that_was_killed_counts_once_when_its_provider_tries_again(
    place: Place, tmp_path: Path, keeper: MailKeeper, point: str, name: str
) -> None:
    async with serving(place) as server:
        desk = Desk(server, keeper)
        inbox = await desk.inbox()
        await desk.source(PROVIDERS[name])
    letter = Letter(RAW, [inbox.email])
    keeper.mails[letter.id] = RAW
    with Children(tmp_path) as children:
        endpoint = Endpoint(place, children, keeper)
        doomed = endpoint.start(f"{point}:1:kill")
        heard = endpoint.send(name, letter)
        died = doomed.wait()
        before = endpoint.stored()
        endpoint.start()
        again = endpoint.send(name, letter)
        after = endpoint.stored()

    assert (heard, died, again) == (0, -9, 200)
    assert len(before) == (1 if point == "inbound.committed" else 0)
    assert [(each.body, each.key[: len(inbox.id)]) for each in after] == [(RAW, inbox.id)]
