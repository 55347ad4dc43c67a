"""The official `resend` package through the door, unchanged but for its address."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx2
import pytest
import resend
from resend.exceptions import (
    InvalidApiKeyError,
    MissingApiKeyError,
    MissingRequiredFieldsError,
    ResendError,
    ValidationError,
)

from oncebox.core import ids
from oncebox.ledger.admin.audit import AuditEntry
from oncebox.ledger.sends import sends, transports
from oncebox.model.sends.transports import NewTransport
from oncebox.service import Role
from oncebox.testing.smtp import ScriptedSmtp
from oncebox.transports import transport_config
from oncebox.transports.smtp_connection import Relay, RelaySecurity
from oncebox.transports.transport_config import SmtpConfig
from tests.docs.page import blocks
from tests.docs.reference import DOCS
from tests.support import databases
from tests.support.lossy import lossy
from tests.support.running import Running, running
from tests.support.scripted import Heard

MAIL: resend.Emails.SendParams = {
    "from": "Shop <shop@example.com>",
    "to": ["ann@example.org"],
    "subject": "Your order",
    "html": "<p>Thank you.</p>",
    "tags": [{"name": "kind", "value": "order"}],
    "attachments": [{"filename": "bill.txt", "content": list(b"42 EUR")}],
}


@pytest.fixture
def service(tmp_path: Path) -> Iterator[Running]:
    with running(databases.fresh_sqlite(tmp_path), tmp_path, Role.ALL) as service:
        yield service


@pytest.fixture(autouse=True)
def _package(service: Running, monkeypatch: pytest.MonkeyPatch) -> None:
    """Speak to the service instead of to Resend."""
    monkeypatch.setattr(resend, "api_url", service.url)
    monkeypatch.setattr(resend, "api_key", service.key)


def counted(service: Running) -> int:
    wanted = sends.SendFilter(tenant=service.box.settings.tenant)
    return len(service.call(service.box.components.ledger.read(sends.newest, wanted)))


def test_an_email_with_a_key_is_sent_once_and_can_be_looked_at(service: Running) -> None:
    options: resend.Emails.SendOptions = {"idempotency_key": "welcome-user/1"}
    first = resend.Emails.send(MAIL, options)
    again = resend.Emails.send(MAIL, options)
    seen = resend.Emails.get(first["id"])

    assert first["id"] == again["id"]
    assert (seen["id"], seen["from"], seen["to"]) == (first["id"], MAIL["from"], MAIL["to"])
    assert seen["subject"] == "Your order"
    assert _ended(service, first["id"])["status"] == "logged"
    assert counted(service) == 1


def test_a_batch_with_a_key_is_sent_once(service: Running) -> None:
    mails: list[resend.Emails.SendParams] = [{**MAIL, "to": f"a{n}@example.org"} for n in range(3)]
    options: resend.Batch.SendOptions = {"idempotency_key": "batch/1"}
    first = resend.Batch.send(mails, options)
    again = resend.Batch.send(mails, options)
    permissive = resend.Batch.send(
        [MAIL, {**MAIL, "to": "nobody"}], {"batch_validation": "permissive"}
    )

    assert [each["id"] for each in first["data"]] == [each["id"] for each in again["data"]]
    assert [each["index"] for each in permissive["errors"]] == [1]
    assert counted(service) == 4


def test_its_own_errors_are_raised(service: Running, monkeypatch: pytest.MonkeyPatch) -> None:
    resend.Emails.send(MAIL, {"idempotency_key": "one"})
    with pytest.raises(ResendError) as other:
        resend.Emails.send({**MAIL, "subject": "Other"}, {"idempotency_key": "one"})
    with pytest.raises(ResendError) as long:
        resend.Emails.send(MAIL, {"idempotency_key": "k" * 257})
    with pytest.raises(ValidationError):
        resend.Emails.send({**MAIL, "to": "nobody"})
    with pytest.raises(MissingRequiredFieldsError):
        resend.Emails.send({**MAIL, "to": []})
    with pytest.raises(ResendError) as missing:
        resend.Emails.get("49a3999c-0ce1-4ea6-ab68-afcd6dc2e794")
    monkeypatch.setattr(resend, "api_key", "re_123")
    with pytest.raises(InvalidApiKeyError):
        resend.Emails.send(MAIL)
    monkeypatch.setattr(resend, "api_key", "")
    with pytest.raises(MissingApiKeyError):
        resend.Emails.send(MAIL)

    assert [(each.value.code, each.value.error_type) for each in (other, long, missing)] == [
        (409, "invalid_idempotent_request"),
        (400, "invalid_idempotency_key"),
        (404, "not_found"),
    ]
    assert counted(service) == 1


def test_a_plain_retry_loop_sends_once_although_answers_are_lost(
    service: Running, monkeypatch: pytest.MonkeyPatch
) -> None:
    with ScriptedSmtp() as server, lossy(service.url, _two_of_three) as proxy:
        _send_by(service, server)
        server.script("accept_then_drop")
        monkeypatch.setattr(resend, "api_url", proxy.url)
        named = [_persistent(f"welcome/{number}")["id"] for number in range(4)]
        ended = [_ended(service, id_) for id_ in named]
        again = [_persistent(f"welcome/{number}")["id"] for number in range(4)]
        events = [resend.Emails.get(id_)["last_event"] for id_ in named]

    assert len(proxy.lost) == 16
    assert again == named
    assert len(set(named)) == counted(service) == 4
    assert [server.count(each["message_id"]) for each in ended] == [1, 1, 1, 1]
    assert len(server.accepted) == 4
    assert sorted(events) == ["sent", "sent", "sent", "unknown"]


def _two_of_three(number: int, heard: Heard) -> bool:
    return heard.method == "POST" and number % 3 != 2


def _persistent(key: str) -> resend.Emails.SendResponse:
    for _ in range(10):
        try:
            return resend.Emails.send(MAIL, {"idempotency_key": key})
        except ResendError:
            continue
    raise AssertionError("never answered")


def _send_by(service: Running, server: ScriptedSmtp) -> None:
    """Let mail leave by a server."""
    rooms, tenant = service.box.components, service.box.settings.tenant
    written = SmtpConfig(
        relay=Relay(host=server.host, port=server.port, security=RelaySecurity.NONE)
    )
    sealed = rooms.send_cipher.encrypt_field(
        "config", tenant, "relay", transport_config.encode_config(written)
    )
    new = NewTransport(name="relay", kind=transport_config.transport_kind(written), config=sealed)
    deed = AuditEntry(id=ids.new("aud"), tenant=tenant, at=rooms.ledger.clock(), who="test", why="")
    service.call(rooms.ledger.write(transports.add, new, deed))


def _ended(service: Running, id_: str) -> Any:
    """Wait for how a send ends."""
    headers = {"Authorization": f"Bearer {service.key}"}
    url = f"{service.url}/v1/sends/{id_}?wait=55"
    return httpx2.get(url, headers=headers, timeout=60).json()


def test_the_page_about_the_door_works_as_it_is_printed(service: Running) -> None:
    (program,) = blocks(DOCS / "resend.md", "python")
    exec(compile(program, "resend.md", "exec"), {})  # noqa: S102 - it is our own page

    assert counted(service) == 1
