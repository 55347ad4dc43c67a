"""What the pages say can be typed and run, works as it stands there: beside a running service."""

import hashlib
import hmac
import smtplib
from collections.abc import Iterator
from contextlib import suppress
from typing import Any

import httpx2
import pytest
import resend

from oncebox.client import Inbox
from oncebox.client.errors import ActionHeld
from oncebox.client.sync import Client
from oncebox.model.inboxes.received_mail import MAIL_SOURCE
from oncebox.schemas.inboxes import Policy
from oncebox.service import Role
from oncebox.testing.smtp import ScriptedSmtp
from tests.docs.page import blocks
from tests.docs.reader import Reader
from tests.docs.reference import DOCS
from tests.support.debian import program
from tests.support.finds import code, link
from tests.support.running import Running
from tests.support.waits import Arrivals

EXPORT = (
    b"From: a@shop.example\r\nSubject: Your export is ready\r\n"
    b"MIME-Version: 1.0\r\nContent-Type: multipart/mixed; boundary=b\r\n\r\n"
    b"--b\r\n\r\nsee\r\n--b\r\nContent-Type: application/pdf\r\n"
    b"Content-Disposition: attachment; filename=i.pdf\r\n\r\npaid\r\n--b--\r\n"
)
URL = "https://app.shop.example/verify?token=aB3dE6gH9"


@pytest.fixture
def service(reader: Reader) -> Iterator[Running]:
    """A service that leaves mail unread, for who reads would race with those who bring it."""
    with reader.service(Role.EDGE) as running:
        yield running


@pytest.fixture
def working(reader: Reader) -> Iterator[Running]:
    """A service that reads and sends mail, and numbers events."""
    with reader.service(Role.ALL) as running:
        yield running


@pytest.fixture
def client(service: Running) -> Iterator[Client]:
    with Client(service.url, service.key) as client:
        yield client


@pytest.fixture
def inbox(client: Client) -> Inbox:
    policy = Policy(link_hosts=["app.shop.example"])
    return client.inboxes.create(attempt_id="signup-42", policy=policy)


def bring(service: Running, inbox: Inbox, *letters: Any) -> list[str]:
    """Let letters come, read already; return the ids of their messages."""
    return service.call(Arrivals(service.box).bring(inbox.id, *letters))


def test_the_commands_and_the_program_about_artifacts(
    reader: Reader, service: Running, inbox: Inbox, capsys: pytest.CaptureFixture[str]
) -> None:
    typed, _extract = blocks(DOCS / "extraction.md", "sh")
    (example,) = blocks(DOCS / "extraction.md", "python")
    bring(service, inbox, code("481920"))
    (artifact,) = reader.ids("artifact", "list", inbox.id)

    assert "481920" in reader.type(typed, inb=inbox.id, art=artifact)
    capsys.readouterr()
    reader.run(example, inbox_id=inbox.id)
    assert capsys.readouterr().out == "481920\n"


def test_the_commands_and_the_program_about_messages(
    reader: Reader, service: Running, inbox: Inbox, capsys: pytest.CaptureFixture[str]
) -> None:
    *_, typed = blocks(DOCS / "inboxes.md", "sh")
    *_, example = blocks(DOCS / "inboxes.md", "python")
    (message,) = service.call(Arrivals(service.box).file(inbox.id, EXPORT))

    assert "shop.example" in reader.type(typed, inb=inbox.id, msg=message)
    assert (reader.folder / "mail.eml").exists()
    assert (reader.folder / "invoice.pdf").read_bytes() == b"paid"
    capsys.readouterr()
    # It would wait for ever; here it ends when nothing more comes.
    reader.run(example.replace("follow=True", "follow=True, idle=0"), inbox_id=inbox.id)
    assert capsys.readouterr().out.startswith("1 shop.example")


def test_the_commands_and_the_program_about_events(
    reader: Reader, working: Running, capsys: pytest.CaptureFixture[str]
) -> None:
    (typed,) = blocks(DOCS / "events.md", "sh")
    (example,) = blocks(DOCS / "events.md", "python")
    with Client(working.url, working.key) as client:
        inbox = client.inboxes.create(attempt_id="signup-42")
    host, _, port = working.smtp.rpartition(":")
    with smtplib.SMTP(host, int(port)) as sender:
        sender.sendmail("no-reply@shop.example", inbox.email, "Subject: hello\r\n\r\nhello\r\n")

    listed, follow = typed.splitlines()
    reader.type(listed)
    reader.type(f"{follow} --for 0")
    printed = ""
    while "message.received msg_" not in printed:  # it follows for a second each time
        reader.run(example)["client"].close()
        printed = capsys.readouterr().out


