"""Reading: ids and types with their provenance, batches as slices, fingerprints that keep still."""

import gzip
import hashlib
import json
from typing import Any

import pytest

from oncebox.errors import ConfigInvalid
from oncebox.webhooks import registry
from oncebox.webhooks.event_parsing import ParsedRequest, WebhookEvent, parse_events
from oncebox.webhooks.http_request import WebhookRequest
from oncebox.webhooks.paths import json_field
from oncebox.webhooks.scheme import SchemeOptions
from tests.webhooks import senders


def reading(
    scheme: str, body: Any, headers: dict[str, str] | None = None, **more: Any
) -> ParsedRequest:
    raw = body if isinstance(body, bytes) else json.dumps(body).encode()
    request = WebhookRequest(headers=tuple((headers or {}).items()), body=raw)
    return parse_events(registry.find_scheme(scheme), request, SchemeOptions(**more))


def only(
    scheme: str, body: Any, headers: dict[str, str] | None = None, **more: Any
) -> WebhookEvent:
    (event,) = reading(scheme, body, headers, **more).events
    return event


def parts(event: WebhookEvent) -> tuple[str | None, bool, str, bool]:
    return event.id, event.id_signed, event.type, event.type_signed


SIGNED: list[tuple[str, Any, str | None, str]] = [
    ("stripe", {"id": "evt_1", "type": "invoice.paid"}, "evt_1", "invoice.paid"),
    ("slack", {"event_id": "Ev1", "type": "event_callback", "event": {"type": "m"}}, "Ev1", "m"),
    ("paddle", {"event_id": "e", "event_type": "t"}, "e", "t"),
    ("square", {"event_id": "e", "type": "t"}, "e", "t"),
    ("pagerduty", {"event": {"id": "e", "event_type": "incident.x"}}, "e", "incident.x"),
    ("typeform", {"event_id": "e", "event_type": "form_response"}, "e", "form_response"),
    ("intercom", {"id": "notif_1", "topic": "user.created"}, "notif_1", "user.created"),
    ("nylas", {"id": "n", "type": "message.created"}, "n", "message.created"),
    ("vercel", {"id": "v", "type": "deployment"}, "v", "deployment"),
    ("discord", {"id": "7", "type": 2}, "7", "2"),
    (
        "zoom",
        {"event": "m.s", "event_ts": 17, "payload": {"object": {"uuid": "u=="}}},
        "m.s:17:u==",
        "m.s",
    ),
    (
        "calcom",
        {"triggerEvent": "B", "createdAt": "t", "payload": {"uid": "u"}},
        "B:u:t",
        "B",
    ),
    ("plaid", {"webhook_type": "ITEM", "webhook_code": "ERROR"}, None, "ITEM.ERROR"),
    ("webflow", {"triggerType": "form"}, None, "form"),
    ("mailersend", {"type": "activity.sent", "data": {"id": "a"}}, "a", "activity.sent"),
    (
        "aws-sns",
        {"MessageId": "m", "Type": "Notification", "Message": '{"eventType":"Bounce"}'},
        "m",
        "Bounce",
    ),
    ("aws-sns", {"MessageId": "m", "Type": "Notification", "Message": "hi"}, "m", "Notification"),
    ("zendesk", {"account_id": 1, "type": "zen:x", "id": "e"}, "1:zen:x:e", "zen:x"),
]


@pytest.mark.parametrize(("scheme", "body", "id_", "type_"), SIGNED)
def test_ids_and_types_in_a_signed_body_are_signed(
    scheme: str, body: Any, id_: str | None, type_: str
) -> None:
    assert parts(only(scheme, body)) == (id_, id_ is not None, type_, True)


UNSIGNED = [
    ("github", {"X-GitHub-Delivery": "d", "X-GitHub-Event": "push"}, "d", "push"),
    ("gitea", {"X-Gitea-Delivery": "d", "X-Gitea-Event": "push"}, "d", "push"),
    ("bitbucket", {"X-Request-UUID": "d", "X-Event-Key": "repo:push"}, "d", "repo:push"),
    ("gitlab", {"X-Gitlab-Event-UUID": "d", "X-Gitlab-Event": "Push Hook"}, "d", "Push Hook"),
    (
        "shopify",
        {"X-Shopify-Event-Id": "e", "X-Shopify-Webhook-Id": "w", "X-Shopify-Topic": "orders/paid"},
        "e:orders/paid",
        "orders/paid",
    ),
    ("woocommerce", {"X-WC-Webhook-Delivery-ID": "d", "X-WC-Webhook-Topic": "t"}, "d", "t"),
    ("outpost", {"X-Outpost-Event-Id": "d", "X-Outpost-Topic": "t"}, "d", "t"),
]


