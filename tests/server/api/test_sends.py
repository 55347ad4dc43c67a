"""Sends by the API: one intent, one mail, whoever asks and however often."""

import asyncio
import base64
from pathlib import Path
from typing import Any

import httpx2
import pytest

from oncebox.client.core.calls import Call, check_idempotency_key, to_request
from oncebox.ledger.admin.audit import AuditEntry
from oncebox.ledger.sends import lifecycle, suppressions
from oncebox.ledger.sends.lifecycle import SendClaimant
from oncebox.model.sends.intent import intent_key as published
from oncebox.model.sends.send import SendMarker, SendReport
from oncebox.model.sends.transports import SendAccepted, SendOutcome, SendPhase, SendUnknown
from oncebox.settings import SendSettings
from tests.support.api import OTHER, Api, calling
from tests.support.databases import Place
from tests.support.http import until

AGENT = ("agent",)
MAIL: dict[str, Any] = {
    "sender": "Shop <shop@example.com>",
    "to": "ann@example.org",
    "subject": "Your order",
    "text": "Thank you.",
}
ORDER = {**MAIL, "event_type": "order.confirmation", "entity_id": "order_4821"}
KEY = published("order.confirmation", "order_4821", "ann@example.org")
#: no Idempotency-Key, which the helper would send otherwise
BARE = {"Idempotency-Key": ""}


async def ask(api: Api, body: Any = ORDER, **rest: Any) -> httpx2.Response:
    """Ask for a mail, without an Idempotency-Key unless one is given."""
    path, scopes = rest.pop("path", "/v1/sends"), rest.pop("scopes", AGENT)
    text = rest.pop("key", None) or await api.key(*scopes, tenant=rest.pop("tenant", ""))
    headers = {"Authorization": f"Bearer {text}", **rest.pop("headers", {})}
    transport = httpx2.ASGITransport(app=api.app, raise_app_exceptions=True)
    async with httpx2.AsyncClient(transport=transport, base_url="http://test") as client:
        return await client.post(path, json=body, headers=headers, **rest)


async def settle(api: Api, id_: str, outcome: SendOutcome | None = None) -> None:
    """Let proof arrive, or a try end like this."""
    outcome = outcome or SendAccepted(provider_id="250-1")
    word = SendReport(tenant=api.home, id=id_, fence=0, outcome=outcome)
    await api.box.components.ledger.submit(lifecycle.settle, word)


async def doubt(api: Api, id_: str) -> None:
    """Claim a send, put it on the wire, and never hear of it again."""
    ledger = api.box.components.ledger
    now = ledger.clock()
    who = SendClaimant(tenant=api.home, transport="log", worker="w", lease=60_000)
    (claimed,) = await ledger.write(lifecycle.claim, who, 1, now)
    assert claimed.send.id == id_
    fence = claimed.send.fence
    marker = SendMarker(tenant=api.home, id=id_, fence=fence, until=now + 60_000)
    assert await ledger.submit(lifecycle.mark_sending, marker)
    outcome = SendUnknown(code="no_answer", phase=SendPhase.HANDED_OVER)
    report = SendReport(tenant=api.home, id=id_, fence=fence, outcome=outcome)
    await ledger.submit(lifecycle.settle, report)


async def test_the_same_intent_is_one_send_for_all_who_ask(api: Api) -> None:
    first = await ask(api)
    again = await ask(api, {**ORDER, "to": ["ANN@Example.ORG"], "text": "Thank you very much!"})
    by_key = await ask(api, MAIL, headers={"Idempotency-Key": f'"{KEY}"'})

    assert (first.status_code, again.status_code, by_key.status_code) == (202, 202, 202)
    told = [each.json() for each in (first, again, by_key)]
    assert len({each["id"] for each in told}) == len({each["message_id"] for each in told}) == 1
    assert [each["created"] for each in told] == [True, False, False]
    assert [each["drift"] for each in told] == [False, True, False]
    assert "idempotency-replayed" not in first.headers
    assert again.headers["idempotency-replayed"] == "true"
    assert int(first.headers["retry-after"]) >= 1


async def test_a_repeat_of_what_was_sent_is_told_so(api: Api) -> None:
    sent = (await ask(api)).json()
    await settle(api, sent["id"])
    again = await ask(api)
    seen = (await api.call("GET", f"/v1/sends/{sent['id']}", scopes=AGENT)).json()

    assert (again.status_code, again.json()["status"]) == (200, "duplicate")
    assert (again.json()["message_id"], again.json()["provider_id"]) == (
        sent["message_id"],
        "250-1",
    )
    assert again.headers["idempotency-replayed"] == "true"
    assert "retry-after" not in again.headers
    assert (seen["status"], seen["retry_after"]) == ("sent", None)