def test_the_commands_about_waiting(reader: Reader, service: Running, inbox: Inbox) -> None:
    typed, message, curl = blocks(DOCS / "waiting.md", "sh")
    bring(service, inbox, code("481920"), link(URL))
    service.call(Arrivals(service.box).file(inbox.id, EXPORT))

    told = reader.type(typed, inb=inbox.id)
    assert "481920" in told
    assert URL in told
    assert "Your export is ready" in reader.type(message, inb=inbox.id)
    again = reader.type(curl.replace("http://127.0.0.1:8808", service.url), inb=inbox.id)
    assert '"481920"' in again


@pytest.mark.parametrize("word", ["--done", "--not-done"])
def test_the_commands_about_actions(reader: Reader, client: Client, word: str) -> None:
    (typed,) = blocks(DOCS / "actions.md", "sh")
    listed, done, not_done = typed.splitlines()
    attempt = client.attempt("signup-42")
    with suppress(ValueError), attempt.action("verify", lease=1):
        raise ValueError("the answer was lost")
    with pytest.raises(ActionHeld):
        attempt.action("verify", wait=30).begin()

    assert "verify" in reader.type(listed)
    reader.type(done if word in done else not_done)
    assert reader.type(listed) == ""


def test_the_commands_about_the_quarantine(reader: Reader, service: Running) -> None:
    (typed,) = blocks(DOCS / "duplicates.md", "sh")
    listed, show, retry, forget = typed.splitlines()
    reader.set(NEW="s3cret")
    reader.type("oncebox source add stripe --scheme generic-hmac --secret -", stdin=b"mistyped\n")
    service.call(service.box.components.sources.refresh())
    for number in range(2):
        body = b'{"n": %d}' % number
        digest = hmac.new(b"s3cret", body, hashlib.sha256).hexdigest()
        answer = httpx2.post(
            f"{service.url}/in/stripe", content=body, headers={"x-signature": digest}
        )
        assert answer.status_code == 401
    service.call(service.box.components.quarantine.close())
    first, second = reader.ids("quarantine", "list")

    assert first in reader.type(listed)
    reader.type(show, rej=first)
    reader.type("oncebox source secret add stripe --secret env:NEW")
    reader.type(retry, rej=first)
    reader.type(forget, rej=second)
    assert reader.ids("quarantine", "list") == []


def test_the_commands_about_transports(reader: Reader, working: Running) -> None:
    (typed,) = blocks(DOCS / "sending.md", "sh")
    (reader.folder / "resend").write_text("re_test\n")
    reader.set(SMTP_PASSWORD="s3cret")
    with ScriptedSmtp() as server:
        here = f"127.0.0.1 --port {server.port} --security none"
        block = typed.replace("smtp.example.com --username app --password env:SMTP_PASSWORD", here)
        told = reader.type(block.replace("/run/secrets/resend", str(reader.folder / "resend")))
        taken = len(server.accepted)

    assert taken == 1
    assert reader.ids("transport", "list") == ["relay", "resend"]
    assert "relay" in told


def test_mail_sent_by_the_command_of_the_page_arrives(
    reader: Reader, service: Running, client: Client
) -> None:
    typed, *_ = blocks(DOCS / "smtp.md", "sh")
    program("swaks", "swaks")
    client.inboxes.create(attempt_id="a", local="you")

    reader.type(typed.replace("127.0.0.1:2525", service.smtp))
    assert len(reader.ids("delivery", "list", "--source", MAIL_SOURCE)) == 1


def test_the_program_that_speaks_to_resend(
    reader: Reader, service: Running, client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    *_, exports = blocks(DOCS / "resend.md", "sh")
    (example,) = blocks(DOCS / "resend.md", "python")
    names = dict(line.removeprefix("export ").split("=") for line in exports.splitlines())
    key = client.keys.make(scopes=["agent"]).key
    # The package reads its variables when it is imported, which has happened here.
    assert names.keys() == {"RESEND_API_URL", "RESEND_API_KEY"}
    monkeypatch.setattr(resend, "api_url", service.url)
    monkeypatch.setattr(resend, "api_key", key)

    reader.run(example)