@pytest.mark.parametrize(("scheme", "headers", "id_", "type_"), UNSIGNED)
def test_ids_and_types_in_plain_headers_are_not(
    scheme: str, headers: dict[str, str], id_: str, type_: str
) -> None:
    assert parts(only(scheme, {}, headers)) == (id_, False, type_, False)


def test_a_missing_id_is_no_word() -> None:
    for scheme in registry.BUILT_IN_SCHEMES:
        event = reading(scheme, b"not json").events[0]
        assert event.id is None
        assert not event.id_signed


def test_mailgun_signs_its_token_and_not_its_type() -> None:
    body = {"signature": {"token": "t"}, "event-data": {"event": "opened"}}

    assert parts(only("mailgun", body)) == ("t", True, "opened", False)
    form = {"Content-Type": "application/x-www-form-urlencoded"}
    event = only("mailgun-inbound", b"token=x&token=t", form)
    assert (event.id, event.id_signed) == ("t", True)


def test_linear_signs_its_type_and_not_its_id() -> None:
    event = only("linear", {"type": "Issue", "action": "create"}, {"Linear-Delivery": "d"})

    assert parts(event) == ("d", False, "Issue.create", True)


def test_standard_webhooks_sign_their_id() -> None:
    for family in ("webhook-", "svix-"):
        headers = {f"{family}{name}": name for name in ("id", "timestamp", "signature")}
        event = only("standard-webhooks", {"type": "t"}, headers)
        assert parts(event) == ("id", True, "t", True)


def test_an_id_is_read_from_the_family_that_was_verified() -> None:
    """A lone header of the other family is nobody's."""
    headers = {f"svix-{name}": name for name in ("id", "timestamp", "signature")}

    assert only("standard-webhooks", {}, headers | {"webhook-id": "forged"}).id == "id"
    assert only("standard-webhooks", {}, {"webhook-id": "forged"}).id is None


def test_hook0_signs_the_headers_it_names() -> None:
    sent = senders.hook0()
    event = parse_events(sent.table, sent.request).events[0]
    assert parts(event) == ("evt_1", True, "thing.done", True)

    weak = sent.signed_as(f"t={senders.SECONDS},v0=00")
    assert parts(parse_events(weak.table, weak.request).events[0]) == (
        "evt_1",
        False,
        "thing.done",
        False,
    )
    assert only("hook0", {}, {"X-Event-Id": "e"}).id_signed is False


def test_an_id_counts_as_unsigned_where_its_signature_could_be_left_out() -> None:
    sent = senders.hook0()
    both = sent.signed_as(f"{dict(sent.request.headers)['X-Hook0-Signature']},v0=00")

    assert parts(parse_events(both.table, both.request).events[0])[:2] == ("evt_1", False)


def test_twitch_signs_its_id() -> None:
    headers = {"Twitch-Eventsub-Message-Id": "m"}

    assert parts(only("twitch", {"subscription": {"type": "t"}}, headers)) == ("m", True, "t", True)


def test_forms_are_read() -> None:
    form = {"Content-Type": "application/x-www-form-urlencoded"}
    message = only("twilio", b"MessageSid=SM1&MessageStatus=sent", form)
    assert parts(message) == ("SM1:sent", False, "sent", False)

    call = only("twilio", b"CallSid=CA1&CallStatus=ringing", form)
    assert parts(call) == (None, False, "ringing", False)
    token = {"I-Twilio-Idempotency-Token": "i"}
    assert parts(only("twilio", b"CallSid=CA1&CallStatus=ringing", form | token))[:2] == (
        "i",
        False,
    )
    payload = senders.form({"payload": json.dumps({"type": "block_actions", "trigger_id": "1.2"})})
    assert parts(only("slack", payload, form)) == ("1.2", True, "block_actions", True)
    command = only("slack", b"command=%2Fweather&trigger_id=3.4", form)
    assert parts(command) == ("3.4", True, "/weather", True)


def test_an_id_that_cannot_be_a_key_becomes_its_hash() -> None:
    for id_ in ("x" * 401, "a\nb", "\u2028", "\x7f"):
        expected = f"id-sha256:{hashlib.sha256(id_.encode()).hexdigest()}"
        assert only("stripe", {"id": id_}).id == expected
    assert only("stripe", {"id": "é ü"}).id == "é ü"
    assert only("stripe", {"id": "e", "type": "a\nb"}).type == ""


@pytest.mark.parametrize("id_", ["", None, [], {}, True, 1.5])
def test_an_id_that_is_none_is_none(id_: object) -> None:
    assert only("stripe", {"id": id_, "type": "t"}).id is None


def test_the_last_of_two_members_counts_as_everywhere() -> None:
    assert only("stripe", b'{"id":"a","id":"b"}').id == "b"


