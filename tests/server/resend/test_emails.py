"""The door in Resend's shape: as strict as Resend, and one mail where Resend would send one."""

import base64
from datetime import UTC, datetime, timedelta, timezone
from typing import Any

import httpx2

from oncebox.errors import CommitUnknown, DatabaseBusy, DiskFull, OnceboxError, RowRefused
from oncebox.ledger.admin.audit import AuditEntry
from oncebox.ledger.sends import lifecycle, sends
from oncebox.model.sends.send import SendReport, SendState
from oncebox.model.sends.transports import SendAccepted
from oncebox.server.resend.error_mapping import ERROR_NAMES
from tests.support.api import OTHER, Api

MAIL: dict[str, Any] = {
    "from": "Shop <shop@example.com>",
    "to": ["ann@example.org"],
    "subject": "Your order",
    "html": "<p>Thank you.</p>",
}
ATTACHED = {"filename": "a.txt", "content": base64.b64encode(b"hello").decode()}


async def post(api: Api, body: Any = MAIL, *, path: str = "/emails", **rest: Any) -> Any:
    """Call the door, without an idempotency key unless one is given."""
    text = rest.pop("key", None)
    if text is None:
        text = await api.key(*rest.pop("scopes", ("agent",)), tenant=rest.pop("tenant", ""))
    headers = {"Authorization": f"Bearer {text}"} if text else {}
    transport = httpx2.ASGITransport(app=api.app, raise_app_exceptions=True)
    async with httpx2.AsyncClient(transport=transport, base_url="http://test") as client:
        return await client.post(path, json=body, headers={**headers, **rest.pop("headers", {})})


def keyed(key: str) -> dict[str, str]:
    return {"Idempotency-Key": key}


async def counted(api: Api) -> int:
    found = await api.box.components.ledger.read(sends.newest, sends.SendFilter(tenant=api.home))
    return len(found)


async def test_the_same_key_and_payload_is_one_email(api: Api) -> None:
    answers = [await post(api, headers=keyed("welcome/1")) for _ in range(3)]
    operator = await post(api, headers=keyed("welcome/1"), scopes=("operator",))
    reordered = await post(api, dict(reversed(MAIL.items())), headers=keyed("welcome/1"))

    assert {each.status_code for each in (*answers, operator, reordered)} == {200}
    assert len({each.json()["id"] for each in (*answers, operator, reordered)}) == 1
    assert list(answers[0].json()) == ["id"]
    assert await counted(api) == 1


async def test_the_same_key_with_another_payload_is_a_conflict(api: Api) -> None:
    changes: list[dict[str, Any]] = [
        {"subject": "Other"},
        {"html": "<p>Other.</p>"},
        {"text": "Other."},
        {"to": ["bob@example.org"]},
        {"from": "Other <shop@example.com>"},
        {"bcc": "bob@example.org"},
        {"reply_to": "bob@example.org"},
        {"headers": {"X-A": "b"}},
        {"attachments": [ATTACHED]},
        {"tags": [{"name": "a", "value": "b"}]},
        {"scheduled_at": "2030-01-01T00:00:00Z"},
    ]
    await post(api, headers=keyed("one"))
    answers = [await post(api, {**MAIL, **each}, headers=keyed("one")) for each in changes]

    assert {each.status_code for each in answers} == {409}
    assert {each.json()["name"] for each in answers} == {"invalid_idempotent_request"}
    assert {each.json()["statusCode"] for each in answers} == {409}
    assert await counted(api) == 1


async def test_without_a_key_every_call_is_a_new_email(api: Api) -> None:
    ids = {(await post(api)).json()["id"] for _ in range(3)}

    assert len(ids) == await counted(api) == 3


async def test_keys_are_of_an_account(api: Api) -> None:
    await api.second_tenant()
    mine = await post(api, headers=keyed("one"))
    theirs = await post(api, {**MAIL, "subject": "Other"}, headers=keyed("one"), tenant=OTHER)

    assert theirs.status_code == 200
    assert theirs.json()["id"] != mine.json()["id"]


