"""Mailboxes by the API: added, shown, changed, tested, paused and removed; secrets never shown."""

from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from oncebox.errors import NotFound
from oncebox.ledger.mailboxes import mailboxes
from oncebox.mailboxes.mailbox_config import decode_config, draft_mailbox
from oncebox.model.mailboxes.mailbox_fields import SECRET_FIELDS, MailboxFields
from oncebox.schemas.mailboxes import Mailbox, NewMailbox
from oncebox.testing.imap import ScriptedImap
from tests.support import certificates
from tests.support.api import OTHER, Api

CANARY = "canary-5e1d"
OPERATOR = ("operator",)
TOKENS = {
    "token_url": "https://oauth.example.com/token",
    "client_id": "app",
    "client_secret": CANARY,
    "refresh_token": CANARY,
}


@pytest.fixture
async def imap(tmp_path: Path) -> AsyncIterator[ScriptedImap]:
    """A server with TLS and one user."""
    server, _ = certificates.make(tmp_path)
    async with ScriptedImap(tls=server, implicit_tls=True, users={"ann": CANARY}) as opened:
        yield opened


async def add(api: Api, **fields: Any) -> Any:
    answer = await api.call("POST", "/v1/mailboxes", body(**fields), scopes=OPERATOR)
    assert answer.status_code == 201, answer.text
    return answer.json()


def body(**fields: Any) -> dict[str, Any]:
    return {"name": "support", "url": "imaps://ann@127.0.0.1:1", "password": CANARY, **fields}


def ca(tmp_path: Path) -> str:
    text = (tmp_path / "certificate.pem").read_text()
    return text[text.index("-----BEGIN CERTIFICATE") :]


async def do(api: Api, method: str, path: str = "", sent: Any = None) -> Any:
    return await api.call(method, f"/v1/mailboxes/support{path}", sent, scopes=OPERATOR)


async def test_a_mailbox_is_added_seen_changed_paused_resumed_resynced_and_removed(
    api: Api,
) -> None:
    inbox = (await api.call("POST", "/v1/inboxes", {})).json()["id"]
    made = await add(api, inbox=inbox, poll_every=90, push="mail", poll_after=5.5)
    seen = (await do(api, "GET")).json()
    changed = body(url="imaps://bob@127.0.0.1:1", trust_results="MX.Example.com")
    changed.pop("name")
    after = (await do(api, "PUT", "", changed)).json()
    paused = (await do(api, "POST", "/pause", {"why": "rest"})).json()
    resumed = (await do(api, "POST", "/resume")).json()
    resynced = (await do(api, "POST", "/resync")).json()
    removed = await do(api, "DELETE")
    gone = await do(api, "GET")

    assert made == seen
    assert (seen["kind"], seen["account"], seen["state"]) == ("imap", "ann at 127.0.0.1", "waiting")
    assert (seen["inbox"], seen["push"]) == (inbox, "mail")
    assert (seen["poll_every"], seen["poll_after"]) == (90, 5.5)
    assert (after["account"], after["trust_results"]) == ("bob at 127.0.0.1", "mx.example.com")
    assert (after["inbox"], after["push"], after["poll_every"]) == (None, None, 60)
    assert (paused["state"], paused["paused"], resumed["state"]) == (
        "paused",
        "operator",
        "waiting",
    )
    assert resynced["cursor_version"] == 1
    assert (removed.status_code, gone.status_code, gone.json()["code"]) == (204, 404, "not_found")


async def test_secrets_are_stored_encrypted_and_never_returned(api: Api) -> None:
    made = [
        await add(api),
        await add(api, name="work", kind="gmail", url="", password="", **TOKENS),
    ]
    answers = [
        await do(api, "GET"),
        await api.call("GET", "/v1/mailboxes"),
        await do(api, "POST", "/pause"),
        await do(api, "PUT", "", {**body(), "name": CANARY}),
    ]
    found = await api.box.components.ledger.read(mailboxes.of_tenant, api.home)
    plain = [api.box.components.mailbox_service.decrypt(each) for each in found]

    assert CANARY not in str(made) + "".join(each.text for each in answers)
    assert not any(CANARY.encode() in each.config for each in found)
    assert [each.count(CANARY.encode()) for each in plain] == [1, 2]
    assert decode_config(plain[1]).kind == "gmail"
    assert set(SECRET_FIELDS).isdisjoint(Mailbox.__struct_fields__)
    assert CANARY not in repr(NewMailbox(**body()))


@pytest.mark.parametrize("field", SECRET_FIELDS)
@pytest.mark.parametrize("reference", ["env:HOME", "file:/etc/passwd"])
async def test_nobody_has_the_hosts_files_and_variables_read_from_afar(
    api: Api, field: str, reference: str
) -> None:
    answer = await api.call("POST", "/v1/mailboxes", body(**TOKENS | {field: reference}))

    assert (answer.status_code, answer.json()["code"]) == (422, "config_invalid")
    assert "at the terminal" in answer.json()["detail"]


async def test_nobody_has_a_program_run_from_afar(api: Api) -> None:
    asked = body(kind="gmail", url="", password="", token_command="id")
    answer = await api.call("POST", "/v1/mailboxes", asked)

    assert answer.status_code == 422
    assert (await do(api, "GET")).status_code == 404