# ------------------------------------------------------------------------------------- batches

BATCHES: list[tuple[str, Any, list[str | None]]] = [
    ("sendgrid", [{"sg_event_id": "a", "event": "open"}, {"sg_event_id": "b"}], ["a", "b"]),
    ("hubspot", [{"eventId": 1, "subscriptionId": 2}, {"eventId": 3}], ["1:2", "3"]),
    ("gocardless", {"meta": "[", "events": [{"id": "EV1"}, {"id": "EV2"}]}, ["EV1", "EV2"]),
    (
        "meta",
        {
            "object": "whatsapp_business_account",
            "entry": [
                {"changes": [{"value": {"messages": [{"id": "wamid.1"}]}, "field": "messages"}]},
                {"changes": [{"value": {"statuses": [{"id": "w2", "status": "read"}]}}]},
                {"messaging": [{"message": {"mid": "m3"}}]},
                {"time": 1},
            ],
        },
        ["wamid.1", "w2:read", "m3", None],
    ),
    (
        "unisender-go",
        {
            "events_by_user": [
                {"user_id": 1, "events": [{"event_data": {
                    "job_id": "j", "email": "a@x.test", "status": "sent", "event_time": "t"}}]},
                {"user_id": 2, "events": [{"event_name": "spam"}, {}]},
            ]
        },
        ["j:a@x.test:sent:t", None, None],
    ),
]  # fmt: skip


@pytest.mark.parametrize(("scheme", "content", "ids"), BATCHES)
@pytest.mark.parametrize("indent", [None, 3])
def test_the_events_of_a_batch_are_slices_of_the_raw_body(
    scheme: str, content: Any, ids: list[str | None], indent: int | None
) -> None:
    body = json.dumps(content, indent=indent).encode()
    found = reading(scheme, body)

    assert found.batch
    assert [event.id for event in found.events] == ids
    slices = [body[event.start : event.start + event.size] for event in found.events]
    assert all(json.loads(each) in _all_inside(content) for each in slices)
    assert all(
        event.fingerprint == hashlib.sha256(each).digest()
        for event, each in zip(found.events, slices, strict=True)
    )


def test_equal_elements_have_their_own_slices() -> None:
    body = b'[ {"sg_event_id":"a"} , {"sg_event_id":"a"},1,11,1]'
    found = reading("sendgrid", body)

    assert [body[e.start : e.start + e.size] for e in found.events] == [
        b'{"sg_event_id":"a"}', b'{"sg_event_id":"a"}', b"1", b"11", b"1",
    ]  # fmt: skip
    assert len({event.start for event in found.events}) == 5


def test_a_type_may_stand_outside_its_event() -> None:
    body = {"object": "page", "entry": [{"changes": [{"field": "feed"}]}, {"id": 1}]}

    assert [event.type for event in reading("meta", body).events] == ["page.feed", "page"]


def test_several_messages_in_one_entry_make_one_id() -> None:
    messages = [{"id": "w1"}, {"id": "w2"}]
    body = {"entry": [{"changes": [{"value": {"messages": messages}}]}]}

    assert reading("meta", body).events[0].id == "w1,w2"


@pytest.mark.parametrize("body", [b"[]", b"{}", b"[", b"", b'"x"', b'{"events":{}}'])
@pytest.mark.parametrize("scheme", ["sendgrid", "gocardless", "meta"])
def test_what_is_no_batch_is_one_event(scheme: str, body: bytes) -> None:
    found = reading(scheme, body)

    assert not found.batch
    (event,) = found.events
    assert (event.start, event.size, event.id) == (0, len(body), None)


def test_a_batch_of_too_many_is_kept_whole() -> None:
    assert not reading("sendgrid", b"[" + b"1," * 10_000 + b"1]").batch


def test_mandrill_brings_its_events_encoded_in_a_form() -> None:
    sent = senders.mandrill()
    found = parse_events(sent.table, sent.request)

    assert found.batch
    assert [event.id for event in found.events] == ["send:m1:1", "open:m2:2"]
    assert [json.loads(event.content or b"")["_id"] for event in found.events] == ["m1", "m2"]
    assert {(event.start, event.size) for event in found.events} == {(0, len(sent.body))}


# -------------------------------------------------------------------------------- fingerprints