async def test_who_waits_hears_of_the_end(api: Api) -> None:
    asked = asyncio.create_task(ask(api, params={"wait": "30"}))
    outcomes = api.box.components.outbox.outcomes
    await until(lambda: bool(outcomes._waiting))
    ((_, id_),) = outcomes._waiting
    later = asyncio.create_task(api.call("GET", f"/v1/sends/{id_}", params={"wait": "30"}))
    await settle(api, id_)
    answer = await asked

    assert (answer.status_code, answer.json()["status"]) == (201, "sent")
    assert answer.json()["created"] is True
    assert (await later).json()["status"] == "sent"


async def test_ten_thousand_recipients_are_refused_before_a_key_is_made_of_them(api: Api) -> None:
    crowd = {**ORDER, "to": ["no address"] * 10_000}
    answers = [await ask(api, crowd, headers=each) for each in ({}, {"Idempotency-Key": KEY})]

    assert {each.status_code for each in answers} == {422}
    assert {each.json()["code"] for each in answers} == {"too_many_recipients"}


async def test_no_variable_is_kept_that_nothing_is_made_of(api: Api) -> None:
    answers = [await ask(api, {**ORDER, "variables": {"a": each}}) for each in (10**30, "x")]

    assert {each.json()["code"] for each in answers} == {"email_invalid"}


@pytest.mark.parametrize(
    "key", ["monthly report 7", "k" * 255, '"\\ ' * 85], ids=["blanks", "long", "escapes"]
)
async def test_every_key_that_a_client_takes_is_taken(api: Api, key: str) -> None:
    call = Call(
        method="POST", path="/v1/sends", answer=str, idempotency_key=check_idempotency_key(key)
    )
    written = to_request(call).headers["idempotency-key"]
    answer = await ask(api, MAIL, headers={"Idempotency-Key": written})

    assert answer.json()["created"]


async def test_two_keys_for_one_mail_are_refused_unless_they_are_the_same(api: Api) -> None:
    other = await ask(api, ORDER, headers={"Idempotency-Key": "mine"})
    same = await ask(api, ORDER, headers={"Idempotency-Key": KEY})
    none = await ask(api, {**MAIL, "event_type": "order.confirmation"})
    empty = await ask(api, MAIL, headers=BARE)

    assert (other.status_code, other.json()["code"]) == (422, "idempotency_key_mismatch")
    assert same.status_code == 202
    assert (none.status_code, none.json()["code"]) == (400, "idempotency_key_missing")
    assert empty.json()["code"] == "idempotency_key_missing"
    assert len((await api.call("GET", "/v1/sends")).json()["data"]) == 1


async def test_a_key_quoted_or_bare_is_the_same_key(api: Api) -> None:
    bare = await ask(api, MAIL, headers={"Idempotency-Key": "abc-1"})
    quoted = await ask(api, MAIL, headers={"Idempotency-Key": '"abc-1"'})

    assert bare.json()["id"] == quoted.json()["id"]