async def test_keys_have_1_to_256_characters(api: Api) -> None:
    longest = await post(api, headers=keyed("k" * 256))
    bad = [await post(api, headers=keyed(key)) for key in ("", " ", "k" * 257, "k" * 10_240)]

    assert longest.status_code == 200
    assert {each.status_code for each in bad} == {400}
    assert {each.json()["name"] for each in bad} == {"invalid_idempotency_key"}
    assert await counted(api) == 1


async def test_who_has_no_good_key_is_told_as_resend_does(api: Api) -> None:
    none = await post(api, key="")
    wrong = await post(api, key="re_123")
    worker = await post(api, scopes=("worker:shop",))
    odd = await api.call("PUT", "/emails", {}, scopes=("agent",))

    assert [(each.status_code, each.json()["name"]) for each in (none, wrong, worker, odd)] == [
        (401, "missing_api_key"),
        (403, "invalid_api_key"),
        (401, "restricted_api_key"),
        (405, "method_not_allowed"),
    ]
    assert set(none.json()) == {"statusCode", "name", "message"}
    assert none.headers["content-type"] == "application/json"


#: its name, how it differs from a good one (None: left out), and how it is refused
BAD: list[tuple[str, dict[str, Any], str]] = [
    ("no to", {"to": None}, "missing_required_field"),
    ("an empty to", {"to": []}, "missing_required_field"),
    ("no from", {"from": None}, "missing_required_field"),
    ("no subject", {"subject": None}, "missing_required_field"),
    ("no text", {"html": None}, "validation_error"),
    ("a bad address", {"to": "nobody"}, "validation_error"),
    ("line end in an address", {"to": "a@example.org\r\nBcc: b"}, "validation_error"),
    ("line end in the subject", {"subject": "a\r\nBcc: b"}, "validation_error"),
    ("line end in a header", {"headers": {"X-A": "b\r\nc"}}, "validation_error"),
    ("too many", {"to": [f"a{n}@example.org" for n in range(51)]}, "validation_error"),
    ("a field that is none", {"sender": "a@example.com"}, "validation_error"),
    ("a number", {"subject": 1}, "validation_error"),
    ("a file to fetch", {"attachments": [{"filename": "a", "path": "https://example.com/a"}]},
     "invalid_attachment"),
    ("a file to fetch, and here", {"attachments": [{**ATTACHED, "path": "https://example.com/a"}]},
     "invalid_attachment"),
    ("no base64", {"attachments": [{**ATTACHED, "content": "%%"}]}, "invalid_attachment"),
    ("no byte", {"attachments": [{**ATTACHED, "content": [256]}]}, "invalid_attachment"),
    ("no content", {"attachments": [{"filename": "a"}]}, "invalid_attachment"),
    ("a tag with a space", {"tags": [{"name": "a b", "value": "c"}]}, "validation_error"),
    ("a tag twice", {"tags": [{"name": "a", "value": "c"}] * 2}, "validation_error"),
    ("a time without offset", {"scheduled_at": "2030-01-01T00:00:00"}, "validation_error"),
    ("a time in words", {"scheduled_at": "in 1 min"}, "validation_error"),
    ("a topic", {"topic_id": "t"}, "invalid_parameter"),
    ("no such template", {"html": None, "template": {"id": "nothing"}}, "validation_error"),
    ("template and text", {"template": {"id": "nothing"}}, "validation_error"),
]  # fmt: skip


async def test_what_cannot_be_sent_is_refused_by_a_name_of_resends(api: Api) -> None:
    told = {}
    for name, change, _ in BAD:
        mail = {key: value for key, value in {**MAIL, **change}.items() if value is not None}
        answer = await post(api, mail)
        told[name] = (answer.status_code, answer.json()["name"])
    not_json = await api.call("POST", "/emails", scopes=("agent",))

    assert told == {name: (422, refused) for name, _, refused in BAD}
    assert not_json.json()["name"] == "missing_required_field"
    assert await counted(api) == 0