@pytest.mark.parametrize(
    ("fields", "status", "code"),
    [
        ({"name": "support"}, 409, "state_conflict"),
        ({"name": " b"}, 422, "config_invalid"),
        ({"inbox": "inb_missing"}, 404, "not_found"),
        ({"url": "imaps://ann:pw@127.0.0.1"}, 422, "config_invalid"),
        ({"url": "http://127.0.0.1"}, 422, "config_invalid"),
        ({"url": ""}, 422, "config_invalid"),
        ({"password": ""}, 422, "config_invalid"),
        ({"api": "mailpit"}, 422, "config_invalid"),
        ({"token_url": "https://oauth.example.com/token"}, 422, "config_invalid"),
        ({"kind": "gmail", "url": "", "password": ""}, 422, "config_invalid"),
        ({"kind": "jmap", "url": "https://jmap.example.com/", "username": "ann",
          "folders": ["a", "b"]}, 422, "config_invalid"),
        ({"kind": "rest", "url": "", "password": "", "api": "nothing"}, 422, "config_invalid"),
        ({"ca": "no certificate"}, 422, "config_invalid"),
        ({"kind": "program"}, 422, "fields_invalid"),
        ({"kind": "pop3"}, 422, "fields_invalid"),
        ({"poll_every": 0}, 422, "fields_invalid"),
        ({"since": "yesterday"}, 422, "fields_invalid"),
        ({"colour": "red"}, 422, "fields_invalid"),
    ],
)  # fmt: skip
async def test_what_cannot_be_a_mailbox_is_refused(
    api: Api, fields: dict[str, Any], status: int, code: str
) -> None:
    await add(api)
    answer = await api.call("POST", "/v1/mailboxes", body(**{"name": "b", **fields}))
    listed = (await api.call("GET", "/v1/mailboxes")).json()["data"]

    assert (answer.status_code, answer.json()["code"]) == (status, code)
    assert CANARY not in answer.text
    assert [each["name"] for each in listed] == ["support"]


async def test_a_mailbox_is_tested_without_reading_mail(
    api: Api, imap: ScriptedImap, tmp_path: Path
) -> None:
    url = f"imaps://ann@127.0.0.1:{imap.port}"
    await add(api, url=url, ca=ca(tmp_path))
    works = (await do(api, "POST", "/test")).json()
    wrong = body(url=url, ca=ca(tmp_path), password="wrong")
    wrong.pop("name")
    await do(api, "PUT", "", wrong)
    refused = (await do(api, "POST", "/test")).json()

    assert (works["works"], works["code"], works["folders"]) == (True, None, ["INBOX"])
    assert (refused["works"], refused["code"]) == (False, "login_refused")
    assert not any("FETCH" in each for each in imap.commands)


async def test_other_tenants_manage_their_mailboxes_and_name_no_servers(api: Api) -> None:
    """A mailbox makes the service connect to any address, also inside its network."""
    await api.second_tenant()
    mine = await add(api)
    ledger, service = api.box.components.ledger, api.box.components.mailbox_service
    draft = draft_mailbox("theirs", MailboxFields(url="imaps://bob@127.0.0.1:1", password="pw"))
    await ledger.write(service.add, draft, api.deed(OTHER))
    sent = body()
    sent.pop("name")
    added = await api.call("POST", "/v1/mailboxes", body(), tenant=OTHER)
    changed = await api.call("PUT", "/v1/mailboxes/theirs", sent, tenant=OTHER)
    paused = await api.call("POST", "/v1/mailboxes/theirs/pause", tenant=OTHER)
    theirs = (await api.call("GET", "/v1/mailboxes", tenant=OTHER)).json()["data"]

    assert (added.status_code, changed.status_code, paused.status_code) == (403, 403, 200)
    assert [each["account"] for each in theirs] == ["bob at 127.0.0.1"]
    assert mine["name"] == "support"


async def test_the_inbox_of_another_tenant_is_not_found(api: Api) -> None:
    await api.second_tenant()
    inbox = (await api.call("POST", "/v1/inboxes", {})).json()["id"]
    fields = MailboxFields(url="imaps://bob@127.0.0.1:1", password="pw", inbox=inbox)
    ledger, service = api.box.components.ledger, api.box.components.mailbox_service

    with pytest.raises(NotFound):
        await ledger.write(service.add, draft_mailbox("theirs", fields), api.deed(OTHER))


async def test_a_repeated_request_adds_one_mailbox(api: Api) -> None:
    headers = {"Idempotency-Key": "one"}
    first = await api.call("POST", "/v1/mailboxes", body(), headers=headers)
    second = await api.call("POST", "/v1/mailboxes", body(), headers=headers)

    assert (first.status_code, second.status_code) == (201, 201)
    assert first.json() == second.json()


async def test_mailboxes_are_listed_by_page(api: Api) -> None:
    for name in ("c", "a", "b/ä"):
        await add(api, name=name)
    first = (await api.call("GET", "/v1/mailboxes", params={"limit": 2})).json()
    query = {"limit": 2, "cursor": first["next_cursor"]}
    second = (await api.call("GET", "/v1/mailboxes", params=query)).json()
    one = (await api.call("GET", "/v1/mailboxes/b%2F%C3%A4")).json()

    assert [each["name"] for each in first["data"] + second["data"]] == ["a", "b/ä", "c"]
    assert (first["has_more"], second["has_more"], one["name"]) == (True, False, "b/ä")


async def test_every_change_is_in_the_audit_log(api: Api) -> None:
    await add(api)
    await do(api, "POST", "/pause", {"why": "moving"})
    await do(api, "DELETE")
    logged = await api.box.components.ledger.read(
        lambda tx: tx.execute("SELECT action, why FROM oncebox_audit ORDER BY id")
    )

    assert [each for each in logged if "mailbox" in each[0]] == [
        ("mailbox add", ""), ("mailbox pause", "moving"), ("mailbox remove", ""),
    ]  # fmt: skip