ATTACHED = {"name": "a.txt", "content": base64.b64encode(b"a").decode()}
#: what no mail can be: its name, how it differs from one that can be sent, status, code
BAD: list[tuple[str, dict[str, Any], int, str]] = [
    ("line end in the subject", {"subject": "a\r\nBcc: x"}, 422, "email_header_invalid"),
    ("NUL in the subject", {"subject": "a\0b"}, 422, "email_header_invalid"),
    ("line end in an address", {"to": "a@example.org\r\nx"}, 422, "mailbox_invalid"),
    ("NUL in an address", {"to": "a\0@example.org"}, 422, "mailbox_invalid"),
    ("line end in a name", {"to": "A\nB <a@example.org>"}, 422, "mailbox_invalid"),
    ("line end in the sender", {"sender": "a@example.com\nBcc: b"}, 422, "mailbox_invalid"),
    ("line end in reply_to", {"reply_to": ["a@example.com\r\n"]}, 422, "mailbox_invalid"),
    ("line end in a header", {"headers": {"X-A": "b\r\nBcc: c"}}, 422, "email_header_invalid"),
    ("line end in a header's name", {"headers": {"X\n": "b"}}, 422, "email_header_invalid"),
    ("NUL in a header", {"headers": {"X-A": "b\0"}}, 422, "email_header_invalid"),
    ("a header of ours", {"headers": {"Message-ID": "<a@b>"}}, 422, "header_reserved"),
    ("NUL in the text", {"text": "a\0b"}, 422, "email_invalid"),
    ("nobody", {"to": []}, 422, "recipient_missing"),
    ("an empty address", {"to": ""}, 422, "mailbox_invalid"),
    ("two in one string", {"to": "a@example.org, b@example.org"}, 422, "mailbox_invalid"),
    (
        "ten thousand",
        {"to": [f"a{number}@example.org" for number in range(10_000)]},
        422,
        "too_many_recipients",
    ),
    ("a type of 10 kB", {"event_type": "k" * 10_240}, 422, "key_invalid"),
    ("an entity of 10 kB", {"entity_id": "k" * 10_240}, 422, "key_invalid"),
    ("line end in the entity", {"entity_id": "a\nb"}, 422, "key_invalid"),
    ("a version below zero", {"version": -1}, 422, "fields_invalid"),
    ("time is over", {"valid_until": 1}, 422, "send_too_late"),
    ("over before it begins", {"valid_until": 2**52, "send_at": 2**52}, 422, "send_too_late"),
    ("no base64", {"attachments": [{**ATTACHED, "content": "%%%"}]}, 422, "fields_invalid"),
    ("half a base64", {"attachments": [{**ATTACHED, "content": "YQ"}]}, 422, "fields_invalid"),
    ("line end in a file's name", {"attachments": [{**ATTACHED, "name": "a\nb"}]}, 422,
     "attachment_invalid"),
    ("a mail in a mail", {"attachments": [{**ATTACHED, "media_type": "message/rfc822"}]}, 422,
     "attachment_invalid"),
    ("no such template", {"template": "nothing"}, 422, "template_invalid"),
    ("no such transport", {"transport": "nothing"}, 404, "not_found"),
    ("no interval", {"retention": "scheduled"}, 422, "key_invalid"),
    ("a field that is none", {"from": "a@example.com"}, 422, "fields_invalid"),
    ("no such choice", {"on_unknown": "guess"}, 422, "fields_invalid"),
]  # fmt: skip


@pytest.mark.parametrize(
    ("change", "field"),
    [
        ({"to": ["bob@example.org", "nobody"]}, "to[1]"),
        ({"cc": ["no body"]}, "cc[0]"),
        ({"reply_to": ["@"]}, "reply_to[0]"),
        ({"sender": "nobody"}, "sender"),
    ],
)
async def test_an_address_that_cannot_be_used_is_named_by_its_field(
    api: Api, change: Any, field: str
) -> None:
    mail = {**ORDER, **change}
    alone = (await ask(api, mail)).json()
    good = {**ORDER, "entity_id": "another"}
    batch = (await api.call("POST", "/v1/sends/batch", {"sends": [good, mail]})).json()

    assert alone["detail"].startswith(f"{field}: ")
    assert batch["detail"].startswith(f"send 2 of the batch: {field}: ")


async def test_what_cannot_be_sent_is_refused_by_a_code_and_kept_nowhere(api: Api) -> None:
    told = {}
    for name, change, _, _ in BAD:
        answer = await ask(api, {**ORDER, **change})
        told[name] = (answer.status_code, answer.json()["code"])
    listed = (await api.call("GET", "/v1/sends")).json()["data"]

    assert told == {name: (status, code) for name, _, status, code in BAD}
    assert listed == []


async def test_a_key_of_10_kb_is_refused(api: Api) -> None:
    answer = await ask(api, MAIL, headers={"Idempotency-Key": "k" * 10_240})

    assert (answer.status_code, answer.json()["code"]) == (422, "fields_invalid")
    assert answer.json()["errors"][0]["pointer"] == "Idempotency-Key"


async def test_another_mail_under_one_key_is_refused_and_the_first_stays(api: Api) -> None:
    headers = {"Idempotency-Key": "one"}
    changes: list[dict[str, Any]] = [
        {"to": ["bob@example.org"]},
        {"cc": "bob@example.org"},
        {"sender": "other@example.com"},
        {"attachments": [ATTACHED]},
        {"text": "Other.", "strict": True},
    ]
    first = await ask(api, MAIL, headers=headers)
    others = [await ask(api, {**MAIL, **change}, headers=headers) for change in changes]
    again = await ask(api, MAIL, headers=headers)

    assert {each.status_code for each in others} == {422}
    assert {each.json()["code"] for each in others} == {"send_key_conflict"}
    assert again.json()["id"] == first.json()["id"]