def test_what_may_pass_is_told_from_what_will_not() -> None:
    def status(error: type[OnceboxError]) -> int:
        return next(ERROR_NAMES[kind] for kind in error.__mro__ if kind in ERROR_NAMES)[0]

    assert {status(each) for each in (DatabaseBusy, DiskFull, CommitUnknown)} == {503}
    assert status(RowRefused) == 422


async def test_what_is_null_is_left_out(api: Api) -> None:
    nulls = dict.fromkeys(("cc", "bcc", "reply_to", "text", "headers", "attachments", "tags",
                           "scheduled_at", "template", "topic_id"))  # fmt: skip
    first = await post(api, headers=keyed("one"))
    again = await post(api, {**MAIL, **nulls}, headers=keyed("one"))

    assert again.json() == first.json()


async def test_a_mail_may_be_attached_though_its_type_is_left_to_us(api: Api) -> None:
    names = ["mail.eml", "all.tar.gz", "//[x", "a"]
    attached = [{**ATTACHED, "filename": each} for each in names]

    assert (await post(api, {**MAIL, "attachments": attached})).status_code == 200


async def test_an_email_is_shown_in_resends_shape_to_who_sent_it(api: Api) -> None:
    other = (await api.call("POST", "/v1/keys", {"scopes": ["agent"]})).json()["key"]
    attachments = [ATTACHED, {"filename": "b.bin", "content": [0, 255]},
                   {"filename": "c.bin", "content": {"type": "Buffer", "data": [1]}}]  # fmt: skip
    soon = datetime.fromtimestamp(api.box.components.ledger.clock() // 1000 + 3_600, UTC)
    later = soon.astimezone(timezone(timedelta(hours=1)))
    whole = {
        **MAIL,
        "cc": "Bob <bob@example.org>",
        "reply_to": ["help@example.com"],
        "text": "Thank you.",
        "tags": [{"name": "kind", "value": "order"}],
        "attachments": attachments,
        "scheduled_at": later.isoformat(),
    }
    id_ = (await post(api, whole)).json()["id"]
    seen = (await api.call("GET", f"/emails/{id_}", scopes=("agent",))).json()
    foreign = await api.call("GET", f"/emails/{id_}", key=other)

    assert seen.pop("created_at").endswith("+00:00")
    assert seen.pop("message_id").endswith("@example.com>")
    assert seen == {
        "object": "email",
        "id": id_,
        "from": "Shop <shop@example.com>",
        "to": ["ann@example.org"],
        "cc": ["Bob <bob@example.org>"],
        "bcc": [],
        "reply_to": ["help@example.com"],
        "subject": "Your order",
        "html": "<p>Thank you.</p>",
        "text": "Thank you.",
        "tags": [{"name": "kind", "value": "order"}],
        "scheduled_at": soon.isoformat(timespec="milliseconds"),
        "last_event": "scheduled",
    }
    assert (foreign.status_code, foreign.json()["name"]) == (404, "not_found")


async def test_who_arms_an_email_again_is_who_may_read_it(api: Api) -> None:
    other = (await api.call("POST", "/v1/keys", {"scopes": ["agent"]})).json()["key"]
    first = (await post(api, headers=keyed("one"))).json()["id"]
    await api.call("POST", f"/v1/sends/{first}/cancel", {}, scopes=("agent",))
    again = await post(api, {**MAIL, "html": "<p>Mine.</p>"}, headers=keyed("one"), key=other)
    seen = await api.call("GET", f"/emails/{first}", scopes=("agent",))
    mine = await api.call("GET", f"/emails/{first}", key=other)

    assert again.json() == {"id": first}
    assert (seen.status_code, mine.json().get("html")) == (404, "<p>Mine.</p>")


async def test_what_became_of_an_email_is_its_last_event(api: Api) -> None:
    id_ = (await post(api)).json()["id"]

    async def event() -> str:
        seen = await api.call("GET", f"/emails/{id_}", scopes=("agent",))
        return str(seen.json()["last_event"])

    before = await event()
    word = SendReport(tenant=api.home, id=id_, fence=0, outcome=SendAccepted())
    await api.box.components.ledger.submit(lifecycle.settle, word)

    assert (before, await event()) == ("queued", "sent")


async def test_a_batch_is_one_request_under_one_key(api: Api) -> None:
    mails = [{**MAIL, "to": f"a{number}@example.org"} for number in range(3)]
    first = await post(api, mails, path="/emails/batch", headers=keyed("b"))
    again = await post(api, mails, path="/emails/batch", headers=keyed("b"))
    other = [*mails[:2], {**mails[2], "subject": "Other"}]
    changed = await post(api, other, path="/emails/batch", headers=keyed("b"))
    shorter = await post(api, mails[:2], path="/emails/batch", headers=keyed("b"))
    alone = await post(api, mails[0], headers=keyed("b"))
    new = await post(api, mails, path="/emails/batch")

    assert list(first.json()) == ["data"]
    assert [list(each) for each in first.json()["data"]] == [["id"]] * 3
    assert again.json() == first.json()
    assert {(each.status_code, each.json()["name"]) for each in (changed, shorter)} == {
        (409, "invalid_idempotent_request")
    }
    ids = {each["id"] for each in (*first.json()["data"], *new.json()["data"], alone.json())}
    assert len(ids) == await counted(api) == 7


async def test_a_batch_that_is_refused_as_another_arms_nothing_again(api: Api) -> None:
    mails = [{**MAIL, "to": [f"user{n}@example.org"]} for n in range(2)]
    first = await post(api, mails, path="/emails/batch", headers=keyed("b"))
    deed = AuditEntry(
        id="aud_1", tenant=api.home, at=api.box.components.database.clock(), who="eve", why=""
    )
    called_off = first.json()["data"][1]["id"]
    await api.box.components.database.write(lifecycle.cancel, called_off, deed)
    other = [{**each, "subject": "Other"} for each in mails]
    refused = await post(api, other, path="/emails/batch", headers=keyed("b"))
    stands = await api.box.components.ledger.read(sends.get, api.home, called_off)

    assert refused.status_code == 409
    assert stands.state is SendState.CANCELLED


async def test_a_strict_batch_is_all_or_none_and_a_permissive_one_what_can_be_sent(
    api: Api,
) -> None:
    mails = [{**MAIL, "to": "nobody"}, MAIL, {**MAIL, "to": []}]
    headers = {**keyed("b"), "x-batch-validation": "permissive"}
    strict = await post(api, mails, path="/emails/batch")
    odd = await post(api, mails, path="/emails/batch", headers={"x-batch-validation": "lax"})
    many = await post(api, [MAIL] * 101, path="/emails/batch")
    none = await post(api, [], path="/emails/batch")
    nothing = await counted(api)
    permissive = [await post(api, mails, path="/emails/batch", headers=headers) for _ in range(2)]
    all_bad = await post(api, mails[:1], path="/emails/batch",
                         headers={"x-batch-validation": "permissive"})  # fmt: skip

    assert [(each.status_code, each.json()["name"]) for each in (strict, odd, many, none)] == [
        (422, "missing_required_field"),
        (422, "invalid_parameter"),
        (422, "validation_error"),
        (422, "validation_error"),
    ]
    assert "email 3" in strict.json()["message"]
    assert nothing == 0
    assert permissive[0].json() == permissive[1].json()
    assert len(permissive[0].json()["data"]) == await counted(api) == 1
    assert [each["index"] for each in permissive[0].json()["errors"]] == [0, 2]
    assert all_bad.json()["data"] == []