@pytest.mark.parametrize(
    ("scheme", "one", "other"),
    [
        ("stripe", {"id": "e", "pending_webhooks": 1}, {"id": "e", "pending_webhooks": 0}),
        (
            "nylas",
            {"webhook_delivery_attempt": 1, "id": "n"},
            {"webhook_delivery_attempt": 2, "id": "n"},
        ),
        ("intercom", {"id": "n", "delivery_attempts": 1}, {"id": "n", "delivery_attempts": 2}),
        ("linear", {"a": 1, "webhookTimestamp": 1}, {"a": 1, "webhookTimestamp": 2}),
        ("mailgun", {"signature": {"token": "a"}, "x": 1}, {"signature": {"token": "b"}, "x": 1}),
    ],
)
def test_what_changes_from_one_attempt_to_the_next_is_no_part_of_the_fingerprint(
    scheme: str, one: Any, other: Any
) -> None:
    assert only(scheme, one).fingerprint == only(scheme, other).fingerprint
    assert only(scheme, one).fingerprint != only(scheme, other | {"new": 1}).fingerprint


def test_an_attempt_counter_inside_a_batch_is_left_out_too() -> None:
    one, other = (reading("hubspot", [{"eventId": 1, "attemptNumber": n}]) for n in (0, 1))

    assert one.events[0].fingerprint == other.events[0].fingerprint


def test_without_such_members_the_fingerprint_is_the_hash_of_the_bytes() -> None:
    for body in (b"", b"{}", b'{"a": 1}', b"\xff"):
        assert only("github", body).fingerprint == hashlib.sha256(body).digest()
    assert only("stripe", b"x").fingerprint == hashlib.sha256(b"x").digest()


def test_volatile_members_may_lie_deeper() -> None:
    one, other = (
        only("generic-hmac", {"a": {"n": n, "b": 1}, "c": 2}, volatile=("$.a.n",)) for n in (1, 2)
    )

    assert one.fingerprint == other.fingerprint
    assert one.fingerprint != only("generic-hmac", {"a": {"n": 1, "b": 1}, "c": 2}).fingerprint


def test_a_compressed_body_is_read_but_not_without_end() -> None:
    content = json.dumps({"id": "n1", "type": "message.created"}).encode()
    headers = {"Content-Encoding": "gzip"}
    packed = gzip.compress(content)

    event = only("nylas", packed, headers)
    assert (event.id, event.start, event.size) == ("n1", 0, len(packed))
    assert only("github", packed, headers).fingerprint == hashlib.sha256(packed).digest()
    bomb = gzip.compress(b'{"id":"' + b"x" * 20_000_000 + b'"}')
    assert only("nylas", bomb, headers).id is None
    assert only("nylas", packed[:-9], headers).id is None
    assert only("nylas", b"not packed", headers).id is None


# ------------------------------------------------------------------------------------- options


def test_a_source_may_say_where_id_and_type_stand() -> None:
    body = {"meta": {"key": "k"}, "kind": "t"}
    event = only("generic-hmac", body, id="$.meta.key", type="$.kind")
    assert parts(event) == ("k", True, "t", True)

    by_header = only("generic-hmac", body, {"X-Id": "h"}, id="header:X-Id")
    assert parts(by_header)[:2] == ("h", False)
    content = "{header:x-id}.{body}"
    covered = only("generic-hmac", body, {"X-Id": "h"}, id="header:X-Id", content=content)
    assert parts(covered)[:2] == ("h", True)
    assert parts(only("token", body, id="$.meta.key"))[:2] == ("k", False)


def test_a_source_may_say_where_its_batch_stands() -> None:
    found = reading("generic-hmac", {"list": [{"n": 1}, {"n": 2}]}, batch="$.list[*]", id="$.n")

    assert [event.id for event in found.events] == ["1", "2"]


# --------------------------------------------------------------------------------------- field


@pytest.mark.parametrize(
    ("path", "value"),
    [
        ("$.a", "x"), ("$.b.c[1].d", 7), ("$.b.c[0]", None), ("$.b.c[9]", None), ("$.b", None),
        ("$.missing.deep", None), ("$.f", None), ("$.t", None), ("$.n", None),
        ("$.event-data", "e"), ("$.s@.inner", "y"), ("$.a@.x", None), ("$", None),
    ],
)  # fmt: skip
def test_a_field_is_found_by_its_path(path: str, value: object) -> None:
    body = json.dumps({
        "a": "x", "b": {"c": [{}, {"d": 7}]}, "f": 1.5, "t": True, "n": None,
        "event-data": "e", "s": '{"inner": "y"}',
    }).encode()  # fmt: skip

    assert json_field(body, path) == value


@pytest.mark.parametrize(
    "path", ["", "a", "$a", "$.", "$..a", "$.a b", "$.[0]", "$[-1]", "$[x]", "$.a[*]", "$.a" * 200]
)
def test_other_paths_are_refused(path: str) -> None:
    with pytest.raises(ConfigInvalid, match="is not a path"):
        json_field(b"{}", path)


def _all_inside(value: Any) -> list[Any]:
    found = [value]
    children = value.values() if isinstance(value, dict) else value
    for each in children if isinstance(value, dict | list) else ():
        found += _all_inside(each)
    return found
