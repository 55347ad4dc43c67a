"""A code that came by mail is in no file afterwards: the database and its log, the journal of
PostgreSQL, what the service printed, counted and refused. While it waits, once it is read, and when
its time is over."""

import smtplib
import time
from collections.abc import Iterator
from email.message import EmailMessage
from email.policy import SMTP
from pathlib import Path
from typing import Any

import httpx2
import psycopg
import pytest

from oncebox.core import clock
from oncebox.db.database import Transaction
from oncebox.db.sqlite import SqliteSession
from oncebox.ledger import maintenance
from oncebox.ledger import maintenance as emptying
from oncebox.model.inboxes.received_mail import MAIL_SOURCE
from tests.cli.services import Running, Services
from tests.contract.inboxes.test_mail_encryption import BODIES, DOCUMENTS
from tests.support import databases
from tests.support.canary import in_files
from tests.support.databases import Place
from tests.support.postgres import PostgresServer
from tests.support.program import KEY
from tests.torture.processes import Children, until

#: what only the mails say, each in a place of its own
CODE, PATH, TOKEN = "7QX2ZK93VW", "kR9xTbW4mLq", "zP5vN8cY2hD"
SUBJECT, NAME, FILE, HIDDEN = "Sbj7Jw3GxQ", "Nme4Kq8RuZ", "Fil5Ty2WnK", "Hid6Pv9XcM"
WORDS = (CODE, PATH, TOKEN, SUBJECT, NAME, FILE, HIDDEN)
SENDER = "canary-sender@example.com"


class Site:
    """A service, its inboxes, and every file that it leaves something in."""

    def __init__(self, place: Place, folders: tuple[Path, ...], services: Services) -> None:
        self.place = place
        self._folders = folders
        self._services = services
        self.service: Running
        self.inboxes: list[dict[str, Any]] = []

    def serve(self, *arguments: str) -> None:
        self.service = self._services.serve(*arguments)

    def stop(self) -> None:
        self.service.child.terminate()
        assert self.service.child.wait(timeout=60) == 0

    def client(self) -> httpx2.Client:
        return self.service.client()

    def make_inboxes(self) -> None:
        with self.client() as client:
            for number in range(2):
                headers = {"Idempotency-Key": f"inbox-{number}"}
                answer = client.post("/v1/inboxes", json={}, headers=headers).raise_for_status()
                self.inboxes.append(answer.json())

    def send(self, *mails: bytes) -> None:
        host, _, port = self.service.greeting["smtp"].rpartition(":")
        with smtplib.SMTP(host, int(port), timeout=30) as client:
            for mail in mails:
                client.sendmail(SENDER, [each["email"] for each in self.inboxes], mail)

    def filed(self, count: int) -> list[dict[str, Any]]:
        """Wait until every inbox has so many messages; return those of the first."""
        for _ in until(60):
            first, *others = [
                self.service.json(f"/v1/inboxes/{each['id']}/messages")["data"]
                for each in self.inboxes
            ]
            if {len(each) for each in (first, *others)} == {count}:
                return list(first)
            time.sleep(0.1)
        pytest.fail("the mails were not read")

    def run(self, verb: Any, *arguments: Any) -> Any:
        session = self.place.session()
        try:
            return session.run(lambda tx: verb(tx, *arguments))
        finally:
            session.close()

    def settle(self) -> None:
        """Have everything written to where it stays."""
        if self.place.kind == "postgres":
            with psycopg.connect(self.place.url, autocommit=True) as connection:
                connection.execute("CHECKPOINT")
                connection.execute("VACUUM")
            return
        session = self.place.session()
        assert isinstance(session, SqliteSession)
        session.connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
        session.close()

    def seen(self, words: tuple[str, ...] = WORDS) -> set[tuple[str, str]]:
        return set().union(*(in_files(folder, words) for folder in self._folders))


@pytest.fixture(scope="module")
def server() -> Iterator[PostgresServer]:
    """A server of our own: every one of its files is read."""
    with PostgresServer.start(settings=databases.FAST) as server:
        yield server