async def test_a_repeat_after_its_time_is_still_told_what_became_of_it(api: Api) -> None:
    soon = api.box.components.ledger.clock() + 3_600_000
    sent = (await ask(api, {**ORDER, "valid_until": soon})).json()
    await settle(api, sent["id"])
    again = await ask(api, {**ORDER, "valid_until": 1})

    assert (again.status_code, again.json()["status"]) == (200, "duplicate")


async def test_attachments_have_a_limit_of_their_own(place: Place) -> None:
    content = base64.b64encode(b"x" * 90_000).decode()
    attached = {**ORDER, "attachments": [{"name": "a.bin", "content": content}]}
    async with calling(place, body=10_000, mail_body=200_000) as api:
        fits = await ask(api, attached)
        larger = await ask(api, {**attached, "html": "x" * 100_000})
        elsewhere = await ask(api, attached, path="/v1/inboxes")
    async with calling(place, mail_body=80 * 1024 * 1024) as api:
        huge = base64.b64encode(bytes(26 * 1024 * 1024)).decode()
        mail = {**ORDER, "attachments": [{"name": "a.bin", "content": huge}]}
        too_large = await ask(api, {**mail, "entity_id": "other"})

    assert fits.status_code == 202
    assert (larger.status_code, larger.json()["code"]) == (413, "body_too_large")
    assert (elsewhere.status_code, elsewhere.json()["code"]) == (413, "body_too_large")
    assert (too_large.status_code, too_large.json()["code"]) == (422, "email_too_large")


async def test_an_agent_sees_and_cancels_only_its_own_and_an_operator_all(api: Api) -> None:
    other = (await api.call("POST", "/v1/keys", {"scopes": ["agent"]})).json()["key"]
    mine = (await ask(api)).json()
    theirs = (await ask(api, {**ORDER, "entity_id": "order_2"}, key=other)).json()

    async def listed(**who: Any) -> list[str]:
        answer = await api.call("GET", "/v1/sends", **who)
        return [each["id"] for each in answer.json()["data"]]

    path = f"/v1/sends/{theirs['id']}"
    assert await listed(scopes=AGENT) == [mine["id"]]
    assert await listed(key=other) == [theirs["id"]]
    assert await listed(scopes=("operator",)) == [theirs["id"], mine["id"]]
    assert (await api.call("GET", path, scopes=AGENT)).status_code == 404
    assert (await api.call("POST", f"{path}/cancel", {}, scopes=AGENT)).status_code == 404
    assert (await api.call("POST", f"{path}/cancel", {}, key=other)).json()["state"] == "cancelled"


async def test_an_answer_about_a_send_has_no_address_and_no_text(api: Api) -> None:
    said = {**ORDER, "headers": {"X-Secret": "headervalue"}}
    sent = await ask(api, said)
    id_ = sent.json()["id"]
    told = [
        sent.text,
        (await api.call("GET", f"/v1/sends/{id_}", scopes=AGENT)).text,
        (await api.call("GET", "/v1/sends", scopes=AGENT)).text,
        (await api.call("GET", f"/v1/sends/{id_}/inspect")).text,
    ]

    for secret in ("ann@", "example.org", "Your order", "Thank you", "headervalue"):
        assert [each for each in told if secret in each] == []


async def test_sends_are_listed_in_pages_and_by_state_and_transport(api: Api) -> None:
    ids = [(await ask(api, {**ORDER, "entity_id": f"o{n}"})).json()["id"] for n in range(5)]
    await settle(api, ids[2])
    found: list[str] = []
    cursor: dict[str, Any] = {}
    while len(found) < 5:
        page = await api.call("GET", "/v1/sends", params={"limit": 2, **cursor}, scopes=AGENT)
        found += [each["id"] for each in page.json()["data"]]
        cursor = {"cursor": page.json()["next_cursor"]}

    async def listed(**params: str) -> list[str]:
        answer = await api.call("GET", "/v1/sends", params=params)
        return [each["id"] for each in answer.json()["data"]]

    assert found == ids[::-1]
    assert await listed(state="sent") == [ids[2]]
    assert await listed(transport="log") == ids[::-1]
    assert await listed(transport="smtp") == []