@pytest.fixture
def site(kind: str, request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Site]:
    with Children(tmp_path) as children:
        services = Services(tmp_path, children)
        services.set("ONCEBOX_SMTP__SPOOL_FROM", "50000")
        services.set("ONCEBOX_MASTER_KEY", KEY)
        if kind == "sqlite":
            yield Site(databases.empty_sqlite(tmp_path / "data"), (tmp_path,), services)
            return
        server: PostgresServer = request.getfixturevalue("server")
        place = databases.migrated(databases.empty_postgres(server, "strings"))
        services.set("ONCEBOX_DATABASE_URL", place.url)
        yield Site(place, (tmp_path, server.data.parent), services)


def mails() -> list[bytes]:
    """Return mails that carry the canaries: plain, HTML, large, broken, and one again."""
    plain = EmailMessage(SMTP)
    plain["From"], plain["Subject"] = f"{NAME} <{SENDER}>", f"{SUBJECT}: your code is {CODE}"
    plain["Message-ID"] = "<one@example.com>"
    plain.set_content(f"Your code is {CODE}. Or visit https://shop.example/{PATH}?token={TOKEN}\n")
    rich = EmailMessage(SMTP)
    rich["From"], rich["Subject"] = f"{NAME} <{SENDER}>", SUBJECT
    rich.set_content(
        f"<p>{CODE}</p><i style='display:none'>{HIDDEN}</i>"
        f"<a href='https://shop.example/{PATH}?token={TOKEN}'>Confirm</a>",
        subtype="html",
    )
    rich.add_attachment(
        CODE.encode(), maintype="application", subtype="pdf", filename=f"{FILE}.pdf"
    )
    large = (
        f"From: {SENDER}\r\nSubject: {SUBJECT}\r\n\r\n".encode() + f"{CODE}\r\n".encode() * 30_000
    )
    broken = (
        f"From: {SENDER}\r\nContent-Type: multipart/x; boundary={FILE}\r\n\r\n--{CODE}\r\n".encode()
    )
    return [plain.as_bytes(), rich.as_bytes(), large, broken]


@pytest.mark.timeout(600)
def test_a_code_is_in_no_file_at_any_time(site: Site) -> None:
    site.serve("--role", "edge")
    site.make_inboxes()
    site.send(*mails(), mails()[0])
    waiting = site.seen()
    site.stop()

    site.serve()
    messages = site.filed(4)
    said = _said(site, messages)
    read = site.seen()
    site.service.child.kill()
    killed = site.seen()

    sealed = site.run(BODIES) + site.run(DOCUMENTS)
    site.run(_purge)
    site.settle()
    purged = site.seen()

    assert waiting | read | killed | purged == set()
    assert site.seen((SENDER,)) != set()  # it is looked for where it would be
    assert {word for word in WORDS if word in said} == set()
    assert len(sealed) == 4 + 8
    if site.place.kind == "sqlite":
        database = (site.place.path).read_bytes()
        assert not any(each[22:60] in database for each in sealed)


def _said(site: Site, messages: list[dict[str, Any]]) -> str:
    """Read the mails as operators do; return what is told to everybody else."""
    with site.client() as client:
        for each in messages:
            raw = client.get(f"/v1/messages/{each['id']}/raw").raise_for_status()
            assert CODE.encode() in raw.content or b"attachment" in raw.content
            client.get(f"/v1/messages/{each['id']}").raise_for_status()
        listed = client.get(f"/v1/inboxes/{site.inboxes[0]['id']}/messages").raise_for_status()
        assert SUBJECT in listed.text
        told = [
            client.get("/metrics"),
            client.get("/v1/events"),
            client.get("/v1/deliveries"),
            client.get(f"/v1/messages/{messages[0]['id']}/attachments/{CODE}"),
        ]
    return "".join(str(dict(each.headers)) + each.text for each in told)


def _purge(tx: Transaction) -> None:
    """Let go of everything that is kept for a time, long after."""
    later = clock.system() + 10**12
    cutoffs = {(maintenance.ANY_TENANT, MAIL_SOURCE): later}
    bodies = maintenance.purge_bodies(tx, maintenance.find_purgeable_bodies(tx, cutoffs), later)
    emptied = emptying.empty_messages(tx, later, later)
    assert (bodies, emptied.documents) == (4, 8)