async def test_a_batch_is_one_answer_and_again_as_a_whole(api: Api) -> None:
    wishes = [{**ORDER, "entity_id": "o1"}, {**MAIL, "to": "bob@example.org"}, MAIL]
    headers = {"Idempotency-Key": "batch-1"}
    batch = {"sends": wishes}
    first = await ask(api, batch, path="/v1/sends/batch", headers=headers)
    again = await ask(api, batch, path="/v1/sends/batch", headers=headers)
    shorter = await ask(api, {"sends": wishes[:2]}, path="/v1/sends/batch", headers=headers)
    keyless = await ask(api, batch, path="/v1/sends/batch")
    one = await ask(api, {**MAIL, "to": "bob@example.org"}, headers=headers)

    assert (first.status_code, again.status_code) == (201, 200)
    assert again.headers["idempotency-replayed"] == "true"
    told, twice = first.json(), again.json()
    assert (told["created"], twice["created"]) == (True, False)
    assert [each["id"] for each in told["data"]] == [each["id"] for each in twice["data"]]
    assert len({each["id"] for each in told["data"]}) == 3
    assert (shorter.status_code, shorter.json()["code"]) == (422, "send_key_conflict")
    assert (keyless.status_code, keyless.json()["code"]) == (400, "idempotency_key_missing")
    assert one.json()["id"] not in {each["id"] for each in told["data"]}


async def test_in_a_batch_each_mail_is_told_of_by_itself(api: Api) -> None:
    await ask(api)
    other = {**ORDER, "sender": "other@example.com"}
    strict = {**ORDER, "text": "Other.", "strict": True}
    statuses = []
    for wish in (ORDER, {**ORDER, "text": "Other."}, other, strict):
        batch = {"sends": [wish, {**ORDER, "entity_id": "new"}]}
        told = (await ask(api, batch, path="/v1/sends/batch")).json()["data"]
        statuses.append([each["status"] for each in told])

    assert statuses == [
        ["in_flight", "in_flight"],
        ["in_flight", "in_flight"],
        ["conflict", "in_flight"],
        ["conflict", "in_flight"],
    ]


async def test_who_asks_for_too_much_is_told_when_to_come_back(place: Place) -> None:
    limits = SendSettings(per_key=2, cool_down=600)
    async with calling(place, sends=limits) as api:
        first = (await ask(api)).json()
        cooling = await ask(api, {**ORDER, "entity_id": "order_2"})
        await ask(api, {**ORDER, "event_type": "other"})
        spent = await ask(api, {**ORDER, "event_type": "third"})
        again = await ask(api)
        batch = {"sends": [{**ORDER, "event_type": "fourth"}, {**ORDER, "event_type": "fifth"}]}
        many = await ask(api, batch, path="/v1/sends/batch")
        door = {"from": "shop@example.com", "to": "a@example.org", "subject": "x", "text": "y"}
        emails = await ask(api, door, path="/emails")
        listed = (await api.call("GET", "/v1/sends")).json()["data"]

    assert (cooling.status_code, cooling.json()["code"]) == (409, "send_cooling_down")
    assert first["id"] in cooling.json()["detail"]
    assert (spent.status_code, spent.json()["code"]) == (429, "send_budget_spent")
    assert int(spent.headers["retry-after"]) >= 1
    assert again.json()["id"] == first["id"]
    assert (many.status_code, many.json()["code"]) == (429, "send_budget_spent")
    assert (emails.status_code, emails.json()["name"]) == (429, "rate_limit_exceeded")
    assert int(emails.headers["retry-after"]) >= 1
    assert len(listed) == 2


async def test_a_template_without_its_variables_is_refused(place: Place, tmp_path: Path) -> None:
    (tmp_path / "receipt.subject").write_text("Paid: {{ number }}")
    (tmp_path / "receipt.txt").write_text("Thank you for {{ number }}.")
    mail = {"sender": "shop@example.com", "to": "ann@example.org", "template": "receipt"}
    order = {**mail, "event_type": "paid", "entity_id": "1"}
    door = {"from": mail["sender"], "to": mail["to"]}
    given = {"number": 7}
    async with calling(place, sends=SendSettings(templates=str(tmp_path))) as api:
        missing = await ask(api, order)
        fits = await ask(api, {**order, "variables": given})
        none = await ask(api, {**door, "template": {"id": "receipt"}}, path="/emails")
        named = {**door, "template": {"id": "receipt", "variables": given}}
        sent = await ask(api, named, path="/emails")
        seen = await api.call("GET", f"/emails/{sent.json()['id']}")

    assert (missing.status_code, missing.json()["code"]) == (422, "variable_missing")
    assert fits.status_code == 202
    assert (none.status_code, none.json()["name"]) == (422, "validation_error")
    assert seen.json()["subject"] == "Paid: 7"


async def test_a_batch_with_one_bad_mail_is_refused_whole(api: Api) -> None:
    wishes = [{**ORDER, "entity_id": "o1"}, {**ORDER, "entity_id": "o2", "to": "nobody"}]
    bad = await ask(api, {"sends": wishes}, path="/v1/sends/batch")
    nowhere = [{**ORDER, "entity_id": "o3"}, {**ORDER, "transport": "nothing"}]
    lost = await ask(api, {"sends": nowhere}, path="/v1/sends/batch")
    many = await ask(api, {"sends": [ORDER] * 101}, path="/v1/sends/batch")

    assert (bad.status_code, bad.json()["code"]) == (422, "mailbox_invalid")
    assert "send 2" in bad.json()["detail"]
    assert (lost.status_code, lost.json()["code"]) == (404, "not_found")
    assert (many.status_code, many.json()["code"]) == (422, "fields_invalid")
    assert (await api.call("GET", "/v1/sends")).json()["data"] == []


async def test_a_cancelled_send_is_armed_again_by_asking_again(api: Api) -> None:
    sent = (await ask(api)).json()
    path = f"/v1/sends/{sent['id']}/cancel"
    cancelled = await api.call("POST", path, {"why": "a mistake"}, scopes=AGENT)
    twice = await api.call("POST", path, {}, scopes=AGENT)
    again = await ask(api)

    assert (cancelled.json()["status"], cancelled.json()["state"]) == ("cancelled", "cancelled")
    assert (twice.status_code, twice.json()["code"]) == (409, "state_conflict")
    assert (again.status_code, again.json()["rearmed"]) == (202, True)
    assert again.json()["id"] == sent["id"]


async def test_a_doubt_is_told_and_ended_by_an_operator(api: Api) -> None:
    sent = (await ask(api)).json()
    path = f"/v1/sends/{sent['id']}"
    early = await api.call("POST", f"{path}/resolve", {"sent": True, "why": "x"})
    await doubt(api, sent["id"])
    again = await ask(api)
    seen = (await api.call("GET", f"{path}/inspect")).json()
    agent = await api.call("POST", f"{path}/resolve", {"sent": True, "why": "x"}, scopes=AGENT)
    resolved = await api.call("POST", f"{path}/resolve", {"sent": False, "why": "not there"})
    resent = await api.call("POST", f"{path}/resend", {"why": "once more"})

    assert (early.status_code, early.json()["code"]) == (409, "state_conflict")
    assert (again.status_code, again.json()["status"]) == (200, "unknown")
    assert again.json()["retry_after"] is None
    assert (seen["send"]["code"], seen["phase"]) == ("no_answer", "handed_over")
    assert [each["outcome"] for each in seen["tries"]] == ["unknown"]
    assert "person" in seen["next_action"]
    assert (seen["key"], seen["unknown_since"] is not None) == (KEY, True)
    assert agent.status_code == 403
    assert resolved.json()["state"] == "failed"
    assert resent.json()["state"] == "pending"


async def test_addresses_on_the_suppression_list_get_no_mail(api: Api) -> None:
    listed = (await api.call("PUT", "/v1/suppressions", {"address": "ANN@example.org"})).json()
    twice = (await api.call("PUT", "/v1/suppressions", {"address": "ann@example.org"})).json()
    sent = await ask(api)
    page = (await api.call("GET", "/v1/suppressions")).json()
    found = await api.call("POST", "/v1/suppressions/find", {"address": "ann@EXAMPLE.org"})
    bad = await api.call("PUT", "/v1/suppressions", {"address": "nobody"})
    agent = await api.call("GET", "/v1/suppressions", scopes=AGENT)
    removed = await api.call("DELETE", f"/v1/suppressions/{listed['id']}")
    gone = await api.call("POST", "/v1/suppressions/find", {"address": "ann@example.org"})

    assert (listed["address"], listed["reason"]) == ("ann@example.org", "manual")
    assert listed == twice == found.json() == removed.json()
    assert (sent.status_code, sent.json()["status"]) == (201, "suppressed")
    assert [each["id"] for each in page["data"]] == [listed["id"]]
    assert (bad.status_code, bad.json()["code"]) == (422, "mailbox_invalid")
    assert (agent.status_code, gone.status_code) == (403, 404)
    assert "example.org" not in sent.text


async def test_suppressions_come_in_pages_and_not_to_others(api: Api) -> None:
    await api.second_tenant()
    for number in range(5):
        await api.call("PUT", "/v1/suppressions", {"address": f"a{number}@example.org"})
    found: list[str] = []
    cursor: dict[str, Any] = {}
    while len(found) < 5:
        page = (await api.call("GET", "/v1/suppressions", params={"limit": 2, **cursor})).json()
        found += [each["address"] for each in page["data"]]
        cursor = {"cursor": page["next_cursor"]}
    others = (await api.call("GET", "/v1/suppressions", tenant=OTHER)).json()

    assert sorted(found) == [f"a{number}@example.org" for number in range(5)]
    assert others["data"] == []


async def test_transports_are_shown_paused_and_resumed(api: Api) -> None:
    await ask(api)
    (log,) = (await api.call("GET", "/v1/transports")).json()["data"]
    paused = await api.call("POST", "/v1/transports/log/pause", {"why": "maintenance"})
    resumed = await api.call("POST", "/v1/transports/log/resume", {})
    missing = await api.call("POST", "/v1/transports/nothing/pause", {})

    assert (log["name"], log["kind"], log["state"]) == ("log", "log", "working")
    assert "config" not in log
    assert (paused.json()["state"], resumed.json()["state"]) == ("paused", "working")
    assert missing.status_code == 404


async def test_a_transport_is_removed_unless_a_send_needs_it(api: Api) -> None:
    tomorrow = api.box.components.ledger.clock() + 86_400_000
    waiting = (await ask(api, {**ORDER, "send_at": tomorrow})).json()
    refused = await api.call("DELETE", "/v1/transports/log")
    await api.call("POST", f"/v1/sends/{waiting['id']}/cancel", {})
    removed = await api.call("DELETE", "/v1/transports/log")
    missing = await api.call("DELETE", "/v1/transports/log")

    assert (refused.status_code, refused.json()["code"]) == (409, "state_conflict")
    assert "1 waits" in refused.json()["detail"]
    assert (removed.status_code, missing.status_code) == (204, 404)
    assert (await api.call("GET", "/v1/transports")).json()["data"] == []


async def test_who_waits_and_goes_leaves_nobody_waiting(api: Api) -> None:
    sent = (await ask(api)).json()
    waiting = api.box.components.outbox.outcomes
    path = f"/v1/sends/{sent['id']}"
    asked = asyncio.create_task(api.call("GET", path, params={"wait": "50"}))
    await until(lambda: bool(waiting._waiting))
    asked.cancel()
    await asyncio.gather(asked, return_exceptions=True)

    assert not waiting._waiting


def _deed(api: Api) -> AuditEntry:
    return api.deed(api.home)


async def test_a_bounce_on_the_list_shows_its_reason(api: Api) -> None:
    sent = (await ask(api)).json()
    box = api.box.components.send_cipher
    new = suppressions.Suppression(
        fingerprint=box.address_fingerprint(api.home, "ann@example.org"),
        address=box.encrypt_address(api.home, "ann@example.org"),
        reason=suppressions.SuppressionReason.HARD_BOUNCE,
        send_id=sent["id"],
        created_at=_deed(api).at,
    )
    await api.box.components.ledger.write(suppressions.add, new, _deed(api))
    (listed,) = (await api.call("GET", "/v1/suppressions")).json()["data"]

    assert (listed["reason"], listed["send_id"]) == ("hard_bounce", sent["id"])


async def test_requests_to_send_are_counted_so_that_the_share_of_repeats_is_known(
    api: Api,
) -> None:
    await ask(api)
    await ask(api)
    await ask(api, {**ORDER, "entity_id": "order_4822"})
    refused = await ask(api, {**ORDER, "sender": "another@example.com"})
    lines = api.box.metrics().splitlines()

    assert refused.status_code == 422
    for answer, count in {"new": 2, "repeated": 1, "refused": 1, "rearmed": 0}.items():
        assert f'oncebox_send_requests_total{{answer="{answer}"}} {count}.0' in lines
